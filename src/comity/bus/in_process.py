"""The Bus, for notifications between the parts of a node, and the one within one process.

It carries hints ("pair X advanced"), never data: a receiver reads the store again. A hint may be
lost or come twice. A slow listener loses its oldest hints, never anybody else's.

In one process publishing never waits. Each listener keeps at most `capacity` hints; when it is slower than that, its
oldest hint is dropped. Closing the bus ends every listener after the hints it already has; afterwards a hint goes
nowhere and a new listener ends at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from comity.wire.errors import InvalidError


class Bus(Protocol):
    async def publish(self, subject: str, hint: bytes) -> None: ...

    def listen(self, subject: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Return the hints on `subject` from the moment the context is entered."""
        ...

    async def close(self) -> None: ...


class Listener:
    """The hints on one subject, for one reader."""

    def __init__(self, capacity: int) -> None:
        self._hints: deque[bytes] = deque(maxlen=capacity)
        self._stirred = asyncio.Event()
        self._ended = False

    def __aiter__(self) -> "Listener":
        return self

    async def __anext__(self) -> bytes:
        while not self._hints:
            if self._ended:
                raise StopAsyncIteration
            self._stirred.clear()
            await self._stirred.wait()
        return self._hints.popleft()

    def push(self, hint: bytes) -> None:
        self._hints.append(hint)
        self._stirred.set()

    def end(self) -> None:
        self._ended = True
        self._stirred.set()

    def leave(self) -> None:
        """Drop what the reader, which has gone, did not read."""
        self._hints.clear()
        self.end()


class InProcessBus:
    def __init__(self, capacity: int = 256) -> None:
        if capacity < 1:
            raise InvalidError(
                f"a bus with a capacity of {capacity} hints per listener gets none; give 1 or more"
            )
        self._capacity = capacity
        self._listeners: dict[str, list[Listener]] = {}
        self._closed = False

    async def publish(self, subject: str, hint: bytes) -> None:
        if self._closed:
            return
        for listener in self._listeners.get(subject, ()):
            listener.push(hint)

    @asynccontextmanager
    async def listen(self, subject: str) -> AsyncIterator[Listener]:
        listener = Listener(self._capacity)
        if self._closed:
            listener.end()
        self._listeners.setdefault(subject, []).append(listener)
        try:
            yield listener
        finally:
            listener.leave()
            listeners = self._listeners[subject]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[subject]

    async def close(self) -> None:
        self._closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.end()
