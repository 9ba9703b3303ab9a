"""One HTTP connection, and what a peer may do with it before it is identified.

- One request is answered at a time, and one address begins its requests one by one (`FaultPolicy`). Later data waits
  unparsed, and reading pauses: a peer that sends requests and reads no answers costs `AHEAD_BYTES`.
- A head is refused as soon as it is too large or has too many headers. It must be complete within `patience` of its first
  byte; the first head within `patience` of the connection.
- A body must keep coming: at least `BODY_BYTES` in each `patience`, unless we pause reading. Of a body that waits for the
  application, `BODY_AHEAD_BYTES` are kept. Of a body that is not needed, `DISCARD_LIMIT` is discarded, then the connection
  is closed. After our last answer at most `LINGER_BYTES` more are read.
- What we send must be taken within `patience`. An idle connection is closed after `keep_alive`. A periodic check enforces
  both, so no timer is started for each answer.
- A peer that got 429 is not read for up to `HOLD_SECONDS`. New connections of an address with too many malformed requests
  are closed at once.
- One connection too many gets 503 and is closed. If another address holds more connections, it loses an idle one instead.
- On the paths of `websockets` a peer may upgrade to a WebSocket; elsewhere it gets the usual answer.

A refusal is JSON like every other one. While an earlier request is answered it cannot be sent; then the connection ends
after that answer.
"""

import asyncio
import enum
import random
import socket
from collections.abc import Callable
from typing import Final

from comity.http.asgi import WHOLE
from comity.http.exchange import Exchange, whole_answer
from comity.http.heads import Chunks, Head, HeadReader, HeadRefusal, HeadRefused
from comity.http.serving import (
    AHEAD_BYTES,
    LINGER_BYTES,
    LINGER_SECONDS,
    LISTENER,
    PIECE_BYTES,
    ConnectionEnds,
    ServerLimits,
    Serving,
    address_of,
)
from comity.http.websocket import WebSocketConnection
from comity.wire import strict_json

BODY_BYTES: Final = 4096
BODY_AHEAD_BYTES: Final = 65_536
DISCARD_LIMIT: Final = 1024 * 1024
HOLD_SECONDS: Final = 1.0

_CHECKS_PER_PATIENCE: Final = 4
_REFUSED: Final = 400
_TOO_MANY_REQUESTS: Final = 429
_TOO_SLOW: Final = HeadRefusal(
    408, "deadline", "the request took too long to arrive; send it again without a pause"
)
_CROWDED: Final = HeadRefusal(503, "overloaded", "too many connections are open; try again in a moment")


class _Phase(enum.Enum):
    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


_IDLE, _HEAD, _BODY = _Phase  # looked at several times per request


class HttpConnection(asyncio.BufferedProtocol):
    _transport: asyncio.Transport
    _address: ConnectionEnds
    _peer: str

    def __init__(self, serving: Serving, *, admits: Callable[[socket.socket], bool] | None = None) -> None:
        """`admits` returns whether the other end of a connected socket may come in; others are closed at once."""
        self._serving = serving
        self._admits = admits
        self._limits: ServerLimits = serving.limits
        self._loop = asyncio.get_running_loop()
        self._unread = b""  # came while another request was being answered
        self._reader: HeadReader | None = None
        self._left = 0  # of a body of a stated length
        self._chunks: Chunks | None = None
        self._exchange: Exchange | None = None
        self._phase = _HEAD
        self._since: float | None = None  # when we first saw it in this phase
        self._bytes = 0  # of this head, or of this body since `_since`
        self._discarded = 0
        self._reading = True
        self._input_closed = False
        self._takes_turns = self._waits_to_start = self._may_start = False
        self._drained: asyncio.Future[None] | None = None
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._check_timer: asyncio.TimerHandle | None = None
        self._hold_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None

    @property
    def date(self) -> bytes:
        return self._serving.date

    @property
    def stalled(self) -> bool:
        """Return whether the peer does not take what it was sent."""
        return self._stalled_since is not None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._address = address_of(transport)
        self._peer = self._serving.counted(self._address)
        refused = self._admits is not None and not self._admits(transport.get_extra_info("socket"))
        if refused or self._serving.faults.is_in_debt(self._peer):
            self._input_closed = True
            transport.abort()
            return
        self._takes_turns = self._serving.faults.takes_turns(self._peer)
        self._schedule_check()
        if not self._serving.join(self, self._peer):
            self._refuse(_CROWDED)

    def connection_lost(self, _fault: Exception | None) -> None:
        if self._answering and not self._input_closed:
            self._serving.hung_up()
        self._release_all()

    def get_buffer(self, _sizehint: int) -> memoryview:
        buffer = self._serving.buffer
        if self._phase is _BODY and self._chunks is None:
            return buffer
        return buffer[: AHEAD_BYTES if self._answering else PIECE_BYTES]

    def buffer_updated(self, size: int) -> None:
        self.data_received(bytes(self._serving.buffer[:size]))

    def data_received(self, data: bytes) -> None:
        if self._input_closed:
            self._discard(len(data))
            return
        self._unread = self._unread + data if self._unread else data
        self._proceed()

    def pause_writing(self) -> None:
        self._stalled_since = self._loop.time()

    def resume_writing(self) -> None:
        self._stalled_since = None
        if self._drained is not None:
            self._drained.set_result(None)
            self._drained = None

    async def drained(self) -> None:
        """Wait until the peer has taken what it was sent, or is gone."""
        if self._drained is None:
            self._drained = self._loop.create_future()
        await asyncio.shield(self._drained)

    def write(self, data: bytes) -> None:
        if self._linger_timer is None and not self._transport.is_closing():
            self._transport.write(data)

    def read_on(self) -> None:
        """Resume reading, or pause it while enough data waits."""
        if self._input_closed or self._transport.is_closing():
            return
        exchange = self._exchange
        enough = (
            bool(self._unread)
            or self._hold_timer is not None
            or (exchange is not None and not exchange.complete and exchange.unread > BODY_AHEAD_BYTES)
        )
        if enough is not self._reading:
            return
        self._reading = not enough
        if enough:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def answered(self, exchange: Exchange) -> None:
        """Go on with the requests behind a complete answer."""
        if self._transport.is_closing() or self._linger_timer is not None:
            return
        if not exchange.keep_alive:
            self._close()
            return
        if exchange.status == _TOO_MANY_REQUESTS:
            # spread out, so that peers that were refused together do not come back together
            seconds = HOLD_SECONDS * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            self._hold_timer = self._loop.call_later(seconds, self._release)
        self._proceed()

    def shutdown(self) -> None:
        """Finish the current answer and take no new request."""
        if self._exchange is not None and self._answering:
            self._exchange.keep_alive = False
        else:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def idle(self) -> bool:
        """Return whether no answer is pending."""
        return not self._answering

    @property
    def _answering(self) -> bool:
        return self._exchange is not None and not self._exchange.complete

    def _proceed(self) -> None:
        """Process the unread bytes as far as the current request allows."""
        try:
            while self._unread and not (self._input_closed or self._hold_timer or self._waits_to_start):
                if self._phase is _BODY:
                    self._take_body()
                elif self._exchange is not None and self._answering:
                    if not self._exchange.keep_alive:  # nothing more is answered here
                        self._unread = b""
                    break
                elif (
                    not self._takes_turns
                    or self._reader
                    or self._may_start
                    or self._serving.may_start(self, self._peer)
                ):
                    self._may_start = False
                    self._take_head()
                else:
                    self._waits_to_start = True
        except HeadRefused as refused:
            exchange = self._exchange
            # the guard charges what the application refused, and this would be the same request again
            if self._phase is not _BODY or exchange is None or exchange.status < _REFUSED:
                self._serving.faults.charge(self._peer)
            self._refuse(refused.refusal)
        self.read_on()

    def start(self) -> None:
        """Begin the next request, whose turn it is."""
        self._waits_to_start, self._may_start = False, True
        self._proceed()

    def _take_head(self) -> None:
        data, heads = self._unread, self._serving.heads
        if self._reader is None:
            known = heads.find(data)
            if known is not None:
                self._unread = data[known[1] :]
                self._begin(known[0])
                return
            self._reader = HeadReader(self._limits.head_bytes, self._limits.headers)
            if self._phase is not _HEAD:
                self._enter(_HEAD)
        reader, in_one_piece = self._reader, not self._reader.begun
        end = reader.feed(data)
        if end is None:
            self._unread = b""
            self._bytes += len(data)
            return
        head = reader.head()
        self._reader = None
        if in_one_piece:
            heads.put(data, head)
        self._unread = data[end:]
        if self._may_upgrade(head):
            self._upgrade(head)
        else:
            self._begin(head)

    def _may_upgrade(self, head: Head) -> bool:
        asked = head.upgrade == b"websocket" and head.length == 0 and head.scope["method"] == "GET"
        return asked and head.scope["path"] in self._serving.websockets

    def _begin(self, head: Head) -> None:
        scope, client = head.scope, self._address
        exchange = Exchange(self, scope, keep_alive=head.keep_alive, expects_continue=head.expects_continue)
        scope["headers"] = head.headers
        scope["server"] = client.server
        scope["client"] = client.client
        scope["scheme"] = "https" if client.encrypted else "http"
        scope["state"] = {}
        if self._serving.listener:
            scope[LISTENER] = self._serving.listener
        scope["extensions"] = {WHOLE: exchange}
        self._exchange = exchange
        self._discarded = 0
        if head.length is None:
            self._chunks = Chunks(self._limits.head_bytes, self._limits.headers)
            self._enter(_BODY)
        elif len(self._unread) < head.length:
            self._left = head.length
            self._enter(_BODY)
        else:  # all of it is here, as it is of most
            exchange.take_whole(self._unread[: head.length])
            self._unread = self._unread[head.length :]
            self._enter(_IDLE)
        tasks = self._serving.tasks
        exchange.task = self._loop.create_task(exchange.run(self._serving.app, scope, tasks))
        tasks.add(exchange.task)

    def _take_body(self) -> None:
        data, exchange = self._unread, self._exchange
        assert exchange is not None
        if self._chunks is None:
            part = data[: self._left]
            used = len(part)
            self._left -= used
            ended = not self._left
        else:
            part, used = self._chunks.take(data)
            ended = self._chunks.ended
        self._unread = data[used:]
        self._bytes += len(part)
        if exchange.complete:
            self._discard(len(part))
        elif part:
            exchange.take(part)
        if ended:
            self._chunks = None
            exchange.take_last()
            self._enter(_IDLE)

    def _upgrade(self, head: Head) -> None:
        unread, transport = self._unread, self._transport
        self._input_closed = True
        self._release_all()
        socket = WebSocketConnection(self._serving, transport, self._address, head)
        transport.set_protocol(socket)
        socket.begin(unread)

    def _release_all(self) -> None:
        """Cancel timers, wake waiters, break reference cycles."""
        for timer in (self._check_timer, self._hold_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._serving.leave(self)
        self._unread = b""
        self._reader = self._chunks = None
        if self._exchange is not None:
            self._exchange.leave()
            self._exchange = None
        self.resume_writing()

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = None
        self._bytes = 0

    def _release(self) -> None:
        self._hold_timer = None
        self._proceed()

    def _refuse(self, refusal: HeadRefusal) -> None:
        """Send the refusal, unless another answer is under way, and read no more requests."""
        if self._input_closed:
            return
        self._input_closed = True
        self._unread = b""
        self._serving.refused(refusal.code)
        if self._exchange is None or self._exchange.complete or not self._exchange.status:
            body = strict_json.dumps({"detail": refusal.detail, "code": refusal.code})
            self.write(whole_answer(refusal.status, self.date, b"application/json", body, keep_alive=False))
        if refusal is _CROWDED:
            self._transport.close()
        else:
            self._linger()

    def _close(self) -> None:
        """End the connection; linger while a body is still coming."""
        if self._phase is _BODY:
            self._linger()
        else:
            self._transport.close()

    def _linger(self) -> None:
        if self._linger_timer is not None or self._transport.is_closing():
            return
        self._input_closed = True
        self._unread = b""
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._linger_timer = self._loop.call_later(LINGER_SECONDS, self._transport.abort)
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        if (
            self._exchange is not None and not self._exchange.complete
        ):  # the application may wait for the rest
            self._exchange.leave()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._input_closed and self._discarded > LINGER_BYTES:
            self._transport.abort()
        elif self._discarded > DISCARD_LIMIT:
            self._linger()

    def _schedule_check(self) -> None:
        self._check_timer = self._loop.call_later(
            self._limits.patience / _CHECKS_PER_PATIENCE, self._check_timeouts
        )

    def _check_timeouts(self) -> None:
        """Check periodically whether the peer has kept us waiting for too long."""
        self._schedule_check()
        now = self._loop.time()
        late = now - self._limits.patience
        if self._transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        if any(since is not None and since <= late for since in (self._stalled_since, self._closing_since)):
            self._transport.abort()
        elif self._since is None or not self._reading or (self._phase is _IDLE and self._answering):
            self._since = now
        elif self._phase is _IDLE:
            if self._since <= now - self._limits.keep_alive:
                self._transport.close()
        elif self._since <= late:
            self._end_timed_out(now)

    def _end_timed_out(self, now: float) -> None:
        if self._phase is _BODY and self._bytes >= BODY_BYTES:
            self._since, self._bytes = now, 0
        elif self._phase is _BODY or self._bytes:
            self._refuse(_TOO_SLOW)
        elif self._phase is _HEAD:  # it was opened and never used
            self._transport.close()
