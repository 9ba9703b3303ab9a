"""What happens on this node, one event per act, for whoever watches: the page, `comity watch`, the log.

An event names who and what by short ids, names and hashes, never by content. The last `KEPT` are kept; a reader asks
for those after a number and is told when some of them are gone already. Readers are woken together, a moment after
the first event, so that a flood of acts costs them no more than a few.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from comity.bus.protocol import Bus

KEPT: Final = 4096
SUBJECT: Final = "events"

_MOMENT: Final = 0.05


class NodeEvent(Struct, frozen=True, omit_defaults=True):
    """`kind` is what the audit entry calls the act; `count` is more than 1 where alike acts stand together."""

    number: int
    time: float
    room: str
    kind: str
    who: str = ""
    what: str = ""
    request: str = ""
    trace: str = ""
    failed: str = ""
    count: int = 1


class Page(NamedTuple):
    """`reset`: some of what was asked for is gone."""

    events: Sequence[NodeEvent]
    reset: bool


class Events:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._kept: deque[NodeEvent] = deque(maxlen=KEPT)
        self._last = 0
        self._due: asyncio.Handle | None = None
        self._publishing: set[asyncio.Task[None]] = set()

    @property
    def last(self) -> int:
        return self._last

    def add(
        self,
        time: float,
        room: str,
        kind: str,
        *,
        who: str = "",
        what: str = "",
        request: str = "",
        trace: str = "",
        failed: str = "",
        count: int = 1,
    ) -> None:
        self._last = number = self._last + 1
        self._kept.append(NodeEvent(number, time, room, kind, who, what, request, trace, failed, count))
        if self._due is None:
            self._due = asyncio.get_running_loop().call_later(_MOMENT, self._wake)

    def since(self, number: int) -> Page:
        """Those after that number. One from before a restart, or from the future, is as good as none."""
        oldest = self._kept[0].number if self._kept else self._last + 1
        if number > self._last:
            return Page(tuple(self._kept), reset=True)
        wanted = min(self._last - number, len(self._kept))
        newest = [self._kept[at] for at in range(-wanted, 0)]
        return Page(newest, reset=number + 1 < oldest)

    async def follow(self, after: int) -> AsyncIterator[Page]:
        """Pages as they come, the first one at once, also when it is empty; until the bus closes."""
        async with self._bus.listen(SUBJECT) as hints:
            page = self.since(after)
            yield page
            seen = self._last
            async for _hint in hints:
                page = self.since(seen)
                seen = self._last
                if page.events:
                    yield page

    def _wake(self) -> None:
        self._due = None
        waking = asyncio.ensure_future(self._bus.publish(SUBJECT, b"%d" % self._last))
        self._publishing.add(waking)
        waking.add_done_callback(self._publishing.discard)
