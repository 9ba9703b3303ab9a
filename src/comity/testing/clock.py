"""A clock that moves when a test says so.

Time is counted in whole nanoseconds, so that three steps of 0.1 s are 0.3 s. It serves code that is
given a Clock, under any event loop. For code that asks the event loop itself for time
(`asyncio.sleep`, `asyncio.timeout`) see `comity.testing.loop`.
"""

import asyncio
import heapq
import itertools

from comity.wire.errors import InvalidError

EPOCH = 1_767_225_600.0
"""Where simulated wall time starts: 2026-01-01T00:00:00Z."""

_NANOSECONDS = 1_000_000_000
# A woken task often hands over to others (a lock, a queue, a reply) before it sleeps again.
_HAND_OVERS = 20


class VirtualClock:
    """Stands still until `advance` or `jump`."""

    def __init__(self, now: float = EPOCH) -> None:
        self._start = now
        self._elapsed = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._elapsed / _NANOSECONDS

    def monotonic(self) -> float:
        return self._elapsed / _NANOSECONDS

    @property
    def sleepers(self) -> int:
        """How many tasks sleep on this clock."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        length = round(seconds * _NANOSECONDS)
        if length <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + length, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Pass through every moment at which somebody wakes, in order, and let them act at that moment."""
        end = self._elapsed + _nanoseconds(seconds)
        await self._settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed = self._sleepers[0][0]
            self._wake()
            await self._settle()
        self._elapsed = end

    def jump(self, seconds: float) -> None:
        """Move at once, as a machine does that was suspended: sleepers wake late, all at the same moment."""
        self._elapsed += _nanoseconds(seconds)
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)

    async def _settle(self) -> None:
        for _ in range(_HAND_OVERS):
            await asyncio.sleep(0)


def _nanoseconds(seconds: float) -> int:
    if seconds < 0:
        raise InvalidError(f"time cannot go back by {-seconds} seconds; advance by zero or more")
    return round(seconds * _NANOSECONDS)
