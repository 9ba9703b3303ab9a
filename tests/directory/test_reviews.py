"""Reviews that others publish in a directory: signed, counted once, within limits."""

import asyncio

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from comity.directory.protocol.reputation import ReviewLimitError, ReviewRefusedError
from comity.directory.protocol.reviews import SignedReview, read_review
from comity.directory.reviews import ReviewHandler, reviewed, reviews_of
from comity.requests.budget import Quota
from comity.requests.caller import anonymous
from comity.requests.handler import Request
from comity.store.audit_log import tail
from comity.wire.errors import ConflictError, InvalidError, StorageFullError, UnauthenticatedError
from tests.directory.publications import PEER, agent, publication

A, B, C = (agent(name) for name in "abc")
DAY = 86_400


class Reviewing:
    """A directory with A, B and C, and the door for reviews."""

    def __init__(self, directory, quota=None):
        self.directory = directory
        self.clock = directory.clock
        self.store = directory.store
        self.handler = ReviewHandler(directory.store, quota)

    async def publish(self, **families):
        for key, family in ((A, "claude"), (B, "claude"), (C, "gpt")):
            await self.directory.publish(publication(key, base_model_family=family))
        return self

    def signed(self, reviewer=A, target=B, signal=1.0, by=None, **members):
        said = {"signals": {"factual": signal}, "ts_ms": int(self.clock.now() * 1000), **members}
        unsigned = SignedReview(reviewer=reviewer.vacant_id.hex(), target=target.vacant_id.hex(), **said)
        return unsigned.signed(by or reviewer)

    async def send(self, review):
        body = read_review(to_builtins(review))
        request = Request(door="test", caller=anonymous(PEER), body=body)
        return await self.directory.pipeline.run(self.handler, request)

    async def of(self, key=B):
        return await reviewed(self.store, key.vacant_id.hex())


@pytest.fixture
async def reviewing(directory):
    return await Reviewing(directory).publish()


async def test_a_review_is_counted_and_shown_with_the_card(reviewing):
    answer = await reviewing.send(reviewing.signed(signal=1.0))
    assert (answer["reviews"], answer["score"] > 0.5) == (1, True)
    [found] = [
        match
        for match in (await reviewing.directory.ask("query"))["matches"]
        if match["vacant_id"] == B.vacant_id.hex()
    ]
    assert (found["score"], found["reviews"]) == (answer["score"], 1)
    shown = await reviewing.directory.ask("reviews", B)
    assert (shown["count"], shown["score"]) == (1, answer["score"])
    [one] = shown["reviews"]
    read_review(one).check_signature()
    assert one["reviewer"] == A.vacant_id.hex()


async def test_it_weighs_by_family_and_by_what_is_known_of_the_reviewer(reviewing):
    await reviewing.send(reviewing.signed(A, B))
    assert (await reviewing.of()).reputation.factual.n_eff == pytest.approx(0.6 * 0.5 * 0.3)
    await reviewing.send(reviewing.signed(C, B))
    assert (await reviewing.of()).reputation.factual.n_eff == pytest.approx(0.6 * 0.5 * 0.3 + 0.6 * 0.3)
    mean = (await reviewing.of()).reputation.factual.mean
    await reviewing.send(reviewing.signed(B, C))
    assert (await reviewing.of(C)).reputation.factual.n_eff == pytest.approx(0.6 * (0.3 + 0.7 * mean))


async def test_it_survives_a_restart_and_stands_in_the_audit(open_directory):
    directory = await open_directory()
    reviewing = await Reviewing(directory).publish()
    await reviewing.send(reviewing.signed())
    before = await reviewing.of()
    again = Reviewing(await open_directory())
    assert await again.of() == before
    *_, last = [entry async for entry in tail(again.store, "main", 10)]
    assert last.verification_result.startswith("DIRECTORY_REVIEW")


async def test_ten_thousand_reviews_by_one_key_count_three_times_a_day_and_keep_one_row(reviewing):
    sentences = set()
    for _ in range(200):
        reviewing.clock.jump(0.001)
        try:
            await reviewing.send(reviewing.signed())
        except ReviewLimitError as limit:
            sentences.add(limit.message)
    assert sentences == {"this reviewer has judged this target 3 times within 24 hours; try again later"}
    assert (await reviewing.of()).reviews == 3
    assert len(await reviews_of(reviewing.store, B.vacant_id)) == 1
    reviewing.clock.jump(DAY)
    await reviewing.send(reviewing.signed())


async def test_the_same_review_counts_once(reviewing):
    review = reviewing.signed()
    await reviewing.send(review)
    before = await reviewing.of()
    for again in (review, reviewing.signed(ts_ms=review.ts_ms - 1)):
        with pytest.raises(ConflictError, match="is here already; nothing was changed"):
            await reviewing.send(again)
    assert await reviewing.of() == before


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"by": C}, UnauthenticatedError, "not signed by"),
        ({"target": A}, ReviewRefusedError, "cannot review itself"),
        ({"target": agent("nobody")}, ReviewRefusedError, "the agent .* is not in the directory"),
        ({"reviewer": agent("nobody")}, ReviewRefusedError, "the reviewer .* is not in the directory"),
        ({"signals": {"factual": 1.01}}, InvalidError, "a number from 0 to 1"),
        ({"signals": {"factual": -1}}, InvalidError, "a number from 0 to 1"),
        ({"signals": {"beauty": 1.0}}, InvalidError, "there is no dimension 'beauty'"),
        ({"signals": {}}, InvalidError, "at least one dimension"),
        ({"ts_ms": 0}, InvalidError, "is of 1970-.*, and the clock here says 2026-"),
        ({"ts_ms": 10**15}, InvalidError, "is of 33658-|outside the years"),
        ({"ts_ms": -1}, InvalidError, "refused"),
    ],
)
async def test_what_no_review_can_be_is_refused_in_a_sentence_and_stores_nothing(
    reviewing, change, error, sentence
):
    with pytest.raises(error, match=sentence):
        await reviewing.send(reviewing.signed(**change))
    assert (await reviewing.of()).reviews == 0
    assert await reviews_of(reviewing.store, B.vacant_id) == []


async def test_a_review_that_somebody_changed_is_refused(reviewing):
    with pytest.raises(UnauthenticatedError):
        await reviewing.send(replace(reviewing.signed(), signals={"factual": 0.0}))
    body = to_builtins(reviewing.signed())
    for wrong in ({**body, "more": 1}, {**body, "signals": 1}, {**body, "ts_ms": "now"}, [], None):
        with pytest.raises(InvalidError, match="the review is refused"):
            read_review(wrong)
    for name in ("reviewer", "target"):
        for id_ in ("me", body[name].upper(), "é" * 64, ""):
            with pytest.raises(InvalidError, match=f"{name} must be an id of 64"):
                read_review({**body, name: id_})


async def test_a_reviewer_who_is_gone_may_not_review(reviewing):
    await reviewing.directory.publish(publication(A, seq=2, runtime_state="SUNK"))
    with pytest.raises(ReviewRefusedError, match="SUNK"):
        await reviewing.send(reviewing.signed())


async def test_reviews_by_many_at_once_all_count(reviewing):
    keys = [agent(number) for number in range(8)]
    for key in keys:
        await reviewing.directory.publish(publication(key))
    await asyncio.gather(*(reviewing.send(reviewing.signed(key)) for key in keys))
    assert (await reviewing.of()).reviews == 8


async def test_a_hundred_false_names_change_no_order(reviewing):
    before = await reviewing.directory.found()
    for number in range(20):
        puppet = agent(f"puppet {number}")
        await reviewing.directory.publish(publication(puppet, "praises"))
        await reviewing.send(reviewing.signed(puppet, C))
    found = await reviewing.directory.found()
    assert [id_ for id_ in found if id_ in before] == before


async def test_reviews_count_on_the_account_of_their_address(directory):
    quota = Quota(
        directory.store, directory.clock, name="cards", total=20_000, has_share=lambda _address: False
    )
    reviewing = await Reviewing(directory, quota).publish()
    stored = 0
    for number in range(100):
        key = agent(number)
        try:
            await directory.publish(publication(key))
            await reviewing.send(reviewing.signed(key))
        except StorageFullError:
            break
        stored += 1
    assert 0 < stored < 30
