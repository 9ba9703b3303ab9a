"""An event loop that lives beside the rows: a connection must be looked after between its turns, too."""

import asyncio
import concurrent.futures
import contextlib
import importlib
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

PATIENCE = 120.0

T = TypeVar("T")


class Loop:
    """In a thread of its own."""

    def __init__(self) -> None:
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    @contextlib.contextmanager
    def hold(self, opening: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter and leave in one task of the loop."""
        opened: concurrent.futures.Future[T] = concurrent.futures.Future()
        over = asyncio.Event()

        async def stay() -> None:
            async with opening as value:
                opened.set_result(value)
                await over.wait()

        staying = asyncio.run_coroutine_threadsafe(stay(), self._loop)
        either: list[concurrent.futures.Future[Any]] = [opened, staying]
        concurrent.futures.wait(either, PATIENCE, concurrent.futures.FIRST_COMPLETED)
        if not opened.done():
            staying.cancel()
            staying.result(0)
        try:
            yield opened.result(0)
        finally:
            self._loop.call_soon_threadsafe(over.set)
            staying.result(PATIENCE)

    def close(self) -> None:
        self.run(self._end_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end_all(self) -> None:
        me = asyncio.current_task()
        while others := [
            task for task in asyncio.all_tasks() if task is not me
        ]:  # ending one may begin another
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)


def new_loop() -> asyncio.AbstractEventLoop:
    """As a node has it."""
    try:
        loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    except ImportError:
        return asyncio.new_event_loop()
    return loop
