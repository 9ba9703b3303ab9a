"""Reviews that are kept, and the oracle that speaks from them."""

import asyncio

import pytest

from comity.directory.cards import (
    REVIEW_LOG,
    StoredReputation,
    record_review,
    reputation_of,
    start_reputation,
)
from comity.directory.protocol.reputation import (
    DIMENSIONS,
    REFERENCE,
    Reputation,
    ReputationRules,
    Review,
    ReviewLimitError,
    ReviewRefusedError,
    initial_prior,
    score,
)
from comity.store.audit_log import tail
from comity.store.interface import StoreConflict
from comity.wire.errors import MalformedError
from tests.directory.publications import agent, publication

A, B, C = (agent(name) for name in "abc")


def review(reviewer=A, target=B, at=1000.0, **given):
    members = {"signals": {"factual": 1.0}, "source": "caller_review", **given}
    return Review(reviewer=reviewer.vacant_id.hex(), target=target.vacant_id.hex(), at=at, **members)


@pytest.fixture
async def known(directory):
    """A and B are of one family, C is not."""
    for key, family in ((A, "claude"), (B, "claude"), (C, "gpt")):
        await directory.publish(publication(key, base_model_family=family))
    return directory


class TestAReview:
    async def test_is_weighed_by_family_and_source(self, known):
        moved = await record_review(store=known.store, record=known.record, review=review())
        assert moved.factual.n_eff == pytest.approx(0.6 * 0.5 * 0.3)
        moved = await record_review(store=known.store, record=known.record, review=review(C, at=1000.0))
        assert moved.factual.n_eff == pytest.approx(0.6 * 0.5 * 0.3 + 0.6 * 0.3)

    async def test_is_not_discounted_when_no_family_is_known(self, directory):
        for key in (A, B):
            await directory.publish(publication(key))
        moved = await record_review(store=directory.store, record=directory.record, review=review())
        assert moved.factual.n_eff == pytest.approx(0.6 * 0.3)

    async def test_weighs_more_from_a_reviewer_who_is_known(self, known):
        await record_review(store=known.store, record=known.record, review=review(A, C))
        mean = (await reputation_of(known.store, C.vacant_id.hex())).factual.mean
        moved = await record_review(store=known.store, record=known.record, review=review(C, B))
        assert moved.factual.n_eff == pytest.approx(0.6 * (0.3 + 0.7 * mean))

    async def test_survives_a_restart_with_its_history(self, open_directory):
        directory = await open_directory()
        for key in (A, B):
            await directory.publish(publication(key))
        for _ in range(3):
            moved = await record_review(store=directory.store, record=directory.record, review=review())
        directory = await open_directory()
        assert await reputation_of(directory.store, B.vacant_id.hex()) == moved
        with pytest.raises(ReviewLimitError):
            await record_review(store=directory.store, record=directory.record, review=review())
        assert await directory.store.end(REVIEW_LOG) == 3

    async def test_is_one_transaction_with_its_audit_entry(self, known):
        await record_review(store=known.store, record=known.record, review=review())
        *_, last = [entry async for entry in tail(known.store, "main", 10)]
        assert last.verification_result == "REVIEW_RECORDED"

    async def test_that_is_one_too_many_changes_nothing(self, known):
        for _ in range(3):
            before = await record_review(store=known.store, record=known.record, review=review())
        with pytest.raises(ReviewLimitError):
            await record_review(store=known.store, record=known.record, review=review(at=2000.0))
        assert await reputation_of(known.store, B.vacant_id.hex()) == before
        await record_review(store=known.store, record=known.record, review=review(at=1000.0 + 86_400))

    async def test_of_oneself_is_refused_however_the_id_is_written(self, known):
        with pytest.raises(ReviewRefusedError, match="cannot review itself"):
            review(A, A)
        shouted = Review(
            reviewer=A.vacant_id.hex().upper(),
            target=A.vacant_id.hex(),
            signals={"factual": 1.0},
            source="peer_review",
            at=0.0,
        )
        with pytest.raises(ReviewRefusedError, match="cannot review itself"):
            await record_review(store=known.store, record=known.record, review=shouted)

    async def test_by_or_of_a_stranger_is_refused(self, known):
        stranger = agent("stranger")
        with pytest.raises(ReviewRefusedError, match=r"the reviewer .* is not in the directory"):
            await record_review(store=known.store, record=known.record, review=review(stranger, A))
        with pytest.raises(ReviewRefusedError, match=r"the target .* is not in the directory"):
            await record_review(store=known.store, record=known.record, review=review(A, stranger))

    async def test_by_what_is_no_id_is_refused(self, known):
        wrong = Review(
            reviewer="me", target=A.vacant_id.hex(), signals={"factual": 1.0}, source="peer_review", at=0.0
        )
        with pytest.raises(MalformedError):
            await record_review(store=known.store, record=known.record, review=wrong)

    @pytest.mark.parametrize(
        ("state", "may"),
        [("LOCAL", True), ("ACTIVE", True), ("HIBERNATING", True), ("STALE", False), ("SUNK", False)],
    )
    async def test_needs_a_reviewer_in_a_state_to_review(self, known, state, may):
        await known.publish(publication(A, seq=2, runtime_state=state))
        if may:
            await record_review(store=known.store, record=known.record, review=review())
        else:
            with pytest.raises(ReviewRefusedError, match=state):
                await record_review(store=known.store, record=known.record, review=review())

    async def test_of_one_target_by_many_at_once_all_count(self, directory):
        keys = [agent(n) for n in range(8)]
        for key in (B, *keys):
            await directory.publish(publication(key))
        await asyncio.gather(
            *(
                record_review(store=directory.store, record=directory.record, review=review(key))
                for key in keys
            )
        )
        held = await reputation_of(directory.store, B.vacant_id.hex())
        assert held.factual.n_eff == pytest.approx(8 * 0.6 * 0.3)
        assert await directory.store.end(REVIEW_LOG) == 8


class TestAStart:
    async def test_is_what_reviews_are_added_to(self, known):
        born = initial_prior(attestation_level="L2", birth_path="PATH_ZERO")
        await start_reputation(
            store=known.store, record=known.record, vacant_id=B.vacant_id.hex(), initial=born
        )
        moved = await record_review(store=known.store, record=known.record, review=review())
        assert moved.factual.alpha > born.factual.alpha
        assert moved.logical == born.logical

    async def test_is_had_once_and_by_those_in_the_directory(self, known):
        await record_review(store=known.store, record=known.record, review=review())
        with pytest.raises(StoreConflict):
            await start_reputation(
                store=known.store, record=known.record, vacant_id=B.vacant_id.hex(), initial=Reputation()
            )
        with pytest.raises(ReviewRefusedError):
            await start_reputation(
                store=known.store, record=known.record, vacant_id="00" * 32, initial=Reputation()
            )


class TestTheOracle:
    async def test_knows_nothing_anonymous(self, known):
        for rules in (ReputationRules(), REFERENCE):
            assert await StoredReputation(known.store, rules).score(A.vacant_id.hex(), DIMENSIONS) == 0.0

    async def test_answers_by_its_rules(self, known):
        held = await record_review(store=known.store, record=known.record, review=review())
        await record_review(store=known.store, record=known.record, review=review(B, C))
        for rules in (ReputationRules(), REFERENCE, ReputationRules(exploration="harmonic")):
            shown = await StoredReputation(known.store, rules).score(B.vacant_id.hex(), DIMENSIONS)
            assert shown == score(held, DIMENSIONS, 2, rules)

    async def test_does_not_care_how_an_id_is_written(self, known):
        await record_review(store=known.store, record=known.record, review=review())
        oracle = StoredReputation(known.store)
        shouted = await oracle.score(B.vacant_id.hex().upper(), ("factual",))
        assert shouted == await oracle.score(B.vacant_id.hex(), ("factual",)) > 0

    async def test_prefers_the_better_reviewed(self, known):
        for signal, target in ((0.9, B), (0.1, C)):
            signals = dict.fromkeys(DIMENSIONS, signal)
            await record_review(
                store=known.store, record=known.record, review=review(A, target, signals=signals)
            )
        for rules in (ReputationRules(), REFERENCE):
            oracle = StoredReputation(known.store, rules)
            better, worse = [await oracle.score(key.vacant_id.hex(), DIMENSIONS) for key in (B, C)]
            assert better > worse
