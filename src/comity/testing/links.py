"""Links that lose, double, delay, reorder and break: as bad as a network, and repeatable.

A SimulatedLink stands before any PeerLink and mistreats what is sent through it; what comes in is left
alone, so a pair has one at each end. Every choice is drawn from a seeded source and every delay is
slept on the Clock it is given, so the same seed treats the same traffic in the same way.

Messages that are not reordered arrive in the order in which they were sent. At most `in_flight` messages
are on their way in one direction; then the sender waits, as it would on a real link.
"""

import asyncio
import contextlib
import random
import uuid
from collections.abc import Iterator, MutableSequence, Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec import Struct

from comity.testing.loopback import loopback_pair
from comity.wire.errors import InvalidError, TooLargeError
from comity.wire.link import LinkClosed, PeerLink
from comity.wire.machine import Clock

# Repeatable randomness: every draw comes from a seed, and every failure names it.


_Item = TypeVar("_Item")


class Randomness:
    """A source of seeded draws. Equal seeds draw equal things in equal order."""

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed
        self._random = random.Random(seed)

    def __repr__(self) -> str:
        return f"Randomness(seed={self.seed!r})"

    def branch(self, name: str) -> "Randomness":
        """Return an independent source: reading from it does not change this one."""
        return Randomness(f"{self.seed}/{name}")

    def bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def hex(self, length: int) -> str:
        """Return `length` random bytes as hexadecimal digits."""
        return self.bytes(length).hex()

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.bytes(16), version=4)

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return self._random.randint(low, high)

    def between(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def choice(self, items: Sequence[_Item]) -> _Item:
        return self._random.choice(items)

    def shuffle(self, items: MutableSequence[_Item]) -> None:
        self._random.shuffle(items)


@contextlib.contextmanager
def seeded(seed: int | str) -> Iterator[Randomness]:
    """Yield a source of draws. What is raised inside carries the seed."""
    try:
        yield Randomness(seed)
    except BaseException as error:
        error.add_note(f"seed: {seed}")
        raise


class Faults(Struct, frozen=True, kw_only=True):
    """Chances from 0 to 1, each drawn once per message; delays in seconds.

    A reordered message leaves the queue and arrives after its own delay, whatever was sent before it.
    """

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    cut: float = 0.0
    min_delay: float = 0.001
    max_delay: float = 0.010

    def __post_init__(self) -> None:
        for name in ("loss", "duplication", "reordering", "cut"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidError(f"{name} is a chance and lies between 0 and 1")
        if not 0 <= self.min_delay <= self.max_delay:
            raise InvalidError("min_delay lies between 0 and max_delay")


@dataclass
class LinkCounts:
    """What happened to the messages sent at one end."""

    sent: int = 0
    delivered: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    cuts: int = 0


class SimulatedLink:
    """`faults` may be exchanged at any time: `Faults(loss=1)` is a partition."""

    def __init__(
        self,
        inner: PeerLink,
        *,
        clock: Clock,
        randomness: Randomness,
        faults: Faults | None = None,
        in_flight: int = 64,
    ) -> None:
        self.faults = faults or Faults()
        self.counts = LinkCounts()
        self._inner = inner
        self._clock = clock
        self._randomness = randomness
        self._room = asyncio.Semaphore(in_flight)
        self._orderly: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        self._conveyor: asyncio.Task[None] | None = None
        self._stray: dict[asyncio.Task[None], None] = {}
        self._ended: LinkClosed | None = None

    @property
    def max_message_bytes(self) -> int:
        return self._inner.max_message_bytes

    @property
    def peer(self) -> str:
        return self._inner.peer

    async def send(self, message: bytes) -> None:
        if len(message) > self.max_message_bytes:
            raise TooLargeError("the message", self.max_message_bytes)
        await self._enter()
        self.counts.sent += 1
        draw, faults = self._randomness, self.faults
        if draw.chance(faults.cut):
            self.counts.cuts += 1
            await self.close("the link was cut")
        elif draw.chance(faults.loss):
            self.counts.lost += 1
            self._room.release()
        else:
            self._dispatch(message)
            if draw.chance(faults.duplication):
                self.counts.duplicated += 1
                await self._enter()
                self._dispatch(message)

    async def receive(self) -> bytes:
        return await self._inner.receive()

    async def close(self, reason: str = "") -> None:
        """Close the link. What is still on its way is lost."""
        await self._inner.close(reason)
        self._end(reason)
        carriers = [*self._stray, *([self._conveyor] if self._conveyor else [])]
        for carrier in carriers:
            carrier.cancel()
        await asyncio.gather(*carriers, return_exceptions=True)

    async def _enter(self) -> None:
        await self._room.acquire()
        if self._ended is not None:
            self._room.release()
            raise LinkClosed(self._ended.reason)

    def _end(self, reason: str) -> None:
        if self._ended is None:
            self._ended = LinkClosed(reason)
            self._room.release()

    def _dispatch(self, message: bytes) -> None:
        draw, faults = self._randomness, self.faults
        due = self._clock.monotonic() + draw.between(faults.min_delay, faults.max_delay)
        if draw.chance(faults.reordering):
            self.counts.reordered += 1
            carrier = asyncio.create_task(self._convey(due, message), name=f"stray to {self.peer}")
            self._stray[carrier] = None
            carrier.add_done_callback(self._stray.pop)
            return
        self._orderly.put_nowait((due, message))
        if self._conveyor is None:
            self._conveyor = asyncio.create_task(self._convey_orderly(), name=f"conveyor to {self.peer}")

    async def _convey_orderly(self) -> None:
        while self._ended is None:
            await self._convey(*await self._orderly.get())

    async def _convey(self, due: float, message: bytes) -> None:
        wait = due - self._clock.monotonic()
        if wait > 0:
            await self._clock.sleep(wait)
        try:
            await self._inner.send(message)
        except LinkClosed as closed:
            self._end(closed.reason)
        else:
            self.counts.delivered += 1
            self._room.release()


def simulated_pair(
    *,
    clock: Clock,
    randomness: Randomness,
    faults: Faults | None = None,
    capacity: int = 64,
    max_message_bytes: int = 1 << 20,
    names: tuple[str, str] = ("left", "right"),
) -> tuple[SimulatedLink, SimulatedLink]:
    """Return two ends in one process that disturb what passes between them, each direction by its own draws."""
    ends = loopback_pair(capacity=capacity, max_message_bytes=max_message_bytes, names=names)
    left, right = (
        SimulatedLink(end, clock=clock, randomness=randomness.branch(name), faults=faults, in_flight=capacity)
        for end, name in zip(ends, names, strict=True)
    )
    return left, right
