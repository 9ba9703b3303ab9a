"""Exchanges of one session at the same moment: what is accepted is stored."""

import asyncio

import pytest

from comity.store.interface import Put
from comity.vcp.contexts import SPACE, context_key
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.context import read_request
from comity.vcp.protocol.negotiation import ExchangeContext
from comity.wire.errors import ConflictError
from tests.requests.pipelines import HeldStore, settle, simulated
from tests.vcp.runtime import ALICE, PERSONAL, WIRE, NodeRuntime

SESSION = Session(id="ses_1", version="3.1", extensions=(PERSONAL,), identity=ALICE)
STRANGER = Session(id="ses_2", version="3.1", extensions=(PERSONAL,))
PEER = "198.51.100.7"


def asking(**result):
    return ExchangeContext(SESSION, read_request(result, SESSION))


def house_of(store_of):
    runtime = NodeRuntime()
    runtime.store = store = store_of(runtime.clock)
    runtime.record._store = runtime.service._contexts._store = store
    return runtime


class BusyStore(HeldStore):
    """Before each commit of a context, somebody else stores it: `rivals` times."""

    rivals = 0

    def submit(self, operations, audit=()):
        written = next((put for put in operations if getattr(put, "key", "") == context_key("ses_1")), None)
        if written is not None and self.rivals:
            self.rivals -= 1
            super().submit((Put(space=SPACE, key=written.key, value=written.value),))
        return super().submit(operations, audit)


@simulated
async def test_two_exchanges_at_once_are_both_stored():
    runtime = house_of(HeldStore)
    runtime.store.held = True
    both = [
        asyncio.create_task(runtime.service.exchange(asking(categorical=WIRE), PEER)),
        asyncio.create_task(runtime.service.exchange(asking(generation_preferences={"depth": 4}), PEER)),
    ]
    await settle()
    runtime.store.held = False
    runtime.store.release()
    assert [answer.accepted for answer in await asyncio.gather(*both)] == [
        ("categorical",),
        ("generation_preferences",),
    ]
    context = await runtime.service.resume("ses_1", ALICE)
    assert (context.categorical.wire, context.preferences.depth) == (WIRE, 4)
    history = await runtime.service.history("ses_1", ALICE)
    assert [exchange.accepted for exchange in history] == [("categorical",), ("generation_preferences",)]
    assert await runtime.results() == ["CONTEXT_EXCHANGED", "CONTEXT_EXCHANGED"]


@simulated
async def test_the_answer_shows_what_the_other_exchange_left():
    runtime = house_of(HeldStore)
    runtime.store.held = True
    both = [
        asyncio.create_task(runtime.service.exchange(asking(generation_preferences={"depth": depth}), PEER))
        for depth in (1, 2)
    ] + [asyncio.create_task(runtime.service.exchange(asking(categorical=WIRE), PEER))]
    await settle()
    runtime.store.held = False
    runtime.store.release()
    answers = await asyncio.gather(*both)
    assert answers[2].generation_preferences.depth in (1, 2)
    assert answers[2].generation_preferences == (await runtime.service.resume("ses_1", ALICE)).preferences


@simulated
async def test_a_request_is_applied_again_up_to_eight_times():
    runtime = house_of(BusyStore)
    runtime.store.rivals = 7
    await runtime.service.exchange(asking(generation_preferences={"depth": 4}), PEER)
    assert (await runtime.service.resume("ses_1", ALICE)).preferences.depth == 4

    runtime.store.rivals = 8
    with pytest.raises(ConflictError, match="send it again"):
        await runtime.service.exchange(asking(generation_preferences={"depth": 5}), PEER)
    assert (await runtime.results()) == ["CONTEXT_EXCHANGED", "CONTEXT_REFUSED"]
    assert runtime.features.running()["audit_chain"] is True


@simulated
async def test_strangers_may_exchange_at_once_too():
    runtime = NodeRuntime()
    requests = ({"categorical": WIRE}, {"generation_preferences": {"depth": 4}})
    await asyncio.gather(
        *(
            runtime.service.exchange(ExchangeContext(STRANGER, read_request(result, STRANGER)), PEER)
            for result in requests
        )
    )
    context = runtime.service._contexts._anonymous["ses_2"]
    assert (context.categorical.wire, context.preferences.depth) == (WIRE, 4)
