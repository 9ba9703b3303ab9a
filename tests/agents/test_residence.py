"""The vacant of this node: its card and its state."""

import pytest

from comity.agents.residence import StateHandler, resident_form, stored_state
from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.memory import MemoryStore
from comity.wire.errors import ConflictError, InvalidError, StoreUnavailableError, UnauthenticatedError
from tests.callers import OWNER, STRANGER
from tests.envelopes.peers import SERVER

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
    room = StateHandler(form, store)

    async def ask_for(body, *, owner=True):
        return await pipeline.run(room, Request(door="test", caller=OWNER if owner else STRANGER, body=body))

    return ask_for


async def test_a_new_vacant_is_local_with_a_card_that_verifies_and_binds_replies(form):
    form.check()
    assert form.runtime_state is RuntimeState.LOCAL
    assert form.capability_card.endpoint == ENDPOINT
    assert form.capability_card.substrate_spec.policy == {"bind_replies": True}


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
