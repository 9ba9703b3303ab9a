"""What a caller does not forget: open calls, answered ones, and whose turn it is, also after a crash."""

import asyncio

import pytest

from comity.envelopes.client.conversation import Retries
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.pair import CALL_SPACE
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.audit_trail import AuditTrail
from comity.store.interface import Acquire, Put
from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore
from comity.testing.loop import run_simulated
from comity.wire.errors import NoAnswerError, OverloadedError, StoreCorruptError, StoreUnavailableError
from tests.envelopes.client.model_target import ModelTarget, Wire, message, text_of
from tests.envelopes.client.scene import ALICE, BOB, LOST, NOBODY, Scene, simulated


@simulated
async def test_a_call_repeated_under_its_key_is_the_same_call():
    scene = Scene()
    scene.wire.weather = [LOST] * 3
    with pytest.raises(NoAnswerError, match="under the key k7"):
        await scene.say("a", idempotency_key="k7")
    assert await scene.say("a", scene.caller(), idempotency_key="k7") == "echo a"
    assert await scene.say("a", idempotency_key="k7") == "echo a"
    assert await scene.say("a", scene.caller(), idempotency_key="k7") == "echo a"
    assert len(scene.bob.executed) == 1
    assert len(set(scene.wire.bodies)) == 1
    assert scene.wire.sent[0].idempotency_key == "k7"
    assert scene.agrees()


@simulated
async def test_calls_without_a_key_are_each_their_own():
    scene = Scene()
    for _ in range(2):
        await scene.say("a")
    assert len(scene.bob.executed) == 2
    assert len({envelope.idempotency_key for envelope in scene.bob.executed}) == 2


@simulated
async def test_a_cancelled_call_lets_the_next_one_go_on():
    scene = Scene()
    started = asyncio.Event()

    async def stuck(request):
        started.set()
        await asyncio.sleep(3600)
        return "late"

    scene.bob.behaviour, works = stuck, scene.bob.behaviour
    call = asyncio.create_task(scene.say("a"))
    await started.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert scene.leases() == []
    scene.bob.behaviour = works
    assert await scene.say("b") == "echo b"
    assert scene.agrees()


@simulated
async def test_a_waiting_caller_that_is_cancelled_does_not_stop_the_queue():
    scene = Scene()

    async def slowly(request):
        await asyncio.sleep(1)
        return f"echo {text_of(request)}"

    scene.bob.behaviour = slowly
    calls = [asyncio.create_task(scene.say(text)) for text in "abc"]
    await asyncio.sleep(0.5)
    calls[1].cancel()
    assert await calls[0] == "echo a"
    assert await calls[2] == "echo c"
    assert scene.agrees()


@simulated
async def test_a_crashed_process_is_waited_for_until_its_lease_runs_out():
    scene = Scene()
    await scene.say("a")
    name = f"call:{ALICE.vacant_id.hex()}:{BOB.vacant_id.hex()}"
    await MemoryStore(scene.clock, scene.disk).commit(Acquire(name=name, holder="crashed", ttl=60))
    began = scene.clock.monotonic()
    assert await scene.say("b") == "echo b"
    assert 59 < scene.clock.monotonic() - began < 63
    assert scene.agrees()


@simulated
async def test_a_process_under_its_old_name_does_not_wait_for_itself():
    scene = Scene()
    name = f"call:{ALICE.vacant_id.hex()}:{BOB.vacant_id.hex()}"
    await MemoryStore(scene.clock, scene.disk).commit(Acquire(name=name, holder="node", ttl=60))
    assert await scene.say("a", scene.caller(holder="node")) == "echo a"
    assert scene.clock.monotonic() < 1


@simulated
async def test_waiting_for_another_process_comes_to_an_end():
    scene = Scene()
    name = f"call:{ALICE.vacant_id.hex()}:{BOB.vacant_id.hex()}"
    await MemoryStore(scene.clock, scene.disk).commit(Acquire(name=name, holder="busy", ttl=3600))
    with pytest.raises(OverloadedError, match="another process is in the middle of a call"):
        await scene.say("a", scene.caller(lease_seconds=10))
    assert scene.wire.bodies == []


@simulated
async def test_a_reply_that_comes_after_another_process_took_over_is_still_given():
    scene = Scene(strict=True)
    slow = scene.caller(lease_seconds=5)

    async def slowly(request):
        await asyncio.sleep(20 if text_of(request) == "slow" else 0)
        return f"echo {text_of(request)}"

    scene.bob.behaviour = slowly
    first = asyncio.create_task(scene.say("slow", slow))
    await asyncio.sleep(1)
    assert await scene.say("quick", scene.caller(lease_seconds=5)) == "echo quick"
    assert await first == "echo slow"
    assert await scene.say("third", slow) == "echo third"
    assert scene.agrees()


@simulated
async def test_a_long_call_keeps_its_lease_while_it_retries():
    scene = Scene(retries=Retries(attempts=10, first_wait=8, longest_wait=8))
    scene.wire.weather = [NOBODY] * 9
    patient = scene.caller(lease_seconds=10)
    first = asyncio.create_task(scene.say("a", patient))
    await asyncio.sleep(1)
    second = asyncio.create_task(scene.say("b", scene.caller(lease_seconds=100)))
    assert await first == "echo a"
    assert await second == "echo b"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["a", "b"]


@simulated
async def test_a_lease_that_ran_out_between_two_attempts_is_taken_again_and_given_back():
    scene = Scene(retries=Retries(attempts=3, first_wait=30, longest_wait=30))
    scene.wire.weather = [NOBODY]
    assert await scene.say("a", scene.caller(lease_seconds=5)) == "echo a"
    assert scene.leases() == []


@simulated
async def test_a_process_that_lost_the_pair_in_the_middle_of_retries_says_so():
    scene = Scene(retries=Retries(attempts=3, first_wait=30, longest_wait=30))
    scene.wire.weather = [NOBODY]
    slow = scene.caller(lease_seconds=5)
    first = asyncio.create_task(scene.say("a", slow))
    await asyncio.sleep(10)
    name = f"call:{ALICE.vacant_id.hex()}:{BOB.vacant_id.hex()}"
    await MemoryStore(scene.clock, scene.disk).commit(Acquire(name=name, holder="other", ttl=60))
    with pytest.raises(OverloadedError, match="another process has taken over"):
        await first


@simulated
async def test_a_record_that_cannot_be_read_is_told_and_not_overwritten():
    scene = Scene()
    store = MemoryStore(scene.clock, scene.disk)
    key = f"{ALICE.vacant_id.hex()}:{BOB.vacant_id.hex()}"
    await store.commit(Put(space=CALL_SPACE, key=key, value=b"\xc1 nonsense"))
    with pytest.raises(StoreCorruptError, match=BOB.vacant_id.short()):
        await scene.say()
    assert (await store.get(CALL_SPACE, key)).value == b"\xc1 nonsense"
    assert scene.wire.bodies == []


class DyingStore(MemoryStore):
    """Dies before or after one of its commits."""

    def __init__(self, clock, disk, moment, number):
        super().__init__(clock, disk)
        self.moment, self.left = moment, number

    def _commit_gathered(self):
        self.left -= bool(self._gathered)
        if self.left == 0 and self.moment == "before":
            self.crash()
        super()._commit_gathered()
        if self.left == 0 and self.moment == "after":
            self.crash()


class Killed(Exception):  # noqa: N818 - an end, not a failure
    """The process is gone; nothing of it runs any more."""


class KillingWire:
    def __init__(self, wire, moment):
        self.wire, self.moment = wire, moment

    async def request(self, method, url, json=None, headers=None, *, body=None):
        if self.moment == "after":
            await self.wire.request(method, url, body=body)
        raise Killed


DEATHS = [
    (where, moment) for where in ("first commit", "request", "last commit") for moment in ("before", "after")
]


@pytest.mark.parametrize("again", ["the same call", "another call"])
@pytest.mark.parametrize(("where", "moment"), DEATHS)
def test_a_process_killed_at_any_step_leaves_a_pair_that_goes_on(where, moment, again):
    async def kill():
        scene = Scene()
        await scene.say("a")
        if where == "request":
            store, http = MemoryStore(scene.clock, scene.disk), KillingWire(scene.wire, moment)
        else:
            store = DyingStore(scene.clock, scene.disk, moment, 1 if where == "first commit" else 2)
            http = scene.wire
        record = Recorder(store, scene.clock, audited=False)
        mortal = Dispatcher(store, ALICE, scene.clock, http, holder="node", record=record)
        with pytest.raises((Killed, StoreUnavailableError)):
            await mortal.call(scene.bob.card(), message("b"), idempotency_key="k")
        store.crash()
        heir = scene.caller(holder="node")
        if again == "the same call":
            assert await scene.say("b", heir, idempotency_key="k") == "echo b"
            assert [text_of(envelope) for envelope in scene.bob.executed] == ["a", "b"]
        else:
            assert await scene.say("c", heir) == "echo c"
        assert await scene.say("d", heir) == "echo d"
        assert scene.agrees()
        assert scene.clock.monotonic() < 5

    run_simulated(kill)


async def test_the_durable_engine_keeps_the_pair_too(tmp_path):
    clock = SystemClock()
    bob = ModelTarget(BOB)
    wire = Wire(bob)
    for number in range(3):
        store = await SqliteStore.open(tmp_path / "comity.db", clock, AuditTrail(f"main {number}", ALICE))
        alice = Dispatcher(store, ALICE, clock, wire, retries=Retries(attempts=2, first_wait=0.001))
        wire.weather = [LOST]
        assert text_of((await alice.call(bob.card(), message("x"))).response_envelope) == "echo x"
        wire.weather = [LOST, LOST]
        with pytest.raises(NoAnswerError):
            await alice.call(bob.card(), message("lost"))
        await store.close()
    assert bob.accepted[ALICE.vacant_id].last_sequence_no == 6
    assert [text_of(envelope) for envelope in bob.executed] == ["x", "lost"] * 3
