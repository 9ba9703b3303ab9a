"""One WebSocket, and what a peer may do with it.

- A message is limited before it is kept: one that announces or has more than the limit is reported to the application as
  soon as that is certain, nothing more is read, and the application may still answer. `set_limit` moves the limit, so an
  announced length is compared with it once the application waits for the next message. The report is a
  `websocket.receive` with `oversize` in the place of text.
- Messages are parsed in small pieces, and the next message waits until the application has taken the one before. So a
  piece full of tiny messages costs no more than its bytes.
- Messages and pings have a budget (`ServerLimits.messages` in a second). Over it reading pauses; nothing is lost.
- What a peer sent before its close frame reaches the application; answers to that are dropped.
- A peer that does not take what it is sent is not read either, and is aborted after `ServerLimits.patience`. A silent
  peer gets a ping, and is closed if it does not answer. `send` returns when the peer, or the system, has taken nearly all
  of it, so the sender knows what is still in memory. `cut_off` ends a connection at once.
- All incomplete messages of one server have at most `MAX_UNFINISHED` bytes together. Beyond it, the peer with the longest
  message is closed.
- A message in too many fragments ends the connection; so does text that is no UTF-8, with 1007, and a length that is not
  in its shortest form, with 1002. Nothing is compressed.
- A fault is charged to the address, unless the guard knows the caller. After our close frame, at most `LINGER_BYTES` are
  read.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol

from comity.http.asgi import JSON, SPEND_FAULT, Message, Scope
from comity.http.heads import FrameHeads, Head
from comity.http.serving import (
    LINGER_BYTES,
    LINGER_SECONDS,
    LISTENER,
    PIECE_BYTES,
    ConnectionEnds,
    Serving,
)
from comity.wire import strict_json

FIRST_LIMIT: Final = 65_536
PING_SECONDS: Final = 20.0
MAX_FRAGMENTS: Final = 1024
MAX_UNFINISHED: Final = 8 * 1024 * 1024
TRY_LATER: Final = 1013

_SMALL_PIECE: Final = 512
_MAX_FRAME_HEAD_LENGTH: Final = 14
_SET_LIMIT: Final = "comity.limit"
_CUT_OFF: Final = "comity.cut_off"
_WRITE_AHEAD: Final = 4096
_REFILLS_PER_SECOND: Final = 250  # so that messages that waited are taken in short rows, and others wait less
_RESTARTING: Final = 1012
_WITHOUT_CLOSE_FRAME: Final = 1006
_JSON: Final = (b"content-type", JSON)

log = logging.getLogger("comity.websocket")
_protocol_log = logging.getLogger("comity.websocket.protocol")
_protocol_log.setLevel(logging.WARNING)  # each connection and its query string are not for the log


class PeerGone(OSError):  # noqa: N818 - an end, not a failure
    """The peer is gone; nothing can be sent."""


def set_limit(scope: Scope, limit: int) -> None:
    """Allow messages of `limit` bytes on this connection from now on. Other servers keep their own limit."""
    set_it = scope.get("extensions", {}).get(_SET_LIMIT)
    if set_it is not None:
        set_it(limit)


def cut_off(scope: Scope) -> None:
    """Abort this connection, whose peer reads nothing, so that what it was sent does not fill the memory."""
    end_it = scope.get("extensions", {}).get(_CUT_OFF)
    if end_it is not None:
        end_it()


class WebSocketConnection(asyncio.BufferedProtocol):
    def __init__(
        self, serving: Serving, transport: asyncio.Transport, address: ConnectionEnds, head: Head
    ) -> None:
        self._serving = serving
        self._transport = transport
        self._address = serving.counted(address)
        self._loop = asyncio.get_running_loop()
        self._scope = _scope_of(head, address, {_SET_LIMIT: self._set_limit, _CUT_OFF: transport.abort})
        if serving.listener:
            self._scope[LISTENER] = serving.listener
        self._protocol = ServerProtocol(state=State.OPEN, max_size=None, logger=_protocol_log)
        self._response = self._protocol.accept(Request(head.scope["path"], _headers(head.headers)))
        self._denial: Response | None = None  # an answer in HTTP that the application has begun
        self._limit = FIRST_LIMIT
        self._unread = b""
        self._frames: deque[Frame] = deque()
        self._fragments: list[bytes] = []
        self._is_text = True
        self._gathered = 0  # bytes of the fragments
        self._begun = 0  # bytes of a frame that is not complete
        self._counted = 0  # bytes that are counted as unfinished
        self._heads = FrameHeads()
        self._discarded = 0  # bytes that came after our farewell
        self._inbox: deque[Message] = deque([{"type": "websocket.connect"}])
        self._ended: Message | None = None
        self._waits: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self._tokens = float(serving.limits.messages)
        self._tokens_at = self._loop.time()
        self._accepted = self._closed = self._input_closed = self._gone = self._stalled = self._pinged = False
        self._has_received = self._reading = True
        self._refill: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._check_timer: asyncio.TimerHandle | None = None

    def begin(self, unread: bytes) -> None:
        """Begin with the bytes behind the head."""
        self._serving.join(self, self._address)
        self._unread = unread
        self._transport.set_write_buffer_limits(_WRITE_AHEAD)
        self._check_timer = self._loop.call_later(PING_SECONDS, self._check_timeouts)
        self._serving.tasks.add(self._loop.create_task(self._run()))
        self._proceed()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._serving.buffer[:PIECE_BYTES]

    def buffer_updated(self, size: int) -> None:
        self._has_received = True
        if self._closed or self._input_closed:
            self._discarded += size
            if self._discarded > LINGER_BYTES:
                self._transport.abort()
                return
        if not self._input_closed:
            self._unread += bytes(self._serving.buffer[:size])
            self._proceed()

    def connection_lost(self, _fault: Exception | None) -> None:
        self._gone = True
        self._serving.leave(self)
        self._count_unfinished()
        for timer in (self._refill, self._giving_up, self._check_timer):
            if timer is not None:
                timer.cancel()
        self._end(_WITHOUT_CLOSE_FRAME, "")
        self.resume_writing()
        _free(self._protocol)

    def pause_writing(self) -> None:
        self._stalled = True
        self._read_or_wait()
        self._give_up_after(self._serving.limits.patience)

    def resume_writing(self) -> None:
        self._stalled = False
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None
        if self._gone:
            return
        if self._giving_up is not None and not self._closed:
            self._giving_up.cancel()
            self._giving_up = None
        self._proceed()

    @property
    def idle(self) -> bool:
        return False

    def shutdown(self) -> None:
        if not self._accepted:
            self._transport.close()
        else:
            self._close(_RESTARTING, "")

    def abort(self) -> None:
        self._transport.abort()

    async def receive(self) -> Message:
        while not self._inbox and self._ended is None:
            self._waits = self._loop.create_future()
            self._check_announced()
            await self._waits
        if not self._inbox:
            assert self._ended is not None
            return self._ended
        message = self._inbox.popleft()
        self._proceed()
        return message

    async def send(self, message: Message) -> None:
        if self._stalled:
            await self._until_drained()
        self._say(message)
        if self._stalled:
            await self._until_drained()

    def _say(self, message: Message) -> None:
        if self._gone or self._closed:
            raise PeerGone
        match message["type"]:
            case "websocket.accept" if not self._accepted and self._denial is None:
                self._accept(message)
            case "websocket.send" if self._accepted:
                self._send_data(message)
            case "websocket.close" if self._accepted:
                self._close(message.get("code", 1000), message.get("reason") or "")
            case "websocket.close":
                self._deny(_plain_response(403, b""))
            case "websocket.http.response.start" if not self._accepted:
                self._denial = _plain_response(message["status"], b"", message.get("headers", ()))
            case "websocket.http.response.body" if self._denial is not None:
                self._denial.body = (self._denial.body or b"") + message.get("body", b"")
                if not message.get("more_body", False):
                    self._deny(self._denial)
            case kind:
                raise RuntimeError(f"{kind} is not what a WebSocket goes on with here")

    async def _until_drained(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()
        await asyncio.shield(self._drained)

    async def _run(self) -> None:
        code = 1000
        try:
            await self._serving.app(self._scope, self.receive, self.send)
        except PeerGone:
            pass
        except BaseException as fault:
            code = 1011
            log.exception("the application failed", exc_info=fault)
        finally:
            self._scope["extensions"].clear()
            task = asyncio.current_task()
            assert task is not None
            self._serving.tasks.discard(task)
            if self._accepted:
                self._close(code, "")
            elif not self._closed:
                self._deny(_plain_response(500, b""))

    def _accept(self, message: Message) -> None:
        response = self._response
        if response.status_code != 101:
            self._spend_fault()
            self._deny(_handshake_refusal(self._scope["headers"], response))
            raise PeerGone
        for name, value in message.get("headers", ()):
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
        if message.get("subprotocol"):
            response.headers["Sec-WebSocket-Protocol"] = message["subprotocol"]
        self._accepted = True
        self._transport.write(response.serialize())
        self._proceed()

    def _deny(self, response: Response) -> None:
        """Answer in HTTP, and end."""
        if self._gone or self._closed:
            return
        response.headers.setdefault("Connection", "close")
        if "Content-Length" not in response.headers:
            response.headers["Content-Length"] = str(len(response.body or b""))
        self._closed = True
        self._stop_listening()
        self._end(_WITHOUT_CLOSE_FRAME, "")
        self._transport.write(response.serialize())
        self._transport.close()

    def _send_data(self, message: Message) -> None:
        try:
            if message.get("bytes") is not None:
                self._protocol.send_binary(message["bytes"])
            else:
                self._protocol.send_text(message["text"].encode())
        except InvalidState:
            if not self._frames:
                raise PeerGone from None
            return  # the peer has sent its close frame; frames before it are still to be delivered
        self._flush()

    def _proceed(self) -> None:
        """Process the unread bytes as far as the application, the peer and the budget allow."""
        while not self._input_closed and self._ready():
            if self._frames:
                self._take_frame(self._frames.popleft())
            elif self._protocol.parser_exc is not None:
                self._spend_fault()
                self._break_off()
            elif self._unread:
                self._take_apart()
            else:
                break
        self._check_announced()
        self._read_or_wait()

    def _ready(self) -> bool:
        if self._closed:  # only the peer's farewell is waited for
            return True
        return self._accepted and not self._inbox and not self._stalled and self._take_token()

    def _take_token(self) -> bool:
        """Take one token of the budget if a frame waits. Return False if none is left."""
        if self._refill is not None:
            return False
        if not self._frames:
            return True
        now, rate = self._loop.time(), self._serving.limits.messages
        self._tokens = min(float(rate), self._tokens + (now - self._tokens_at) * rate)
        self._tokens_at = now
        if self._tokens < 1:
            self._refill = self._loop.call_later(1 / _REFILLS_PER_SECOND, self._refilled)
            return False
        self._tokens -= 1
        return True

    def _refilled(self) -> None:
        self._refill = None
        self._proceed()

    def _take_apart(self) -> None:
        size = PIECE_BYTES if self._begun else _SMALL_PIECE
        piece, self._unread = self._unread[:size], self._unread[size:]
        if not self._heads.feed(piece) and not self._closed:
            self._fail(1002, "the length of a frame is not in its shortest form")
            return
        self._protocol.receive_data(piece)
        frames = [event for event in self._protocol.events_received() if isinstance(event, Frame)]
        self._begun = 0 if frames else self._begun + len(piece)
        self._frames.extend(frames)
        if not self._closed:
            self._flush()
        if self._gathered + self._begun > self._limit + _MAX_FRAME_HEAD_LENGTH:
            self._report_oversize()
        self._count_unfinished()

    def _check_announced(self) -> None:
        """Refuse a frame that will be too long, once nothing that came before it can move the limit any more."""
        if self._waits is None or self._waits.done() or self._frames or self._closed or self._input_closed:
            return
        if self._gathered + self._heads.announced > self._limit:
            self._report_oversize()

    def _take_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.CLOSE:
            self._close_frame()
            return
        if frame.opcode in (Opcode.PING, Opcode.PONG) or self._closed:
            return
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._fragments.append(bytes(frame.data))
        self._gathered += len(frame.data)
        frame.data = b""  # the parser keeps the frame until the next one
        if self._gathered > self._limit:
            self._report_oversize()
        elif len(self._fragments) > MAX_FRAGMENTS:
            self._fail(1008, "a message in too many fragments; send it whole")
        elif frame.fin:
            self._deliver_message()

    def _deliver_message(self) -> None:
        data = self._fragments[0] if len(self._fragments) == 1 else b"".join(self._fragments)
        self._forget_fragments()
        if self._is_text:
            try:
                message: Message = {"type": "websocket.receive", "text": data.decode()}
            except UnicodeDecodeError:
                self._fail(1007, "text must be UTF-8")
                return
        else:
            message = {"type": "websocket.receive", "bytes": data}
        self._inbox.append(message)
        self._wake()

    def _count_unfinished(self) -> None:
        serving, size = self._serving, 0 if self._gone or self._input_closed else self._gathered + self._begun
        if size == self._counted:
            return
        serving.unfinished_bytes += size - self._counted
        self._counted = size
        if not size:
            del serving.unfinished[self]
            return
        serving.unfinished[self] = size
        while serving.unfinished_bytes > MAX_UNFINISHED:
            longest = max(serving.unfinished, key=serving.unfinished.__getitem__)
            longest._fail(TRY_LATER, "too much is sent here at once; try again later")  # noqa: SLF001 - one of us

    def _report_oversize(self) -> None:
        self._stop_listening()
        self._inbox.append({"type": "websocket.receive", "oversize": True})
        self._wake()

    def _close_frame(self) -> None:
        """The peer closes; the protocol has answered it already."""
        close = self._protocol.close_rcvd
        if close is not None:
            self._end(close.code, close.reason)
        self._closed = True
        self._stop_listening()
        self._transport.close()

    def _close(self, code: int, reason: str) -> None:
        """Our own farewell; the peer's is waited for."""
        if self._closed or self._gone:
            return
        with contextlib.suppress(InvalidState):  # the peer was first
            self._protocol.send_close(code, reason)
        self._part(code, reason)

    def _fail(self, code: int, reason: str) -> None:
        """End the connection because of what the peer did."""
        self._spend_fault()
        self._protocol.fail(code, reason)
        self._break_off()

    def _break_off(self) -> None:
        """End the connection as the protocol demands."""
        close = self._protocol.close_sent
        self._stop_listening()
        if not self._closed:
            self._part(close.code if close else _WITHOUT_CLOSE_FRAME, close.reason if close else "")

    def _part(self, code: int, reason: str) -> None:
        """Send the close frame, and close after a moment."""
        self._flush()
        self._closed = True
        self._end(code, reason)
        self._give_up_after(LINGER_SECONDS)
        if self._input_closed and self._transport.can_write_eof():
            self._transport.write_eof()
        self._proceed()

    def _end(self, code: int, reason: str) -> None:
        """Tell the application, once."""
        if self._ended is None:
            self._ended = {"type": "websocket.disconnect", "code": code, "reason": reason}
            self._wake()

    def _flush(self) -> None:
        data = b"".join(self._protocol.data_to_send())
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _stop_listening(self) -> None:
        self._input_closed = True
        self._unread = b""
        self._frames.clear()
        self._forget_fragments()

    def _forget_fragments(self) -> None:
        self._fragments = []
        self._gathered = 0
        self._count_unfinished()

    def _read_or_wait(self) -> None:
        if self._transport.is_closing():
            return
        read = self._input_closed or (not self._unread and not self._frames and self._ready_to_read())
        if read is self._reading:
            return
        self._reading = read
        if read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _ready_to_read(self) -> bool:
        return self._closed or (not self._inbox and not self._stalled and self._refill is None)

    def _spend_fault(self) -> None:
        spend_fault = self._scope.get(SPEND_FAULT)
        if spend_fault is not None:
            spend_fault()

    def _set_limit(self, limit: int) -> None:
        self._limit = limit

    def _check_timeouts(self) -> None:
        """Check periodically whether the peer is still there."""
        self._check_timer = self._loop.call_later(PING_SECONDS, self._check_timeouts)
        if self._closed or not self._accepted:
            return
        if self._has_received or not self._reading:
            self._has_received = self._pinged = False
        elif self._pinged:
            self._fail(1011, "no answer to a ping")
        else:
            self._pinged = True
            self._protocol.send_ping(b"")
            self._flush()

    def _give_up_after(self, seconds: float) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._giving_up = self._loop.call_later(seconds, self._transport.abort)

    def _wake(self) -> None:
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)


def _scope_of(head: Head, address: ConnectionEnds, own: dict[str, object]) -> Scope:
    offered = [value.decode("latin-1") for name, value in head.headers if name == b"sec-websocket-protocol"]
    return {
        **head.scope,
        "type": "websocket",
        "scheme": "wss" if address.encrypted else "ws",
        "server": address.server,
        "client": address.client,
        "headers": head.headers,
        "subprotocols": [name.strip() for line in offered for name in line.split(",")],
        "state": {},
        "extensions": {"websocket.http.response": {}, **own},
    }


def _handshake_refusal(headers: Iterable[tuple[bytes, bytes]], response: Response) -> Response:
    """Return our refusal of a handshake that the library refuses with `response`."""
    if (b"sec-websocket-version", b"13") not in headers:
        refusal = {
            "detail": "send Sec-WebSocket-Version: 13; no other is spoken here",
            "code": "upgrade_required",
        }
        more = [(b"upgrade", b"websocket"), (b"sec-websocket-version", b"13")]
        return _plain_response(426, strict_json.dumps(refusal), [_JSON, *more])
    said = (response.body or b"").decode(errors="replace").strip()
    return _plain_response(
        response.status_code, strict_json.dumps({"detail": said, "code": "malformed"}), [_JSON]
    )


def _plain_response(status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> Response:
    return Response(status, "", _headers(headers), body)


def _headers(lines: Iterable[tuple[bytes, bytes]]) -> Headers:
    return Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in lines])


def _free(protocol: ServerProtocol) -> None:
    """Its parser is a generator that holds the protocol it belongs to: left to the garbage collector otherwise."""
    vars(protocol).pop("parser", None)
