"""A link inside one process on which every message is under way for a while, as on a long line.

Nothing is lost and the order stays. As many messages as the sender likes are under way at a time: it is the time that
is simulated, not a narrow line.
"""

import asyncio
from collections import deque
from time import monotonic

from comity.testing.loopback import ChannelLoopback, LoopbackChannel, channel_loopback_pair
from comity.wire.link import LinkClosed, LinkEnd, LinkStats, Message


class SlowChannel:
    def __init__(self, channel: LoopbackChannel, delay: float) -> None:
        self.label = channel.label
        self._channel = channel
        self._delay = delay
        self._under_way: deque[tuple[float, Message]] = deque()
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._carrier = asyncio.create_task(self._carry())

    @property
    def buffered(self) -> int:
        return self._channel.buffered

    async def send(self, message: Message) -> None:
        self._channel.check_open()
        self._channel.count_sent(message)
        self._under_way.append((monotonic() + self._delay, message))
        self._changed.set()

    async def wait_buffered(self, at_most: int) -> None:
        while self._under_way:
            self._arrived.clear()
            await self._arrived.wait()
        await self._channel.wait_buffered(at_most)

    async def receive(self) -> Message:
        return await self._channel.receive()

    async def _carry(self) -> None:
        try:
            while True:
                while self._under_way:
                    due, message = self._under_way[0]
                    await asyncio.sleep(max(0.0, due - monotonic()))
                    await self._channel.send(message)
                    self._under_way.popleft()
                    self._arrived.set()
                self._changed.clear()
                await self._changed.wait()
        except LinkClosed:
            self._under_way.clear()
            self._arrived.set()

    def stop(self) -> None:
        self._carrier.cancel()


class SlowLink:
    """`delay` in seconds is for what this end sends."""

    def __init__(self, link: ChannelLoopback, delay: float) -> None:
        self.max_message_bytes = link.max_message_bytes
        self.is_offerer = link.is_offerer
        self.binding = link.binding
        self.control = SlowChannel(link.control, delay)
        self._link = link
        self._delay = delay
        self._channels = [self.control]

    @property
    def end(self) -> LinkEnd | None:
        return self._link.end

    async def open_channel(self, label: str) -> SlowChannel:
        return self._slow(await self._link.open_channel(label))

    async def accept_channel(self) -> SlowChannel:
        return self._slow(await self._link.accept_channel())

    async def stats(self) -> LinkStats:
        return await self._link.stats()

    async def wait_closed(self) -> LinkEnd:
        return await self._link.wait_closed()

    async def close(self, reason: str = "") -> None:
        await self._link.close(reason)
        for channel in self._channels:
            channel.stop()

    def _slow(self, channel: LoopbackChannel) -> SlowChannel:
        slow = SlowChannel(channel, self._delay)
        self._channels.append(slow)
        return slow


def slow_pair(round_trip: float) -> tuple[SlowLink, SlowLink]:
    left, right = channel_loopback_pair()
    return SlowLink(left, round_trip / 2), SlowLink(right, round_trip / 2)
