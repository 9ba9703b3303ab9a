"""Our client against the registry of the reference (ruling 40): publish, republish, search, hide."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from comity.directory.client import DirectoryClient
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.errors import HashChainError, SignatureVerificationError
from comity.testing import VirtualClock
from comity.testing.vectors import vector_file
from comity.wire.errors import ConflictError, ForbiddenError, InvalidError, UnusableAnswerError
from tests.directory.publications import agent, card_of, hexes
from tests.directory.reference_registry import ReferenceRegistry
from tests.directory.test_directory import Liar

ALICE, BOB = agent("alice"), agent("bob")
URL = "http://registry.example"


@pytest.fixture
def registry():
    return ReferenceRegistry()


def client(registry, key=None):
    return DirectoryClient(registry, URL, clock=VirtualClock(), key=key)


@pytest.mark.vector
def test_vector_envelope_the_stand_in_answers_as_the_registry_was_recorded(registry):
    for exchange in vector_file("envelope", "registry_http")["exchanges"]:
        asked, recorded = exchange["request"], exchange["answer"]
        split = urlsplit(asked["path"])
        status, told = registry.answer(
            asked["method"], split.path, dict(parse_qsl(split.query)), asked["body"]
        )
        assert status == recorded["status"], asked
        if exchange["judge"] == "exact":
            assert told == recorded["body"], asked


async def test_a_card_is_published_and_published_again(registry):
    alice = client(registry, ALICE)
    first = await alice.publish(card_of(ALICE, "sings songs"), base_model_family="fam")
    assert (first.event_seq, first.visibility) == (1, Visibility.PUBLIC)
    await client(registry, BOB).publish(card_of(BOB, "counts beans"))
    again = await alice.publish(card_of(ALICE, "sings older songs"))
    assert again.event_seq == 3
    assert [row["actor_seq"] for row in registry.events] == [1, 1, 2]
    assert await client(registry).card(ALICE.vacant_id) == card_of(ALICE, "sings older songs")


async def test_nothing_is_sent_that_the_registry_does_not_know(registry):
    await client(registry, ALICE).publish(card_of(ALICE))
    body = registry.asked[-1][2]
    assert None not in body.values()
    assert "owner_org" not in body


async def test_what_was_published_is_found(registry):
    await client(registry, ALICE).publish(card_of(ALICE, "sings songs"), base_model_family="fam")
    await client(registry, BOB).publish(card_of(BOB, "counts beans"))
    reader = client(registry)
    assert [match.vacant_id for match in await reader.search("songs")] == hexes(ALICE)
    assert [match.vacant_id for match in await reader.search(family="fam")] == hexes(ALICE)
    assert await reader.search("nothing") == []
    with pytest.raises(InvalidError, match="status 422"):
        await reader.search("songs", limit=0)


async def test_a_card_is_hidden_and_shown_again(registry):
    alice = client(registry, ALICE)
    await alice.publish(card_of(ALICE, "sings songs"))
    await alice.publish(card_of(ALICE, "sings songs"), visibility=Visibility.NONE)
    assert await client(registry).search("songs") == []
    with pytest.raises(ForbiddenError):
        await client(registry).card(ALICE.vacant_id)
    assert await alice.card(ALICE.vacant_id) == card_of(ALICE, "sings songs")
    await alice.publish(card_of(ALICE, "sings songs"), visibility=Visibility.PUBLIC)
    assert len(await client(registry).search("songs")) == 1


async def test_events_are_read_page_by_page_to_the_last(registry):
    alice = client(registry, ALICE)
    for number in range(5):
        await alice.publish(card_of(ALICE), idempotency_key=str(number))
        await client(registry, BOB).publish(card_of(BOB), idempotency_key=f"b{number}")
    page = await alice.event_log(ALICE.vacant_id, from_seq=3, limit=2)
    assert [(event.seq, event.actor_seq) for event in page] == [(5, 3), (7, 4)]
    last = await alice.last_event(ALICE.vacant_id)
    assert (last.seq, last.actor_seq) == (9, 5)
    assert await alice.last_event(agent("carol").vacant_id) is None


async def test_lineage_is_a_chain_of_ids():
    told = {"vacant_id": ALICE.vacant_id.hex(), "direction": "ancestors", "chain": hexes(BOB)}
    assert await client(Liar((200, told))).lineage(ALICE.vacant_id) == [BOB.vacant_id]
    with pytest.raises(UnusableAnswerError):
        await client(Liar((200, {"chain": ["zz"]}))).lineage(ALICE.vacant_id)


async def test_a_taken_number_is_a_conflict(registry):
    await client(registry, ALICE).publish(card_of(ALICE), idempotency_key="k")
    with pytest.raises(ConflictError, match="idempotency key conflict"):
        await client(registry, ALICE).publish(card_of(ALICE, "other"), idempotency_key="k")


async def test_a_registry_that_repeats_its_events_is_left(registry):
    await client(registry, ALICE).publish(card_of(ALICE))
    page = registry.events
    with pytest.raises(UnusableAnswerError, match="repeats"):
        await client(Liar((200, page), (200, page))).last_event(ALICE.vacant_id)


async def test_the_event_of_somebody_else_is_refused(registry):
    await client(registry, BOB).publish(card_of(BOB))
    with pytest.raises(SignatureVerificationError, match="who was asked for"):
        await client(Liar((200, registry.events))).event_log(ALICE.vacant_id)


async def test_a_signature_that_is_shown_must_hold(registry):
    await client(registry, ALICE).publish(card_of(ALICE))
    body, row = registry.asked[-1][2], registry.events[0]
    proof = {
        "idempotency_key": body["event_idempotency_key"],
        "signature_hex": body["event_signature_hex"],
        "prev_event_hash_hex": bytes(32).hex(),
    }
    (event,) = await client(Liar((200, [row | proof]))).event_log(ALICE.vacant_id)
    assert event.signature_hex
    for changed, refusal in (
        ({"ts": row["ts"] + 1}, SignatureVerificationError),
        ({"payload_json": row["payload_json"].replace("PUBLIC", "NONE")}, SignatureVerificationError),
        ({"event_hash_hex": "00" * 32}, HashChainError),
        ({"signature_hex": "zz"}, HashChainError),
    ):
        with pytest.raises(refusal):
            await client(Liar((200, [row | proof | changed]))).event_log(ALICE.vacant_id)
