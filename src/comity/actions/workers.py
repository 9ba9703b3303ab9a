"""The other end of the workers: starts them, hands out work, and ends one whose time is up.

There are as many workers as were needed at the same time, up to a small limit. A call over the limit waits for its turn
(`turns.py`). Its time is counted from its start, without the time for fetching pages, which has a limit of its own. A
worker that was interrupted is ended and not used again.
"""

import asyncio
import bisect
import contextlib
import math
import os
import pickle
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct

from comity.actions.protocol.action import FetchedPage, Mode, Outcome
from comity.actions.worker import LENGTH_BYTES, encode
from comity.wire.errors import ActionError, ComityError, DeadlineError, OverloadedError

# Whose work is next: a queue that is fair between callers.


WAITING_OF_ONE: Final = 32
WAITING_IN_ALL: Final = 256

_MAX_REMEMBERED: Final = 4096
_SHARE_OF_THE_NEWEST: Final = 0.2  # in the running mean of how long work takes


class ActionTurns:
    def __init__(self, places: int, *, of_one: int = WAITING_OF_ONE, in_all: int = WAITING_IN_ALL) -> None:
        self._places = places
        self._most_of_one = max(1, places // 2)
        self._most_long = max(1, places - 1)
        self._of_one = of_one
        self._in_all = in_all
        self._waiting: list[_Piece] = []
        self._running: Counter[str] = Counter()
        self._long_running = 0
        self._now = 0.0
        self._ends: dict[str, float] = {}
        self._order = 0
        self._seconds = 1.0

    @contextlib.asynccontextmanager
    async def turn(self, caller: str, weight: float, *, long: bool = False) -> AsyncIterator[None]:
        """Raises OverloadedError when too much is waiting."""
        piece = self._queue(caller, weight, long)
        try:
            await piece.begins
        except asyncio.CancelledError:
            if piece in self._waiting:
                self._waiting.remove(piece)
            elif (
                not piece.begins.cancelled() and piece.begins.exception() is None
            ):  # it was our turn already: pass it on
                self._end(piece)
            raise
        began = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            took = asyncio.get_running_loop().time() - began
            self._seconds += (took - self._seconds) * _SHARE_OF_THE_NEWEST
            self._end(piece)

    def _queue(self, caller: str, weight: float, long: bool) -> "_Piece":
        mine = sum(piece.caller == caller for piece in self._waiting)
        if mine >= self._of_one:
            raise self._too_much(f"{mine} calls of yours are waiting here, which is the limit", mine)
        self._order += 1
        end = max(self._now, self._ends.get(caller, 0.0)) + weight
        piece = _Piece((end, mine + self._running[caller], self._order), caller, long)
        self._make_room_for(piece)
        self._ends[caller] = end
        bisect.insort(self._waiting, piece)
        self._begin_next()
        return piece

    def _make_room_for(self, piece: "_Piece") -> None:
        if len(self._waiting) < self._in_all:
            return
        refusal = self._too_much(
            f"{len(self._waiting)} calls are waiting here, which is the limit", self._in_all
        )
        last = self._waiting[-1]
        if last < piece:
            raise refusal
        self._waiting.pop()
        if not last.begins.done():
            last.begins.set_exception(refusal)

    def _begin_next(self) -> None:
        while self._running.total() < self._places:
            piece = next(filter(self._may_begin, self._waiting), None)
            if piece is None:
                return
            self._waiting.remove(piece)
            self._running[piece.caller] += 1
            self._long_running += piece.long
            self._now = max(self._now, piece.place[0])
            piece.begins.set_result(None)

    def _may_begin(self, piece: "_Piece") -> bool:
        if piece.begins.done() or (piece.long and self._long_running >= self._most_long):
            return False  # done: whoever waited was cancelled and does not know yet
        return self._running[piece.caller] < self._most_of_one

    def _end(self, piece: "_Piece") -> None:
        self._running[piece.caller] -= 1
        self._long_running -= piece.long
        if not self._running[piece.caller]:
            del self._running[piece.caller]
        self._begin_next()
        if not self._running or len(self._ends) > _MAX_REMEMBERED:
            self._ends = {caller: end for caller, end in self._ends.items() if end > self._now}

    def _too_much(self, what: str, pieces: int) -> OverloadedError:
        wait = max(1, math.ceil(self._seconds * pieces / self._places))
        return OverloadedError(f"{what}; try again in {wait} seconds", wait)


class _Piece:
    """`place` says who is first: the mark, then how many the caller has before this one, then who came first."""

    __slots__ = ("begins", "caller", "long", "place")

    def __init__(self, place: tuple[float, int, int], caller: str, long: bool) -> None:
        self.place = place
        self.caller = caller
        self.long = long
        self.begins: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __lt__(self, other: "_Piece") -> bool:
        return self.place < other.place


DEADLINE: Final = 60.0

# with three, two callers may have slow work done and a place is left for what is quick
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
        """`plugins` are the specs of those whose actions the workers must know too. `queued` calls of one caller
        may wait.
        """
        self._command = (sys.executable, "-m", "comity.actions.worker", mode, *plugins)
        self._alive: dict[asyncio.subprocess.Process, set[str]] = {}  # and the actions that each has loaded
        self._idle: list[asyncio.subprocess.Process] = []
        self._ending: set[asyncio.Task[int]] = set()
        self._turns = ActionTurns(_AT_ONCE, of_one=queued)
        self._closed = False

    async def run(self, job: "Job", given: Mapping[str, Any], fetch: FetchPages) -> Outcome:
        """Raises OverloadedError when too many calls wait."""
        async with self._turns.turn(job.caller, job.weight, long=job.long):
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
        """What is still being worked on ends with it."""
        self._closed = True
        self._idle.clear()
        for process in tuple(self._alive):
            self._end(process)
        await asyncio.gather(*self._ending)

    def _take_idle(self, action: str) -> asyncio.subprocess.Process | None:
        """One that has loaded the action, if there is one: loading takes longer than most calls."""
        if not self._idle:
            return None
        loaded = [process for process in self._idle if action in self._alive[process]]
        process = (loaded or self._idle)[-1]
        self._idle.remove(process)
        return process

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        self._alive[process] = set()
        if self._closed:  # meanwhile
            self._end(process)
        return process

    def _keep(self, process: asyncio.subprocess.Process, action: str) -> None:
        if self._closed or process.returncode is not None:
            self._end(process)
        else:
            self._alive[process].add(action)
            self._idle.append(process)

    def _end(self, process: asyncio.subprocess.Process) -> None:
        """Its remains are waited for, but not by whoever had to end it."""
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
        self, process: asyncio.subprocess.Process, job: "Job", given: Mapping[str, Any], fetch: FetchPages
    ) -> Outcome:
        name = job.action
        try:
            async with asyncio.timeout(job.seconds) as limit:
                return await self._converse(process, name, given, fetch, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(
                f"{name} took longer than {job.seconds:g} seconds; send less at once"
            ) from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ComityError(f"the worker of {name} ended before it was done") from None

    async def _converse(
        self,
        process: asyncio.subprocess.Process,
        name: str,
        given: Mapping[str, Any],
        fetch: FetchPages,
        limit: asyncio.Timeout,
    ) -> Outcome:
        kind, content = await _exchange(process, ("call", name, given))
        while kind == "fetch":
            pages = await without_the_clock(limit, fetch(content))
            kind, content = await _exchange(process, ("pages", list(pages)))
        if kind == "refused":
            raise ActionError(content)
        if kind != "outcome":
            raise ComityError(f"the worker of {name} failed: {content}")
        if not isinstance(content, Outcome):
            raise ComityError(f"{name} returned {type(content).__name__}, which is no Outcome")
        return content


async def without_the_clock(limit: asyncio.Timeout, waiting: Awaitable[_Result]) -> _Result:
    """Wait for something that has a limit of its own, without using up this one."""
    now = asyncio.get_running_loop().time
    left = (limit.when() or now()) - now()
    limit.reschedule(None)
    try:
        return await waiting
    finally:
        limit.reschedule(now() + left)


async def _exchange(process: asyncio.subprocess.Process, message: tuple[Any, ...]) -> tuple[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode(message))
    await process.stdin.drain()
    length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
    kind, content = pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - from our own child
    return kind, content
