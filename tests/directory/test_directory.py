"""The client of a directory: against our own door, and against directories that lie."""

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from comity.directory.client import DirectoryClient
from comity.directory.doors import directory_routes
from comity.directory.outcomes import CallOutcomes, StoredReputation
from comity.directory.protocol.reviews import SignedReview
from comity.envelopes.client.calls import rank_targets
from comity.envelopes.protocol.card import RuntimeState, Visibility, serialize
from comity.envelopes.protocol.errors import (
    EnvelopeFormatError,
    EnvelopeSignatureError,
    HashChainError,
    TargetNotFoundError,
)
from comity.http.client import GuardedHttp, HttpResponse
from comity.http.server import HttpServer
from comity.requests.caller import OWN_PROCESS
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock
from comity.wire import strict_json
from comity.wire.errors import (
    ConflictError,
    ForbiddenError,
    InvalidError,
    NoAnswerError,
    NotFoundError,
    RetryLaterError,
    UnauthenticatedError,
    UnusableAnswerError,
)
from tests.directory.publications import agent, card_of, hexes
from tests.store.samples import KEY

ALICE, BOB, MALLORY = agent("alice"), agent("bob"), agent("mallory")
URL = "http://directory.example:8443"


class AsgiHttp:
    """Carries requests to our own door, and remembers them."""

    def __init__(self, app) -> None:
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app))
        self.urls: list[str] = []

    async def request(self, method, url, json=None):
        self.urls.append(url)
        answer = await self.client.request(method, url, json=json)
        return HttpResponse(answer.status_code, {}, answer.content)


class Liar:
    """Answers what it is told to."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[tuple] = []

    async def request(self, method, url, json=None):
        self.asked.append((method, url, json))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, body = answer
        return HttpResponse(status, {}, body if isinstance(body, bytes) else strict_json.dumps(body))


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def store(clock):
    return MemoryStore(clock, trail=AuditTrail("main", KEY))


@pytest.fixture
async def http(clock, store):
    pipeline = Pipeline(Recorder(store, clock), clock, budget=None)
    carrier = AsgiHttp(Starlette(routes=directory_routes(pipeline=pipeline, store=store, clock=clock)))
    yield carrier
    await carrier.client.aclose()


@pytest.fixture
def client(http, clock):
    def make(key=None):
        return DirectoryClient(http, URL + "/", clock=clock, key=key)

    return make


def lied_to(clock, *answers, key=None):
    return DirectoryClient(Liar(*answers), URL, clock=clock, key=key)


class TestPublishing:
    async def test_puts_a_card_where_others_find_it(self, client):
        card = card_of(ALICE, "translate poems")
        shown = await client(ALICE).publish(
            card, base_model="opus", base_model_family="claude", owner_org="example", version="1.0"
        )
        assert (shown.event_seq, shown.visibility) == (1, Visibility.PUBLIC)
        assert shown.capability_card_hash_hex == card.card_hash().hex()
        assert await client().card(ALICE.vacant_id) == card

    async def test_counts_on_by_itself(self, client):
        for seq in range(1, 4):
            assert (await client(ALICE).publish(card_of(ALICE, f"text {seq}"))).event_seq == seq

    async def test_counts_on_where_only_the_owner_may_look(self, client):
        for seq in range(1, 4):
            shown = await client(ALICE).publish(
                card_of(ALICE), visibility=Visibility.NONE, idempotency_key=str(seq)
            )
            assert shown.event_seq == seq

    async def test_can_hide_a_card(self, client):
        await client(ALICE).publish(card_of(ALICE), runtime_state=RuntimeState.LOCAL)
        assert await client().search("echo") == []

    async def test_asks_again_with_the_same_bytes_when_the_answer_is_lost(self, clock):
        shown = {
            "vacant_id": ALICE.vacant_id.hex(),
            "visibility": "PUBLIC",
            "event_seq": 1,
            "capability_card_hash_hex": "00" * 32,
        }
        liar = Liar((404, {}), NoAnswerError("lost"), (200, shown))
        client = DirectoryClient(liar, URL, clock=clock, key=ALICE)
        assert (await client.publish(card_of(ALICE))).event_seq == 1
        assert liar.asked[1] == liar.asked[2]

    @pytest.mark.parametrize("key", [None, BOB])
    async def test_needs_the_key_of_the_card(self, clock, key):
        with pytest.raises(InvalidError, match="key of its vacant_id"):
            await lied_to(clock, key=key).publish(card_of(ALICE))

    async def test_sends_no_card_with_control_characters(self, clock):
        with pytest.raises(EnvelopeFormatError, match="control character"):
            await lied_to(clock, key=ALICE).publish(card_of(ALICE, "a\x1fb"))

    async def test_tells_a_conflict(self, client):
        await client(ALICE).publish(card_of(ALICE), idempotency_key="k")
        with pytest.raises(ConflictError, match="event_idempotency_key was used"):
            await client(ALICE).publish(card_of(ALICE, "other"), idempotency_key="k")


class TestFetching:
    async def test_what_is_not_there_is_told(self, client):
        with pytest.raises(NotFoundError, match=ALICE.vacant_id.short()):
            await client().card(ALICE.vacant_id)

    async def test_shows_a_hidden_card_to_its_owner_and_its_parent(self, client):
        await client(ALICE).publish(card_of(ALICE), visibility=Visibility.NONE, parent_id=BOB.vacant_id)
        for reader in (ALICE, BOB):
            assert await client(reader).card(ALICE.vacant_id) == card_of(ALICE)
            assert len(await client(reader).event_log(ALICE.vacant_id)) == 1
        for reader in (None, MALLORY):
            with pytest.raises(ForbiddenError):
                await client(reader).card(ALICE.vacant_id)

    async def test_does_not_say_who_reads_what_everybody_may(self, client, http):
        await client(ALICE).publish(card_of(ALICE))
        http.urls.clear()
        await client(BOB).card(ALICE.vacant_id)
        await client(BOB).search("echo")
        assert len(http.urls) == 2
        assert not any("caller" in url for url in http.urls)

    async def test_refuses_a_card_that_its_owner_did_not_sign(self, clock):
        forged = msgspec.structs.replace(card_of(ALICE), endpoint="https://evil.example/")
        answer = {"capability_card_blob_hex": serialize(forged).hex()}
        with pytest.raises(EnvelopeSignatureError, match="not signed"):
            await lied_to(clock, (200, answer)).card(ALICE.vacant_id)

    async def test_refuses_the_card_of_somebody_else(self, clock):
        answer = {"capability_card_blob_hex": serialize(card_of(MALLORY)).hex()}
        with pytest.raises(EnvelopeSignatureError, match="when asked for"):
            await lied_to(clock, (200, answer)).card(ALICE.vacant_id)

    async def test_refuses_a_card_that_could_be_read_as_another(self, clock):
        answer = {"capability_card_blob_hex": serialize(card_of(ALICE, "a\x1fb")).hex()}
        with pytest.raises(EnvelopeFormatError, match="control character"):
            await lied_to(clock, (200, answer)).card(ALICE.vacant_id)

    @pytest.mark.parametrize(
        "answer",
        [b"", b"<html>", [], {}, None, {"capability_card_blob_hex": 5}, {"capability_card_blob_hex": "zz"}],
    )
    async def test_refuses_what_is_no_answer(self, clock, answer):
        with pytest.raises(UnusableAnswerError):
            await lied_to(clock, (200, answer)).card(ALICE.vacant_id)

    @pytest.mark.parametrize(
        ("status", "error"),
        [
            (400, InvalidError),
            (401, UnauthenticatedError),
            (403, ForbiddenError),
            (404, NotFoundError),
            (409, ConflictError),
            (422, InvalidError),
            (429, RetryLaterError),
            (500, UnusableAnswerError),
            (503, RetryLaterError),
            (302, UnusableAnswerError),
        ],
    )
    async def test_tells_each_refusal_in_its_own_class_and_plain_words(self, clock, status, error):
        with pytest.raises(error, match="no  way") as refusal:
            await lied_to(clock, (status, {"detail": "no \x1bway"})).card(ALICE.vacant_id)
        assert refusal.value.message == f"the directory refused with status {status}: no  way"

    @pytest.mark.parametrize("body", [b"", b"[]", {"detail": [{"msg": "x"}]}, {"detail": None}, {}])
    async def test_tells_a_refusal_without_words_too(self, clock, body):
        with pytest.raises(InvalidError, match="status 400"):
            await lied_to(clock, (400, body)).card(ALICE.vacant_id)


class TestSearching:
    async def test_finds_verified_cards_in_order(self, client):
        await client(ALICE).publish(card_of(ALICE, "translate"), base_model_family="claude")
        await client(BOB).publish(card_of(BOB, "translate much else besides"), base_model_family="gpt")
        found = await client().search("translate")
        assert [match.vacant_id for match in found] == hexes(ALICE, BOB)
        assert found[0].capability_card == card_of(ALICE, "translate")
        assert [match.vacant_id for match in await client().search(family="gpt")] == hexes(BOB)
        assert len(await client().search(limit=1)) == 1

    async def test_carries_any_query(self, client):
        await client(ALICE).publish(card_of(ALICE, "C++ & Rust 100% 繁體中文"))
        for query in ("c++ & rust", "100%", "中文", "rust?"):
            assert [match.vacant_id for match in await client().search(query)] == hexes(ALICE)

    async def test_leaves_out_what_does_not_verify(self, clock, caplog):
        good = {"capability_card_blob_hex": serialize(card_of(ALICE)).hex()}
        forged = msgspec.structs.replace(card_of(BOB), endpoint="https://evil.example/")
        bad = [
            {"capability_card_blob_hex": serialize(forged).hex()},
            {},
            5,
            {"capability_card_blob_hex": "7b"},
        ]
        found = await lied_to(clock, (200, {"matches": [*bad, good]})).search("echo")
        assert [match.vacant_id for match in found] == hexes(ALICE)
        assert caplog.text.count("is left out") == 4

    async def test_takes_no_more_than_it_asked_for(self, clock):
        good = {"capability_card_blob_hex": serialize(card_of(ALICE)).hex()}
        assert len(await lied_to(clock, (200, {"matches": [good] * 9})).search(limit=3)) == 3

    async def test_does_not_ask_a_directory_for_local_cards(self, clock):
        with pytest.raises(InvalidError, match="local"):
            await lied_to(clock).aggregation_search(query="x", include_local=True)


class TestDispatch:
    async def test_chooses_among_what_the_client_finds(self, client, clock, store):
        await client(ALICE).publish(card_of(ALICE, "translate"))
        await client(BOB).publish(card_of(BOB, "translate much else besides"))
        chosen, *_ = await rank_targets("translate", client().aggregation_search, None)
        assert chosen == card_of(ALICE, "translate")
        with pytest.raises(TargetNotFoundError, match="no public vacant offers capability 'paint'"):
            await rank_targets("paint", client().aggregation_search, None)

    async def test_lets_the_oracle_choose(self, client, store, clock):
        await client(ALICE).publish(card_of(ALICE, "translate"))
        await client(BOB).publish(card_of(BOB, "translate much else besides"))
        outcomes = CallOutcomes(store, clock)
        with outcomes.watch(BOB.vacant_id, OWN_PROCESS):
            pass
        await outcomes.flush()
        oracle = StoredReputation(store, clock)
        chosen, *_ = await rank_targets("translate", client().aggregation_search, oracle)
        assert chosen.vacant_id == BOB.vacant_id

    async def test_a_review_is_published_and_counted_with_the_card(self, client, clock):
        for key in (ALICE, BOB):
            await client(key).publish(card_of(key, "translate"))
        review = SignedReview(
            reviewer=ALICE.vacant_id.hex(),
            target=BOB.vacant_id.hex(),
            signals={"factual": 1.0},
            ts_ms=int(clock.now() * 1000),
        )
        assert await client().review(review.signed(ALICE)) == 1
        found = {match.vacant_id: match for match in await client().search("translate")}
        assert found[BOB.vacant_id.hex()].reviews == 1
        assert found[BOB.vacant_id.hex()].score > 0.5
        with pytest.raises(UnauthenticatedError, match="not signed by"):
            await client().review(review.signed(BOB))


class TestEventsAndLineage:
    async def test_events_are_verified(self, client):
        for n in range(3):
            await client(ALICE).publish(card_of(ALICE), idempotency_key=str(n))
        events = await client().event_log(ALICE.vacant_id)
        assert [event.seq for event in events] == [event.actor_seq for event in events] == [1, 2, 3]
        assert [event.seq for event in await client().event_log(ALICE.vacant_id, from_seq=2)] == [3]
        assert (await client().last_event(ALICE.vacant_id)).actor_seq == 3
        assert await client().last_event(BOB.vacant_id) is None

    async def test_events_that_do_not_hang_together_are_refused(self, client, clock, http):
        for n in range(3):
            await client(ALICE).publish(card_of(ALICE), idempotency_key=str(n))
        events = (await http.client.get(f"{URL}/v1/event_log/{ALICE.vacant_id.hex()}")).json()
        for wrong in ([events[0], events[2]], [events[1], events[0]], [events[0], events[0]]):
            with pytest.raises(HashChainError):
                await lied_to(clock, (200, wrong)).event_log(ALICE.vacant_id)

    async def test_lineage_is_told_in_both_directions(self, client):
        await client(ALICE).publish(card_of(ALICE))
        await client(BOB).publish(card_of(BOB), parent_id=ALICE.vacant_id)
        assert await client().lineage(BOB.vacant_id) == [ALICE.vacant_id]
        assert await client().lineage(ALICE.vacant_id, direction="descendants", depth=1) == [BOB.vacant_id]


async def test_it_works_over_a_real_connection_and_the_guarded_client(clock, store, patience):
    pipeline = Pipeline(Recorder(store, clock), clock, budget=None)
    server = HttpServer("127.0.0.1", 0, cert=None, key=None)
    app = Starlette(routes=directory_routes(pipeline=pipeline, store=store, clock=clock))
    await server.start(app, shutdown_seconds=1.0)
    http = GuardedHttp(allow_loopback=True)
    try:
        client = DirectoryClient(http, server.url, clock=clock, key=ALICE)
        await client.publish(card_of(ALICE, "echo 繁體中文"))
        (match,) = await client.search("中文")
        assert match.vacant_id == ALICE.vacant_id.hex()
        await client.publish(card_of(ALICE), visibility=Visibility.NONE)
        assert await client.card(ALICE.vacant_id) == card_of(ALICE)
        with pytest.raises(ForbiddenError):
            await DirectoryClient(http, server.url, clock=clock).card(ALICE.vacant_id)
    finally:
        await http.aclose()
        await server.stop()
