"""VCP over WebSocket: one text frame is one message (`/vcp`).

The guard in front has looked at Host and Origin; who it is, the handshake finds out. A binary frame is a message that
is no hello and no context request, and is answered like any other such message (vcp 1.5). Where there is no room, the
upgrade is answered with 503 and nothing is begun.
"""

from typing import Final

from comity.http.asgi import JSON, Receive, Scope, Send
from comity.http.peer_address import peer_of
from comity.http.statuses import http_status
from comity.http.websocket import set_limit
from comity.vcp.protocol.messages import HANDSHAKE_LIMIT
from comity.vcp.protocol.server import NOT_TEXT
from comity.vcp.service import VcpServer
from comity.wire import strict_json
from comity.wire.errors import OverloadedError
from comity.wire.link import GONE, LinkClosed

VCP_PATH: Final = "/vcp"

_NORMAL: Final = 1000
_TOO_BIG: Final = 1009
_TRY_LATER: Final = 1013
_LONGEST_REASON: Final = 123


class VcpOverWebSocket:
    """Raw ASGI."""

    def __init__(self, service: VcpServer) -> None:
        self._service = service
        self._too_long = bytes(service.message_limit + 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        link = WebSocketServerLink(scope, receive, send, self._too_long)
        try:
            await self._service.serve(link)
        except OverloadedError as refusal:
            await _refuse(scope, send, refusal)
            return
        await link.close()


class WebSocketServerLink:
    """It accepts the connection with its first use, so that a peer without a place is refused in HTTP."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, too_long: bytes) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._too_long = too_long
        self.peer = peer_of(scope)
        self.max_message_bytes = HANDSHAKE_LIMIT
        self._accepted = False
        self._code = _NORMAL
        self._ended: str | None = None

    def allow(self, message_bytes: int) -> None:
        self.max_message_bytes = message_bytes
        set_limit(self._scope, message_bytes)

    async def send(self, message: bytes) -> None:
        if self._ended is not None:
            raise LinkClosed(self._ended)
        await self._say({"type": "websocket.send", "text": message.decode()})

    async def receive(self) -> bytes:
        if self._ended is not None:
            raise LinkClosed(self._ended)
        if not self._accepted:
            self._accepted = True
            await self._say({"type": "websocket.accept"})
        if self._code == _TOO_BIG:
            raise LinkClosed("a message was too long; the connection cannot go on after it")
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            self._ended = event.get("reason") or "the peer closed the connection"
            raise LinkClosed(self._ended)
        if event.get("oversize"):
            self._code = _TOO_BIG
            return self._too_long
        text: str | None = event.get("text")
        return NOT_TEXT if text is None else text.encode()

    async def close(self, reason: str = "") -> None:
        if self._ended is not None:
            return
        self._ended = reason or "closed"
        told = reason.encode()[:_LONGEST_REASON].decode(errors="ignore")
        try:
            await self._send({"type": "websocket.close", "code": self._code, "reason": told})
        except OSError:
            return

    async def _say(self, event: dict[str, str]) -> None:
        try:
            await self._send(event)
        except OSError:
            self._ended = GONE
            raise LinkClosed(self._ended) from None


async def _refuse(scope: Scope, send: Send, refusal: OverloadedError) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send(
            {"type": "websocket.close", "code": _TRY_LATER, "reason": refusal.message[:_LONGEST_REASON]}
        )
        return
    body = strict_json.dumps({"detail": refusal.message, "code": refusal.code})
    headers = [(b"content-type", JSON), (b"retry-after", b"%d" % refusal.retry_after)]
    status = http_status(refusal)
    try:
        await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": body})
    except OSError:
        return
