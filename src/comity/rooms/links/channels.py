"""What every link with channels keeps: its channels, what came in and was not read yet, its counts and its end."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, Final, Generic, TypeVar

from comity.wire.errors import InvalidError, TooLargeError
from comity.wire.link import LinkClosed, LinkEnd, LinkPath, LinkStats, Message

MAX_CHANNELS: Final = 64
MAX_LABEL_LENGTH: Final = 64
_KEPT: Final = 64  # what it costs to keep a message, however short: without it, empty ones would be free


def bytes_of(message: Message) -> int:
    if isinstance(message, str) and not message.isascii():
        return len(message.encode())
    return len(message)


def cost_of(message: Message) -> int:
    """Return what an unread message counts for."""
    return bytes_of(message) + _KEPT


def check_label(label: str) -> None:
    if not 0 < len(label) <= MAX_LABEL_LENGTH or not (label.isascii() and label.isprintable()):
        raise InvalidError(f"a channel's label has 1 to {MAX_LABEL_LENGTH} printable ASCII characters")


class Inbox:
    """The messages of one channel that nobody has read. Several readers may wait; each gets messages of its own."""

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


class ChannelCore(ABC):
    """One channel, as far as it is the same on every link."""

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
        """Return the size of a message that will be sent. Raises if it does not fit."""
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


L = TypeVar("L", bound=ChannelCore)


class LinkCore(Generic[L]):
    """One end of a link, as far as it is the same for every carrier."""

    def __init__(self, max_message_bytes: int, *, is_offerer: bool) -> None:
        self.max_message_bytes = max_message_bytes
        self.is_offerer = is_offerer
        self.end: LinkEnd | None = None
        self.bytes_sent = 0
        self.bytes_received = 0
        self._channels: list[L] = []
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

    async def accept_channel(self) -> L:
        while not self._offered:
            self.check_open()
            self._changed.clear()
            await self._changed.wait()
        return self._offered.popleft()

    def check_open(self) -> None:
        if self.end is not None:
            raise LinkClosed(self.end.reason)

    def check_new_channel(self, label: str) -> None:
        self.check_open()
        check_label(label)
        if len(self._channels) >= MAX_CHANNELS:
            raise InvalidError(f"a link has at most {MAX_CHANNELS} channels; use one that is open")

    def add(self, channel: L, *, offered: bool = False) -> None:
        self._channels.append(channel)
        if offered:
            self._offered.append(channel)
            self._changed.set()

    def remove(self, channel: L) -> None:
        if channel in self._channels:
            self._channels.remove(channel)

    def finish(self, end: LinkEnd) -> bool:
        """True the first time. What came before can still be read, unless it was this side that closed."""
        if self.end is not None:
            return False
        self.end = end
        for channel in self._channels:
            channel.finish(end.reason, readable=end.by != "us")
        self._offered.clear()
        self._changed.set()
        self._over.set()
        return True
