"""One link of a session: messages to send wait here, in order, and those that come are passed on.

- Messages of the control channel and frames of files have a queue each, so that a file does not delay messages.
- More than `FULL_BYTES` in a queue makes the link full; the machines read no more of a file until it is drained
  (ruling 56). A peer that lets `MAX_BYTES` wait is cut off.
- A link is closed after what was sent before has left, or after a moment.
- A link on which a task here fails is closed too: one that only reads or only writes would hang for ever.
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
from comity.wire.link import Channel, LinkClosed, LinkOpened
from comity.wire.machine import Event

log = logging.getLogger("comity.rooms")

FULL_BYTES: Final = 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
FLUSH_SECONDS: Final = 2.0


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


class PeerConnection:
    """`name` is the peer's in the session. `wait_room` holds reading up while too much is not written yet."""

    def __init__(
        self,
        name: str,
        opened: LinkOpened,
        *,
        opened_at: float,
        notify: Callable[[Event], None],
        wait_room: Callable[[], Awaitable[None]],
    ) -> None:
        self.name = name
        self.link = opened.link
        self.attempt = opened.attempt
        self.uuid = opened.uuid
        self.stream = opened.stream
        self.opened_at = opened_at
        self._notify = notify
        self._wait_room = wait_room
        self._control = _Queue()
        self._channels: dict[str, _Queue] = {}
        self._full = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: str | None = None

    def start(self) -> None:
        self._start_task(self._read(self.link.control))
        self._start_task(self._accept())
        self._start_task(self._write(self.link.control, self._control))

    def send_text(self, data: bytes) -> None:
        self._control.put(data.decode())
        self._check_size()

    def send_bytes(self, label: str, data: bytes) -> None:
        queue = self._channels.get(label)
        if queue is None:
            queue = self._channels[label] = _Queue()
            self._start_task(self._open_channel(label, queue))
        queue.put(data)
        self._check_size()

    def close_after_flush(self, reason: str) -> None:
        if self._closing is None:
            self._closing = reason
            self._start_task(self._finish(reason))

    async def finish(self) -> None:
        """Send what is queued, then stop."""
        self.close_after_flush("the session ends")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS + 1):
                await self.link.wait_closed()
        await self.stop()

    async def stop(self) -> None:
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.link.close(self._closing or "the session ends")

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        log.error("a link could not be served", exc_info=task.exception())
        if self._closing is None:
            self._closing = "this side could not go on"
            self._start_task(self.link.close(self._closing))

    @property
    def _waiting_bytes(self) -> int:
        return self._control.bytes + sum(queue.bytes for queue in self._channels.values())

    def _check_size(self) -> None:
        waiting = self._waiting_bytes
        if waiting > FULL_BYTES and not self._full:
            self._full = True
            self._notify(LinkFull(self.name))
        if waiting > MAX_BYTES and self._closing is None:
            self._closing = "the peer does not read what it is sent"
            self._notify(SendFailed(self.name, self._closing))
            self._start_task(self.link.close(self._closing))

    async def _finish(self, reason: str) -> None:
        with contextlib.suppress(LinkClosed, TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                while self._control.messages:
                    self._control.sent.clear()
                    await self._control.sent.wait()
                await self.link.control.wait_buffered(0)
        await self.link.close(reason)

    async def _read(self, channel: Channel) -> None:
        is_control = channel is self.link.control
        try:
            while True:
                message = await channel.receive()
                if isinstance(message, str):
                    self._notify(TextArrived(self.name, message.encode("utf-8", "surrogatepass")))
                else:
                    self._notify(BytesArrived(self.name, channel.label, message))
                    await self._wait_room()
        except LinkClosed as end:
            if is_control:
                self._notify(ChannelClosed(self.name, end.reason))

    async def _accept(self) -> None:
        with contextlib.suppress(LinkClosed):
            while True:
                self._start_task(self._read(await self.link.accept_channel()))

    async def _open_channel(self, label: str, queue: _Queue) -> None:
        try:
            channel = await self.link.open_channel(label)
        except LinkClosed:
            return
        except ComityError as why:
            self._notify(SendFailed(self.name, why.message))
            return
        self._start_task(self._read(channel))
        await self._write(channel, queue)

    async def _write(self, channel: Channel, queue: _Queue) -> None:
        try:
            while True:
                while queue.messages:
                    message = queue.messages[0]
                    try:
                        await channel.send(message)
                    except ComityError as why:
                        self._notify(SendFailed(self.name, why.message))
                    queue.messages.popleft()
                    queue.bytes -= len(message)
                    queue.sent.set()
                    if self._full and self._waiting_bytes < FULL_BYTES // 4:
                        self._full = False
                        self._notify(LinkDrained(self.name))
                queue.changed.clear()
                if not queue.messages:
                    await queue.changed.wait()
        except LinkClosed:
            return
