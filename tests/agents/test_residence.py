"""The vacant of this node: its card and its state."""

import httpx
import pytest

from comity.agents.part import Publishing
from comity.agents.residence import StateHandler, resident_form, stored_state
from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.runtime.settings import AgentSettings, DirectorySettings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_log import tail
from comity.store.memory import MemoryStore
from comity.testing import bearer, running_node
from comity.wire.errors import ConflictError, InvalidError, StoreUnavailableError, UnauthenticatedError
from tests.callers import OWNER, STRANGER
from tests.envelopes.peers import SERVER
from tests.waiting import eventually

ENDPOINT = "http://127.0.0.1:1/a2a/message/send"


@pytest.fixture
def store():
    return MemoryStore(SystemClock())


@pytest.fixture
async def form(store):
    return await resident_form(store, SERVER, "echo", ENDPOINT)


@pytest.fixture
def ask(store, form):
    pipeline = Pipeline(Recorder(store, SystemClock(), audited=False), SystemClock(), budget=None)
    handler = StateHandler(form, store)

    async def ask_for(body, *, owner=True):
        return await pipeline.run(
            handler, Request(door="test", caller=OWNER if owner else STRANGER, body=body)
        )

    return ask_for


async def test_a_new_vacant_is_local_with_a_card_that_verifies_and_binds_replies(form):
    form.check()
    assert form.runtime_state is RuntimeState.LOCAL
    assert form.capability_card.endpoint == ENDPOINT
    assert form.capability_card.substrate_spec.policy == {"bind_replies": True, "witness": 1}


async def test_a_card_with_a_field_separator_in_it_is_never_made(store):
    with pytest.raises(EnvelopeFormatError, match="0x1F"):
        await resident_form(store, SERVER, "echo\x1fmore", ENDPOINT)


async def test_the_state_is_set_at_once_and_survives_a_restart(store, form, ask):
    assert await ask({"state": "hibernating"}) == {"state": "HIBERNATING", "former": "LOCAL"}
    assert form.runtime_state is RuntimeState.HIBERNATING
    assert await stored_state(store) is RuntimeState.HIBERNATING
    assert (await resident_form(store, SERVER, "echo", ENDPOINT)).runtime_state is RuntimeState.HIBERNATING


async def test_nothing_leads_out_of_archived(form, ask):
    await ask({"state": "ARCHIVED"})
    with pytest.raises(ConflictError, match="ARCHIVED"):
        await ask({"state": "ACTIVE"})
    assert form.runtime_state is RuntimeState.ARCHIVED


@pytest.mark.parametrize("body", [{"state": "FLYING"}, {"state": 5}, {}, [], None])
async def test_an_unknown_state_is_refused_with_those_there_are(form, ask, body):
    with pytest.raises(InvalidError, match="LOCAL, ACTIVE, HIBERNATING, STALE, SUNK, ARCHIVED"):
        await ask(body)
    assert form.runtime_state is RuntimeState.LOCAL


async def test_only_the_owner_sets_it(form, ask):
    with pytest.raises(UnauthenticatedError):
        await ask({"state": "ACTIVE"}, owner=False)
    assert form.runtime_state is RuntimeState.LOCAL


async def test_a_state_that_could_not_be_stored_is_not_taken(store, form, ask):
    await store.close()
    with pytest.raises(StoreUnavailableError):
        await ask({"state": "ACTIVE"})
    assert form.runtime_state is RuntimeState.LOCAL


# A node that publishes its agent in the directory of another one.

SINGER = AgentSettings(behaviour="echo", capability="sings songs")


async def found(node):
    async with httpx.AsyncClient(base_url=node.url) as reader:
        answer = await reader.post("/v1/query_capability", params={"capability": "songs"})
        return [match["vacant_id"] for match in answer.json()["matches"]]


async def until(expected, node):
    """Ask until the directory says so."""

    async def found_as_expected():
        return await found(node) == expected

    await eventually(found_as_expected, interval=0.02)


async def test_it_is_found_there_and_follows_the_state_that_its_owner_sets(patience):
    async with running_node() as directory:
        settings = DirectorySettings(url=directory.url + "/", publish=True)
        async with (
            running_node(agent=SINGER, directory=settings) as node,
            httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as owner,
        ):
            await node.runtime.find(Publishing).kept.attempted.wait()
            assert await found(directory) == [node.vacant_id.hex()]
            assert (await owner.get("/health")).json()["state"] == "ACTIVE"
            panel = (await owner.get("/v1/status")).json()["panels"]["publishing"]
            assert panel["rows"] == [["directory", directory.url], ["published", "event 1, PUBLIC, ACTIVE"]]
            await owner.post("/v1/state", json={"state": "SUNK"})
            await until([], directory)
            await owner.post("/v1/state", json={"state": "ACTIVE"})
            await until([node.vacant_id.hex()], directory)
            await node.store.commit()
            written = [entry.verification_result async for entry in tail(node.store, "main", 50)]
            assert written.count("CARD_PUBLISHED") >= 1


async def test_without_being_asked_a_node_publishes_nothing(patience):
    async with running_node() as directory:
        async with running_node(agent=SINGER, directory=DirectorySettings(url=directory.url)) as node:
            assert not any(isinstance(part, Publishing) for part in node.runtime.parts)
        assert await found(directory) == []
