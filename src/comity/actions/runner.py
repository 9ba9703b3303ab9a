"""Run calls: quick ones in this process, long and slow ones in a worker process with a timeout; pages come from a fetcher.

Work on a text blocks the interpreter, also from a thread: a regular expression reads a megabyte without a pause, and the
event loop waits. So this process works only on short texts, two at a time, and callers take turns.

`run` is for code that drives a machine, `call` is a complete call. Both raise ComityErrors whose sentence may be shown to
the caller.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.actions.client import Pages
from comity.actions.library import Library
from comity.actions.protocol.action import Fetch, FetchedPage, Outcome
from comity.actions.protocol.calls import Work, WorkResult
from comity.actions.workers import (
    DEADLINE,
    MAX_QUEUED_PER_CALLER,
    ActionQueue,
    FetchPages,
    Job,
    Workers,
    paused,
)
from comity.requests.caller import OWN_PROCESS, Caller
from comity.wire.errors import ActionError, DeadlineError, InvalidError, RetryLaterError

_NO_FETCHER: Final = "no page is fetched here; send it as text under 'pages'"
_MAX_ROUNDS: Final = 8  # of fetches in one call

MAX_CHARACTERS_HERE: Final = 4000
"""Inputs of this size are worked on in this process: it takes a few milliseconds, at most twenty."""
_MAX_QUEUED_HERE: Final = 256
_SLOW_WEIGHT: Final = 50_000
"""The weight of slow work, in characters, in addition to its input: it may have to fetch pages."""


class Allowance(Struct, frozen=True, kw_only=True):
    """The limits of one kind of callers: the characters of an input, and the seconds of a call."""

    characters: int
    seconds: float = DEADLINE


class ActionLimits(Struct, frozen=True, kw_only=True):
    """`queued` calls of one caller may wait for a worker."""

    own: Allowance = Allowance(characters=4_194_304)
    others: Allowance = Allowance(characters=65_536, seconds=20.0)
    queued: int = MAX_QUEUED_PER_CALLER


Progress = Callable[[int, int | None, str], None]
"""Reports progress: steps done, the number of steps if it is known, and the last step."""


def ignore_progress(_done: int, _total: int | None, _doing: str) -> None:
    pass


class Runner:
    def __init__(
        self, library: Library, fetcher: Pages | None = None, *, limits: ActionLimits | None = None
    ) -> None:
        self.library = library
        self.limits = limits or ActionLimits()
        self._fetcher = fetcher
        self._here = ActionQueue(2, per_caller=_MAX_QUEUED_HERE, total=4 * _MAX_QUEUED_HERE)
        self._workers: Workers | None = None

    async def call(
        self,
        name: str,
        given: Mapping[str, Any],
        caller: Caller = OWN_PROCESS,
        client: str = "",
        progress: Progress = ignore_progress,
    ) -> dict[str, Any]:
        """Return the data of the reply. Raise OverloadedError if too many calls wait. Callers take turns; `client`
        names a program of the caller, if each program has its own turns.
        """
        calls = self.library.calls
        characters = count_characters(given, self._allowance(caller).characters)
        self.check_length(characters, caller)
        short = characters <= MAX_CHARACTERS_HERE
        async with self._here.turn(client or caller.owner, characters if short else 1):
            entry, outcome = await asyncio.to_thread(calls.begin, name, given, work_here=short)
        result = await self.run(outcome, caller, client, progress) if isinstance(outcome, Work) else outcome
        return calls.data(entry, result)

    async def run(
        self, work: Work, caller: Caller = OWN_PROCESS, client: str = "", progress: Progress = ignore_progress
    ) -> WorkResult:
        name, slow = work.entry.name, work.entry.action.slow
        allowance = self._allowance(caller)
        fetch_pages = self._fetch_with(progress)
        try:
            if work.fetch is not None:
                return await self._finish(work.fetch, name, allowance.seconds, fetch_pages)
            weight = count_characters(work.input, allowance.characters) + (_SLOW_WEIGHT if slow else 0)
            whose = client or caller.owner
            job = Job(action=name, caller=whose, weight=weight, long=slow, seconds=allowance.seconds)
            return await self._open_workers().run(job, work.input, fetch_pages)
        except (InvalidError, DeadlineError, RetryLaterError) as refusal:
            return refusal
        except Exception as failure:  # noqa: BLE001 - the guard of every handler
            return self.library.calls.failed(name, failure)

    def check_length(self, characters: int, caller: Caller) -> None:
        """Raise ActionError with the limit if an input is too long."""
        limit = self._allowance(caller).characters
        if characters > limit:
            who = "the user of this node" if caller.is_local else "a caller who is not the user of this node"
            raise ActionError(f"the input is longer than the {limit:,} characters that {who} may send")

    async def aclose(self) -> None:
        if self._workers is not None:
            await self._workers.aclose()
        if self._fetcher is not None:
            await self._fetcher.aclose()

    def _allowance(self, caller: Caller) -> Allowance:
        return self.limits.own if caller.is_local else self.limits.others

    async def _finish(self, fetch: Fetch, name: str, seconds: float, pages_of: FetchPages) -> Outcome:
        result: Any = fetch
        try:
            async with asyncio.timeout(seconds) as limit:
                for _ in range(_MAX_ROUNDS):
                    if not isinstance(result, Fetch):
                        break
                    pages = await paused(limit, pages_of(result.urls))
                    result = await asyncio.to_thread(result.resume, pages)
        except TimeoutError:
            if not limit.expired():
                raise
            raise DeadlineError(f"{name} took longer than {seconds:g} seconds") from None
        if not isinstance(result, Outcome):
            raise TypeError(f"{name} returned {type(result).__name__}, which is no Outcome")
        return result

    def _fetch_with(self, progress: Progress) -> FetchPages:
        """Return a function that fetches the pages of one call and reports progress. The last step is the work itself."""
        done = 0

        async def fetch(urls: Sequence[str]) -> Sequence[FetchedPage]:
            total = done + len(urls) + 1

            def fetched(url: str) -> None:
                nonlocal done
                done += 1
                progress(done, total, f"page {done} of {total - 1}: {url}")

            if self._fetcher is None:
                return [FetchedPage(url=url, failure=_NO_FETCHER) for url in urls]
            return await self._fetcher.fetch(urls, fetched)

        return fetch

    def _open_workers(self) -> Workers:
        if self._workers is None:
            specs = dict.fromkeys(plugin.spec for plugin in self.library.plugins)
            self._workers = Workers(self.library.mode, list(specs), queued=self.limits.queued)
        return self._workers


def count_characters(given: Any, enough: int) -> int:
    """Count the characters of all texts in an input, and one for each value. Stop at more than `enough`."""
    total = 0
    left = [given]
    while left and total <= enough:
        value = left.pop()
        total += 1
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, Mapping):
            left.extend(value)
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
    return total
