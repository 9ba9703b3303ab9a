"""One link of a session: what is to be said on it waits here, in order, and what comes is passed on.

- Messages of the control channel and frames of files have a queue each, so that a file does not hold up what is said.
- More than `FULL_BYTES` in a queue makes the link full; the machines read no more of a file until it is drained
  (ruling 56). Who lets `MAX_BYTES` wait is cut off.
- A link is closed after what was said before has left, or after a moment.
- A link on which something here goes wrong is closed too: one that only reads or only writes would stand still for ever.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from comity.rooms.protocol.effects import (
    BytesArrived,
    ChannelClosed,
    LinkDrained,
    LinkFull,
    SendFailed,
    TextArrived,
)
from comity.wire.errors import ComityError
from comity.wire.link import Lane, LinkClosed, LinkOpened
from comity.wire.machine import Event

log = logging.getLogger("comity.rooms")

FULL_BYTES: Final = 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
LAST_WORDS_SECONDS: Final = 2.0


class _Queue:
    def __init__(self) -> None:
        self.messages: deque[str | bytes] = deque()
        self.bytes = 0
        self.changed = asyncio.Event()
        self.sent = asyncio.Event()

    def put(self, message: str | bytes) -> None:
        self.messages.append(message)
        self.bytes += len(message)
        self.changed.set()


class PeerLine:
    """`name` is the peer's in the session. `wait_room` holds reading up while too much is not written yet."""

    def __init__(
        self,
        name: str,
        opened: LinkOpened,
        *,
        opened_at: float,
        hear: Callable[[Event], None],
        wait_room: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self.link = opened.link
        self.attempt = opened.attempt
        self.uuid = opened.uuid
        self.stream = opened.stream
        self.opened_at = opened_at
        self._hear = hear
        self._wait_room = wait_room
        self._control = _Queue()
        self._lanes: dict[str, _Queue] = {}
        self._full = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: str | None = None

    def start(self) -> None:
        self._begin(self._read(self.link.control))
        self._begin(self._accept())
        self._begin(self._write(self.link.control, self._control))

    def send_text(self, data: bytes) -> None:
        self._control.put(data.decode())
        self._look_at_size()

    def send_bytes(self, label: str, data: bytes) -> None:
        queue = self._lanes.get(label)
        if queue is None:
            queue = self._lanes[label] = _Queue()
            self._begin(self._open_lane(label, queue))
        queue.put(data)
        self._look_at_size()

    def close_after_flush(self, reason: str) -> None:
        if self._closing is None:
            self._closing = reason
            self._begin(self._finish(reason))

    async def finish(self) -> None:
        """Let the last words leave, then stop."""
        self.close_after_flush("the session ends")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS + 1):
                await self.link.wait_closed()
        await self.stop()

    async def stop(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.link.close(self._closing or "the session ends")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        log.error("a link could not be served", exc_info=task.exception())
        if self._closing is None:
            self._closing = "this side could not go on"
            self._begin(self.link.close(self._closing))

    @property
    def _waiting_bytes(self) -> int:
        return self._control.bytes + sum(queue.bytes for queue in self._lanes.values())

    def _look_at_size(self) -> None:
        waiting = self._waiting_bytes
        if waiting > FULL_BYTES and not self._full:
            self._full = True
            self._hear(LinkFull(self.name))
        if waiting > MAX_BYTES and self._closing is None:
            self._closing = "the peer does not read what it is sent"
            self._hear(SendFailed(self.name, self._closing))
            self._begin(self.link.close(self._closing))

    async def _finish(self, reason: str) -> None:
        with contextlib.suppress(LinkClosed, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                while self._control.messages:
                    self._control.sent.clear()
                    await self._control.sent.wait()
                await self.link.control.wait_buffered(0)
        await self.link.close(reason)

    async def _read(self, lane: Lane) -> None:
        is_control = lane is self.link.control
        try:
            while True:
                message = await lane.receive()
                if isinstance(message, str):
                    self._hear(TextArrived(self.name, message.encode("utf-8", "surrogatepass")))
                else:
                    self._hear(BytesArrived(self.name, lane.label, message))
                    await self._wait_room()
        except LinkClosed as end:
            if is_control:
                self._hear(ChannelClosed(self.name, end.reason))

    async def _accept(self) -> None:
        with contextlib.suppress(LinkClosed):
            while True:
                self._begin(self._read(await self.link.accept_lane()))

    async def _open_lane(self, label: str, queue: _Queue) -> None:
        try:
            lane = await self.link.open_lane(label)
        except LinkClosed:
            return
        except ComityError as why:
            self._hear(SendFailed(self.name, why.message))
            return
        self._begin(self._read(lane))
        await self._write(lane, queue)

    async def _write(self, lane: Lane, queue: _Queue) -> None:
        try:
            while True:
                while queue.messages:
                    message = queue.messages[0]
                    try:
                        await lane.send(message)
                    except ComityError as why:
                        self._hear(SendFailed(self.name, why.message))
                    queue.messages.popleft()
                    queue.bytes -= len(message)
                    queue.sent.set()
                    if self._full and self._waiting_bytes < FULL_BYTES // 4:
                        self._full = False
                        self._hear(LinkDrained(self.name))
                queue.changed.clear()
                if not queue.messages:
                    await queue.changed.wait()
        except LinkClosed:
            return
