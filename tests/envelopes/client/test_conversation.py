"""One call, from the first attempt to its reply or to a clear word on what became of it."""

from datetime import UTC, datetime

import pytest

from comity.envelopes.client.calls import BusyTargetError, CallRefusedError, TargetLimitError
from comity.envelopes.client.conversation import Retries
from comity.envelopes.protocol.envelope import signed_envelope, to_a2a_result
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
    StaleEnvelopeError,
    TargetUnavailableError,
)
from comity.envelopes.protocol.message import A2AMessage, A2APart, SelfEval
from comity.store.audit_log import keep_restored
from comity.store.audit_trail import RestoreMark
from comity.store.memory import MemoryStore
from comity.testing.loop import run_simulated
from comity.wire.errors import (
    NoAnswerError,
    OverloadedError,
    RateLimitedError,
    TargetRefusedError,
    UnreachableError,
    UnusableAnswerError,
)
from tests.envelopes.client.model_target import answer, message, text_of
from tests.envelopes.client.scene import ALICE, BOB, EVE, LOST, NOBODY, REQUEST_LOST, Scene, simulated


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
        from comity.http.client import HttpResponse

        scene = Scene()
        scene.wire.weather = [HttpResponse(200, {}, body)]
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


@pytest.mark.parametrize(
    ("status", "error"), [(429, TargetLimitError), (503, BusyTargetError), (502, NoAnswerError)]
)
def test_when_the_time_is_over_the_last_answer_is_told_and_nothing_more_is_tried(status, error):
    async def hurry():
        scene = Scene(retries=Retries(attempts=9, first_wait=1, longest_wait=1))
        scene.wire.weather = [answer(status, {"detail": "full"})] * 9
        with pytest.raises(error, match=f"{status}.*full"):
            await scene.say(until=scene.clock.monotonic() + 2.5)
        assert len(scene.wire.bodies) == 3
        assert scene.clock.monotonic() == pytest.approx(2)
        scene.wire.weather = []
        assert await scene.say() == "echo hello"
        assert scene.agrees()

    run_simulated(hurry)


@simulated
async def test_of_several_the_first_that_takes_the_call_gets_it_alone():
    scene = Scene()
    card = scene.bob.card()
    passed = []
    for weather in (NOBODY, answer(410, {}), answer(423, {}), answer(429, {}), answer(503, {})):
        scene.wire.weather = [weather]
        result = await scene.alice.call_one_of(
            [card, card], message("hi"), passed_over=lambda _card, why: passed.append(why)
        )
        assert text_of(result.response_envelope) == "echo hi"
    assert len(passed) == 5
    assert len(scene.bob.executed) == 5


@pytest.mark.parametrize("weather", [LOST, answer(502, {}), answer(500, {}), answer(504, {})])
def test_of_several_nobody_else_is_asked_once_one_may_have_done_it(weather):
    async def ask():
        scene = Scene()
        scene.wire.weather = [weather] * 9
        with pytest.raises((NoAnswerError, CallRefusedError)):
            await scene.alice.call_one_of([scene.bob.card()] * 3, message("hi"))
        assert len(scene.wire.bodies) == 1

    run_simulated(ask)


@simulated
async def test_after_a_restore_an_old_reply_that_is_bound_to_nothing_is_refused():
    """Alice's chain of Bob's replies went back to the start; somebody on the way answers with one of before."""
    scene = Scene(strict=True)
    await MemoryStore(scene.clock, scene.disk).commit(keep_restored(RestoreMark(at=scene.clock.now())))
    old = scene.bob.reply_to(scene_request(scene), "an old reply")
    scene.wire.weather = [answer(200, to_a2a_result(old, None))]
    with pytest.raises(StaleEnvelopeError, match="restored from a backup"):
        await scene.say("new")
    later = datetime.fromtimestamp(scene.clock.now() + 1, UTC)
    new = scene.bob.reply_to(scene_request(scene), "a new reply", timestamp=later)
    scene.wire.weather = [answer(200, to_a2a_result(new, None))]
    assert await scene.say("new", scene.caller()) == "a new reply"


@simulated
async def test_after_a_restore_a_reply_that_is_bound_counts_whatever_its_clock_says():
    scene = Scene()
    await MemoryStore(scene.clock, scene.disk).commit(keep_restored(RestoreMark(at=scene.clock.now() + 1e6)))
    assert await scene.say("new") == "echo new"


def scene_request(scene):
    return signed_envelope(
        from_vid=ALICE.vacant_id,
        to_vid=BOB.vacant_id,
        payload=message("an old request"),
        sequence_no=1,
        prev_envelope_hash=bytes(32),
        idempotency_key="old",
        timestamp=datetime.fromtimestamp(scene.clock.now(), UTC),
        signing_key=ALICE,
        dialect="seed",
    )
