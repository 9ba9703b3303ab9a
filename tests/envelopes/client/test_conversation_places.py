"""Finding the place where a pair goes on: by a signed statement, or by trying, and never backwards."""

import pytest

from comity.envelopes.client.calls import CallRefusedError, ReplyLostError
from comity.envelopes.protocol.chain import PairKey, ReplayState, TipStatement
from comity.envelopes.protocol.errors import ChainForkError, ReplayDetectedError, TargetUnavailableError
from comity.store.interface import Tip
from comity.store.memory import MemoryDisk
from comity.testing.loop import run_simulated
from comity.wire.errors import ComityError, NoAnswerError, TargetRefusedError
from tests.envelopes.client.model_target import NOW, answer, text_of
from tests.envelopes.client.scene import ALICE, BOB, EVE, LOST, NOBODY, REQUEST_LOST, Scene, simulated


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
    shown = scene.bob.statement(ALICE.vacant_id, ReplayState(1, b"\x09" * 32))
    scene.wire.weather = [answer(409, {"detail": "x", "statement": shown})]
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
    with pytest.raises(ReplyLostError, match="accepted the call, and its reply is lost"):
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
    shown = scene.bob.statement(ALICE.vacant_id, ReplayState(5, b"\x05" * 32))
    scene.wire.weather = [answer(409, {"statement": shown}), answer(409, {"detail": "no"})]
    with pytest.raises(CallRefusedError):
        await scene.say("b")
    assert scene.seqs() == [1, 1, 1, 1, 6]


@simulated
async def test_replies_stay_lost_until_one_is_read():
    scene = Scene()
    moved = ReplayState(5, b"\x05" * 32)
    shown = answer(409, {"statement": scene.bob.statement(ALICE.vacant_id, moved)})
    unsigned = answer(409, {"detail": "no"})
    for weather in ([shown, unsigned], [REQUEST_LOST] * 3):
        scene.wire.weather = weather
        with pytest.raises(ComityError):
            await scene.say("a")
    scene.bob.accepted[ALICE.vacant_id] = moved
    scene.bob.replied[ALICE.vacant_id] = ReplayState(7, b"\x07" * 32)
    scene.wire.weather = [unsigned, shown]
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
