"""The directory over HTTP: shapes, statuses, and that nothing a stranger sends breaks it."""

import gc
import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from comity.directory.doors import directory_routes
from comity.directory.protocol.signed_requests import prove_reader
from comity.requests.budget import Budget, Figures
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.runtime.settings import DirectorySettings
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.testing import VirtualClock, running_node
from tests.directory.publications import agent, card_of, publication
from tests.store.samples import KEY

ALICE, BOB, MALLORY = agent("alice"), agent("bob"), agent("mallory")
HOST = "directory.example"
KINDS = ("capability_card", "event_log", "lineage")


def served(clock, budget=None, **named):
    store = MemoryStore(clock, trail=AuditTrail("main", KEY))
    pipeline = Pipeline(Recorder(store, clock), clock, budget=budget)
    app = Starlette(routes=directory_routes(pipeline=pipeline, store=store, clock=clock, **named))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}")


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
async def http(clock):
    async with served(clock) as client:
        yield client


def page(kind, key):
    return f"/v1/{kind}/{key.vacant_id.hex()}"


def refused(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    detail = answer.json()["detail"]
    assert isinstance(detail, str)
    assert len(detail) > 5
    return detail


class TestPublishing:
    async def test_answers_as_the_contract_says(self, http):
        answer = await http.post("/v1/halo", json=publication(ALICE, "translate"))
        assert answer.status_code == 200
        assert answer.json() == {
            "vacant_id": ALICE.vacant_id.hex(),
            "visibility": "PUBLIC",
            "event_seq": 1,
            "capability_card_hash_hex": card_of(ALICE, "translate").card_hash().hex(),
        }

    @pytest.mark.parametrize(
        ("given", "status"),
        [
            ({"capability_card_blob_hex": "zz"}, 400),
            ({"capability_card_blob_hex": "00"}, 400),
            ({"surprise": True}, 400),
            ({"visibility": "EVERYBODY"}, 400),
            ({"event_actor_seq": "1"}, 400),
            ({"event_signature_hex": "00" * 64}, 401),
            ({"event_signature_hex": ""}, 401),
            ({"event_ts_ms": 5}, 401),
            ({"event_actor_seq": 2}, 401),
        ],
    )
    async def test_of_something_wrong_has_its_own_status(self, http, given, status):
        refused(await http.post("/v1/halo", json={**publication(ALICE), **given}), status)

    async def test_under_another_key_is_401(self, http):
        refused(await http.post("/v1/halo", json=publication(ALICE, signer=MALLORY)), 401)

    async def test_of_an_unsigned_card_is_400(self, http):
        card = card_of(ALICE)
        unsigned = type(card)(vacant_id=card.vacant_id, capability_text="x")
        refused(await http.post("/v1/halo", json=publication(ALICE, card=unsigned)), 400)

    async def test_out_of_order_is_409_and_names_the_number(self, http):
        detail = refused(await http.post("/v1/halo", json=publication(ALICE, seq=3)), 409)
        assert "must be 1, got 3" in detail

    async def test_of_another_request_under_a_used_key_is_409(self, http):
        await http.post("/v1/halo", json=publication(ALICE, event_idempotency_key="k"))
        body = publication(ALICE, seq=2, event_idempotency_key="k")
        refused(await http.post("/v1/halo", json=body), 409)

    async def test_of_the_same_request_again_is_the_same_answer(self, http):
        first, second = [await http.post("/v1/halo", json=publication(ALICE)) for _ in range(2)]
        assert (first.status_code, first.content) == (second.status_code, second.content)

    async def test_under_another_parent_is_409(self, http):
        await http.post("/v1/halo", json=publication(ALICE))
        body = publication(ALICE, seq=2, parent_id=BOB.vacant_id.hex())
        refused(await http.post("/v1/halo", json=body), 409)

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"null",
            b"[]",
            b"{",
            b"\xff\xfe",
            b'{"a":1,"a":2}',
            b'"\\ud800"',
            b"NaN",
            b"[" * 100_000,
            b'{"runtime_state":"\\ud800"}',
        ],
    )
    async def test_of_what_is_no_publication_is_400(self, http, body):
        gc.collect()  # not while the reader is deep in a body that is nested too deep
        headers = {"content-type": "application/json"}
        refused(await http.post("/v1/halo", content=body, headers=headers), 400)

    async def test_that_says_one_thing_twice_is_400(self, http):
        body = httpx.Request("POST", "http://x", json=publication(ALICE)).content
        twice = body[:-1] + b',"visibility":"PUBLIC"}'
        headers = {"content-type": "application/json"}
        assert "twice" in refused(await http.post("/v1/halo", content=twice, headers=headers), 400)

    async def test_as_something_else_than_json_is_400(self, http):
        refused(await http.post("/v1/halo", content=b"{}", headers={"content-type": "text/plain"}), 400)

    async def test_of_too_much_is_413(self, clock):
        async with served(clock, body_limit=1000) as http:
            refused(await http.post("/v1/halo", json=publication(ALICE, "x" * 900)), 413)

    async def test_too_often_is_429(self, clock):
        budget = Budget(clock, Figures(requests=1, limit_loopback=True))
        async with served(clock, budget=budget) as http:
            await http.post("/v1/halo", json=publication(ALICE))
            await http.post("/v1/halo", json=publication(BOB))
            answer = await http.post("/v1/halo", json=publication(ALICE))
            refused(answer, 429)
            assert int(answer.headers["retry-after"]) > 0


class TestReading:
    async def test_a_card_that_is_not_there_is_404(self, http):
        for kind in ("capability_card", "lineage"):
            refused(await http.get(page(kind, ALICE)), 404)
        assert (await http.get(page("event_log", ALICE))).json() == []
        refused(await http.get("/v1/event/1"), 404)

    async def test_an_id_that_is_none_is_400(self, http):
        for kind in KINDS:
            for wrong in ("x", "0" * 63, "%00", "%2e%2e", "\u00e9"):
                refused(await http.get(f"/v1/{kind}/{wrong}"), 400)

    async def test_a_hidden_card_is_403_for_who_only_names_itself(self, http):
        await http.post("/v1/halo", json=publication(ALICE, visibility="NONE"))
        refused(await http.get(page("capability_card", ALICE)), 403)
        named = {"caller": ALICE.vacant_id.hex()}
        refused(await http.get(page("capability_card", ALICE), params=named), 403)

    async def test_a_hidden_card_is_shown_for_a_signature(self, http, clock):
        await http.post("/v1/halo", json=publication(ALICE, visibility="NONE"))
        for path in (page("capability_card", ALICE), page("lineage", ALICE), "/v1/event/1"):
            refused(await http.get(path), 404 if "/event/" in path else 403)
            proof = prove_reader(ALICE, host=HOST, path=path, now=clock.now())
            answer = await http.get(path, params=proof)
            assert (answer.status_code, ALICE.vacant_id.hex() in answer.text) == (200, True)

    async def test_a_proof_for_another_host_or_page_is_401(self, http, clock):
        await http.post("/v1/halo", json=publication(ALICE, visibility="NONE"))
        for place in ({"host": "evil.example"}, {"path": page("event_log", ALICE)}):
            where = {"host": HOST, "path": page("capability_card", ALICE), **place}
            proof = prove_reader(ALICE, **where, now=clock.now())
            refused(await http.get(page("capability_card", ALICE), params=proof), 401)

    @pytest.mark.parametrize(
        "query",
        ["caller=x", "caller=", "caller_ts_ms=1", "a=1&a=2", "a=%ff", "&".join(f"p{n}=1" for n in range(40))],
    )
    async def test_a_query_that_cannot_be_read_is_400(self, http, query):
        await http.post("/v1/halo", json=publication(ALICE))
        refused(await http.get(f"{page('capability_card', ALICE)}?{query}"), 400)

    @pytest.mark.parametrize(
        "asked",
        [
            "/v1/event_log/{}?limit=501",
            "/v1/event_log/{}?from_seq=-1",
            "/v1/lineage/{}?depth=33",
            "/v1/lineage/{}?direction=up",
            "/v1/event/{}",
            "/v1/event/-1",
            "/v1/event/%D9%A1",
        ],
    )
    async def test_a_number_outside_its_range_is_400(self, http, asked):
        await http.post("/v1/halo", json=publication(ALICE))
        refused(await http.get(asked.format(ALICE.vacant_id.hex())), 400)

    async def test_what_a_question_does_not_know_is_left_unread(self, http):
        await http.post("/v1/halo", json=publication(ALICE))
        assert (await http.get(page("capability_card", ALICE) + "?utm=1")).status_code == 200


class TestSearching:
    async def test_finds_what_is_public_only(self, http):
        await http.post("/v1/halo", json=publication(ALICE, "translate"))
        await http.post("/v1/halo", json=publication(BOB, "translate", runtime_state="LOCAL"))
        answer = await http.post("/v1/query_capability", params={"capability": "translate"})
        assert answer.status_code == 200
        assert answer.json()["not_implemented_in_p4"] == []
        assert [match["vacant_id"] for match in answer.json()["matches"]] == [ALICE.vacant_id.hex()]

    async def test_never_shows_local_cards_however_it_is_asked(self, http):
        await http.post("/v1/halo", json=publication(BOB, "translate", runtime_state="LOCAL"))
        answer = await http.post("/v1/query_capability", params={"include_local": "true"})
        assert answer.json()["matches"] == []

    async def test_is_narrowed_by_family_and_limit(self, http):
        for key, family in ((ALICE, "claude"), (BOB, "gpt")):
            await http.post("/v1/halo", json=publication(key, base_model_family=family))
        answer = await http.post("/v1/query_capability?family=gpt")
        assert [match["base_model_family"] for match in answer.json()["matches"]] == ["gpt"]
        answer = await http.post("/v1/query_capability?limit=1")
        assert len(answer.json()["matches"]) == 1

    @pytest.mark.parametrize("limit", ["0", "101", "x", "", "1.5", "-1", "%D9%A1"])
    async def test_with_a_wrong_limit_is_400(self, http, limit):
        refused(await http.post(f"/v1/query_capability?limit={limit}"), 400)

    async def test_by_get_is_405(self, http):
        answer = await http.get("/v1/query_capability")
        refused(answer, 405)
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/halo"), ("PUT", "/v1/halo"), ("POST", "/v1/lineage/00"), ("DELETE", "/v1/event_log/00")],
)
async def test_another_method_is_405(http, method, path):
    refused(await http.request(method, path), 405)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.sampled_from(list(publication(ALICE, declared_capabilities=["x"], parent_id="00" * 32))),
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
)
async def test_whatever_stands_in_a_member_is_answered_below_500(clock, name, value):
    body = publication(ALICE, declared_capabilities=["x"], parent_id="00" * 32)
    async with served(clock) as http:
        content = json.dumps({**body, name: value}).encode()
        answer = await http.post("/v1/halo", content=content, headers={"content-type": "application/json"})
        assert answer.status_code in (200, 400, 401, 409)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(query=st.binary(max_size=60), kind=st.sampled_from(KINDS))
async def test_whatever_stands_in_a_query_is_answered_below_500(clock, query, kind):
    async with served(clock) as http:
        await http.post("/v1/halo", json=publication(ALICE))
        escaped = "".join(
            f"%{byte:02x}" if not chr(byte).isalnum() and byte not in b"=&" else chr(byte) for byte in query
        )
        for method, path in (("GET", page(kind, ALICE)), ("POST", "/v1/query_capability")):
            answer = await http.request(method, f"{path}?{escaped}")
            assert answer.status_code in (200, 400, 401)


PUBLIC = (
    "/v1/halo",
    "/v1/query_capability",
    "/v1/capability_card/00",
    "/v1/event_log/00",
    "/v1/event/0",
    "/v1/lineage/00",
    "/v1/revocation_list",
)
OTHERS = ("/v1/halo/", "/v1/capability_card", "/v1/status", "/")


async def test_its_own_paths_and_no_others_are_public_while_it_is_served():
    async def answers(node, paths):
        async with httpx.AsyncClient(base_url=node.url) as stranger:
            return [(await stranger.get(path)).status_code for path in paths]

    async with running_node() as node:
        assert 401 not in await answers(node, PUBLIC)
        assert await answers(node, OTHERS) == [401] * len(OTHERS)
    async with running_node(directory=DirectorySettings(serve=False)) as node:
        assert await answers(node, PUBLIC) == [404] * len(PUBLIC)
        assert await answers(node, ("/v1/status", "/")) == [401, 401]
