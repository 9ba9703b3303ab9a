"""What every link with lanes keeps: its lanes, what came in and was not read yet, its counts and its end."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Final, Generic, TypeVar

from comity.wire.errors import InvalidError, TooLargeError
from comity.wire.link import (
    CONTROL,
    MAX_MESSAGE_BYTES,
    SEND_MARK,
    LinkClosed,
    LinkEnd,
    LinkPath,
    LinkStats,
    Message,
)

MAX_LANES: Final = 64
MAX_LABEL_LENGTH: Final = 64
_KEPT: Final = 64  # what it costs to keep a message, however short: without it, empty ones would be free


def bytes_of(message: Message) -> int:
    if isinstance(message, str) and not message.isascii():
        return len(message.encode())
    return len(message)


def cost_of(message: Message) -> int:
    """What an unread message counts for."""
    return bytes_of(message) + _KEPT


def check_label(label: str) -> None:
    if not 0 < len(label) <= MAX_LABEL_LENGTH or not (label.isascii() and label.isprintable()):
        raise InvalidError(f"a lane's label has 1 to {MAX_LABEL_LENGTH} printable ASCII characters")


class Inbox:
    """The messages of one lane that nobody has read. Several readers may wait; each gets messages of its own."""

    def __init__(self) -> None:
        self.unread = 0
        self._messages: deque[Message] = deque()
        self._ended: str | None = None
        self._changed = asyncio.Event()

    def put(self, message: Message) -> None:
        if self._ended is None:
            self._messages.append(message)
            self.unread += cost_of(message)
            self._changed.set()

    async def take(self) -> Message:
        while not self._messages:
            if self._ended is not None:
                raise LinkClosed(self._ended)
            self._changed.clear()
            await self._changed.wait()
        message = self._messages.popleft()
        self.unread -= cost_of(message)
        return message

    def end(self, reason: str, *, readable: bool) -> None:
        """No message enters any more; those inside can still be taken if `readable`."""
        if not readable:
            self._messages.clear()
            self.unread = 0
        if self._ended is None:
            self._ended = reason
        self._changed.set()


class LaneCore(ABC):
    """One lane, as far as it is the same on every link."""

    def __init__(self, label: str, link: "LinkCore[Any]") -> None:
        self.label = label
        self.inbox = Inbox()
        self._link = link
        self._ended: str | None = None
        self._changed = asyncio.Event()

    @property
    @abstractmethod
    def buffered(self) -> int: ...

    async def wait_buffered(self, at_most: int) -> None:
        self.check_open()
        while self.buffered > at_most:
            self._changed.clear()
            await self._changed.wait()
            self.check_open()

    async def receive(self) -> Message:
        return await self.inbox.take()

    def check_open(self) -> None:
        if self._ended is not None:
            raise LinkClosed(self._ended)

    def count_sent(self, message: Message) -> int:
        """The size of a message that will be sent. Raises if it does not fit."""
        size = bytes_of(message)
        if size > self._link.max_message_bytes:
            raise TooLargeError("the message", self._link.max_message_bytes)
        return size

    def arrived(self, message: Message) -> None:
        self._link.bytes_received += bytes_of(message)
        self.inbox.put(message)

    def finish(self, reason: str, *, readable: bool) -> None:
        if self._ended is None:
            self._ended = reason
        self.inbox.end(reason, readable=readable)
        self._changed.set()


L = TypeVar("L", bound=LaneCore)


class LinkCore(Generic[L]):
    """One end of a link, as far as it is the same for every carrier."""

    def __init__(self, max_message_bytes: int, *, is_offerer: bool) -> None:
        self.max_message_bytes = max_message_bytes
        self.is_offerer = is_offerer
        self.end: LinkEnd | None = None
        self.bytes_sent = 0
        self.bytes_received = 0
        self._lanes: list[L] = []
        self._offered: deque[L] = deque()
        self._changed = asyncio.Event()
        self._over = asyncio.Event()

    def stats_of(self, path: LinkPath, round_trip: float | None) -> LinkStats:
        return LinkStats(
            path=path,
            round_trip=round_trip,
            bytes_sent=self.bytes_sent,
            bytes_received=self.bytes_received,
            max_message_bytes=self.max_message_bytes,
        )

    async def wait_closed(self) -> LinkEnd:
        await self._over.wait()
        assert self.end is not None
        return self.end

    async def accept_lane(self) -> L:
        while not self._offered:
            self.check_open()
            self._changed.clear()
            await self._changed.wait()
        return self._offered.popleft()

    def check_open(self) -> None:
        if self.end is not None:
            raise LinkClosed(self.end.reason)

    def check_new_lane(self, label: str) -> None:
        self.check_open()
        check_label(label)
        if len(self._lanes) >= MAX_LANES:
            raise InvalidError(f"a link has at most {MAX_LANES} lanes; use one that is open")

    def add(self, lane: L, *, offered: bool = False) -> None:
        self._lanes.append(lane)
        if offered:
            self._offered.append(lane)
            self._changed.set()

    def remove(self, lane: L) -> None:
        if lane in self._lanes:
            self._lanes.remove(lane)

    def finish(self, end: LinkEnd) -> bool:
        """True the first time. What came before can still be read, unless it was this side that closed."""
        if self.end is not None:
            return False
        self.end = end
        for lane in self._lanes:
            lane.finish(end.reason, readable=end.by != "us")
        self._offered.clear()
        self._changed.set()
        self._over.set()
        return True


# Links inside one process.


class _Direction:
    """A bounded queue with an end. Both semaphores get one permit too many at the end: whoever takes
    it sees the end and hands it on, so all who wait are woken, now and later.
    """

    def __init__(self, capacity: int) -> None:
        self._messages: deque[bytes] = deque()
        self._room = asyncio.Semaphore(capacity)
        self._ready = asyncio.Semaphore(0)
        self._ended: LinkClosed | None = None

    async def put(self, message: bytes) -> None:
        await self._room.acquire()
        if self._ended is not None:
            self._room.release()
            raise LinkClosed(self._ended.reason)
        self._messages.append(message)
        self._ready.release()

    async def take(self) -> bytes:
        await self._ready.acquire()
        if not self._messages:
            assert self._ended is not None
            self._ready.release()
            raise LinkClosed(self._ended.reason)
        self._room.release()
        return self._messages.popleft()

    def end(self, reason: str, *, unread: bool) -> None:
        """No message enters any more; with `unread` those inside can still be taken."""
        if not unread:
            self._messages.clear()
        if self._ended is None:
            self._ended = LinkClosed(reason)
            self._room.release()
            self._ready.release()


class LoopbackLink:
    """One end; `loopback_pair` makes two that belong together."""

    def __init__(self, peer: str, max_message_bytes: int, outgoing: _Direction, incoming: _Direction) -> None:
        self.peer = peer
        self.max_message_bytes = max_message_bytes
        self._outgoing = outgoing
        self._incoming = incoming

    async def send(self, message: bytes) -> None:
        if len(message) > self.max_message_bytes:
            raise TooLargeError("the message", self.max_message_bytes)
        await self._outgoing.put(message)

    async def receive(self) -> bytes:
        return await self._incoming.take()

    async def close(self, reason: str = "") -> None:
        self._outgoing.end(reason, unread=True)
        self._incoming.end(reason, unread=False)


def loopback_pair(
    *,
    capacity: int = 64,
    max_message_bytes: int = 1 << 20,
    names: tuple[str, str] = ("left", "right"),
) -> tuple[LoopbackLink, LoopbackLink]:
    """Two ends; each is the peer of the other."""
    if capacity < 1:
        raise InvalidError(f"a link with a capacity of {capacity} messages carries none; give 1 or more")
    left, right = names
    forth, back = _Direction(capacity), _Direction(capacity)
    return (
        LoopbackLink(f"loopback:{right}", max_message_bytes, outgoing=forth, incoming=back),
        LoopbackLink(f"loopback:{left}", max_message_bytes, outgoing=back, incoming=forth),
    )


class LoopbackLane(LaneCore):
    """What is sent lies in the inbox of its twin at once."""

    twin: "LoopbackLane"

    def __init__(self, label: str, link: "LanedLoopback") -> None:
        super().__init__(label, link)
        self._link: LanedLoopback = link

    @property
    def buffered(self) -> int:
        return self.twin.inbox.unread

    async def send(self, message: Message) -> None:
        self.check_open()
        size = self.count_sent(message)
        await self.wait_buffered(SEND_MARK)
        self._link.bytes_sent += size
        self.twin.arrived(message)

    async def receive(self) -> Message:
        message = await super().receive()
        self.twin._changed.set()  # noqa: SLF001 - the other half of the same lane
        return message


class LanedLoopback(LinkCore[LoopbackLane]):
    twin: "LanedLoopback"

    def __init__(self, binding: tuple[str, str], *, is_offerer: bool) -> None:
        super().__init__(MAX_MESSAGE_BYTES, is_offerer=is_offerer)
        self.binding = binding
        self.control = LoopbackLane(CONTROL, self)
        self.add(self.control)

    async def open_lane(self, label: str) -> LoopbackLane:
        self.check_new_lane(label)
        mine, theirs = LoopbackLane(label, self), LoopbackLane(label, self.twin)
        mine.twin, theirs.twin = theirs, mine
        self.add(mine)
        self.twin.add(theirs, offered=True)
        return mine

    async def stats(self) -> LinkStats:
        return self.stats_of("loopback", 0.0)

    async def close(self, reason: str = "") -> None:
        if self.finish(LinkEnd(reason, "us")):
            self.twin.finish(LinkEnd(reason, "peer"))


def laned_loopback_pair() -> tuple[LanedLoopback, LanedLoopback]:
    """Two ends; the left one counts as the one that made the offer."""
    left = LanedLoopback(("left", "right"), is_offerer=True)
    right = LanedLoopback(("right", "left"), is_offerer=False)
    left.twin, right.twin = right, left
    left.control.twin, right.control.twin = right.control, left.control
    return left, right
