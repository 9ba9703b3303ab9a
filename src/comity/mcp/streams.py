"""Streams of messages to an HTTP client, which can disconnect and resume.

A stream keeps its latest messages, within limits, after they were sent. It has one reader at a time. A second reader is
refused before it gets a message, unless the first has disconnected. A reader that comes back with the id of an event
takes over: its earlier connection is broken, even if this node has not noticed that yet.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from comity.mcp.protocol.catalog import Catalog, ListName
from comity.mcp.protocol.results import Json
from comity.wire import jsonrpc
from comity.wire.errors import ConflictError, NotFoundError, OverloadedError

# Subscriptions to changes of lists, resources and tasks. They belong to this process, and nothing is stored for later.


MAX_LISTENERS: Final = 16_384
"""More than there are sessions, each of which listens."""

Notify = Callable[[str, Json], None]
Wanted = Callable[[str, str], bool]
"""Kind and name of a change (a list, the address of a resource, the id of a task) -> whether it is wanted."""


class Changes:
    """`closing` is set when the node stops: subscriptions then end in order."""

    def __init__(self, catalog: Catalog) -> None:
        self.closing = asyncio.Event()
        self._listeners: dict[int, tuple[Wanted, Notify]] = {}
        self._next = 0
        catalog.on_change(self.list_changed)

    @contextmanager
    def subscribe(self, wanted: Wanted, notify: Notify) -> Iterator[None]:
        if len(self._listeners) >= MAX_LISTENERS:
            raise OverloadedError("too many subscriptions on this node; try again later")
        number = self._next
        self._next += 1
        self._listeners[number] = wanted, notify
        try:
            yield
        finally:
            del self._listeners[number]

    def list_changed(self, name: ListName) -> None:
        self._notify("list", name, f"notifications/{name}/list_changed", {})

    def resource_updated(self, uri: str) -> None:
        self._notify("resource", uri, "notifications/resources/updated", {"uri": uri})

    def task_changed(self, task_id: str, task: Json) -> None:
        self._notify("task", task_id, "notifications/tasks", task)

    def _notify(self, kind: str, name: str, method: str, params: Json) -> None:
        for wanted, notify in tuple(self._listeners.values()):
            if wanted(kind, name):
                notify(method, dict(params))


MAX_EVENTS: Final = 512
MAX_BYTES: Final = 4 << 20
KEEPALIVE_SECONDS: Final = 15.0


class EventStream:
    """`streamed` is set once a part was sent as a stream, so that a client may resume it. `last` is the number of the newest
    message.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.streamed = False
        self._reader: object | None = None
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self.last = 0
        self.ended = False
        self._release = False
        self._changed = asyncio.Event()
        self._left = asyncio.Event()

    @property
    def followed(self) -> bool:
        return self._reader is not None

    def add(self, message: bytes) -> None:
        if self.ended:
            return
        self.last += 1
        self._events.append((self.last, message))
        self._bytes += len(message)
        while len(self._events) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._events) > 1):
            self._bytes -= len(self._events.popleft()[1])
        self._changed.set()

    def end(self) -> None:
        self.ended = True
        self._changed.set()

    def release(self) -> None:
        """Disconnect the current reader, or the next one. It may connect again."""
        if self.followed or not self.streamed:
            self._release = True
            self._changed.set()

    async def wait(self) -> None:
        """Wait until there is something to read, or the end."""
        while not (self.last or self.ended or self._release):
            self._changed.clear()
            await self._changed.wait()

    async def wait_for_leaving(self, seconds: float) -> None:
        """Wait until there is no reader, at most so long: a disconnect is noticed a moment later."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.followed:
                    self._left.clear()
                    await self._left.wait()

    def follow(self, after: int = 0, *, with_ids: bool = True, take_over: bool = False) -> "Following":
        """Return the events after a place, with keepalives in silent times. The caller closes it."""
        if self.followed and not take_over:
            raise ConflictError("this stream is being read already; close the other connection first")
        if after > self.last:
            raise NotFoundError("there was no such event; begin again")
        self.streamed = True
        mark = object()
        if self.followed:
            self._release = False
            self._changed.set()
        self._reader = mark
        return Following(self._read(mark, after, with_ids), lambda: self._leave(mark))

    def _leave(self, reader: object) -> None:
        if self._reader is reader:
            self._reader, self._release = None, False
            self._left.set()

    async def _read(self, reader: object, after: int, with_ids: bool) -> AsyncGenerator[bytes, None]:
        while True:
            for number, message in [one for one in self._events if one[0] > after]:
                after = number
                yield jsonrpc.event(message, jsonrpc.event_id(self.name, number) if with_ids else None)
                if self._reader is not reader:  # another one has taken over
                    return
            if self._reader is not reader or self._release or (self.ended and after >= self.last):
                return
            if after >= self.last and not await self._wait_changed():
                yield jsonrpc.KEEPALIVE

    async def _wait_changed(self) -> bool:
        self._changed.clear()
        try:
            async with asyncio.timeout(KEEPALIVE_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


class Following:
    """One reader of a stream, until it is closed."""

    def __init__(self, events: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        self._events = events
        self._leave = leave

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events

    async def aclose(self) -> None:
        try:
            await self._events.aclose()
        finally:
            self._leave()
