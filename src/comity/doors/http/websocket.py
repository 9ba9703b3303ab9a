"""One WebSocket, and what a peer may do with it.

- A message is limited before it is kept: one that grows beyond `limit` is reported to the application as soon
  as that is certain, nothing more is read, and the application may still answer. `set_limit` moves it.
- Messages are taken apart one small piece at a time, and the next piece waits until the application has taken
  what is there. So a chunk full of tiny messages costs no more than its bytes.
- A peer that does not take what it is sent is not read either, and is given up after `PATIENCE`.
- Pings, and messages in shreds, have a limit of their own.
- Text that is no UTF-8 ends the connection with 1007, as the protocol demands. Nothing is compressed.

What is too long reaches the application as a `websocket.receive` with `oversize` in the place of text.
"""

import asyncio
import logging
from typing import Any, Final

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame

from comity.doors.http.asgi import Message, Scope

FIRST_LIMIT: Final = 65_536
PATIENCE: Final = 20.0
LINGER_SECONDS: Final = 2.0
PINGS_PER_SECOND: Final = 50
MOST_SHREDS: Final = 1024

_PIECE: Final = 4096
_LONGEST_HEAD: Final = 14
_SET_LIMIT: Final = "comity.limit"

_chatter = logging.getLogger("comity.websocket")
_chatter.setLevel(logging.WARNING)  # each connection and its query string are not for the log


def set_limit(scope: Scope, limit: int) -> None:
    """From now on messages on this connection may have `limit` bytes."""
    scope["extensions"][_SET_LIMIT](limit)


class WebSocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, config: uvicorn.Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = _chatter
        self.conn.max_message_size = None  # it would look at the limit before a message begins, and keep it
        self._limit = FIRST_LIMIT
        self._serving = False
        self._unread = bytearray()
        self._gathered = 0
        self._deaf = False
        self._pings = 0
        self._pings_since = 0.0
        self._giving_up: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        self._unread += data
        self._take_apart()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        super().connection_lost(exc)
        self._let_go()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._read_or_wait()
        self._give_up_after(PATIENCE)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._giving_up is not None and not self.close_sent:
            self._giving_up.cancel()
            self._giving_up = None
        self._take_apart()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.close":
            self._part()

    async def receive(self) -> Any:
        message = await self.queue.get()
        self._take_apart()
        return message

    def handle_connect(self, event: Any) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: Scope = self.scope["extensions"]
            extensions[_SET_LIMIT] = self._set_limit
            self._serving = True

    def handle_text(self, event: Frame) -> None:
        self._gathered = len(event.data)
        super().handle_text(event)

    def handle_bytes(self, event: Frame) -> None:
        self._gathered = len(event.data)
        super().handle_bytes(event)

    def handle_cont(self, event: Frame) -> None:
        self._gathered += len(event.data)
        if len(self.frames) >= MOST_SHREDS:
            self._fail(1008, "a message in too many fragments; send it whole")
            return
        super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        self._gathered = 0
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._fail(1007, "text must be UTF-8")
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        close = self.conn.close_sent
        assert close is not None
        self.queue.put_nowait({"type": "websocket.disconnect", "code": close.code, "reason": close.reason})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        self._part()

    def handle_ping(self) -> None:
        now = self.loop.time()
        if now - self._pings_since >= 1.0:
            self._pings, self._pings_since = 0, now
        self._pings += 1
        if self._pings > PINGS_PER_SECOND:
            self._fail(1008, "too many pings; send fewer")
            return
        super().handle_ping()

    def on_task_complete(self, task: asyncio.Task[None]) -> None:
        super().on_task_complete(task)
        self.scope["extensions"].pop(_SET_LIMIT, None)
        self._serving = False
        self._let_go()
        if not self.disconnected:
            self._give_up_after(LINGER_SECONDS)

    def _let_go(self) -> None:
        """When both the peer and the application are gone: what still held each other would be left to the garbage
        collector. The parser is a generator that holds the connection it belongs to.
        """
        if self.disconnected and not self._serving:
            self.conn.parser = None  # type: ignore[assignment]

    def _take_apart(self) -> None:
        while self._unread and not self._deaf and self._ready:
            piece = bytes(self._unread[:_PIECE])
            del self._unread[:_PIECE]
            self.conn.receive_data(piece)
            self.handle_events()
            if not self.handshake_initiated and not self._unread:
                self._refuse_handshake()
            elif self.conn.parser_exc is not None:
                self._stop_listening()
                if not self.close_sent:
                    self.handle_parser_exception()
            elif len(self.conn.reader.buffer) + self._gathered > self._limit + _LONGEST_HEAD:
                self._stop_listening()
                oversize: Message = {"type": "websocket.receive", "oversize": True}
                self.queue.put_nowait(oversize)  # type: ignore[arg-type]
        self._read_or_wait()

    @property
    def _ready(self) -> bool:
        # once we have closed, the application takes nothing more, and only the peer's farewell is waited for
        return self.close_sent or (self.queue.empty() and self.writable.is_set())

    def _read_or_wait(self) -> None:
        ready = self._deaf or (not self._unread and self._ready)
        if self.transport.is_closing() or ready is not self.read_paused:
            return
        self.read_paused = not ready
        if ready:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def _set_limit(self, limit: int) -> None:
        self._limit = limit

    def _stop_listening(self) -> None:
        self._deaf = True
        self._unread.clear()

    def _fail(self, code: int, reason: str) -> None:
        """End the connection because of what the peer did."""
        self._stop_listening()
        if self.close_sent:
            return
        self.conn.fail(code, reason)
        self.handle_parser_exception()

    def _part(self) -> None:
        """The last word is said; the peer may take it in for a moment."""
        self._give_up_after(LINGER_SECONDS)
        if self._deaf and self.transport.can_write_eof():
            # to close on a peer that is still sending would take back what it has not read yet
            self.transport.write_eof()

    def _refuse_handshake(self) -> None:
        """A head that HTTP allows and this protocol does not."""
        self._stop_listening()
        self.close_sent = self.handshake_complete = True
        self.transport.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()

    def _give_up_after(self, seconds: float) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._giving_up = self.loop.call_later(seconds, self.transport.abort)
