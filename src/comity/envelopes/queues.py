"""One queue (lane) per sender and receiver: the calls of a pair are handled one after the other, in the order of their
numbers. Calls of different pairs do not wait for each other.

Envelopes may arrive in another order than they were sent. An envelope whose number is too high waits a moment for the
envelope before it. If that one does not arrive, the chain rule decides. The number of waiting envelopes is limited, for
each lane and in total.
"""

import asyncio
import contextlib
import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from itertools import count

from msgspec import Struct

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.envelopes.replay_stores import SERVE_BOOK, chain_of
from comity.wire.errors import OverloadedError

WAITING_PER_LANE = 128
WAITING_IN_ALL = 4096
IDLE_LANES = 16_384
GRACE_SECONDS = 0.2


class ChainPositions(Struct):
    """Where both directions of a pair stand: what we accepted, and what we replied."""

    accepted: ReplayState
    replied: ReplayState


class PairLane:
    """`calls` and `replies` are the pair's two chains in the store; `kept` is how many bytes of replies are stored
    at most, on the account of `holder`, and `reserved` how many the call whose turn it is has set aside. Nobody looks at the store again
    before `full_until` when the pair had no room.
    """

    def __init__(self, pair: PairKey, book: str) -> None:
        self.pair = pair
        self.calls = chain_of(pair, book)
        self.replies = chain_of(PairKey(pair.to_vid, pair.from_vid), book)
        self.standing: ChainPositions | None = None
        self.next: ChainPositions | None = None
        self.kept = 0
        self.holder = ""
        self.reserved = 0
        self.full_until = 0.0
        self.waiting = 0
        self._busy = False
        self._queue: list[tuple[int, int, asyncio.Future[None]]] = []
        self._moved: asyncio.Event | None = None  # while somebody waits for it
        self._order = count()

    @property
    def idle(self) -> bool:
        return not self._busy and not self.waiting

    def enter_if_free(self) -> bool:
        free = not self._busy
        self._busy = True
        return free

    async def enter(self, number: int) -> None:
        """Until nobody with a smaller number is before us."""
        if self.enter_if_free():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (number, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was our turn already: pass it on
                self.leave()
            raise

    def leave(self) -> None:
        while self._queue:
            _, _, turn = heapq.heappop(self._queue)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False

    def move(self) -> None:
        """The pair has advanced to `next`."""
        self.standing, self.next = self.next, None
        if self._moved is not None:
            self._moved.set()
            self._moved = None

    async def wait_for_a_move(self, seconds: float) -> None:
        if self._moved is None:
            self._moved = asyncio.Event()
        moved = self._moved
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await moved.wait()


Load = Callable[[PairLane], Awaitable[ChainPositions]]
Settle = Callable[[PairLane, bool], None]


class Lanes:
    def __init__(
        self,
        load: Load,
        *,
        sole_writer: bool,
        settle: Settle = lambda _lane, _stored: None,
        book: str = SERVE_BOOK,
    ) -> None:
        """`load` reads where a pair stands. `sole_writer`: no other process moves it, so it is read once.
        `settle` is told at the end of each turn that set bytes aside whether its reply was stored. `book` is the
        one that the chains stand in.
        """
        self._book = book
        self.settle = settle
        self._load = load
        self._sole_writer = sole_writer
        self._lanes: OrderedDict[PairKey, PairLane] = OrderedDict()
        self._waiting = 0

    def turn(self, pair: PairKey, number: int) -> "LockSlot":
        return LockSlot(self, self._lane(pair), number)

    def try_enter(self, lane: PairLane, number: int) -> bool:
        """Where nobody is before us and all is known, which is how most callers find their lane."""
        standing = lane.standing
        if standing is None or not self._sole_writer or number > standing.accepted.last_sequence_no + 1:
            return False
        return lane.enter_if_free()

    async def enter(self, lane: PairLane, number: int) -> None:
        if lane.waiting >= WAITING_PER_LANE or self._waiting >= WAITING_IN_ALL:
            raise OverloadedError("too many calls are waiting for this agent; try again in a moment")
        lane.waiting += 1
        self._waiting += 1
        try:
            await self._enter_in_order(lane, number)
        finally:
            lane.waiting -= 1
            self._waiting -= 1

    async def _enter_in_order(self, lane: PairLane, number: int) -> None:
        loop = asyncio.get_running_loop()
        patience = loop.time() + GRACE_SECONDS
        while True:
            await lane.enter(number)
            try:
                if lane.standing is None or not self._sole_writer:
                    lane.standing = await self._load(lane)
            except BaseException:
                lane.leave()
                raise
            ahead = number > lane.standing.accepted.last_sequence_no + 1
            if not ahead or loop.time() >= patience:
                return
            lane.leave()
            await lane.wait_for_a_move(patience - loop.time())

    def _lane(self, pair: PairKey) -> PairLane:
        lane = self._lanes.get(pair)
        if lane is None:
            lane = self._lanes[pair] = PairLane(pair, self._book)
            self._forget_idle()
        else:
            self._lanes.move_to_end(pair)
        return lane

    def _forget_idle(self) -> None:
        if len(self._lanes) > IDLE_LANES:
            oldest = next(iter(self._lanes))
            if self._lanes[oldest].idle:
                del self._lanes[oldest]
            else:
                self._lanes.move_to_end(oldest)


class LockSlot:
    """One call's time in its lane. Written out, because a generator costs as much as the rest of the turn."""

    __slots__ = ("_lanes", "_number", "lane")

    def __init__(self, lanes: Lanes, lane: PairLane, number: int) -> None:
        self.lane = lane
        self._lanes = lanes
        self._number = number

    async def __aenter__(self) -> None:
        if not self._lanes.try_enter(self.lane, self._number):
            await self._lanes.enter(self.lane, self._number)

    async def __aexit__(self, failed: type[BaseException] | None, *_: object) -> None:
        lane = self.lane
        if lane.reserved:
            self._lanes.settle(lane, failed is None)
        if failed is not None:
            lane.standing = lane.next = None  # what the store holds is read again
        elif lane.next is not None:
            lane.move()
        lane.leave()
