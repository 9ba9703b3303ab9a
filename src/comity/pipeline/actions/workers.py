"""The other end of the workers: starts them, hands out work, and ends one whose time is up.

As many are kept as were ever needed at once, up to a few; a call beyond that waits for its turn, and its
time counts from when it begins; fetching pages has a limit of its own and is not counted. A worker that was interrupted in any way is ended and not used again.
"""

import asyncio
import contextlib
import pickle
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from comity.core.actions.action import Mode, Outcome, Page
from comity.core.errors import ActionError, ComityError, DeadlineError
from comity.pipeline.actions.worker import LENGTH_BYTES, encode

DEADLINE: Final = 60.0

_AT_ONCE: Final = 2

_Result = TypeVar("_Result")

FetchPages = Callable[[Sequence[str]], Awaitable[Sequence[Page]]]


class Workers:
    def __init__(self, mode: Mode, plugins: Sequence[str] = (), *, deadline: float = DEADLINE) -> None:
        """`plugins` are the specs of those whose actions the workers must know too."""
        self._command = (sys.executable, "-m", "comity.pipeline.actions.worker", mode, *plugins)
        self._deadline = deadline
        self._idle: list[asyncio.subprocess.Process] = []
        self._ending: set[asyncio.Task[int]] = set()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._closed = False

    async def run(self, name: str, given: Mapping[str, Any], fetch: FetchPages) -> Outcome:
        async with self._turns:
            process = self._idle.pop() if self._idle else await self._start()
            try:
                outcome = await self._in_time(process, name, given, fetch)
            except ActionError:
                self._keep(process)
                raise
            except BaseException:
                self._end(process)
                raise
            self._keep(process)
            return outcome

    async def aclose(self) -> None:
        self._closed = True
        while self._idle:
            self._end(self._idle.pop())
        await asyncio.gather(*self._ending)

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)

    def _keep(self, process: asyncio.subprocess.Process) -> None:
        if self._closed or process.returncode is not None:
            self._end(process)
        else:
            self._idle.append(process)

    def _end(self, process: asyncio.subprocess.Process) -> None:
        """Its remains are waited for, but not by whoever had to end it."""
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        ending = asyncio.create_task(process.wait())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _in_time(
        self, process: asyncio.subprocess.Process, name: str, given: Mapping[str, Any], fetch: FetchPages
    ) -> Outcome:
        try:
            async with asyncio.timeout(self._deadline) as limit:
                return await self._converse(process, name, given, fetch, limit)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(
                f"{name} took longer than {self._deadline:g} seconds; send fewer or smaller pages"
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
