"""One queue for each pair of sender and receiver: its calls are handled one after the other, in the order of their numbers.
Calls of different pairs do not wait for each other.

Envelopes may arrive in another order than they were sent. An envelope whose number is too high waits a moment for the
envelope before it. If that one does not arrive, the chain rule decides. The number of waiting envelopes is limited, for
each queue and in total.
"""

import asyncio
import contextlib
import heapq
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256
from itertools import count

from msgspec import Struct

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.store.interface import ChainKey, Tip
from comity.wire.errors import OverloadedError

MAX_WAITING_PER_PAIR = 128
MAX_WAITING = 4096
MAX_QUEUES = 16_384
GRACE_SECONDS = 0.2


# The position of a pair as the store keeps it: one row of a chain.

SERVE_BOOK = "serve"
"""Chains of what a vacant accepted as a callee, and of the replies it gave."""


def chain_of(key: PairKey, book: str = SERVE_BOOK) -> ChainKey:
    return ChainKey(book, key.from_vid.hex(), key.to_vid.hex())


def state_of(tip: Tip) -> ReplayState:
    return ReplayState(tip.seq, tip.hash)


def tip_of(state: ReplayState) -> Tip:
    return Tip(state.last_sequence_no, state.chain_tip)


class ChainPositions(Struct):
    """The positions of both chains of a pair: what we accepted, and what we replied."""

    accepted: ReplayState
    replied: ReplayState


class PairQueue:
    """`calls` and `replies` are the pair's two chains in the store. `kept` is an upper bound of the bytes of stored
    replies, on the account of `holder`; the call that is handled now has reserved `reserved` bytes. A pair that had no
    room is not looked up again before `full_until`.
    """

    def __init__(self, pair: PairKey, book: str) -> None:
        self.pair = pair
        self.calls = chain_of(pair, book)
        self.replies = chain_of(PairKey(pair.to_vid, pair.from_vid), book)
        self.place = f"place:{book}:{pair.to_vid.short()}"
        self.positions: ChainPositions | None = None
        self.next: ChainPositions | None = None
        self.kept = 0
        self.holder = ""
        self.reserved = 0
        self.full_until = 0.0
        self.waiting = 0
        self._busy = False
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._moved: asyncio.Event | None = None  # while a call waits for it
        self._order = count()

    @property
    def idle(self) -> bool:
        return not self._busy and not self.waiting

    def enter_if_free(self) -> bool:
        free = not self._busy
        self._busy = True
        return free

    async def enter(self, number: int) -> None:
        """Wait until no call with a smaller number is before this one."""
        if self.enter_if_free():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (number, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was our turn already: pass it on
                self.leave()
            raise

    def leave(self) -> None:
        while self._waiters:
            _, _, turn = heapq.heappop(self._waiters)
            if not turn.done():
                turn.set_result(None)
                return
        self._busy = False

    def move(self) -> None:
        """Go on to the positions in `next`."""
        self.positions, self.next = self.next, None
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


def place_check(queue: PairQueue, message: bytes | None) -> str:
    """Return the name of where an answered call and its reply are, in the entry of the call. `message` is the reply if it
    has more in it than its signature covers: then the entry names a hash of all of it.
    """
    assert queue.next is not None, "the call is answered"
    accepted, replied = queue.next.accepted, queue.next.replied
    place = f"{queue.place}:{accepted.last_sequence_no}:{replied.last_sequence_no}"
    return place if message is None else f"{place}:{added_hash(message)}"


def added_hash(message: bytes) -> str:
    return sha256(message).hexdigest()[:32]


Load = Callable[[PairQueue], Awaitable[ChainPositions]]
Release = Callable[[PairQueue, bool], None]


class PairQueues:
    def __init__(
        self,
        load: Load,
        *,
        sole_writer: bool,
        release: Release = lambda _queue, _stored: None,
        book: str = SERVE_BOOK,
    ) -> None:
        """`load` reads the positions of a pair. `sole_writer`: no other process moves it, so it is read once. `release`
        is called after each call that reserved bytes, and gets whether its reply was stored. `book` holds the chains.
        """
        self._book = book
        self.release = release
        self._load = load
        self._sole_writer = sole_writer
        self._queues: OrderedDict[PairKey, PairQueue] = OrderedDict()
        self._waiting = 0

    def slot(self, pair: PairKey, number: int) -> "QueueSlot":
        return QueueSlot(self, self._queue(pair), number)

    def try_enter(self, queue: PairQueue, number: int) -> bool:
        """Enter at once if no call is before this one and the positions are known, as for most calls."""
        positions = queue.positions
        if positions is None or not self._sole_writer or number > positions.accepted.last_sequence_no + 1:
            return False
        return queue.enter_if_free()

    async def enter(self, queue: PairQueue, number: int) -> None:
        if queue.waiting >= MAX_WAITING_PER_PAIR or self._waiting >= MAX_WAITING:
            raise OverloadedError("too many calls are waiting for this agent; try again in a moment")
        queue.waiting += 1
        self._waiting += 1
        try:
            await self._enter_in_order(queue, number)
        finally:
            queue.waiting -= 1
            self._waiting -= 1

    async def _enter_in_order(self, queue: PairQueue, number: int) -> None:
        loop = asyncio.get_running_loop()
        patience = loop.time() + GRACE_SECONDS
        while True:
            await queue.enter(number)
            try:
                if queue.positions is None or not self._sole_writer:
                    queue.positions = await self._load(queue)
            except BaseException:
                queue.leave()
                raise
            ahead = number > queue.positions.accepted.last_sequence_no + 1
            if not ahead or loop.time() >= patience:
                return
            queue.leave()
            await queue.wait_for_a_move(patience - loop.time())

    def _queue(self, pair: PairKey) -> PairQueue:
        queue = self._queues.get(pair)
        if queue is not None:
            self._queues.move_to_end(pair)
            return queue
        queue = self._queues[pair] = PairQueue(pair, self._book)
        if len(self._queues) > MAX_QUEUES:
            oldest, candidate = next(iter(self._queues.items()))
            if candidate.idle:
                del self._queues[oldest]
            else:
                self._queues.move_to_end(oldest)
        return queue


class QueueSlot:
    """One call's time at the head of its queue. A class, because a generator costs as much as the rest of the call."""

    __slots__ = ("_number", "_queues", "queue")

    def __init__(self, queues: PairQueues, queue: PairQueue, number: int) -> None:
        self.queue = queue
        self._queues = queues
        self._number = number

    async def __aenter__(self) -> None:
        if not self._queues.try_enter(self.queue, self._number):
            await self._queues.enter(self.queue, self._number)

    async def __aexit__(self, failed: type[BaseException] | None, *_: object) -> None:
        queue = self.queue
        if queue.reserved:
            self._queues.release(queue, failed is None)
        if failed is not None:
            queue.positions = queue.next = None  # read the store again
        elif queue.next is not None:
            queue.move()
        queue.leave()
