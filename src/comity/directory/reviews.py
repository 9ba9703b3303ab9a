"""Reviews in the directory: what others say of an agent, and what follows from it.

Anybody whose card is here may judge an agent whose card is here, three times a day. A review is signed, and only the last one
of each reviewer is kept. What is said here is shown with a card, with the number of reviews, and everybody can read who said
it. It changes no order: names are free, so somebody could make many and praise themselves.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.directory.account import Account, Reserved
from comity.directory.cards import RANKED_BY, CardRecord, read_record
from comity.directory.protocol.reputation import (
    PairHistory,
    Reputation,
    ReviewRefusedError,
    admit_review,
    apply_review,
    mean_score,
)
from comity.directory.protocol.reviews import SignedReview
from comity.envelopes.protocol.card import can_review
from comity.envelopes.successions import former_keys
from comity.identity.protocol.keys import VacantId
from comity.requests.budget import Quota
from comity.requests.caller import vacant
from comity.requests.handler import Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.store.interface import Operation, Put, Store, StoreConflict
from comity.wire.errors import ConflictError

_REPUTATIONS: Final = "directory.reputation"
_PAIRS: Final = "directory.reviews"
_ROWS: Final = 1024
_SHOWN: Final = 100


class Reviewed(Struct, frozen=True):
    """An agent's reputation here, and from how many reviews it comes."""

    reputation: Reputation = Reputation()
    reviews: int = 0

    @property
    def score(self) -> float:
        """Return the mean of the skills; 0 for an agent that nobody has reviewed."""
        return mean_score(self.reputation, RANKED_BY) if self.reviews else 0.0


class _Pair(Struct, frozen=True):
    """What one reviewer has said of one agent: how often, and last."""

    history: PairHistory
    last: SignedReview


_read_reviewed = msgspec.json.Decoder(Reviewed).decode
_read_pair = msgspec.json.Decoder(_Pair).decode


async def reviewed(store: Store, agent: str) -> Reviewed:
    """Return what is known of an agent, under this key or else under the newest key before it that was reviewed."""
    held = await store.get(_REPUTATIONS, agent)
    if held is None:
        for former in await former_keys(store, agent):
            held = held or await store.get(_REPUTATIONS, former)
    return Reviewed() if held is None else _read_reviewed(held.value)


async def reviews_of(store: Store, agent: VacantId) -> list[dict[str, Any]]:
    """Return the last review of each reviewer, as it was signed; at most a hundred."""
    rows = await store.scan(_PAIRS, f"{agent.hex()}/", limit=_SHOWN)
    return [msgspec.to_builtins(_read_pair(row.value).last) for _, row in rows]


class ReviewHandler(HandlerDefaults):
    """Takes a SignedReview as the body of its arrival."""

    name = "directory_review"
    deadline = 10.0

    def __init__(self, store: Store, quota: Quota | None = None) -> None:
        """Without a `quota` there is no limit in bytes."""
        self._store = store
        self._account = Account(store, quota)
        self._one_at_a_time = asyncio.Lock()

    def identify(self, request: Request) -> Identified:
        review: SignedReview = request.body
        review.check_signature()
        return Identified(vacant(review.reviewer, request.caller.address), Reserved())

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        stored = False
        try:
            async with self._one_at_a_time:
                yield
            stored = True
        finally:
            self._account.release(call.evidence, stored=stored)

    async def handle(self, call: Call) -> HandlerResult:
        signed: SignedReview = call.request.body
        signed.check_time(call.at)
        review = signed.review()
        reviewer = await self._party(signed.reviewer, "the reviewer")
        target = await self._party(signed.target, "the agent")
        if not can_review(reviewer.runtime_state):
            raise ReviewRefusedError(
                f"the reviewer is {reviewer.runtime_state}, and may not review in that state"
            )
        key = f"{signed.target}/{signed.reviewer}"
        held_pair = await self._store.get(_PAIRS, key)
        pair = None if held_pair is None else _read_pair(held_pair.value)
        if pair is not None and signed.ts_ms <= pair.last.ts_ms:
            raise ConflictError("a review of the same time or later is here already; nothing was changed")
        history = admit_review(PairHistory() if pair is None else pair.history, call.at)
        held = await self._store.get(_REPUTATIONS, signed.target)
        before = await reviewed(self._store, signed.target) if held is None else _read_reviewed(held.value)
        family = reviewer.base_model_family
        about_reviewer = await reviewed(self._store, signed.reviewer)
        moved = Reviewed(
            apply_review(
                before.reputation,
                review,
                nth=history.count,
                same_family=family is not None and family == target.base_model_family,
                reviewer=about_reviewer.reputation if about_reviewer.reviews else None,
            ),
            before.reviews + 1,
        )
        kept = msgspec.json.encode(_Pair(history, signed))
        operations: tuple[Operation, ...] = (
            Put(space=_PAIRS, key=key, value=kept, expect=held_pair.version if held_pair else 0),
            Put(
                space=_REPUTATIONS,
                key=signed.target,
                value=msgspec.json.encode(moved),
                expect=held.version if held else 0,
            ),
            await self._account.hold(call, f"review/{key}", lambda _before: len(kept) + _ROWS),
        )
        reply = {"vacant_id": signed.target, "score": moved.score, "reviews": moved.reviews}
        return HandlerResult(reply=reply, operations=operations, about=signed.target)

    async def seal(self, call: Call, result: HandlerResult) -> HandlerResult:
        return result

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        """Judge again after another process stored a review in between."""
        self._account.release(call.evidence, stored=False)
        return await self.handle(call)

    async def _party(self, id_: str, who: str) -> CardRecord:
        record = await read_record(self._store, VacantId.from_hex(id_))
        if record is None:
            raise ReviewRefusedError(f"{who} {id_[:12]} is not in the directory; publish its card first")
        return record
