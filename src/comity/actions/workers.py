"""The worker processes: start them, give them calls, and end one whose time is up.

There are as many workers as were needed at the same time, up to a small limit. A call over the limit waits in the queue. Its
time is measured from its start, without the time for fetching pages, which has a limit of its own. A worker that was
interrupted is ended and not used again.
"""

import asyncio
import bisect
import contextlib
import math
import os
import pickle
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from comity.actions.protocol.action import FetchedPage, Mode, Outcome
from comity.actions.worker import LENGTH_BYTES, encode
from comity.wire.errors import ActionError, ComityError, DeadlineError, OverloadedError

MAX_QUEUED_PER_CALLER: Final = 32
MAX_QUEUED: Final = 256

_MAX_REMEMBERED: Final = 4096
_NEWEST_WEIGHT: Final = 0.2  # in the running mean of the seconds of a call


class ActionQueue:
    """A queue that is fair between callers (start-time fair queueing): each caller has a virtual time at which its last
    call ends, and the call that ends first is next.
    """

    def __init__(
        self, places: int, *, per_caller: int = MAX_QUEUED_PER_CALLER, total: int = MAX_QUEUED
    ) -> None:
        """`places` calls run at the same time. At most half of them belong to one caller, and one is kept free of long
        calls.
        """
        self._places = places
        self._max_per_caller = max(1, places // 2)
        self._max_long = max(1, places - 1)
        self._per_caller = per_caller
        self._total = total
        self._waiting: list[_Waiter] = []
        self._running: Counter[str] = Counter()
        self._long_running = 0
        self._now = 0.0
        self._ends: dict[str, float] = {}
        self._order = 0
        self._seconds = 1.0

    @contextlib.asynccontextmanager
    async def turn(self, caller: str, weight: float, *, long: bool = False) -> AsyncIterator[None]:
        """Wait until this call is next. Raise OverloadedError if too many are waiting."""
        waiter = self._add(caller, weight, long)
        try:
            await waiter.started
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.started.cancelled() and waiter.started.exception() is None:
                self._end(waiter)  # it had been started: start the next one
            raise
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            yield
        finally:
            self._seconds += (loop.time() - began - self._seconds) * _NEWEST_WEIGHT
            self._end(waiter)

    def _add(self, caller: str, weight: float, long: bool) -> "_Waiter":
        own = sum(waiter.caller == caller for waiter in self._waiting)
        if own >= self._per_caller:
            raise self._overloaded(f"{own} calls of yours are waiting here, which is the limit", own)
        self._order += 1
        end = max(self._now, self._ends.get(caller, 0.0)) + weight
        waiter = _Waiter((end, own + self._running[caller], self._order), caller, long)
        self._make_room_for(waiter)
        self._ends[caller] = end
        bisect.insort(self._waiting, waiter)
        self._start_next()
        return waiter

    def _make_room_for(self, waiter: "_Waiter") -> None:
        count = len(self._waiting)
        if count < self._total:
            return
        refusal = self._overloaded(f"{count} calls are waiting here, which is the limit", self._total)
        last = self._waiting[-1]
        if last < waiter:
            raise refusal
        self._waiting.pop()
        if not last.started.done():
            last.started.set_exception(refusal)

    def _start_next(self) -> None:
        while self._running.total() < self._places:
            waiter = next(filter(self._may_start, self._waiting), None)
            if waiter is None:
                return
            self._waiting.remove(waiter)
            self._running[waiter.caller] += 1
            self._long_running += waiter.long
            self._now = max(self._now, waiter.place[0])
            waiter.started.set_result(None)

    def _may_start(self, waiter: "_Waiter") -> bool:
        if waiter.started.done() or (waiter.long and self._long_running >= self._max_long):
            return False  # done: the waiting task was cancelled and has not run since
        return self._running[waiter.caller] < self._max_per_caller

    def _end(self, waiter: "_Waiter") -> None:
        self._running[waiter.caller] -= 1
        self._long_running -= waiter.long
        if not self._running[waiter.caller]:
            del self._running[waiter.caller]
        self._start_next()
        if not self._running or len(self._ends) > _MAX_REMEMBERED:
            self._ends = {caller: end for caller, end in self._ends.items() if end > self._now}

    def _overloaded(self, what: str, calls: int) -> OverloadedError:
        wait = max(1, math.ceil(self._seconds * calls / self._places))
        return OverloadedError(f"{what}; try again in {wait} seconds", wait)


class _Waiter:
    """`place` is the order: the virtual end, then how many calls the caller has before this one, then who came first."""

    __slots__ = ("caller", "long", "place", "started")

    def __init__(self, place: tuple[float, int, int], caller: str, long: bool) -> None:
        self.place = place
        self.caller = caller
        self.long = long
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "_Waiter") -> bool:
        return self.place < other.place


DEADLINE: Final = 60.0

# three, so that two callers can run slow calls and a place is left for quick ones
_AT_ONCE: Final = max(3, min(4, os.cpu_count() or 1))

_Result = TypeVar("_Result")

FetchPages = Callable[[Sequence[str]], Awaitable[Sequence[FetchedPage]]]


class Job(Struct, frozen=True, kw_only=True):
    """A call before it runs, with its estimated cost and its time limit in seconds."""

    action: str
    caller: str
    weight: int
    long: bool
    seconds: float


class Workers:
    def __init__(self, mode: Mode, plugins: Sequence[str] = (), *, queued: int) -> None:
        """`plugins` are the specs of the plugins that the workers load. `queued` calls of one caller may wait."""
        self._command = (sys.executable, "-m", "comity.actions.worker", mode, *plugins)
        self._alive: dict[Process, set[str]] = {}  # and the actions that each has loaded
        self._idle: list[Process] = []
        self._ending: set[asyncio.Task[int]] = set()
        self._queue = ActionQueue(_AT_ONCE, per_caller=queued)
        self._closed = False

    async def run(self, job: Job, given: Mapping[str, Any], fetch: FetchPages) -> Outcome:
        """Run a call in a worker. Raise OverloadedError if too many calls wait."""
        async with self._queue.turn(job.caller, job.weight, long=job.long):
            if self._closed:
                raise OverloadedError("this node is being stopped; try again later")
            process = self._take_idle(job.action) or await self._start()
            try:
                outcome = await self._in_time(process, job, given, fetch)
            except ActionError:
                self._keep(process, job.action)
                raise
            except BaseException:
                self._end(process)
                raise
            self._keep(process, job.action)
            return outcome

    async def aclose(self) -> None:
        """End all workers, also those that are working."""
        self._closed = True
        self._idle.clear()
        for process in tuple(self._alive):
            self._end(process)
        await asyncio.gather(*self._ending)

    def _take_idle(self, action: str) -> Process | None:
        """Return an idle worker, if possible one that has loaded the action: loading takes longer than most calls."""
        if not self._idle:
            return None
        loaded = [process for process in self._idle if action in self._alive[process]]
        process = (loaded or self._idle)[-1]
        self._idle.remove(process)
        return process

    async def _start(self) -> Process:
        process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)
        self._alive[process] = set()
        if self._closed:  # while it started
            self._end(process)
        return process

    def _keep(self, process: Process, action: str) -> None:
        if self._closed or process.returncode is not None:
            self._end(process)
        else:
            self._alive[process].add(action)
            self._idle.append(process)

    def _end(self, process: Process) -> None:
        """Kill a worker. A task of its own waits until it has ended."""
        if process not in self._alive:
            return
        del self._alive[process]
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        ending = asyncio.create_task(process.wait())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _in_time(
        self, process: Process, job: Job, given: Mapping[str, Any], fetch: FetchPages
    ) -> Outcome:
        name = job.action
        try:
            async with asyncio.timeout(job.seconds) as limit:
                return await self._talk(process, name, given, fetch, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"{name} took longer than {job.seconds:g} seconds; send less at once"
            raise DeadlineError(message) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ComityError(f"the worker of {name} ended before it was done") from None

    async def _talk(
        self, process: Process, name: str, given: Mapping[str, Any], fetch: FetchPages, limit: asyncio.Timeout
    ) -> Outcome:
        kind, content = await _exchange(process, ("call", name, given))
        while kind == "fetch":
            pages = await paused(limit, fetch(content))
            kind, content = await _exchange(process, ("pages", list(pages)))
        if kind == "refused":
            raise ActionError(content)
        if kind != "outcome":
            raise ComityError(f"the worker of {name} failed: {content}")
        if not isinstance(content, Outcome):
            raise ComityError(f"{name} returned {type(content).__name__}, which is no Outcome")
        return content


async def paused(limit: asyncio.Timeout, waiting: Awaitable[_Result]) -> _Result:
    """Wait for something that has a time limit of its own; this limit does not run meanwhile."""
    now = asyncio.get_running_loop().time
    left = (limit.when() or now()) - now()
    limit.reschedule(None)
    try:
        return await waiting
    finally:
        limit.reschedule(now() + left)


async def _exchange(process: Process, message: tuple[Any, ...]) -> tuple[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode(message))
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
    kind, content = pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - from our own child
    return kind, content
