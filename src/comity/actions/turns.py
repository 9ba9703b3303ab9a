"""Whose work is next: a queue that is fair between callers.

- A piece of work has a weight, about what it costs. The order is self-clocked fair queueing: each piece gets a mark, and
  the piece with the lowest mark is next. The mark is the end of the caller's last piece, or the current mark of the queue
  if that is higher, plus the weight of this piece. So callers that ask for much wait behind callers that ask for little.
  A caller with a new name gains no more than the weight of one piece. Nobody waits for ever, because marks only grow.
- One caller holds half of the places at most; `long` pieces of work of all callers together leave one free.
- There is a limit for the waiting pieces of one caller (`of_one`) and of all callers (`in_all`). Over the second limit,
  the piece that would be the last one is refused. A refusal says when to come back.
"""

import asyncio
import bisect
import contextlib
import math
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from comity.wire.errors import OverloadedError

WAITING_OF_ONE: Final = 32
WAITING_IN_ALL: Final = 256

_MOST_REMEMBERED: Final = 4096
_SHARE_OF_THE_NEWEST: Final = 0.2  # in the running mean of how long work takes


class ActionTurns:
    def __init__(self, places: int, *, of_one: int = WAITING_OF_ONE, in_all: int = WAITING_IN_ALL) -> None:
        self._places = places
        self._most_of_one = max(1, places // 2)
        self._most_long = max(1, places - 1)
        self._of_one = of_one
        self._in_all = in_all
        self._waiting: list[_Piece] = []
        self._running: Counter[str] = Counter()
        self._long_running = 0
        self._now = 0.0
        self._ends: dict[str, float] = {}
        self._order = 0
        self._seconds = 1.0

    @contextlib.asynccontextmanager
    async def turn(self, caller: str, weight: float, *, long: bool = False) -> AsyncIterator[None]:
        """Raises OverloadedError when too much is waiting."""
        piece = self._queue(caller, weight, long)
        try:
            await piece.begins
        except asyncio.CancelledError:
            if piece in self._waiting:
                self._waiting.remove(piece)
            elif (
                not piece.begins.cancelled() and piece.begins.exception() is None
            ):  # it was our turn already: pass it on
                self._end(piece)
            raise
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            took = asyncio.get_running_loop().time() - began
            self._seconds += (took - self._seconds) * _SHARE_OF_THE_NEWEST
            self._end(piece)

    def _queue(self, caller: str, weight: float, long: bool) -> "_Piece":
        mine = sum(piece.caller == caller for piece in self._waiting)
        if mine >= self._of_one:
            raise self._too_much(f"{mine} calls of yours are waiting here, which is the limit", mine)
        self._order += 1
        end = max(self._now, self._ends.get(caller, 0.0)) + weight
        piece = _Piece((end, mine + self._running[caller], self._order), caller, long)
        self._make_room_for(piece)
        self._ends[caller] = end
        bisect.insort(self._waiting, piece)
        self._begin_next()
        return piece

    def _make_room_for(self, piece: "_Piece") -> None:
        if len(self._waiting) < self._in_all:
            return
        refusal = self._too_much(
            f"{len(self._waiting)} calls are waiting here, which is the limit", self._in_all
        )
        last = self._waiting[-1]
        if last < piece:
            raise refusal
        self._waiting.pop()
        if not last.begins.done():
            last.begins.set_exception(refusal)

    def _begin_next(self) -> None:
        while self._running.total() < self._places:
            piece = next(filter(self._may_begin, self._waiting), None)
            if piece is None:
                return
            self._waiting.remove(piece)
            self._running[piece.caller] += 1
            self._long_running += piece.long
            self._now = max(self._now, piece.place[0])
            piece.begins.set_result(None)

    def _may_begin(self, piece: "_Piece") -> bool:
        if piece.begins.done() or (piece.long and self._long_running >= self._most_long):
            return False  # done: whoever waited was cancelled and does not know yet
        return self._running[piece.caller] < self._most_of_one

    def _end(self, piece: "_Piece") -> None:
        self._running[piece.caller] -= 1
        self._long_running -= piece.long
        if not self._running[piece.caller]:
            del self._running[piece.caller]
        self._begin_next()
        if not self._running or len(self._ends) > _MOST_REMEMBERED:
            self._ends = {caller: end for caller, end in self._ends.items() if end > self._now}

    def _too_much(self, what: str, pieces: int) -> OverloadedError:
        wait = max(1, math.ceil(self._seconds * pieces / self._places))
        return OverloadedError(f"{what}; try again in {wait} seconds", wait)


class _Piece:
    """`place` says who is first: the mark, then how many the caller has before this one, then who came first."""

    __slots__ = ("begins", "caller", "long", "place")

    def __init__(self, place: tuple[float, int, int], caller: str, long: bool) -> None:
        self.place = place
        self.caller = caller
        self.long = long
        self.begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "_Piece") -> bool:
        return self.place < other.place
