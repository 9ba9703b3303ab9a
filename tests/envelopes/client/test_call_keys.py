"""One reply for one idempotency key: whatever happens between a call and its repetition (ruling 65)."""

import asyncio
from contextlib import nullcontext

import pytest

from comity.envelopes.client.calls import CallRefusedError
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.client.keys import KEY_SPACE, Keeping, keeping_of
from comity.identity.protocol.keys import SigningKey
from comity.requests.record import Recorder
from comity.runtime.settings import RecordSettings
from comity.store.memory import MemoryStore
from comity.testing.loop import run_simulated
from comity.wire.errors import ComityError, ConflictError, NoAnswerError, PeerError, UnreachableError
from tests.callers import visitor
from tests.envelopes.client.model_target import ModelTarget, Wire, answer, message, text_of
from tests.envelopes.client.scene import EVE, LOST, NOBODY, REQUEST_LOST, Scene, simulated

DAY = 86_400.0


def runs(target):
    return [text_of(envelope) for envelope in target.executed]


@simulated
async def test_a_key_is_remembered_over_other_calls():
    scene = Scene()
    first = await scene.say("order 17", idempotency_key="order-17")
    await scene.say("something else")
    await scene.say("order 18", idempotency_key="order-18")
    sent = len(scene.wire.bodies)
    for caller in (scene.alice, scene.caller()):
        assert await scene.say("order 17", caller, idempotency_key="order-17") == first
    assert len(scene.wire.bodies) == sent, "something was sent for a call that was answered"
    assert runs(scene.bob) == ["order 17", "something else", "order 18"]


@simulated
async def test_a_lost_reply_is_fetched_although_other_calls_were_made_since():
    scene = Scene()
    scene.wire.weather = [LOST] * 3
    with pytest.raises(NoAnswerError, match="under the key order-17"):
        await scene.say("order 17", idempotency_key="order-17")
    for text in "abc":
        await scene.say(text)
    assert await scene.say("order 17", scene.caller(), idempotency_key="order-17") == "echo order 17"
    assert await scene.say("order 17", idempotency_key="order-17") == "echo order 17"
    assert runs(scene.bob) == ["order 17", "a", "b", "c"]
    assert scene.agrees()
    assert await scene.say("d") == "echo d"


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]])
@pytest.mark.parametrize("weather", [LOST, REQUEST_LOST])
def test_five_calls_without_answers_are_each_carried_out_once(order, weather):
    async def call():
        scene = Scene()
        scene.wire.weather = [weather] * 15
        unanswered = await asyncio.gather(
            *(scene.say(f"order {n}", idempotency_key=f"k{n}") for n in range(5)), return_exceptions=True
        )
        assert all(isinstance(each, NoAnswerError) for each in unanswered)
        scene.wire.weather = []
        for n in order:
            assert await scene.say(f"order {n}", scene.caller(), idempotency_key=f"k{n}") == f"echo order {n}"
        assert sorted(runs(scene.bob)) == [f"order {n}" for n in range(5)]
        assert scene.agrees()

    run_simulated(call)


@simulated
async def test_a_call_whose_number_another_call_has_is_made_under_a_new_number():
    scene = Scene()
    scene.wire.weather = [REQUEST_LOST] * 3
    with pytest.raises(NoAnswerError):
        await scene.say("first", idempotency_key="k")
    for text in ("second", "third", "fourth"):
        await scene.say(text)
    assert await scene.say("first", idempotency_key="k") == "echo first"
    assert runs(scene.bob) == ["second", "third", "fourth", "first"]
    assert scene.agrees()


@pytest.mark.parametrize("came", ["answered", "unanswered"])
def test_another_text_under_the_key_is_refused_before_anything_is_sent(came):
    async def call():
        scene = Scene()
        scene.wire.weather = [] if came == "answered" else [LOST] * 3
        with pytest.raises(NoAnswerError) if came == "unanswered" else nullcontext():
            await scene.say("order 17", idempotency_key="order-17")
        sent = len(scene.wire.bodies)
        with pytest.raises(ConflictError, match="order-17") as refusal:
            await scene.say("order 18", idempotency_key="order-17")
        assert refusal.value.code == "IDEMPOTENCY_KEY_REUSED"
        assert len(scene.wire.bodies) == sent

    run_simulated(call)


@simulated
async def test_equal_keys_at_the_same_time_are_one_call():
    scene = Scene()
    other = scene.caller(holder="another process")
    replies = await asyncio.gather(
        *(scene.say("x", caller, idempotency_key="k") for caller in (scene.alice, other) for _ in range(3))
    )
    assert set(replies) == {"echo x"}
    assert runs(scene.bob) == ["x"]


@simulated
async def test_a_known_key_goes_to_its_first_target():
    scene = Scene()
    carl = ModelTarget(SigningKey.from_seed(bytes([9]) * 32))
    scene.wire = Wire()
    scene.wire.targets = {"https://bob.example/": scene.bob, "https://carl.example/": carl}
    cards = [_at(scene.bob, "https://bob.example/"), _at(carl, "https://carl.example/")]
    alice = scene.caller()
    scene.wire.weather = [LOST] * 3
    with pytest.raises(NoAnswerError):
        await alice.call(cards[0], message("x"), idempotency_key="k")
    result = await alice.call_one_of(cards[::-1], message("x"), idempotency_key="k")
    assert result.target == cards[0]
    again = await alice.call_one_of(cards[::-1], message("x"), idempotency_key="k")
    assert (again.target, again.response_envelope) == (cards[0], result.response_envelope)
    with pytest.raises(ConflictError, match="was used for a call to"):
        await alice.call(cards[1], message("x"), idempotency_key="k")
    assert (runs(scene.bob), runs(carl)) == (["x"], [])


def _at(target, endpoint):
    card = target.card()
    return type(card)(
        vacant_id=card.vacant_id,
        capability_text="x",
        substrate_spec=card.substrate_spec,
        endpoint=endpoint,
    ).signed(target.key)


@pytest.mark.parametrize("refusal", [NOBODY, answer(423, {"detail": "asleep"}), answer(503, {})])
def test_a_call_that_nobody_took_leaves_its_key_free(refusal):
    async def call():
        scene = Scene()
        scene.wire.weather = [refusal] * 3
        with pytest.raises((UnreachableError, ComityError)):
            await scene.say("x", idempotency_key="k")
        scene.wire.weather = []
        assert await scene.say("y", idempotency_key="k") == "echo y"

    run_simulated(call)


@simulated
async def test_an_agent_that_failed_is_asked_again_under_the_key():
    scene = Scene()

    async def fail(_request):
        raise ZeroDivisionError

    scene.bob.behaviour, works = fail, scene.bob.behaviour
    with pytest.raises(CallRefusedError, match="status 500"):
        await scene.say("x", idempotency_key="k")
    scene.bob.behaviour = works
    assert await scene.say("x", idempotency_key="k") == "echo x"
    assert len({envelope.idempotency_key for envelope in scene.bob.executed}) == 1


@simulated
async def test_a_reply_that_the_target_does_not_keep_is_lost_and_nothing_runs_twice():
    scene = Scene(strict=True)
    scene.wire.weather = [LOST] * 3
    with pytest.raises(ComityError):
        await scene.say("x", idempotency_key="k")
    await scene.say("y")
    for _ in range(2):
        with pytest.raises(PeerError, match="carried out"):
            await scene.say("x", idempotency_key="k")
    assert runs(scene.bob) == ["x", "y"]


@pytest.mark.parametrize("weather", [[], [LOST] * 3, [REQUEST_LOST] * 3])
def test_a_key_outlives_the_identity_that_it_was_used_with(weather):
    """The key of the folder was replaced: what was sent stays the same call, in the chain that it was sent in."""

    async def call():
        scene = Scene()
        scene.wire.weather = list(weather)
        with pytest.raises(NoAnswerError) if weather else nullcontext():
            await scene.say("x", idempotency_key="k")
        scene.wire.weather = []
        store = MemoryStore(scene.clock, scene.disk)
        heir = Dispatcher(
            store, EVE, scene.clock, scene.wire, record=Recorder(store, scene.clock, audited=False)
        )
        for text, key in (("a", None), ("x", "k"), ("b", None), ("x", "k")):
            assert await scene.say(text, heir, idempotency_key=key) == f"echo {text}"
        assert sorted(runs(scene.bob)) == ["a", "b", "x"]

    run_simulated(call)


@simulated
async def test_a_key_that_cannot_be_written_is_refused():
    with pytest.raises(ComityError, match="cannot be signed"):
        await Scene().say("x", idempotency_key="half a pair \ud800")


@simulated
async def test_callers_of_one_node_have_keys_of_their_own():
    scene = Scene()
    ann = visitor("ann")
    assert await scene.say("of the owner", idempotency_key="k") == "echo of the owner"
    assert await scene.say("of ann", idempotency_key="k", caller_=ann) == "echo of ann"
    assert await scene.say("of ann", idempotency_key="k", caller_=ann) == "echo of ann"
    assert runs(scene.bob) == ["of the owner", "of ann"]


@pytest.mark.parametrize("came", ["answered", "unanswered"])
def test_after_a_day_the_reply_is_gone_and_the_key_is_still_refused(came):
    async def call():
        scene = Scene()
        scene.wire.weather = [] if came == "answered" else [LOST] * 3
        with pytest.raises(NoAnswerError) if came == "unanswered" else nullcontext():
            await scene.say("x", idempotency_key="k")
        await asyncio.sleep(DAY + 1)
        await scene.say("y", idempotency_key="another")
        sent = len(scene.wire.bodies)
        said = "was answered by .* at 20" if came == "answered" else "was sent to .* at 20"
        with pytest.raises(ConflictError, match=said):
            await scene.say("x", idempotency_key="k")
        assert len(scene.wire.bodies) == sent
        await asyncio.sleep(90 * DAY)
        assert await scene.say("x", idempotency_key="k") == "echo x"

    run_simulated(call)


@simulated
async def test_the_oldest_replies_go_when_there_are_too_many_bytes():
    scene = Scene()
    scene.alice = scene.caller(keeping=Keeping(bytes=20_000))
    for number in range(30):
        await scene.say(f"{number} " + "x" * 1000, idempotency_key=f"k{number}")
        await asyncio.sleep(61)
    assert await MemoryStore(scene.clock, scene.disk).held("call-keys") <= 25_000
    assert await scene.say("29 " + "x" * 1000, idempotency_key="k29")
    with pytest.raises(ConflictError, match="no longer stored"):
        await scene.say("0 " + "x" * 1000, idempotency_key="k0")
    assert len(scene.bob.executed) == 30


@pytest.mark.parametrize(("wanted", "days"), [(False, 1), (True, 30)])
def test_texts_are_kept_as_long_as_the_owner_wants_and_then_gone(wanted, days):
    async def call():
        scene = Scene()
        scene.alice = scene.caller(keeping=keeping_of(RecordSettings(keep_messages=wanted)))
        await scene.say("order 17", idempotency_key="k")
        for number in range(days):
            assert b"order 17" in stored_texts(scene)
            await asyncio.sleep(DAY)
            await scene.say(f"of day {number}", idempotency_key=f"of day {number}")
        await asyncio.sleep(61)
        await scene.say("one more", idempotency_key="one more")
        assert b"order 17" not in stored_texts(scene)

    run_simulated(call)


def stored_texts(scene):
    return b"".join(held.value for (space, _), held in scene.disk.values.items() if space == KEY_SPACE)
