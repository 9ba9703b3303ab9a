"""Serving one vacant from another program."""

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette

from comity.envelopes.app import build_a2a_app, build_a2a_router, card_routes
from comity.envelopes.protocol.card import RuntimeState, deserialize
from comity.envelopes.protocol.envelope import from_a2a_result, to_a2a_jsonrpc
from comity.envelopes.replay_stores import InMemoryReplayStore, SqliteReplayStore
from comity.identity.protocol.keys import SigningKey
from comity.wire.errors import InvalidError
from tests.envelopes.peers import SERVER, Caller, echo
from tests.envelopes.residents import resident


def client(app) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


def served(**changed):
    return {
        "self_form": resident(),
        "self_signing_key": SERVER,
        "behavior": echo,
        "replay_store": InMemoryReplayStore(),
        **changed,
    }


async def test_the_application_answers_under_a2a():
    http = client(build_a2a_app(**served()))
    response = await http.post("/a2a/message/send", json=to_a2a_jsonrpc(Caller().next()))
    assert from_a2a_result(response.json()).verify(SERVER.vacant_id)


async def test_the_router_mounts_in_fastapi_and_takes_a_prefix():
    app = FastAPI()
    app.mount("/agents", build_a2a_router(**served(), prefix="/mine"))
    response = await client(app).post("/agents/mine/message/send", json=to_a2a_jsonrpc(Caller().next()))
    assert response.status_code == 200


async def test_the_state_is_asked_for_each_call():
    states = iter([RuntimeState.ACTIVE, RuntimeState.SUNK])
    http = client(build_a2a_app(**served(), state_provider=lambda: next(states)))
    caller = Caller()
    answers = [await http.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next())) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 410]


async def test_the_form_says_the_state_when_nobody_else_does():
    form = resident()
    http = client(build_a2a_app(**served(self_form=form)))
    form.runtime_state = RuntimeState.STALE
    response = await http.post("/a2a/message/send", json=to_a2a_jsonrpc(Caller().next()))
    assert response.status_code == 423


async def test_what_was_accepted_is_known_to_the_replay_store():
    replay = InMemoryReplayStore()
    envelope = Caller().next()
    http = client(build_a2a_app(**served(replay_store=replay)))
    await http.post("/a2a/message/send", json=to_a2a_jsonrpc(envelope))
    from comity.envelopes.protocol.chain import PairKey

    assert (await replay.get(PairKey.from_envelope(envelope))).last_sequence_no == 1


async def test_a_store_that_cannot_be_opened_is_503_until_it_can(tmp_path):
    folder = tmp_path / "missing"
    replay = SqliteReplayStore(folder / "replay.db")
    http = client(build_a2a_app(**served(replay_store=replay)))
    request = to_a2a_jsonrpc(Caller().next())
    refused = await http.post("/a2a/message/send", json=request)
    assert refused.status_code == 503
    assert str(folder) not in refused.text
    folder.mkdir()
    assert (await http.post("/a2a/message/send", json=request)).status_code == 200
    await replay.close()


def test_a_form_with_somebody_elses_key_is_refused():
    with pytest.raises(InvalidError, match="its own key"):
        build_a2a_app(**served(self_signing_key=SigningKey.from_seed(b"x" * 32)))


def test_a_replay_store_of_another_kind_is_refused_with_a_sentence():
    with pytest.raises(InvalidError, match="SqliteReplayStore"):
        build_a2a_app(**served(replay_store=object()))


async def test_the_card_is_shown_whole_and_verifies():
    form = resident()
    http = client(Starlette(routes=card_routes(lambda: form, "alice")))
    shown = (await http.get("/card")).json()
    assert deserialize(bytes.fromhex(shown.pop("capability_card_blob_hex"))).verify()
    assert shown == {
        "vacant_id": SERVER.vacant_id.hex(),
        "capability_text": "says what it was told",
        "endpoint": "http://127.0.0.1/a2a/message/send",
        "halo_version": 1,
    }
    assert (await http.get("/health")).json() == {
        "vacant_id": SERVER.vacant_id.hex(),
        "state": "ACTIVE",
        "name": "alice",
    }


async def test_a_vacant_without_a_card_has_none_to_show():
    form = resident(capability_card=None)
    http = client(Starlette(routes=card_routes(lambda: form, "alice")))
    assert (await http.get("/card")).status_code == 404
