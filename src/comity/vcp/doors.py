"""VCP over TCP: one line is one message (NDJSON). VCP over WebSocket: one text frame is one message.

- A line ends with LF or CRLF; blank lines are ignored; the last line needs no end. A line beyond the limit is
  reported once, as soon as that is certain, and the rest of it is skipped.
- A peer that has sent its last line still gets its answers before the connection is closed.
- Closing while a peer is sending would reset the connection and lose the answer that it has not read yet. So our side
  stops sending first, and drops what still comes for a moment.
- Other machines need TLS (ruling 20).
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from comity.http.asgi import Receive, Scope, Send, refuse_websocket
from comity.http.peer_address import peer_of
from comity.http.websocket import set_limit
from comity.system import is_loopback
from comity.vcp.protocol.messages import HANDSHAKE_LIMIT, VcpError, encode
from comity.vcp.protocol.server import NOT_TEXT
from comity.vcp.service import VcpServer
from comity.wire.errors import ConfigError, OverloadedError
from comity.wire.link import GONE, LinkClosed

LINGER_SECONDS: Final = 1.0
LAST_ANSWER_SECONDS: Final = 5.0
TLS_SECONDS: Final = 10.0
DISCARD_LIMIT: Final = 1024 * 1024

_CHUNK: Final = 16_384
_BACKLOG: Final = 1024


class TcpDoor:
    def __init__(self, service: VcpServer, listening: socket.socket, tls: ssl.SSLContext | None) -> None:
        """`listening` is bound already; the door closes it."""
        host, port = listening.getsockname()[:2]
        if tls is None and not is_loopback(host):
            listening.close()
            raise ConfigError(
                f"VCP over TCP on {host} can be reached from other machines; set tls.cert and tls.key, or "
                "use 127.0.0.1"
            )
        self.port: int = port
        self._service = service
        self._socket = listening
        self._tls = tls
        self._too_long = bytes(service.message_limit + 1)
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(
            self._accept,
            sock=self._socket,
            limit=_CHUNK,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=TLS_SECONDS if self._tls else None,
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        self._socket.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(TcpServerLink(reader, writer, self._too_long)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, link: "TcpServerLink") -> None:
        try:
            await self._service.serve(link)
        except OverloadedError as refusal:
            wait = int(refusal.retry_after)
            error = VcpError(code="RATE_LIMITED", message=refusal.message, retry_after=wait)
            link.refuse(encode(error))
        finally:
            await link.close()


class TcpServerLink:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, too_long: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._too_long = too_long
        self.peer = peer_of({"client": writer.get_extra_info("peername")})
        self.max_message_bytes = HANDSHAKE_LIMIT
        self._held = bytearray()
        self._searched = 0
        self._skipping = False
        self._at_end = False
        self._unanswered = 0
        self._all_answered = asyncio.Event()
        self._ended: str | None = None

    def allow(self, message_bytes: int) -> None:
        self.max_message_bytes = message_bytes

    def refuse(self, message: bytes) -> None:
        """Send the refusal and close without waiting."""
        self._writer.write(message + b"\n")
        self._ended = "refused"
        self._writer.close()

    async def send(self, message: bytes) -> None:
        if self._ended is not None:
            raise LinkClosed(self._ended)
        if self._writer.is_closing():  # uvloop has no OSError for it
            raise LinkClosed(GONE)
        try:
            self._writer.write(message + b"\n")
            await self._writer.drain()
        except OSError:
            raise LinkClosed(GONE) from None
        self._unanswered -= 1
        if self._unanswered <= 0:
            self._all_answered.set()

    async def receive(self) -> bytes:
        while self._ended is None:
            message = self._next()
            if message is not None:
                self._unanswered += 1
                self._all_answered.clear()
                return message
            if self._at_end:
                await self._wait_for_answers()
                raise LinkClosed("the peer has ended its input")
            await self._read()
        raise LinkClosed(self._ended)

    async def close(self, reason: str = "") -> None:
        if self._ended is not None:
            return
        self._ended = reason or "closed"
        try:
            await asyncio.sleep(0)  # let the reader stop
            if not self._at_end:
                await self._linger()
        finally:
            self._writer.close()
            if self._writer.transport.get_write_buffer_size():
                # a peer that reads nothing would keep the connection open for ever
                asyncio.get_running_loop().call_later(LINGER_SECONDS, self._writer.transport.abort)

    def _next(self) -> bytes | None:
        """Return the next complete line; at the end of the input also the last one."""
        while True:
            end = self._held.find(b"\n", self._searched)
            if end < 0 and not (self._at_end and self._held):
                self._searched = len(self._held)
                return self._cut_off()
            end = len(self._held) if end < 0 else end
            line = bytes(self._held[:end])
            del self._held[: end + 1]
            self._searched = 0
            skipped, self._skipping = self._skipping, False
            line = line.removesuffix(b"\r")
            if skipped or not line.strip():
                continue
            return line if len(line) <= self.max_message_bytes else self._too_long

    def _cut_off(self) -> bytes | None:
        """Drop a line that is too long. Return the error message, only the first time."""
        # one more may be the CR of a line that just fits
        allowed = self.max_message_bytes + self._held.endswith(b"\r")
        if not self._skipping and len(self._held) <= allowed:
            return None
        first, self._skipping = not self._skipping, True
        self._held.clear()
        self._searched = 0
        return self._too_long if first else None

    async def _read(self) -> None:
        try:
            data = await self._reader.read(_CHUNK)
        except OSError:
            raise LinkClosed(GONE) from None
        if data:
            self._held += data
        else:
            self._at_end = True

    async def _wait_for_answers(self) -> None:
        """Wait until every message has its answer, or time is up."""
        if self._unanswered > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LAST_ANSWER_SECONDS):
                    await self._all_answered.wait()

    async def _linger(self) -> None:
        discarded = 0
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                if self._writer.can_write_eof() and not self._writer.is_closing():
                    self._writer.write_eof()
                while discarded < DISCARD_LIMIT:
                    data = await self._reader.read(_CHUNK)
                    if not data:
                        return
                    discarded += len(data)


# VCP over WebSocket (`/vcp`).


VCP_PATH: Final = "/vcp"

_NORMAL: Final = 1000
_TOO_BIG: Final = 1009
_MAX_REASON_LENGTH: Final = 123


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
            await refuse_websocket(scope, send, refusal)
            return
        await link.close()


class WebSocketServerLink:
    """A link that accepts the connection with its first use, so that a peer over the limit is refused in HTTP."""

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
        await self._send_event({"type": "websocket.send", "text": message.decode()})

    async def receive(self) -> bytes:
        if self._ended is not None:
            raise LinkClosed(self._ended)
        if not self._accepted:
            self._accepted = True
            await self._send_event({"type": "websocket.accept"})
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
        shown = reason.encode()[:_MAX_REASON_LENGTH].decode(errors="ignore")
        try:
            await self._send({"type": "websocket.close", "code": self._code, "reason": shown})
        except OSError:
            return

    async def _send_event(self, event: dict[str, str]) -> None:
        try:
            await self._send(event)
        except OSError:
            self._ended = GONE
            raise LinkClosed(self._ended) from None
