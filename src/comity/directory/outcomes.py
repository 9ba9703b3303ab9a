"""What this node has seen itself of other agents, and the order in which it tries them.

- Each call of the node's own user counts, by what became of it. Calls of visitors never do: otherwise a visitor could ruin
  the rank of an agent here. Nothing of it leaves the node.
- Outcomes are noted in memory and stored some seconds later, so that a call is no slower. A crash loses these seconds.
- A row is forgotten when nothing has been heard of its agent for a year.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import msgspec

from comity.directory.protocol.reputation import (
    Experience,
    Review,
    after_outcome,
    after_own_review,
    faded,
    preference,
    ucb,
)
from comity.envelopes.client.calls import Outcome, outcome_of
from comity.envelopes.successions import former_keys
from comity.identity.protocol.keys import VacantId
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Put, Store, StoreConflict, scan_all
from comity.wire.errors import ComityError
from comity.wire.machine import Clock

log = logging.getLogger("comity.outcomes")

FLUSH_SECONDS: Final = 5.0

_SPACE: Final = "agents.experience"
_FORGOTTEN_AFTER: Final = 365 * 86_400.0
_MAX_PENDING: Final = 256
_ATTEMPTS: Final = 8

_Found = TypeVar("_Found")
_read = msgspec.json.Decoder(Experience).decode


class CallOutcomes:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._pending: dict[str, list[tuple[Outcome, float]]] = {}
        self._flushed_at = clock.monotonic()

    @contextmanager
    def watch(self, target: VacantId, caller: Caller) -> Iterator[None]:
        """Note what becomes of a call in this block."""
        began = self._clock.monotonic()
        try:
            yield
        except BaseException as end:
            self._note(target, caller, outcome_of(end, self._clock.monotonic() - began))
            raise
        self._note(target, caller, outcome_of(None, self._clock.monotonic() - began))

    def _note(self, target: VacantId, caller: Caller, outcome: Outcome | None) -> None:
        if outcome is None or not caller.is_local:
            return
        pending = self._pending.setdefault(target.hex(), [])
        if len(pending) < _MAX_PENDING:
            pending.append((outcome, self._clock.now()))

    async def flush_if_due(self) -> None:
        """Store what was noted, if that is some seconds ago: for a program that has no chores."""
        if self._clock.monotonic() - self._flushed_at >= FLUSH_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        """Store what was noted."""
        self._flushed_at = self._clock.monotonic()
        while self._pending:
            agent, noted = self._pending.popitem()
            try:
                await self._store_outcomes(agent, noted)
            except ComityError as why:  # it is only a rank
                log.warning("what became of calls of %s is not stored: %s", agent[:12], why.message)

    async def _store_outcomes(self, agent: str, noted: list[tuple[Outcome, float]]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            experience, version = await self._stored(agent)
            try:
                await self._store.commit(self._put(agent, _with(experience, noted), version))
            except StoreConflict:  # a command of the same folder made a call meanwhile
                if attempt == _ATTEMPTS:
                    raise
            else:
                return

    async def review(self, review: Review, record: Recorder, act: Act) -> Experience:
        """Count a review by the owner, durably. Raises ReviewLimitError."""
        await self.flush()
        while True:
            experience, version = await self._stored(review.target)
            moved = after_own_review(experience, review)
            try:
                await record.commit_counted((self._put(review.target, moved, version),), act)
            except StoreConflict:
                continue
            return moved

    async def of(self, agent: str) -> Experience:
        return _with((await self._stored(agent))[0], self._pending.get(agent, ()))

    async def ranked(self, found: Sequence[_Found], id_of: Callable[[_Found], str]) -> list[_Found]:
        """Return these in the order in which they should be tried; equals stay in theirs."""
        if len(found) < 2:
            return [*found]
        known = [await self.of(id_of(each)) for each in found]
        total, now = sum(each.events for each in known), self._clock.now()
        keys = [preference(each, total, now) for each in known]
        return [found[place] for place in sorted(range(len(found)), key=keys.__getitem__)]

    async def _stored(self, agent: str) -> tuple[Experience, int]:
        held = await self._store.get(_SPACE, agent)
        return (
            (await _inherited(self._store, agent), 0) if held is None else (_read(held.value), held.version)
        )

    def _put(self, agent: str, experience: Experience, version: int) -> Put:
        return Put(
            space=_SPACE,
            key=agent,
            value=msgspec.json.encode(experience),
            expect=version,
            expires_at=self._clock.now() + _FORGOTTEN_AFTER,
        )


class StoredReputation:
    """What the calls and reviews of a folder say of agents. It is for `call_capability(…, reputation_oracle=…)`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._total: int | None = None

    async def score(self, vacant_hex: str, dimensions: Sequence[str]) -> float:
        """Return the upper confidence bound; 0, which is less than any, while the agent rests after a failure."""
        now = self._clock.now()
        held = await self._store.get(_SPACE, vacant_hex.lower())
        experience = await _inherited(self._store, vacant_hex.lower()) if held is None else _read(held.value)
        if experience.rests_until > now:
            return 0.0
        if self._total is None:
            rows = [row async for row in scan_all(self._store, _SPACE)]
            self._total = sum(_read(row.value).events for _, row in rows)
        return ucb(faded(experience.reputation, now), self._total, dict.fromkeys(dimensions, 1.0))


async def _inherited(store: Store, agent: str) -> Experience:
    """Return what is known of an agent under the newest key before this one."""
    for former in await former_keys(store, agent):
        held = await store.get(_SPACE, former)
        if held is not None:
            return _read(held.value)
    return Experience()


def _with(experience: Experience, noted: Iterable[tuple[Outcome, float]]) -> Experience:
    for outcome, at in noted:
        experience = after_outcome(experience, outcome, at)
    return experience
