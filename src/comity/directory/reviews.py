"""Reviews of agents, and the reputation that follows from them.

- A review counts when both parties are in the directory and the reviewer's state lets it review.
- The review, the pair's history, the target's posteriors and the audit entry are one transaction.
- If two reviews of one target come at the same time, they are counted one after the other.
- An agent without any record has the score 0. So a new key is never better than a known one, and nobody gains by making
  new keys. `start_reputation` makes an agent known before its first review.
"""

from collections.abc import Sequence

import msgspec

from comity.directory.cards import CardRecord, read_record
from comity.directory.protocol.reputation import Reputation, ReviewRefusedError
from comity.directory.protocol.review import PairHistory, Review, admit_review, apply_review
from comity.directory.protocol.score import REPAIRED, UNKNOWN_SCORE, ReputationRules, score
from comity.envelopes.protocol.lifecycle import can_review
from comity.identity.protocol.keys import VacantId
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.interface import Store
from comity.store.operations import Append, Put, StoreConflict

REVIEW_LOG = "directory.reviews"

_REPUTATIONS = "directory.reputation"
_PAIRS = "directory.review_pair"
_ATTEMPTS = 16

_read_reputation = msgspec.json.Decoder(Reputation).decode
_read_history = msgspec.json.Decoder(PairHistory).decode


async def record_review(*, store: Store, record: Recorder, review: Review) -> Reputation:
    """Count the review, durably, and return the target's new reputation. `review.at` is now."""
    reviewer = await _party(store, review.reviewer, "the reviewer")
    target = await _party(store, review.target, "the target")
    if reviewer.vacant_id == target.vacant_id:
        raise ReviewRefusedError("an agent cannot review itself; use another identity")
    if not can_review(reviewer.runtime_state):
        raise ReviewRefusedError(
            f"the reviewer is {reviewer.runtime_state}, and may not review in that state"
        )
    same_family = reviewer.base_model_family is not None and (
        reviewer.base_model_family == target.base_model_family
    )
    pair = f"{reviewer.vacant_id}/{target.vacant_id}"
    act = _act("REVIEW_RECORDED", reviewer.vacant_id, target.vacant_id)
    for attempt in range(1, _ATTEMPTS + 1):
        held = await store.get(_REPUTATIONS, target.vacant_id)
        held_pair = await store.get(_PAIRS, pair)
        of_reviewer = await reputation_of(store, reviewer.vacant_id)
        history = admit_review(_read_history(held_pair.value) if held_pair else PairHistory(), review.at)
        moved = apply_review(
            _read_reputation(held.value) if held else Reputation(),
            review,
            nth=history.count,
            same_family=same_family,
            reviewer=of_reviewer,
        )
        try:
            await record.commit_counted(
                (
                    Append(log=REVIEW_LOG, data=msgspec.json.encode(review)),
                    Put(space=_PAIRS, key=pair, value=msgspec.json.encode(history)),
                    # A pair's history changes only together with this, so that one expectation guards both.
                    Put(
                        space=_REPUTATIONS,
                        key=target.vacant_id,
                        value=msgspec.json.encode(moved),
                        expect=held.version if held else 0,
                    ),
                ),
                act,
            )
        except StoreConflict:
            if attempt == _ATTEMPTS:
                raise
        else:
            return moved
    raise AssertionError("unreachable: the last attempt returns or raises")


async def start_reputation(*, store: Store, record: Recorder, vacant_id: str, initial: Reputation) -> None:
    """Let an agent be known before its first review. Refused (StoreConflict) for one that is known."""
    agent = (await _party(store, vacant_id, "the agent")).vacant_id
    start = Put(space=_REPUTATIONS, key=agent, value=msgspec.json.encode(initial), expect=0)
    await record.commit_counted((start,), _act("REPUTATION_STARTED", agent, agent))


async def reputation_of(store: Store, vacant_id: str) -> Reputation | None:
    held = await store.get(_REPUTATIONS, vacant_id.lower())
    return _read_reputation(held.value) if held else None


class StoredReputation:
    """The score of an agent. It is for `call_capability(…, reputation_oracle=…)`."""

    def __init__(self, store: Store, rules: ReputationRules = REPAIRED) -> None:
        self._store = store
        self._rules = rules

    async def score(self, vacant_hex: str, dimensions: Sequence[str]) -> float:
        held = await reputation_of(self._store, vacant_hex)
        if held is None:
            return UNKNOWN_SCORE
        return score(held, dimensions, await self._store.end(REVIEW_LOG), self._rules)


async def _party(store: Store, vacant_id: str, who: str) -> CardRecord:
    record = await read_record(store, VacantId.from_hex(vacant_id))
    if record is None:
        raise ReviewRefusedError(f"{who} {vacant_id[:12]} is not in the directory; publish its card first")
    return record


def _act(result: str, who: str, about: str) -> Act:
    return Act(room="directory", result=result, caller=Caller(kind="vacant", id=who), about=about[:8])
