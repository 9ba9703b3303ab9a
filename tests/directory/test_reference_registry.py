"""Our client against the registry of the reference (ruling 40): publish, republish, search, hide."""

import asyncio
import json
import subprocess
import sys
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from comity.directory.client import DirectoryClient
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.errors import HashChainError, SignatureVerificationError
from comity.testing import VirtualClock, running_node
from comity.testing.vectors import vector_file
from comity.wire.errors import ConflictError, ForbiddenError, InvalidError, UnusableAnswerError
from tests.directory.publications import agent, card_of, hexes
from tests.directory.reference_registry import ReferenceRegistry
from tests.directory.test_directory import Liar
from tests.places import file_of

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
        status, shown = registry.answer(
            asked["method"], split.path, dict(parse_qsl(split.query)), asked["body"]
        )
        assert status == recorded["status"], asked
        if exchange["judge"] == "exact":
            assert shown == recorded["body"], asked


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
    shown = {"vacant_id": ALICE.vacant_id.hex(), "direction": "ancestors", "chain": hexes(BOB)}
    assert await client(Liar((200, shown))).lineage(ALICE.vacant_id) == [BOB.vacant_id]
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


# The exchanges that were recorded between the CLI of the reference and its registry, replayed against a node.


def holds(recorded, shown):
    """Every recorded member is there and equal. Lists have the same length; members of ours may come on top."""
    if isinstance(recorded, dict):
        return isinstance(shown, dict) and all(
            name in shown and (name == "score" or holds(value, shown[name]))
            for name, value in recorded.items()
        )
    if isinstance(recorded, list):
        return isinstance(shown, list) and len(recorded) == len(shown) and all(map(holds, recorded, shown))
    return type(recorded) is type(shown) and recorded == shown


@pytest.mark.vector
async def test_vector_envelope_a_node_answers_as_the_registry_was_recorded():
    exchanges = vector_file("envelope", "registry_http")["exchanges"]
    assert len(exchanges) > 20
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as stranger:
        for exchange in exchanges:
            asked, recorded = exchange["request"], exchange["answer"]
            answer = await stranger.request(asked["method"], asked["path"], json=asked["body"])
            match exchange["judge"]:
                case "exact":
                    assert answer.status_code == recorded["status"], asked
                    assert holds(recorded["body"], answer.json()), (asked, answer.json())
                case "status":
                    assert answer.status_code == recorded["status"], asked
                case "4xx":
                    assert 400 <= answer.status_code < 500, asked
                case other:
                    raise AssertionError(f"unknown judge {other}")


async def test_a_recorded_publication_that_is_sent_again_gets_its_first_answer_and_a_changed_one_is_refused():
    """As the sheet lists them: 400 bad hex or card, 401 bad event signature, 409 sequence or key conflict."""
    exchanges = vector_file("envelope", "registry_http")["exchanges"]
    first, second, _bob = (e for e in exchanges if e["request"]["path"] == "/v1/halo")
    body = first["request"]["body"]
    async with running_node() as node, httpx.AsyncClient(base_url=node.url) as stranger:
        for _ in range(2):
            answer = await stranger.post("/v1/halo", json=body)
            assert (answer.status_code, answer.json()) == (200, first["answer"]["body"])
        for changed, status in (
            ({"capability_card_blob_hex": "zz"}, 400),
            ({"capability_card_blob_hex": second["request"]["body"]["capability_card_blob_hex"]}, 401),
            ({"visibility": "NONE"}, 401),
            ({"event_actor_seq": 3}, 401),
            ({"owner_org": "somebody"}, 409),
            ({"extra": 1}, 400),
        ):
            refusal = await stranger.post("/v1/halo", json=body | changed)
            assert refusal.status_code == status, changed
            assert isinstance(refusal.json()["detail"], str)
        answer = await stranger.post("/v1/halo", json=second["request"]["body"])
        assert answer.json() == second["answer"]["body"]


async def test_a_client_that_was_written_from_the_contract_alone_publishes_searches_hides_and_recounts():
    program = file_of("tests.http.directory_stranger")
    async with running_node() as node:
        running = await asyncio.create_subprocess_exec(
            sys.executable, str(program), node.url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        shown, failed = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode == 0, failed.decode()
    assert json.loads(shown) == {
        "first": True,
        "again": True,
        "hidden": True,
        "hidden_status": 403,
        "shown": True,
        "parents": True,
        "children": True,
        "numbers": [1, 2, 3, 4, 5],
        "chain": 5,
    }
