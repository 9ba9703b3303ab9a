"""One HTTP connection, and what a peer may do with it before anybody knows who it is.

- A head (request line and headers) is refused as soon as it is too large or has too many headers.
- A head must be complete within `patience` of its first byte, the first one of the connection itself.
- A body must keep coming: at least `BODY_BYTES` in each `patience`, unless we hold the peer back.
- What we send must be taken within `patience`.
- A connection on which nothing happens is closed after the time that uvicorn calls keep-alive. Nobody winds a
  clock for each answer: the look that is taken now and then sees to it.
- Of a body that nobody wants any more, `DISCARD_LIMIT` is thrown away; then the connection is closed.
- One connection too many is told so and closed.
- On the paths named for it a peer may go on as a WebSocket (`websocket`); elsewhere it is answered as ever.
- A head that was seen before (`heads`) is not parsed again. Each request is an `exchange`, answered in turn.

A refusal is JSON like every other one. While the answer to an earlier request is under way there is
no place for it: the connection then ends after that answer.

To close on a peer that is still sending would take back the answer it has not read yet (the system
resets such a connection). So our side falls silent first, and what still comes is thrown away for a
moment.
"""

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Collection
from typing import NamedTuple
from urllib.parse import unquote

import httptools
import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from comity.core.wire import strict_json
from comity.doors.http.asgi import WHOLE, Scope
from comity.doors.http.exchange import Exchange
from comity.doors.http.heads import Head, KnownHeads
from comity.doors.http.wire import Wire

BODY_BYTES = 4096
DISCARD_LIMIT = 1024 * 1024
LINGER_SECONDS = 2.0
_LOOKS_PER_PATIENCE = 4
_ASGI = {"version": "3.0", "spec_version": "2.3"}


class Limits(Struct, frozen=True, kw_only=True):
    """`patience` is in seconds; we look at it now and then, so it may last half as long again."""

    connections: int = 800
    head_bytes: int = 64 * 1024
    headers: int = 256
    patience: float = 20.0


class _Phase(enum.Enum):
    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()


_IDLE, _HEAD, _BODY = _Phase  # looked at several times per request


class _Refusal(NamedTuple):
    status: int
    code: str
    detail: str


_MALFORMED = _Refusal(400, "malformed", "this is not an HTTP/1.1 request; check its first line and headers")
_TOO_SLOW = _Refusal(408, "deadline", "the request took too long to arrive; send it again without a pause")
_CROWDED = _Refusal(503, "overloaded", "too many connections are open; try again in a moment")


class _HeadRefused(Exception):  # noqa: N818 - stops the parser, is seen nowhere else
    pass


class HttpConnection(HttpToolsProtocol):
    cycle: Exchange

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        limits: Limits,
        refused: Callable[[str], None],
        websockets: Collection[bytes] = (),
        heads: KnownHeads | None = None,
    ) -> None:
        """`refused` is told the code of each refusal, so that it can be counted. `websockets` are the paths
        on which a peer may go on in that protocol. `heads` are shared by connections of the same limits.
        """
        super().__init__(config, state, {})
        self._websockets = websockets
        self._heads = KnownHeads() if heads is None else heads
        self._unlearned = b""  # where the parser is about to begin
        self._limits = limits
        self._count = refused
        self._queued: deque[tuple[Exchange, Scope]] = deque()
        self._answered: Exchange | None = None  # the one whose turn it is
        self._phase = _HEAD
        self._since: float | None = None  # when we first saw it in this phase
        self._bytes = 0  # of this head, or of this body since `_since`
        self._chunk = 0
        self._begun = 0
        self._discarded = 0
        self._refused = False
        self._stalled_since: float | None = None
        self._closing_since: float | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.wire = Wire(transport, self, self.loop)
        super().connection_made(self.wire)
        self._look_later()
        if len(self.connections) > self._limits.connections:
            self._refuse(_CROWDED)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._watch, self._lingering):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._let_go()

    @property
    def lingers(self) -> bool:
        return self._lingering is not None

    def close(self, transport: asyncio.Transport) -> None:
        """End the connection; while a body is still coming, not at once."""
        if self._phase is _BODY:
            self._linger(transport)
        elif not self.lingers:
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._refused or self.lingers:
            self._discard(len(data))
            return
        only_head = self._phase is not _BODY
        if self._phase is _IDLE:
            known = self._heads.find(data) if self.cycle.keep_alive else None
            if known is not None:
                self._answer_known(*known)
                return
            self._enter(_HEAD)
            self._unlearned = data
        begun, self._chunk = self._begun, len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
                return
            self.cycle.keep_alive = False  # the peer may go on in another protocol, we do not
        except httptools.HttpParserError as fault:
            self._refuse(self._too_large if isinstance(fault.__context__, _HeadRefused) else _MALFORMED)
        if self._phase is _HEAD:
            # where in a chunk the head of a later request began is not known: it counts from the next chunk on
            self._bytes += len(data) if only_head and self._begun - begun < 2 else 1
            if self._bytes > self._limits.head_bytes:
                self._refuse(self._too_large)

    def handle_websocket_upgrade(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self.transport = self.wire.inner
        super().handle_websocket_upgrade()
        self._let_go()

    def _let_go(self) -> None:
        """Nothing more comes, and nobody is to be kept by us: neither who answers nor what we are made of."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()
        self._queued.clear()
        self.parser = self.cycle = self._answered = None  # type: ignore[assignment]
        self.wire.leave()

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._begun += 1
        if self._phase is not _HEAD:
            self._enter(_HEAD)

    def on_headers_complete(self) -> None:
        if len(self.headers) > self._limits.headers or self._head_too_large():
            raise _HeadRefused
        parser, version = self.parser, self.parser.get_http_version()
        method = parser.get_method().decode("ascii")
        self.scope = {"method": method, "headers": self.headers}  # type: ignore[typeddict-item] # for an upgrade
        if not (parser.should_upgrade() and self._should_upgrade()):
            exchange = Exchange(self, method, keep_alive=version != "1.0" and parser.should_keep_alive())
            head = Head(self._said(method, version), self.headers)
            if self._unlearned and exchange.keep_alive and not parser.should_upgrade():
                self._heads.learn(self._unlearned, head)
            self._begin(exchange, head)
        self._unlearned = b""
        self._discarded = 0
        self._enter(_BODY)

    def _said(self, method: str, version: str) -> Scope:
        """What the first line says."""
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "root_path": "",
            "method": method,
            "path": unquote(path) if "%" in path else path,
            "raw_path": target.path,
            "query_string": target.query or b"",
        }

    def _answer_known(self, head: Head, body: bytes) -> None:
        """A whole request whose head the parser has read before, perhaps on another connection."""
        self._discarded = 0
        self._enter(_IDLE)
        self.expect_100_continue = False
        exchange = Exchange(self, head.scope["method"], keep_alive=True)
        exchange.take_last(body)
        self._begin(exchange, head)

    def _begin(self, exchange: Exchange, head: Head) -> None:
        """At once, or after those that were asked for before it."""
        scope = head.scope
        scope["headers"] = head.headers
        scope["server"] = self.server
        scope["client"] = self.client
        scope["scheme"] = self.scheme
        scope["state"] = {}
        scope["extensions"] = {WHOLE: {"read": exchange.read_whole, "write": exchange.answer_whole}}
        answering = self.cycle is not None and not self.cycle.response_complete
        self.cycle = exchange
        if answering:
            self.flow.pause_reading()
            self._queued.append((exchange, scope))
        else:
            self._run(exchange, scope)

    def _run(self, exchange: Exchange, scope: Scope) -> None:
        self._answered = exchange
        running = self.tasks
        running.add(self.loop.create_task(exchange.run(self.app, scope, running)))

    def on_body(self, body: bytes) -> None:
        self._bytes += len(body)
        if self.cycle.response_complete:
            self._discard(len(body))
        elif self.cycle.take(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        if not (self.parser.should_upgrade() and self._should_upgrade()) and not self.cycle.response_complete:
            self.cycle.take_last()
        self._enter(_IDLE)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self._queued:
            self._run(*self._queued.popleft())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since = None

    @property
    def _too_large(self) -> _Refusal:
        return _Refusal(
            431,
            "too_large",
            f"the request line and headers exceed {self._limits.head_bytes:,} bytes or "
            f"{self._limits.headers} headers; send fewer",
        )

    def _head_too_large(self) -> bool:
        limit = self._limits.head_bytes
        if self._bytes + self._chunk <= limit:
            return False
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > limit

    def _should_upgrade_to_ws(self) -> bool:
        answering = self.cycle is not None and not self.cycle.response_complete
        return (
            self.url.partition(b"?")[0] in self._websockets
            and not answering
            and super()._should_upgrade_to_ws()
        )

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._since = None
        self._bytes = 0

    def _refuse(self, refusal: _Refusal) -> None:
        if self._refused:
            return
        self._refused = True
        self._count(refusal.code)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering and self._phase is not _BODY:
            self.cycle.keep_alive = False
            return
        if not answering or not (self.cycle.response_started or self._queued):
            body = strict_json.dumps({"detail": refusal.detail, "code": refusal.code})
            self.transport.write(
                STATUS_LINE[refusal.status] + b"content-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
            )
        if refusal is _CROWDED:
            self.transport.close()
        else:
            self._linger(self.transport)

    def _linger(self, transport: asyncio.Transport) -> None:
        if self.lingers or transport.is_closing():
            return
        self._lingering = self.loop.call_later(LINGER_SECONDS, transport.abort)
        self.flow.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()
        if self.cycle is not None and not self.cycle.response_complete:  # a room may wait for the rest
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > DISCARD_LIMIT:
            self._linger(self.transport)

    def _look_later(self) -> None:
        self._watch = self.loop.call_later(self._limits.patience / _LOOKS_PER_PATIENCE, self._look)

    def _look(self) -> None:
        """Now and then: has the peer kept us waiting for too long?"""
        self._look_later()
        now = self.loop.time()
        late = now - self._limits.patience
        if self.transport.is_closing() and self._closing_since is None:
            self._closing_since = now
        if any(since is not None and since <= late for since in (self._stalled_since, self._closing_since)):
            self.transport.abort()
        elif self._since is None or self.flow.read_paused or self._answers_while_idle():
            self._since = now
        elif self._phase is _IDLE:
            if self._since <= now - self.timeout_keep_alive:
                self.transport.close()
        elif self._since <= late:
            self._lose_patience(now)

    def _answers_while_idle(self) -> bool:
        return self._phase is _IDLE and not self.cycle.response_complete

    def _lose_patience(self, now: float) -> None:
        if self._phase is _BODY and self._bytes >= BODY_BYTES:
            self._since, self._bytes = now, 0
        elif self._phase is _BODY or self._bytes:
            self._refuse(_TOO_SLOW)
        elif self._phase is _HEAD:  # it was opened and never used
            self.transport.close()
