"""A link inside one process on which every message is under way for a while, as on a long line.

Nothing is lost and the order stays. As many messages as the sender likes are under way at a time: it is the time that
is simulated, not a narrow line.
"""

import asyncio
from collections import deque
from time import monotonic

from comity.rooms.links.lanes import LanedLoopback, LoopbackLane, laned_loopback_pair
from comity.wire.link import LinkClosed, LinkEnd, LinkStats, Message


class SlowLane:
    def __init__(self, lane: LoopbackLane, delay: float) -> None:
        self.label = lane.label
        self._lane = lane
        self._delay = delay
        self._under_way: deque[tuple[float, Message]] = deque()
        self._changed = asyncio.Event()
        self._arrived = asyncio.Event()
        self._carrier = asyncio.create_task(self._carry())

    @property
    def buffered(self) -> int:
        return self._lane.buffered

    async def send(self, message: Message) -> None:
        self._lane.check_open()
        self._lane.count_sent(message)
        self._under_way.append((monotonic() + self._delay, message))
        self._changed.set()

    async def wait_buffered(self, at_most: int) -> None:
        while self._under_way:
            self._arrived.clear()
            await self._arrived.wait()
        await self._lane.wait_buffered(at_most)

    async def receive(self) -> Message:
        return await self._lane.receive()

    async def _carry(self) -> None:
        try:
            while True:
                while self._under_way:
                    due, message = self._under_way[0]
                    await asyncio.sleep(max(0.0, due - monotonic()))
                    await self._lane.send(message)
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

    def __init__(self, link: LanedLoopback, delay: float) -> None:
        self.max_message_bytes = link.max_message_bytes
        self.is_offerer = link.is_offerer
        self.binding = link.binding
        self.control = SlowLane(link.control, delay)
        self._link = link
        self._delay = delay
        self._lanes = [self.control]

    @property
    def end(self) -> LinkEnd | None:
        return self._link.end

    async def open_lane(self, label: str) -> SlowLane:
        return self._slow(await self._link.open_lane(label))

    async def accept_lane(self) -> SlowLane:
        return self._slow(await self._link.accept_lane())

    async def stats(self) -> LinkStats:
        return await self._link.stats()

    async def wait_closed(self) -> LinkEnd:
        return await self._link.wait_closed()

    async def close(self, reason: str = "") -> None:
        await self._link.close(reason)
        for lane in self._lanes:
            lane.stop()

    def _slow(self, lane: LoopbackLane) -> SlowLane:
        slow = SlowLane(lane, self._delay)
        self._lanes.append(slow)
        return slow


def slow_pair(round_trip: float) -> tuple[SlowLink, SlowLink]:
    left, right = laned_loopback_pair()
    return SlowLink(left, round_trip / 2), SlowLink(right, round_trip / 2)
