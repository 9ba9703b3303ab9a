"""Two workers over one database."""

import asyncio

import pytest

from comity.directory.events import DIRECTORY_LOG, FIRST_PREVIOUS, event_at
from comity.envelopes.protocol.errors import IdempotencyConflict, SequenceMonotonicityError
from comity.http.statuses import http_status
from comity.store.sqlite import SqliteStore
from tests.directory.publications import Directory, agent, publication
from tests.store.samples import trail_at

ALICE = agent("alice")


@pytest.fixture
async def workers(tmp_path, clock):
    stores = [
        await SqliteStore.open(tmp_path / "comity.db", clock, trail_at(tmp_path, chain))
        for chain in ("one", "other")
    ]
    yield [Directory(store, clock) for store in stores]
    for store in stores:
        await store.close()


async def race(workers, bodies):
    pairs = zip(workers, bodies, strict=True)
    return await asyncio.gather(*(worker.publish(body) for worker, body in pairs), return_exceptions=True)


async def test_of_two_publishers_racing_for_a_number_one_wins_and_the_other_is_told_409(workers):
    for seq in range(1, 11):
        bodies = [
            publication(ALICE, f"{name} {seq}", seq=seq, event_idempotency_key=f"{name}:{seq}")
            for name in ("one", "other")
        ]
        outcomes = await race(workers, bodies)
        (won,) = (outcome for outcome in outcomes if isinstance(outcome, dict))
        (lost,) = (outcome for outcome in outcomes if isinstance(outcome, SequenceMonotonicityError))
        assert http_status(lost) == 409
        for worker in workers:
            told = await worker.ask("card", ALICE)
            assert told["capability_card_hash_hex"] == won["capability_card_hash_hex"]
            assert await worker.store.end(DIRECTORY_LOG) == seq


async def test_the_same_request_to_both_has_one_effect_and_one_answer(workers):
    for seq in range(1, 6):
        one, other = await race(workers, [publication(ALICE, f"text {seq}", seq=seq)] * 2)
        assert one == other
        assert one["event_seq"] == await workers[0].store.end(DIRECTORY_LOG) == seq


async def test_publishers_of_different_agents_all_get_through_and_their_events_are_one_chain(workers):
    keys = [agent(number) for number in range(24)]
    replies = await asyncio.gather(
        *(workers[number % 2].publish(publication(key)) for number, key in enumerate(keys))
    )
    assert sorted(reply["event_seq"] for reply in replies) == list(range(1, 25))
    previous = FIRST_PREVIOUS.hex()
    for seq in range(1, 25):
        event = await event_at(workers[0].store, seq)
        assert (event.seq, event.prev_event_hash_hex) == (seq, previous)
        previous = event.event_hash_hex


async def test_two_requests_under_one_key_have_one_winner(workers):
    outcomes = await race(workers, [publication(ALICE, text, event_idempotency_key="k") for text in "ab"])
    assert sum(isinstance(outcome, dict) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, IdempotencyConflict) for outcome in outcomes) == 1
