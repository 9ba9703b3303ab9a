"""A replay store that a program brings along: the document's two methods, with the reference's semantics."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

from comity import (
    PairKey,
    ReplayState,
    ReplayStore,
    SqliteReplayStore,
    VacantAsMCPServer,
    build_a2a_app,
    build_a2a_router,
)
from comity.envelopes.protocol.chain import TipStatement, check_chain
from comity.envelopes.protocol.envelope import from_a2a_result, to_a2a_jsonrpc
from comity.envelopes.protocol.errors import ReplayDetectedError
from tests.envelopes.peers import SERVER, Caller, Gate, echo
from tests.envelopes.residents import resident


class Theirs:
    """A dict, and nothing of ours underneath. Reading takes a moment, as a database does."""

    def __init__(self):
        self.states = {}

    async def get(self, key):
        await asyncio.sleep(0)
        return self.states.get(key, ReplayState())

    async def check_and_advance(self, env):
        key = PairKey.from_envelope(env)
        state = await self.get(key)
        self.states[key] = check_chain(state, env)


def served(replay_store, behavior=echo):
    app = build_a2a_app(
        self_form=resident(), self_signing_key=SERVER, behavior=behavior, replay_store=replay_store
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")


async def post(http, envelope):
    return await http.post("/a2a/message/send", json=to_a2a_jsonrpc(envelope))


def test_it_is_a_replay_store_by_its_methods():
    assert isinstance(Theirs(), ReplayStore)
    assert not isinstance(object(), ReplayStore)


async def test_calls_are_answered_in_chains_that_the_store_keeps():
    store, caller = Theirs(), Caller()
    http = served(store)
    replies = [from_a2a_result((await post(http, caller.next())).json()) for _ in range(3)]
    assert [reply.sequence_no for reply in replies] == [1, 2, 3]
    assert all(reply.verify(SERVER.vacant_id) for reply in replies)
    assert replies[2].prev_envelope_hash == replies[1].compute_hash()
    assert store.states[PairKey(caller.key.vacant_id, SERVER.vacant_id)].chain_tip == caller.tip


async def test_a_repeated_envelope_is_refused_with_the_way_back():
    http, caller = served(Theirs()), Caller()
    envelope = caller.next()
    assert (await post(http, envelope)).status_code == 200
    refused = await post(http, envelope)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "replay/out-of-order envelope: seq 1 <= last_seen 1"
    assert refused.json()["expected_sequence_no"] == 2
    assert TipStatement.from_json(refused.json()["statement"]).verify()


async def test_a_number_is_used_even_when_the_agent_fails():
    async def broken(_envelope):
        raise RuntimeError("no")

    store, caller = Theirs(), Caller()
    failed = await post(served(store, broken), caller.next())
    assert failed.status_code == 500
    assert "its number is used" in failed.json()["detail"]
    assert (await post(served(store), caller.next())).status_code == 200


async def test_calls_of_one_pair_at_once_never_tear_the_chain_of_replies():
    gate = Gate()
    caller, http = Caller(), served(Theirs(), gate)
    calls = []
    async with asyncio.timeout(10):
        for _ in range(8):
            gate.someone.clear()
            calls.append(asyncio.create_task(post(http, caller.next())))
            await gate.someone.wait()
    gate.open.set()
    replies = [from_a2a_result(answer.json()) for answer in await asyncio.gather(*calls)]
    assert sorted(reply.sequence_no for reply in replies) == list(range(1, 9))


@pytest.mark.parametrize("fault", [OSError("disk full"), ValueError("not mine")])
async def test_whatever_the_store_raises_is_a_conflict(fault):
    class Broken(Theirs):
        async def check_and_advance(self, env):
            raise fault

    refused = await post(served(Broken()), Caller().next())
    assert (refused.status_code, refused.json()["detail"]) == (409, str(fault))


async def test_the_mcp_tools_stand_on_it_too_and_show_what_they_were_given():
    store, caller = Theirs(), Caller()
    server = VacantAsMCPServer(resident(), SERVER, echo, store)
    assert (server.self_signing_key, server.behavior, server.replay_store) == (SERVER, echo, store)
    envelope = caller.next()
    arguments = {"envelope": to_a2a_jsonrpc(envelope)}
    assert "message" in await server.call_tool("vacant_call", arguments)
    with pytest.raises(ReplayDetectedError):
        await server.call_tool("vacant_call", arguments)


def test_an_engine_of_another_library_is_refused_when_it_is_given():
    sqlalchemy = pytest.importorskip("sqlalchemy.ext.asyncio")
    with pytest.raises(TypeError, match="path of its file"):
        SqliteReplayStore(sqlalchemy.create_async_engine("sqlite+aiosqlite://"))


async def test_the_router_mounts_beside_the_routes_of_a_fastapi_application():
    app = FastAPI()
    app.get("/hi")(lambda: {"hi": True})
    app.mount(
        "",
        build_a2a_router(self_form=resident(), self_signing_key=SERVER, behavior=echo, replay_store=Theirs()),
    )
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1")
    assert (await post(http, Caller().next())).status_code == 200
    assert (await http.get("/hi")).json() == {"hi": True}


def test_including_the_router_in_fastapi_names_mount():
    router = build_a2a_router(
        self_form=resident(), self_signing_key=SERVER, behavior=echo, replay_store=Theirs()
    )
    with pytest.raises(AttributeError, match="mount"):
        FastAPI().include_router(router)
    assert not hasattr(router, "nonsense")
