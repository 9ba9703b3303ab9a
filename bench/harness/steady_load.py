"""Requests at a fixed rate, whatever the server does, and how long each took.

A request is due at its own moment, and its time counts from then on: one that has to wait, because the answer before
it is late, is late itself (no coordinated omission). Requests go to the connections in turn.
"""

import asyncio
import contextlib
import gc
import selectors
from collections import deque
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

from bench.harness.http_load import body_of

GIVE_UP_SECONDS = 60.0


@contextlib.contextmanager
def steady_runner() -> Iterator[asyncio.Runner]:
    """Its timers are exact to some microseconds; those of epoll and of uvloop are whole milliseconds."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        yield runner


async def times_at_rate(
    url: str,
    requests: Sequence[Sequence[bytes]],
    per_second: float,
    addresses: Sequence[str] | None = None,
) -> list[float]:
    """Seconds from the moment each request was due to the end of its answer. `requests` has one list for each
    connection, all of the same length; `addresses` are where each comes from.
    """
    target = urlsplit(url)
    loop = asyncio.get_running_loop()
    callers: list[_Caller] = []
    try:
        for number in range(len(requests)):
            _, caller = await loop.create_connection(
                _Caller,
                target.hostname or "127.0.0.1",
                target.port or 80,
                local_addr=None if addresses is None else (addresses[number], 0),
            )
            callers.append(caller)
        gc.disable()  # a pause of ours would be taken for one of the server's
        start, number = perf_counter() + 0.05, 0
        for together in zip(*requests, strict=True):
            for caller, request in zip(callers, together, strict=True):
                due = start + number / per_second
                await asyncio.sleep(max(0.0, due - perf_counter()))
                caller.ask(request, due)
                number += 1
        async with asyncio.timeout(GIVE_UP_SECONDS):
            await asyncio.gather(*(caller.answered_all() for caller in callers))
        return [taken for caller in callers for taken in caller.times]
    finally:
        gc.enable()
        for caller in callers:
            caller.close()


class _Caller(asyncio.Protocol):
    """One request at a time on one connection; those that are due meanwhile wait here, and their time counts."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._waiting: deque[tuple[bytes, float]] = deque()
        self._due: float | None = None
        self._received = b""
        self._idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes, due: float) -> None:
        if self._idle.done():
            self._idle.result()  # tells what went wrong
            self._idle = asyncio.get_running_loop().create_future()
        self._waiting.append((request, due))
        if self._due is None:
            self._next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            body = body_of(self._received)
        except ConnectionError as refusal:
            self._fail(refusal)
            return
        if body is not None and self._due is not None:
            self.times.append(perf_counter() - self._due)
            self._received, self._due = b"", None
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(ConnectionError(f"the connection was lost: {exc or 'the server closed it'}"))

    async def answered_all(self) -> None:
        await self._idle

    def close(self) -> None:
        self._idle.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        assert self._transport is not None
        if self._waiting:
            request, self._due = self._waiting.popleft()
            self._transport.write(request)
        elif not self._idle.done():
            self._idle.set_result(None)

    def _fail(self, why: Exception) -> None:
        if not self._idle.done():
            self._idle.set_exception(why)


def percentile(times: Sequence[float], share: float) -> float:
    """The time that `share` of all stay within."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
