"""A caller that remembers: calls queue up for their target, and nobody forks the chain."""

import asyncio

import pytest

from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.errors import (
    EnvelopeSignatureError,
    TargetNotFoundError,
    TargetUnavailableError,
)
from comity.identity.protocol.keys import SigningKey
from comity.store.audit_chain import privacy_hash
from comity.store.audit_trail import AuditTrail, log_of
from comity.store.memory import MemoryStore
from comity.wire import strict_json
from comity.wire.errors import InvalidError
from tests.envelopes.client.model_target import ModelTarget, answer, message, text_of
from tests.envelopes.client.scene import ALICE, BOB, EVE, Scene, simulated


@simulated
async def test_calls_follow_each_other():
    scene = Scene()
    assert [await scene.say(text) for text in "abc"] == ["echo a", "echo b", "echo c"]
    assert scene.seqs() == [1, 2, 3]
    assert scene.wire.sent[0].prev_envelope_hash == bytes(32)
    assert scene.wire.sent[2].prev_envelope_hash == scene.wire.sent[1].compute_hash()
    assert scene.agrees()
    assert scene.leases() == []


@simulated
async def test_a_new_process_goes_on_where_the_last_one_was():
    scene = Scene()
    await scene.say("a")
    await scene.say("b", scene.caller())
    assert scene.seqs() == [1, 2]
    assert scene.agrees()


@simulated
async def test_the_result_names_request_reply_and_target():
    scene = Scene()
    card = scene.bob.card()
    result = await scene.alice.call(card, message("x"))
    assert result.request_envelope == scene.wire.sent[0]
    assert result.request_envelope.verify(ALICE.vacant_id)
    assert result.response_envelope.from_vacant_id == BOB.vacant_id
    assert result.target is card


@simulated
async def test_sending_and_settling_are_audited():
    scene = Scene()
    store = MemoryStore(scene.clock, scene.disk, AuditTrail("main", ALICE))
    caller = Dispatcher(store, ALICE, scene.clock, scene.wire)
    await scene.say(caller=caller)
    scene.wire.weather = [answer(423, {})]
    with pytest.raises(TargetUnavailableError):
        await scene.say(caller=caller)
    entries = [strict_json.loads(record.data) for record in await store.read(log_of("main"))]
    assert [entry["verification_result"] for entry in entries] == [
        "CALL_SENT",
        "CALL_ANSWERED",
        "CALL_SENT",
        "CALL_FAILED",
    ]
    assert entries[0]["content_hash"] == privacy_hash(f"vacant:{BOB.vacant_id.hex()}")


@simulated
async def test_parallel_callers_on_one_pair_never_fork():
    """Against a target of the reference release, which forgives nothing."""
    scene = Scene(strict=True)

    async def slowly(request):
        await asyncio.sleep(0.01 * (7 * request.sequence_no % 5))
        return f"echo {text_of(request)}"

    scene.bob.behaviour = slowly
    answers = await asyncio.gather(*(scene.say(str(n)) for n in range(32)))
    assert answers == [f"echo {n}" for n in range(32)]
    assert scene.seqs() == list(range(1, 33))
    assert scene.agrees()


@simulated
async def test_callers_of_different_targets_do_not_wait_for_each_other():
    scene = Scene()
    slow = asyncio.Event()

    async def stuck(request):
        await slow.wait()
        return "late"

    scene.bob.behaviour = stuck
    eve = ModelTarget(EVE)
    scene.wire.targets["https://eve.example/a2a/message/send"] = eve
    card = CapabilityCard(
        vacant_id=EVE.vacant_id, capability_text="x", endpoint="https://eve.example/a2a/message/send"
    ).signed(EVE)
    waiting = asyncio.create_task(scene.say())
    assert await scene.say("quick", card=card) == "echo quick"
    assert not waiting.done()
    slow.set()
    assert await waiting == "late"


@simulated
async def test_processes_that_share_a_store_take_turns():
    scene = Scene(strict=True)

    async def slowly(request):
        await asyncio.sleep(0.3)
        return f"echo {text_of(request)}"

    scene.bob.behaviour = slowly
    processes = [scene.caller() for _ in range(4)]
    answers = await asyncio.gather(*(scene.say(str(n), processes[n % 4]) for n in range(12)))
    assert answers == [f"echo {n}" for n in range(12)]
    assert scene.agrees()
    assert sorted(scene.seqs()) == list(range(1, 13))
    assert scene.leases() == []


@simulated
async def test_a_vacant_does_not_call_itself():
    scene = Scene()
    card = CapabilityCard(
        vacant_id=ALICE.vacant_id, capability_text="x", endpoint="https://a.example/"
    ).signed(ALICE)
    with pytest.raises(InvalidError, match="does not call itself"):
        await scene.say(card=card)


@simulated
async def test_the_card_is_checked_before_anything_is_written():
    scene = Scene()
    endless = CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x").signed(BOB)
    with pytest.raises(TargetNotFoundError):
        await scene.say(card=endless)
    forged = CapabilityCard(vacant_id=BOB.vacant_id, capability_text="x", endpoint="https://b/").signed(EVE)
    with pytest.raises(EnvelopeSignatureError):
        await scene.say(card=forged)
    assert scene.disk.values == {}
    assert scene.wire.bodies == []


@simulated
async def test_idle_targets_are_forgotten_and_busy_ones_are_not():
    from comity.envelopes.client import dispatcher

    scene = Scene()
    targets = [ModelTarget(SigningKey.from_seed(bytes([n]) * 32)) for n in range(10, 16)]
    cards = []
    for number, target in enumerate(targets):
        url = f"https://t{number}.example/"
        scene.wire.targets[url] = target
        cards.append(
            CapabilityCard(vacant_id=target.key.vacant_id, capability_text="x", endpoint=url).signed(
                target.key
            )
        )
    limit, dispatcher._IDLE_PAIRS = dispatcher._IDLE_PAIRS, 2
    try:
        for _ in range(2):
            assert await asyncio.gather(*(scene.say("a", card=card) for card in cards)) == ["echo a"] * 6
            assert len(scene.alice._queues) == 2
    finally:
        dispatcher._IDLE_PAIRS = limit
    assert all(target.accepted[ALICE.vacant_id].last_sequence_no == 2 for target in targets)
