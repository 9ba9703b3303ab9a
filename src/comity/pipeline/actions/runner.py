"""Seeing calls through: quick ones here, slow ones in a worker with a deadline, pages through a fetcher.

`settle` is for whoever drives a machine; `call` is the whole of a call, for doors that have no machine of
their own. Both end in an answer or in a ComityError whose sentence may be shown to the caller.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from comity.core.actions.action import Fetch, Outcome, Page
from comity.core.actions.calls import Settled, Work
from comity.core.errors import DeadlineError, InvalidError
from comity.pipeline.actions.library import Library
from comity.pipeline.actions.workers import DEADLINE, Workers, without_the_clock

_NO_FETCHER: Final = "no page is fetched here; send it as text under 'pages'"
_ROUNDS: Final = 8  # of pages that lead to the wish for more pages


class Fetcher(Protocol):
    """Gets pages, in order; one that cannot be had says why."""

    async def fetch(self, urls: Sequence[str]) -> Sequence[Page]: ...

    async def aclose(self) -> None: ...


class Runner:
    def __init__(
        self, library: Library, fetcher: Fetcher | None = None, *, deadline: float = DEADLINE
    ) -> None:
        self.library = library
        self._fetcher = fetcher
        self._deadline = deadline
        self._workers: Workers | None = None

    async def call(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The data of the reply. Quick work is done in a thread, so that nobody else has to wait for it."""
        calls = self.library.calls
        entry, begun = await asyncio.to_thread(calls.begin, name, given)
        settled = await self.settle(begun) if isinstance(begun, Work) else begun
        return calls.data(entry, settled)

    async def settle(self, work: Work) -> Settled:
        try:
            if work.fetch is not None:
                return await self._finish(work.fetch, work.entry.name)
            return await self._workers_now().run(work.entry.name, work.input, self._pages)
        except (InvalidError, DeadlineError) as refused:
            return refused
        except Exception as failure:  # noqa: BLE001 - the guard of every handler
            return self.library.calls.failed(work.entry.name, failure)

    async def aclose(self) -> None:
        if self._workers is not None:
            await self._workers.aclose()
        if self._fetcher is not None:
            await self._fetcher.aclose()

    async def _finish(self, fetch: Fetch, name: str) -> Outcome:
        result: Any = fetch
        try:
            async with asyncio.timeout(self._deadline) as limit:
                for _ in range(_ROUNDS):
                    if not isinstance(result, Fetch):
                        break
                    pages = await without_the_clock(limit, self._pages(result.urls))
                    result = await asyncio.to_thread(result.resume, pages)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(f"{name} took longer than {self._deadline:g} seconds") from None
        if not isinstance(result, Outcome):
            raise TypeError(f"{name} returned {type(result).__name__}, which is no Outcome")
        return result

    async def _pages(self, urls: Sequence[str]) -> Sequence[Page]:
        if self._fetcher is None:
            return [Page(url=url, failure=_NO_FETCHER) for url in urls]
        return await self._fetcher.fetch(urls)

    def _workers_now(self) -> Workers:
        if self._workers is None:
            specs = dict.fromkeys(plugin.spec for plugin in self.library.plugins)
            self._workers = Workers(self.library.mode, list(specs), deadline=self._deadline)
        return self._workers
