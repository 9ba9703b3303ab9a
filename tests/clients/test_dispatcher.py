"""A caller that remembers: it never forks, never loses its place, and says what became of a call."""

import asyncio

import pytest

from comity.clients.conversation import Retries
from comity.clients.dispatcher import Dispatcher
from comity.clients.pair import CALL_BOOK, CALL_SPACE
from comity.clients.refusals import (
    CallRefusedError,
    NoAnswerError,
    ReplyLostError,
    TargetRefusedError,
    UnreachableError,
    UnusableAnswerError,
)
from comity.core.card.card import CapabilityCard
from comity.core.envelope.carrier import to_a2a_result
from comity.core.envelope.chain import PairKey, ReplayState
from comity.core.envelope.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
    TargetNotFoundError,
    TargetUnavailableError,
)
from comity.core.envelope.message import A2AMessage, A2APart, SelfEval
from comity.core.envelope.statement import TipStatement
from comity.core.errors import (
    ComityError,
    InvalidError,
    OverloadedError,
    RateLimitedError,
    StoreCorruptError,
    StoreUnavailableError,
)
from comity.core.guard.audit import privacy_hash
from comity.core.identity.keys import SigningKey
from comity.core.wire import strict_json
from comity.store.audit_trail import AuditTrail, log_of
from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.operations import Acquire, ChainKey, Put, Tip
from comity.store.sqlite import SqliteStore
from comity.system_clock import SystemClock
from comity.testing.loop import SimulatedClock, run_simulated
from tests.clients.model_target import NOW, ModelTarget, Wire, answer, message, text_of

ALICE, BOB, EVE = (SigningKey.from_seed(bytes([n]) * 32) for n in (1, 2, 3))
LOST = "lose the reply"
REQUEST_LOST = NoAnswerError("the wire lost the request")
NOBODY = UnreachableError("nobody is there")
RETRIES = Retries(attempts=3)


class Scene:
    """Alice, who calls, and Bob, who answers, in simulated time."""

    def __init__(self, *, strict=False, dialects=("seed",), retries=RETRIES):
        self.clock = SimulatedClock()
        self.bob = ModelTarget(BOB, strict=strict, dialects=dialects)
        self.wire = Wire(self.bob)
        self.disk = MemoryDisk()
        self.retries = retries
        self.alice = self.caller()

    def caller(self, *, disk=None, http=None, **more):
        store = MemoryStore(self.clock, disk or self.disk)
        http = http or self.wire
        return Dispatcher(store, ALICE, self.clock, http, retries=self.retries, audit_level=None, **more)

    async def say(self, text="hello", caller=None, card=None, **more):
        result = await (caller or self.alice).call(card or self.bob.card(), message(text), **more)
        return text_of(result.response_envelope)

    def tips(self):
        """Where Alice believes both chains to stand."""
        a, b = ALICE.vacant_id.hex(), BOB.vacant_id.hex()
        return (
            self.disk.tips.get(ChainKey(CALL_BOOK, a, b), Tip()),
            self.disk.tips.get(ChainKey(CALL_BOOK, b, a), Tip()),
        )

    def agrees(self):
        """Both sides have the same picture of both chains."""
        accepted = self.bob.accepted.get(ALICE.vacant_id, ReplayState())
        replied = self.bob.replied.get(ALICE.vacant_id, ReplayState())
        return self.tips() == (
            Tip(accepted.last_sequence_no, accepted.chain_tip),
            Tip(replied.last_sequence_no, replied.chain_tip),
        )

    def seqs(self):
        return [envelope.sequence_no for envelope in self.wire.sent]

    def leases(self):
        return [lease for lease in self.disk.leases.values() if lease.expires_at > self.clock.now()]


def simulated(test):
    """The test runs in simulated time: retries and their waits take none."""

    def run():
        run_simulated(test)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


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
    assert entries[0]["issuer_hash"] == privacy_hash(f"vacant:{BOB.vacant_id.hex()}")


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
async def test_a_lost_reply_is_fetched_by_sending_the_same_bytes_again():
    scene = Scene()
    scene.wire.weather = [LOST, LOST]
    assert await scene.say() == "echo hello"
    assert len(set(scene.wire.bodies)) == 1
    assert len(scene.wire.bodies) == 3
    assert len(scene.bob.executed) == 1
    assert scene.agrees()


@simulated
async def test_a_lost_request_is_sent_again():
    scene = Scene()
    scene.wire.weather = [REQUEST_LOST, NOBODY]
    assert await scene.say() == "echo hello"
    assert len(set(scene.wire.bodies)) == 1
    assert len(scene.bob.executed) == 1


@simulated
async def test_waits_double_up_to_the_longest():
    assert list(Retries(attempts=5, first_wait=1, longest_wait=3).waits()) == [1, 2, 3, 3]
    scene = Scene(retries=Retries(attempts=5, first_wait=1, longest_wait=3))
    scene.wire.weather = [NOBODY] * 4
    await scene.say()
    assert scene.clock.monotonic() == pytest.approx(9)


@pytest.mark.parametrize(("status", "error"), [(503, OverloadedError), (429, RateLimitedError)])
def test_a_busy_target_is_waited_for(status, error):
    async def wait():
        scene = Scene()
        busy = answer(status, {"detail": "full"}, {"retry-after": "7"})
        scene.wire.weather = [busy, busy]
        assert await scene.say() == "echo hello"
        assert scene.clock.monotonic() == pytest.approx(14)
        scene.wire.weather = [busy, busy, busy]
        with pytest.raises(error, match="full") as refusal:
            await scene.say()
        assert refusal.value.retry_after == 7
        assert await scene.say() == "echo hello"
        assert scene.agrees()

    run_simulated(wait)


@pytest.mark.parametrize("given", ["soon", "-1", "1e9", "999999999999", ""])
def test_nonsense_in_retry_after_is_not_waited_for(given):
    async def wait():
        scene = Scene()
        scene.wire.weather = [answer(503, {}, {"retry-after": given})]
        await scene.say()
        assert scene.clock.monotonic() < 1

    run_simulated(wait)


@simulated
async def test_a_very_long_retry_after_is_cut():
    scene = Scene()
    scene.wire.weather = [answer(503, {}, {"retry-after": "86400"})]
    await scene.say()
    assert scene.clock.monotonic() == pytest.approx(30)


@simulated
async def test_retries_come_to_an_end_and_the_next_call_goes_through():
    scene = Scene()
    scene.wire.weather = [LOST] * 3
    with pytest.raises(NoAnswerError, match="3 attempts; the call may have been carried out"):
        await scene.say("first")
    assert scene.leases() == []
    assert await scene.say("second") == "echo second"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["first", "second"]
    assert scene.agrees()
    assert await scene.say("third") == "echo third"


@simulated
async def test_a_call_that_was_given_up_is_not_carried_out_later():
    """The next call takes its place: who was told that a call failed does not find it done next week."""
    scene = Scene()
    scene.wire.weather = [REQUEST_LOST] * 3
    with pytest.raises(NoAnswerError):
        await scene.say("first")
    assert await scene.say("second") == "echo second"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["second"]
    assert scene.seqs() == [1, 1, 1, 1]
    assert scene.agrees()


@simulated
async def test_a_call_that_nobody_took_is_forgotten():
    scene = Scene()
    scene.wire.weather = [NOBODY] * 3
    with pytest.raises(UnreachableError):
        await scene.say()
    assert await scene.say("second") == "echo second"
    assert scene.seqs() == [1, 1, 1, 1]
    assert scene.agrees()


@simulated
async def test_a_refused_target_leaves_nothing_open():
    scene = Scene()
    scene.wire.weather = [TargetRefusedError("it is at a private address")]
    with pytest.raises(TargetRefusedError):
        await scene.say()
    assert len(scene.wire.bodies) == 1
    assert await scene.say() == "echo hello"
    assert scene.agrees()


@simulated
async def test_a_failed_behaviour_leaves_the_pair_usable():
    scene = Scene()

    async def fail(request):
        raise ZeroDivisionError

    scene.bob.behaviour, works = fail, scene.bob.behaviour
    with pytest.raises(CallRefusedError, match="status 500: the behaviour failed"):
        await scene.say("first")
    assert len(scene.wire.bodies) == 1
    scene.bob.behaviour = works
    assert await scene.say("second") == "echo second"
    assert scene.seqs() == [1, 1]
    assert scene.agrees()


@pytest.mark.parametrize("status", [500, 504])
def test_a_failure_over_there_is_told_with_its_status(status):
    async def fail():
        scene = Scene()
        scene.wire.weather = [answer(status, {"detail": "too slow"})]
        with pytest.raises(CallRefusedError, match="too slow") as refusal:
            await scene.say()
        assert refusal.value.status == status
        assert await scene.say() == "echo hello"
        assert scene.agrees()

    run_simulated(fail)


@pytest.mark.parametrize("status", [410, 423])
def test_an_unavailable_target_is_told_as_such(status):
    async def fail():
        scene = Scene()
        scene.wire.weather = [answer(status, {"detail": "vacant is STALE; not accepting calls"})]
        with pytest.raises(TargetUnavailableError, match="vacant is STALE"):
            await scene.say()
        assert await scene.say() == "echo hello"
        assert scene.seqs() == [1, 1]

    run_simulated(fail)


@pytest.mark.parametrize("status", [302, 400, 404, 413, 415, 421])
def test_a_refusal_is_told_at_once(status):
    async def fail():
        scene = Scene()
        scene.wire.weather = [answer(status, {"detail": "no"})]
        with pytest.raises(CallRefusedError, match="no"):
            await scene.say()
        assert len(scene.wire.bodies) == 1
        assert await scene.say() == "echo hello"
        assert scene.agrees()

    run_simulated(fail)


@simulated
async def test_a_gateway_in_trouble_is_tried_again():
    scene = Scene()
    scene.wire.weather = [answer(502, {})]
    assert await scene.say() == "echo hello"
    assert len(scene.bob.executed) == 1


@simulated
async def test_a_caller_that_lost_its_memory_follows_the_signed_statement():
    scene = Scene()
    for text in "abc":
        await scene.say(text)
    scene.disk = MemoryDisk()
    newcomer = scene.caller()
    assert await scene.say("d", newcomer) == "echo d"
    assert scene.seqs() == [1, 2, 3, 1, 4]
    assert scene.agrees()
    assert await scene.say("e", newcomer) == "echo e"


@simulated
async def test_a_call_that_another_holder_of_the_key_overtook_is_made_at_the_new_place():
    scene = Scene()
    await scene.say("a")
    elsewhere = scene.caller(disk=MemoryDisk())
    await scene.say("b", elsewhere)
    assert await scene.say("c") == "echo c"
    assert scene.agrees()


@simulated
async def test_a_statement_that_is_not_the_targets_own_is_not_believed():
    scene = Scene()
    pair, state = PairKey(ALICE.vacant_id, BOB.vacant_id), ReplayState(5, b"\x05" * 32)
    sound = TipStatement.of(pair, state, now=NOW).signed(BOB).to_json()
    others = [
        TipStatement.of(pair, state, now=NOW).signed(EVE).to_json(),
        TipStatement.of(PairKey(EVE.vacant_id, BOB.vacant_id), state, now=NOW).signed(BOB).to_json(),
        TipStatement.of(PairKey(ALICE.vacant_id, EVE.vacant_id), state, now=NOW).signed(EVE).to_json(),
        TipStatement.of(pair, state, now=NOW).to_json(),
        {**sound, "sequence_no": 6},
        {**sound, "chain_tip": "06" * 32},
        {**sound, "timestamp": "2027-01-01T00:00:00+00:00"},
        {**sound, "signature": "zz"},
        {},
        None,
        "statement",
        7,
    ]
    for statement in others:
        body = {"detail": "x", "expected_sequence_no": 6, "chain_tip": "05" * 32, "statement": statement}
        scene.wire.weather = [answer(409, body)]
        with pytest.raises(CallRefusedError) as refusal:
            await scene.say()
        assert refusal.value.status == 409
        assert scene.tips() == (Tip(), Tip())
    assert await scene.say() == "echo hello"
    assert set(scene.seqs()) == {1}


@simulated
async def test_a_statement_that_goes_back_is_not_believed():
    """A target that restored an old copy does not make us sign a number twice."""
    scene = Scene()
    for text in "abc":
        await scene.say(text)
    old = scene.bob.accepted.copy()
    await scene.say("d")
    scene.bob.accepted = old
    with pytest.raises(ReplayDetectedError, match="goes back to 3, and 4 was accepted already"):
        await scene.say("e")
    assert scene.tips()[0].seq == 4
    assert max(scene.seqs()) == 5


@simulated
async def test_a_statement_that_names_another_envelope_under_a_known_number_is_not_believed():
    scene = Scene()
    await scene.say("a")
    told = scene.bob.statement(ALICE.vacant_id, ReplayState(1, b"\x09" * 32))
    scene.wire.weather = [answer(409, {"detail": "x", "statement": told})]
    with pytest.raises(ChainForkError, match="another envelope as number 1"):
        await scene.say("b")
    assert await scene.say("b") == "echo b"


@simulated
async def test_a_statement_that_contradicts_itself_is_asked_about_again_and_then_told():
    scene = Scene()
    await scene.say("a")
    strange = answer(409, {"detail": "odd", "statement": scene.bob.statement(ALICE.vacant_id)})
    scene.wire.weather = [strange, strange]
    assert await scene.say("b") == "echo b"
    strange = answer(409, {"detail": "odd", "statement": scene.bob.statement(ALICE.vacant_id)})
    scene.wire.weather = [strange] * 3
    with pytest.raises(CallRefusedError, match="odd"):
        await scene.say("c")
    assert await scene.say("d") == "echo d"
    assert scene.agrees()


@simulated
async def test_an_accepted_call_whose_reply_is_gone_is_told_as_such():
    scene = Scene()
    scene.wire.weather = [LOST]

    async def pruned(request):
        scene.bob.kept.clear()
        return "never seen"

    scene.bob.behaviour, works = pruned, scene.bob.behaviour
    keep, scene.bob.kept = scene.bob.kept, _Forgetful()
    with pytest.raises(ReplyLostError, match="accepted the call, and its reply cannot be had any more"):
        await scene.say("first")
    assert scene.tips()[0].seq == 1
    assert len(scene.wire.bodies) == 3
    scene.bob.behaviour, scene.bob.kept = works, keep
    assert await scene.say("second") == "echo second"
    assert scene.seqs()[-1] == 2
    assert scene.agrees()


class _Forgetful(dict):
    """Keeps no replies."""

    def __setitem__(self, key, value):
        pass


@simulated
async def test_a_target_that_went_on_after_a_lost_reply_leaves_the_call_in_doubt():
    scene = Scene()
    scene.bob.kept = _Forgetful()
    moved = ReplayState(5, b"\x05" * 32)
    statement = scene.bob.statement(ALICE.vacant_id, moved)
    scene.wire.weather = [LOST, answer(409, {"detail": "x", "statement": statement})]
    with pytest.raises(ReplyLostError, match="may have been carried out"):
        await scene.say("first")
    assert scene.tips()[0] == Tip(5, b"\x05" * 32)


@simulated
async def test_a_lost_reply_of_the_reference_release_does_not_end_the_pair():
    scene = Scene(strict=True)
    await scene.say("a")
    scene.wire.weather = [LOST]
    with pytest.raises(ReplyLostError, match="does not repeat its reply"):
        await scene.say("b")
    assert await scene.say("c") == "echo c"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["a", "b", "c"]
    assert scene.agrees()
    assert await scene.say("d") == "echo d"


@simulated
async def test_a_failed_behaviour_of_the_reference_release_does_not_end_the_pair():
    scene = Scene(strict=True)

    async def fail(request):
        raise ZeroDivisionError

    scene.bob.behaviour, works = fail, scene.bob.behaviour
    for text in "abcdefghijkl":
        with pytest.raises(CallRefusedError, match="500"):
            await scene.say(text)
    scene.bob.behaviour = works
    assert await scene.say("m") == "echo m"
    assert "".join(text_of(envelope) for envelope in scene.bob.executed) == "abcdefghijklm"
    assert scene.agrees()


@simulated
async def test_several_open_calls_to_the_reference_release_are_told_apart():
    scene = Scene(strict=True)
    scene.wire.weather = [REQUEST_LOST] * 3
    with pytest.raises(NoAnswerError):
        await scene.say("a")
    scene.wire.weather = [LOST]
    with pytest.raises(ReplyLostError):
        await scene.say("b")
    newcomer = scene.caller()
    assert await scene.say("c", newcomer) == "echo c"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["b", "c"]
    assert scene.agrees()


@pytest.mark.parametrize(
    "failure", [NOBODY, TargetRefusedError("it is at a private address"), answer(423, {}), answer(503, {})]
)
def test_calls_that_certainly_failed_do_not_push_out_one_that_may_be_accepted(failure):
    async def fail():
        scene = Scene(strict=True)
        scene.wire.weather = [LOST]
        with pytest.raises(ReplyLostError):
            await scene.say("a")
        for _ in range(10):
            scene.wire.weather = [failure] * 3
            with pytest.raises(ComityError):
                await scene.say("b")
        scene.wire.weather = []
        assert await scene.say("c", scene.caller()) == "echo c"
        assert scene.agrees()

    run_simulated(fail)


@pytest.mark.parametrize("later", [answer(404, {}), answer(401, {}), answer(423, {})])
def test_a_refusal_after_a_lost_reply_leaves_the_call_open(later):
    async def refuse():
        scene = Scene(strict=True)
        scene.wire.weather = [LOST, later]
        with pytest.raises((CallRefusedError, TargetUnavailableError)):
            await scene.say("a")
        assert await scene.say("b") == "echo b"
        assert scene.agrees()

    run_simulated(refuse)


@simulated
async def test_a_gateway_that_failed_after_the_call_leaves_it_open():
    scene = Scene(strict=True)
    scene.wire.weather = ["the gateway fails"]
    with pytest.raises(ReplyLostError):
        await scene.say("a")
    assert await scene.say("b") == "echo b"


@simulated
async def test_a_repeated_call_that_was_accepted_before_stays_open():
    scene = Scene(strict=True)
    scene.wire.weather = [LOST, REQUEST_LOST, REQUEST_LOST]
    with pytest.raises(NoAnswerError):
        await scene.say("a", idempotency_key="k")
    for _ in range(2):
        with pytest.raises(ReplyLostError):
            await scene.say("a", scene.caller(), idempotency_key="k")
    assert await scene.say("b") == "echo b"
    assert [text_of(envelope) for envelope in scene.bob.executed] == ["a", "b"]


@simulated
async def test_after_a_statement_nothing_older_is_tried():
    scene = Scene()
    scene.wire.weather = [REQUEST_LOST] * 3
    with pytest.raises(NoAnswerError):
        await scene.say("a")
    told = scene.bob.statement(ALICE.vacant_id, ReplayState(5, b"\x05" * 32))
    scene.wire.weather = [answer(409, {"statement": told}), answer(409, {"detail": "no"})]
    with pytest.raises(CallRefusedError):
        await scene.say("b")
    assert scene.seqs() == [1, 1, 1, 1, 6]


@simulated
async def test_replies_stay_lost_until_one_is_read():
    scene = Scene()
    moved = ReplayState(5, b"\x05" * 32)
    told = answer(409, {"statement": scene.bob.statement(ALICE.vacant_id, moved)})
    unsigned = answer(409, {"detail": "no"})
    for weather in ([told, unsigned], [REQUEST_LOST] * 3):
        scene.wire.weather = weather
        with pytest.raises(ComityError):
            await scene.say("a")
    scene.bob.accepted[ALICE.vacant_id] = moved
    scene.bob.replied[ALICE.vacant_id] = ReplayState(7, b"\x07" * 32)
    scene.wire.weather = [unsigned, told]
    assert await scene.say("b") == "echo b"
    assert scene.agrees()


@simulated
async def test_a_target_of_the_reference_release_that_forgot_everything_is_a_plain_refusal():
    scene = Scene(strict=True)
    for text in "ab":
        await scene.say(text)
    scene.bob.accepted.clear()
    with pytest.raises(CallRefusedError, match="non-monotonic sequence_no: expected 1, got 3"):
        await scene.say("c")
    assert scene.tips()[0].seq == 2


@simulated
async def test_an_unknown_dialect_is_found_out_and_remembered():
    scene = Scene(dialects=("selfeval",))
    assert await scene.say("a") == "echo a"
    assert [envelope.dialect for envelope in scene.wire.sent] == ["seed", "selfeval"]
    assert await scene.say("b", scene.caller()) == "echo b"
    assert [envelope.dialect for envelope in scene.wire.sent][2:] == ["selfeval"]
    assert scene.agrees()


@simulated
async def test_the_card_decides_on_the_dialect():
    scene = Scene(dialects=("selfeval",))
    assert await scene.say("a", card=scene.bob.card(dialect="selfeval")) == "echo a"
    assert [envelope.dialect for envelope in scene.wire.sent] == ["selfeval"]
    with pytest.raises(CallRefusedError, match="401"):
        await scene.say("b", card=scene.bob.card(dialect="seed"))
    assert [envelope.dialect for envelope in scene.wire.sent] == ["selfeval", "seed"]


@simulated
async def test_a_bad_signature_in_both_dialects_is_told():
    scene = Scene(dialects=())
    with pytest.raises(CallRefusedError, match="401"):
        await scene.say()
    assert len(scene.wire.bodies) == 2


@simulated
async def test_a_self_evaluation_is_spoken_in_the_dialect_that_has_it():
    scene = Scene(dialects=("seed", "selfeval"))
    await scene.say("a")
    judged = A2AMessage(parts=(A2APart(text="b"),), self_eval=SelfEval(honesty=1))
    result = await scene.alice.call(scene.bob.card(), judged)
    assert result.request_envelope.dialect == "selfeval"
    assert scene.agrees()


FORGED = {
    "signed by another": ({"signing_key": EVE}, EnvelopeSignatureError),
    "from another": ({"from_vid": EVE.vacant_id}, EnvelopeFormatError),
    "to another": ({"to_vid": EVE.vacant_id}, EnvelopeFormatError),
    "for another request": ({"idempotency_key": "re:" + "0" * 64}, EnvelopeFormatError),
    "for no request": ({"idempotency_key": "x"}, EnvelopeFormatError),
    "ahead of its chain": ({"sequence_no": 9}, ReplayDetectedError),
    "on another chain": ({"prev_envelope_hash": b"\x01" * 32}, ChainForkError),
}


@pytest.mark.parametrize(("changes", "error"), FORGED.values(), ids=FORGED)
def test_a_forged_reply_is_refused_and_the_true_one_can_still_be_had(changes, error):
    async def deceive():
        scene = Scene()
        await scene.say("a")

        class Forger:
            async def request(self, method, url, json=None, headers=None, *, body=None):
                await scene.wire.request(method, url, body=body)
                reply = scene.bob.reply_to(scene.wire.sent[-1], "forged")
                last = scene.bob.replied[ALICE.vacant_id].last_sequence_no
                chained = {
                    "sequence_no": last,
                    "prev_envelope_hash": scene.tips()[1].hash,
                    "idempotency_key": reply.idempotency_key,
                }
                forged = scene.bob.reply_to(scene.wire.sent[-1], "forged", **(chained | changes))
                return answer(200, to_a2a_result(forged, None))

        deceived = scene.caller(http=Forger())
        before = scene.tips()
        with pytest.raises(error):
            await scene.say("b", deceived, idempotency_key="k")
        assert scene.tips() == before
        assert await scene.say("b", scene.caller(), idempotency_key="k") == "echo b"
        assert [text_of(envelope) for envelope in scene.bob.executed] == ["a", "b"]
        assert scene.agrees()

    run_simulated(deceive)


@simulated
async def test_a_reply_that_was_read_before_is_refused():
    scene = Scene(strict=True)
    await scene.say("a")
    old = scene.bob.reply_to(scene.wire.sent[0], "old", sequence_no=1, prev_envelope_hash=bytes(32))
    scene.wire.weather = [answer(200, to_a2a_result(old, None))]
    with pytest.raises(ReplayDetectedError):
        await scene.say("b")
    assert await scene.say("c") == "echo c"
    assert scene.agrees()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"result":{"message":{}}}'])
def test_an_answer_that_is_no_reply_leaves_the_call_open(body):
    async def confuse():
        from comity.clients.guarded_http import Answer

        scene = Scene()
        scene.wire.weather = [Answer(200, {}, body)]
        with pytest.raises(EnvelopeFormatError):
            await scene.say("a")
        assert await scene.say("b") == "echo b"
        assert scene.agrees()

    run_simulated(confuse)


@simulated
async def test_an_answer_beyond_our_limits_leaves_the_call_open():
    scene = Scene()
    scene.wire.weather = [UnusableAnswerError("too large")]
    with pytest.raises(UnusableAnswerError):
        await scene.say("a")
    assert await scene.say("b") == "echo b"
    assert scene.agrees()


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
async def test_the_same_key_for_something_else_is_another_call():
    scene = Scene()
    assert await scene.say("a", idempotency_key="k") == "echo a"
    assert await scene.say("b", idempotency_key="k") == "echo b"
    scene.wire.weather = [LOST] * 3
    with pytest.raises(NoAnswerError):
        await scene.say("c", idempotency_key="k")
    assert await scene.say("d", idempotency_key="k") == "echo d"
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
async def test_a_capability_is_found_and_called():
    scene = Scene()

    async def search(*, query, include_local, limit):
        return [scene.bob.card()] if query == "anything" else []

    result = await scene.alice.call_capability("anything", message("a"), aggregation_search=search)
    assert text_of(result.response_envelope) == "echo a"
    with pytest.raises(TargetNotFoundError):
        await scene.alice.call_capability("nothing", message("a"), aggregation_search=search)
    assert scene.agrees()


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


@simulated
async def test_idle_targets_are_forgotten_and_busy_ones_are_not():
    from comity.clients import dispatcher

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
        mortal = Dispatcher(store, ALICE, scene.clock, http, holder="node", audit_level=None)
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
