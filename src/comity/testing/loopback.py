"""Links inside one process: one that carries messages of bytes, and one with channels as between peers of a room."""

import asyncio
from collections import deque

from comity.rooms.links.channels import ChannelCore, LinkCore
from comity.wire.errors import InvalidError, TooLargeError
from comity.wire.link import CONTROL, MAX_MESSAGE_BYTES, SEND_MARK, LinkClosed, LinkEnd, LinkStats, Message


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
    *, capacity: int = 64, max_message_bytes: int = 1 << 20, names: tuple[str, str] = ("left", "right")
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


class LoopbackChannel(ChannelCore):
    """What is sent lies in the inbox of its twin at once."""

    twin: "LoopbackChannel"

    def __init__(self, label: str, link: "ChannelLoopback") -> None:
        super().__init__(label, link)
        self._link: ChannelLoopback = link

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
        self.twin._changed.set()  # noqa: SLF001 - the other half of the same channel
        return message


class ChannelLoopback(LinkCore[LoopbackChannel]):
    twin: "ChannelLoopback"

    def __init__(self, binding: tuple[str, str], *, is_offerer: bool) -> None:
        super().__init__(MAX_MESSAGE_BYTES, is_offerer=is_offerer)
        self.binding = binding
        self.control = LoopbackChannel(CONTROL, self)
        self.add(self.control)

    async def open_channel(self, label: str) -> LoopbackChannel:
        self.check_new_channel(label)
        mine, theirs = LoopbackChannel(label, self), LoopbackChannel(label, self.twin)
        mine.twin, theirs.twin = theirs, mine
        self.add(mine)
        self.twin.add(theirs, offered=True)
        return mine

    async def stats(self) -> LinkStats:
        return self.stats_of("loopback", 0.0)

    async def close(self, reason: str = "") -> None:
        if self.finish(LinkEnd(reason, "us")):
            self.twin.finish(LinkEnd(reason, "peer"))


def channel_loopback_pair() -> tuple[ChannelLoopback, ChannelLoopback]:
    """Two ends; the left one counts as the one that made the offer."""
    left = ChannelLoopback(("left", "right"), is_offerer=True)
    right = ChannelLoopback(("right", "left"), is_offerer=False)
    left.twin, right.twin = right, left
    left.control.twin, right.control.twin = right.control, left.control
    return left, right
