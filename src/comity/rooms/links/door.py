"""A link through the outside door of a host: a WebSocket over its TLS, whose key the invite names. It needs no WebRTC.

- The host lays a secret for one connection beside its description, through the relay, where only members of the room read it. The
  other side brings the secret to the addresses of the *invite*, under its pin. An address that a peer names is never dialled.
- The binding of the link, which both hellos sign, is a nonce of each side and the pin: whoever stands between shows another key.
- The side that dials decides: it takes the door if that opens in time, and goes on with WebRTC if it does not. So both take the
  same way.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, WebSocketException
from websockets.frames import Close

from comity.http.asgi import Receive, Scope, Send, header, refuse_websocket
from comity.http.pins import pinned_context
from comity.http.websocket import cut_off, set_limit
from comity.rooms.links.websocket import (
    LINK_NONCE,
    LINK_OPTIONS,
    MAX_FRAME,
    SUBPROTOCOL,
    LaidTicket,
    WebSocketLink,
    digest_of,
)
from comity.wire.errors import ForbiddenError, UnreachableError

LINK_PATH: Final = "/link"
SECRET_HEADER: Final = "x-comity-secret"  # noqa: S105 - the name of a header
"""A header of its own: the outside door takes bearer tokens from nobody."""
DIAL_SECONDS: Final = 1.5
MAX_WAITING: Final = 256


class DoorOfHost(Struct, frozen=True):
    """Where an invite says that its host is, and the pin of its key."""

    addrs: tuple[str, ...]
    pin: str


class PeerDoor:
    """Raw ASGI: lets in who brings a secret that was laid, once. `pin` is that of this node's outside door."""

    def __init__(self, pin: Callable[[], str]) -> None:
        self._pin = pin
        self._waiting: dict[bytes, asyncio.Future[WebSocketLink]] = {}

    def lay(self) -> LaidTicket | None:
        """Return the secret for one connection; None where the door is closed, or too many are waited for."""
        if not self._pin() or len(self._waiting) >= MAX_WAITING:
            return None
        secret = secrets.token_urlsafe(32)
        key = digest_of(secret)
        came: asyncio.Future[WebSocketLink] = asyncio.get_running_loop().create_future()
        self._waiting[key] = came

        def withdraw() -> None:
            self._waiting.pop(key, None)
            came.cancel()

        return LaidTicket(secret, came, withdraw)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        event = await receive()
        if event["type"] != "websocket.connect":
            return
        secret = header(scope, SECRET_HEADER.encode()) or ""
        theirs = (header(scope, LINK_NONCE.encode()) or "")[:64]
        came = self._waiting.pop(digest_of(secret), None) if theirs else None
        if came is None or came.done():
            refused = ForbiddenError(
                "this door is for peers that were invited; the secret is unknown or was used"
            )
            await refuse_websocket(scope, send, refused)
            return
        ours = secrets.token_hex(16)
        headers = [(LINK_NONCE.encode(), ours.encode())]
        try:
            await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL, "headers": headers})
        except OSError:
            return
        set_limit(scope, MAX_FRAME)
        binding = (f"{ours} {self._pin()}", theirs)
        link = WebSocketLink(_AsgiConnection(scope, receive, send), binding, is_offerer=True, path="direct")
        came.set_result(link)
        await link.wait_closed()


class _AsgiConnection:
    """What a link needs of a connection, from ours. `transport` is what it aborts."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.transport = self

    async def send(self, message: bytes) -> None:
        try:
            await self._send({"type": "websocket.send", "bytes": message})
        except OSError:
            raise ConnectionClosedError(None, None) from None

    async def recv(self, *, decode: bool) -> bytes:
        assert not decode, "a link reads bytes"
        event = await self._receive()
        if event["type"] == "websocket.disconnect":
            code, reason = event.get("code", 1006), event.get("reason") or ""
            if code == 1000:
                raise ConnectionClosedOK(Close(code, reason), None)
            raise ConnectionClosedError(None, None)
        data: bytes = event.get("bytes") or (event.get("text") or "").encode()
        return data

    async def close(self, *, reason: str) -> None:
        with contextlib.suppress(OSError):
            await self._send({"type": "websocket.close", "code": 1000, "reason": reason})

    def abort(self) -> None:
        cut_off(self._scope)


async def use_door(door: DoorOfHost, secret: str, seconds: float) -> WebSocketLink:
    """Return the link through the first address that lets us in. Raise UnreachableError if none does in time."""
    attempts = {asyncio.create_task(_dial(address, door.pin, secret)) for address in door.addrs}
    waiting, link = attempts, None
    try:
        async with asyncio.timeout(seconds):
            while waiting and link is None:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                link = next((one.result() for one in done if one.exception() is None), None)
    except TimeoutError:
        pass
    finally:
        for one in attempts:
            one.cancel()
        for ended in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(ended, WebSocketLink) and ended is not link:
                await ended.close("another way was faster")
    if link is None:
        raise UnreachableError("the door of the host did not open")
    return link


async def _dial(address: str, pin: str, secret: str) -> WebSocketLink:
    ours = secrets.token_hex(16)
    try:
        connection = await connect(
            f"wss://{address}{LINK_PATH}",
            ssl=pinned_context(pin),
            additional_headers={SECRET_HEADER: secret, LINK_NONCE: ours},
            proxy=None,
            open_timeout=None,
            **LINK_OPTIONS,
        )
    except (OSError, WebSocketException) as why:
        raise UnreachableError(f"{address} did not let us in ({type(why).__name__})") from None
    response = connection.response
    theirs = (response.headers.get(LINK_NONCE, "") if response is not None else "")[:64]
    return WebSocketLink(connection, (ours, f"{theirs} {pin}"), is_offerer=False, path="direct")
