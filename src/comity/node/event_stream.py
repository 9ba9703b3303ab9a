"""`/v1/events`: what happens on this node, as server-sent events, for its own user.

- A frame contains the events since the last one: an `id` to resume from and one `data` line for each event. A reader gets
  at most `FRAMES` a second. Of more than `LINES` events, similar ones are one line with their count. Readers at the same
  number share the bytes of a frame, so neither many events nor many readers cost more.
- Nothing is queued for a reader: it has a place in the events that the node keeps. A reader that does not read holds one
  frame until the server closes it. If it comes back too late, an event `reset` says that events are missing.
- Reading begins at `Last-Event-ID`, or `since` in the query, else now. An id of another run gives a `reset` too. Events
  before the start of the stream come one by one, at most `PAGE` in a frame.
- Reading is not recorded.
"""

import asyncio
import re
from typing import Final
from urllib.parse import parse_qs

from comity.http.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    answer_error,
    answer_json,
    disconnected,
    header,
    send_part,
    start_event_stream,
)
from comity.requests.events import Events, encode, merged
from comity.requests.record import Recorder
from comity.wire.errors import ComityError, InvalidError, OverloadedError
from comity.wire.jsonrpc import KEEPALIVE

EVENTS_PATH: Final = "/v1/events"
FRAMES: Final = 5
LINES: Final = 100
PAGE: Final = 512
READERS: Final = 1024

_PAUSE: Final = 1 / FRAMES
_TOGETHER: Final = 0.02
"""Seconds in which readers that wake one after the other get the same frame."""
_FROM_THE_OLDEST: Final = -1
_HEARTBEAT: Final = 15.0
_RETRY_MS: Final = 1000
_RETRY_SECONDS: Final = 5.0
_END_SECONDS: Final = 1.0
_ID: Final = re.compile(r"([0-9]{1,18})(?:-([0-9a-f]{1,16}))?")


class EventsEndpoint:
    def __init__(self, events: Events, record: Recorder, closing: asyncio.Event) -> None:
        """When `closing` is set, because the node stops, every stream ends in order."""
        self._events = events
        self._record = record
        self._closing = closing
        self._readers = 0
        self._end = 0
        self._end_holds_until = 0.0
        self._frame = (0, 0, False, b"")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            refusal = {"detail": "use GET", "code": "method_not_allowed"}
            await answer_json(send, refusal, 405, [(b"allow", b"GET")])
            return
        try:
            after = self._place(scope)
            if self._readers >= READERS:
                raise OverloadedError(
                    f"{READERS:,} streams of events are open, and no more are served; close one, or try again later",
                    _RETRY_SECONDS,
                )
        except ComityError as refusal:
            self._record.count("events", refusal.code)
            await answer_error(send, refusal)
            return
        self._readers += 1
        try:
            await self._stream(after, receive, send)
        finally:
            self._readers -= 1

    def _place(self, scope: Scope) -> int:
        """Return the number after which to begin. One of another run, or from the future, is ignored."""
        wanted = header(scope, b"last-event-id")
        name = "Last-Event-ID"
        if wanted is None:
            given = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("since", [])
            if not given:
                return self._events.last
            wanted, name = given[-1], "since"
        found = _ID.fullmatch(wanted)
        if found is None:
            raise InvalidError(f"{name} is not the id of an event; use one that came, or leave it out")
        number = int(found[1])
        known = found[2] in (None, self._events.run) and number <= self._events.last
        return number if known else _FROM_THE_OLDEST

    async def _stream(self, after: int, receive: Receive, send: Send) -> None:
        await start_event_stream(send)
        work = [
            asyncio.ensure_future(each)
            for each in (self._write(after, send), disconnected(receive), self._closing.wait())
        ]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in work:
                task.cancel()
            await asyncio.wait(work)
        writing, gone, _ = work
        if not writing.cancelled() and (fault := writing.exception()) is not None:
            raise fault
        if not gone.cancelled():
            return
        try:
            async with asyncio.timeout(_END_SECONDS):
                await send({"type": "http.response.body", "body": b""})
        except TimeoutError:  # it does not read, and is not waited for
            raise Disconnected from None

    async def _write(self, after: int, send: Send) -> None:
        events = self._events
        place = b"" if after == _FROM_THE_OLDEST else b"id: %b\n" % self._id(after)
        await send_part(send, b"retry: %d\n%b\n" % (_RETRY_MS, place))
        begun = events.last
        async with events.hints() as hints:
            while True:
                frame, after = self._next(after, live=after >= begun)
                if frame:
                    await send_part(send, frame)
                    await asyncio.sleep(_PAUSE)
                    continue
                try:
                    async with asyncio.timeout(_HEARTBEAT):
                        await anext(hints)
                except TimeoutError:
                    await send_part(send, KEEPALIVE)
                except StopAsyncIteration:
                    return

    def _next(self, after: int, *, live: bool) -> tuple[bytes, int]:
        """Return the next frame of a reader at that number, and its new number; an empty frame if nothing is new."""
        page = self._events.since(after, self._shared_end(after) - after if live else PAGE)
        reset = b""
        if page.reset:
            after = page.events[0].number - 1 if page.events else self._events.last
            reset = b'event: reset\nid: %b\ndata: {"oldest":%d}\n\n' % (self._id(after), after + 1)
        if not page.events:
            return reset, after
        last = page.events[-1].number
        if self._frame[:3] != (after, last, live):
            acts = merged(page.events) if live and len(page.events) > LINES else page.events
            lines = b"".join(b"data: %b\n" % encode(act) for act in acts)
            self._frame = (after, last, live, b"id: %b\n%b\n" % (self._id(last), lines))
        return reset + self._frame[3], last

    def _shared_end(self, after: int) -> int:
        """Return the number that frames reach now, shared by readers for a moment."""
        now = asyncio.get_running_loop().time()
        if self._end <= after or now >= self._end_holds_until:
            self._end, self._end_holds_until = self._events.last, now + _TOGETHER
        return self._end

    def _id(self, number: int) -> bytes:
        return f"{number}-{self._events.run}".encode()
