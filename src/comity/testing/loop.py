"""An event loop in simulated time: what takes a day takes a millisecond, and the same seed takes the same course.

When nothing is ready the loop moves its time to the next timer; nothing ever waits for real. Everything
that asks the loop for time works unchanged: `asyncio.sleep`, `asyncio.timeout`, events, queues, task groups.

Callbacks run in the order in which they were scheduled, as asyncio promises. For timers that are due at
the same moment asyncio promises no order, so the seed chooses one: other seeds try other orders.

There is nothing outside a simulation, so two things are errors here: work for another thread, and a moment
at which no callback is ready and no timer is set (`DeadlockError`; it names who waits, and where).
"""

import asyncio
import heapq
import inspect
import itertools
import random
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from types import FrameType
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from comity.testing.links import seeded
from comity.wire.errors import ComityError, InvalidError

# A clock that moves when a test says so.


EPOCH = 1_767_225_600.0
"""Where simulated wall time starts: 2026-01-01T00:00:00Z."""

_NANOSECONDS = 1_000_000_000
# A woken task often hands over to others (a lock, a queue, a reply) before it sleeps again.
_HAND_OVERS = 20


class VirtualClock:
    """Stands still until `advance` or `jump`."""

    def __init__(self, now: float = EPOCH) -> None:
        self._start = now
        self._elapsed = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._elapsed / _NANOSECONDS

    def monotonic(self) -> float:
        return self._elapsed / _NANOSECONDS

    @property
    def sleepers(self) -> int:
        """Return how many tasks sleep on this clock."""
        return sum(not woken.done() for _, _, woken in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        length = round(seconds * _NANOSECONDS)
        if length <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + length, next(self._order), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Move through every moment at which a task wakes, in order, and let it run at that moment."""
        end = self._elapsed + _nanoseconds(seconds)
        await self._run_ready()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed = self._sleepers[0][0]
            self._wake()
            await self._run_ready()
        self._elapsed = end

    def jump(self, seconds: float) -> None:
        """Move at once, like a machine that was suspended: sleepers wake late, all at the same moment."""
        self._elapsed += _nanoseconds(seconds)
        self._wake()

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)

    async def _run_ready(self) -> None:
        for _ in range(_HAND_OVERS):
            await asyncio.sleep(0)


def _nanoseconds(seconds: float) -> int:
    if seconds < 0:
        raise InvalidError(f"time cannot go back by {-seconds} seconds; advance by zero or more")
    return round(seconds * _NANOSECONDS)


_Result = TypeVar("_Result")
_Args = TypeVarTuple("_Args")

_RESOLUTION = 1e-9
# Less than the resolution of the loop, and enough to order equal moments.
_JITTER = 4e-10


class DeadlockError(ComityError):
    """All tasks wait for each other."""

    code = "deadlock"


class _NothingOutside(selectors.BaseSelector):
    """Where a loop would wait for sockets, time moves instead."""

    def __init__(self) -> None:
        self._registered: dict[int, selectors.SelectorKey] = {}
        self.elapsed = 0
        self.stuck: Callable[[], NoReturn] | None = None

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, descriptor, events, data)
        self._registered[descriptor] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._registered.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> dict[int, selectors.SelectorKey]:  # type: ignore[override]
        return self._registered

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None and self.stuck is not None:
            self.stuck()
        self.elapsed += round((timeout or 0) * _NANOSECONDS)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`random` belongs to what is simulated; the loop draws its own choices from another source."""

    def __init__(self, seed: int = 0) -> None:
        self._nothing_outside = _NothingOutside()
        super().__init__(self._nothing_outside)
        self._nothing_outside.stuck = self._stuck
        self._clock_resolution = _RESOLUTION
        self._order = random.Random(f"order {seed}")
        self.seed = seed
        self.random = random.Random(seed)
        self.unhandled: list[BaseException] = []

    def time(self) -> float:
        return self._nothing_outside.elapsed / _NANOSECONDS

    def call_at(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> asyncio.TimerHandle:
        jitter = self._order.random() * _JITTER
        return super().call_at(when + jitter, callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Args], _Result], *args: *_Args
    ) -> NoReturn:
        raise InvalidError(
            f"{func!r} asks for a thread; a simulation has none, so give it a fake without one"
        )

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unhandled.append(error if isinstance(error, BaseException) else RuntimeError(context["message"]))

    def _stuck(self) -> NoReturn:
        waiting = sorted(f"{task.get_name()} at {_place(task)}" for task in asyncio.all_tasks(self))
        raise DeadlockError(
            f"nothing is ready and no timer is set at {self.time()} s (seed {self.seed}); "
            f"waiting: {'; '.join(waiting) or 'nobody'}"
        )


class SimulatedClock:
    """The Clock of a SimulatedLoop."""

    def __init__(self, loop: SimulatedLoop | None = None, epoch: float = EPOCH) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self._epoch = epoch

    def now(self) -> float:
        return self._epoch + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run_simulated(simulation: Callable[[], Coroutine[Any, Any, _Result]], seed: int = 0) -> _Result:
    """Run `simulation()` to its end in simulated time. What it raises carries the seed."""
    with seeded(seed), asyncio.Runner(loop_factory=lambda: SimulatedLoop(seed)) as runner:
        result = runner.run(simulation())
        loop = runner.get_loop()
        assert isinstance(loop, SimulatedLoop)
        if loop.unhandled:
            raise loop.unhandled[0]
        return result


def _place(task: asyncio.Task[Any]) -> str:
    """Return the innermost line a task is suspended at."""
    frame: FrameType | None = None
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None) or frame
        awaited = awaited.cr_await if inspect.iscoroutine(awaited) else getattr(awaited, "ag_await", None)
    if frame is None:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} ({frame.f_code.co_qualname})"
