"""The conductor: events in order, effects as asked, and nothing left behind."""

import asyncio

import pytest

from comity.testing import Faults, Randomness, SimulatedClock, run_simulated, simulated_pair
from comity.testing.loopback import loopback_pair
from comity.vcp.conductor import Conductor
from comity.wire.errors import ComityError, InvalidError, TooLargeError
from comity.wire.link import LinkClosed
from comity.wire.machine import (
    Answered,
    Ask,
    CancelTimer,
    Close,
    Effect,
    LinkLost,
    Received,
    Refused,
    Send,
    SetTimer,
    Started,
    TimerFired,
)
from tests.requests.pipelines import settle, simulated


class Script:
    """A machine that answers each event by a function and remembers what it heard, and when."""

    def __init__(self, react=lambda _event: []):
        self.heard = []
        self.times = []
        self.react = react

    def receive(self, event, now):
        self.heard.append(event)
        self.times.append(now)
        return self.react(event)


async def never(_request):
    raise AssertionError("nothing was to be asked")


def conduct(machine, link, answer=never, **named):
    conductor = Conductor(machine, link, SimulatedClock(), answer, **named)
    return asyncio.create_task(conductor.run(), name="run")


def others_running():
    return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}


@simulated
async def test_a_machine_hears_its_start_its_messages_and_the_end_in_order():
    ours, theirs = loopback_pair()
    machine = Script()
    for message in (b"one", b"two", b"three"):
        await theirs.send(message)
    await theirs.close("done talking")
    assert await conduct(machine, ours) == "done talking"
    assert machine.heard == [
        Started(),
        Received(b"one"),
        Received(b"two"),
        Received(b"three"),
        LinkLost("done talking"),
    ]
    assert others_running() == set()


@simulated
async def test_the_next_message_is_taken_only_when_the_one_before_was_dealt_with():
    ours, theirs = loopback_pair(capacity=1)
    machine = Script(lambda event: [Send(b"thanks")] if isinstance(event, Received) else [])
    running = conduct(machine, ours)
    sent = []

    async def talk():
        for number in range(10):
            await theirs.send(b"%d" % number)
            sent.append(number)

    talking = asyncio.create_task(talk())
    await settle()
    # our thanks fill the link: one waits in it, the second waits to be sent, one message waits behind
    assert len([event for event in machine.heard if isinstance(event, Received)]) == 2
    assert len(sent) == 3
    for _ in range(10):
        assert await theirs.receive() == b"thanks"
    await talking
    assert len(machine.heard) == 11
    await theirs.close()
    await running


@simulated
async def test_a_timer_fires_once_at_its_time():
    ours, theirs = loopback_pair()
    machine = Script(lambda event: [SetTimer("tea", 3.0)] if event == Started() else [])
    running = conduct(machine, ours)
    await asyncio.sleep(60)
    assert machine.heard == [Started(), TimerFired("tea")]
    assert machine.times == [0.0, 3.0]
    await theirs.close()
    await running


@simulated
async def test_a_timer_whose_time_is_past_fires_at_once():
    ours, theirs = loopback_pair()
    machine = Script(lambda event: [SetTimer("late", -5.0)] if event == Started() else [])
    running = conduct(machine, ours)
    await settle()
    assert machine.heard == [Started(), TimerFired("late")]
    await theirs.close()
    await running


@simulated
async def test_a_timer_can_be_moved_and_cancelled():
    ours, theirs = loopback_pair()
    wishes = {b"move": SetTimer("tea", 9.0), b"cancel": CancelTimer("cake"), b"unknown": CancelTimer("pie")}

    def react(event):
        if isinstance(event, Received):
            return [wishes[event.message]]
        return [SetTimer("tea", 3.0), SetTimer("cake", 4.0)] if event == Started() else []

    machine = Script(react)
    running = conduct(machine, ours)
    await asyncio.sleep(2)
    for message in wishes:
        await theirs.send(message)
    await asyncio.sleep(60)
    assert machine.heard[-1] == TimerFired("tea")
    assert machine.times[-1] == 9.0
    assert TimerFired("cake") not in machine.heard
    assert machine.heard.count(TimerFired("tea")) == 1
    await theirs.close()
    await running


@pytest.mark.parametrize("instead", [CancelTimer("tea"), SetTimer("tea", 8.0)])
@simulated
async def test_a_timer_that_was_cancelled_or_moved_does_not_fire_even_if_its_time_is_up(instead):
    """The message and the timer come at the same moment, and the message is heard first."""
    ours, theirs = loopback_pair(capacity=1)
    await ours.send(b"fills the link")

    def react(event):
        if event == Started():
            return [SetTimer("tea", 1.0), Send(b"held back until the timer is over")]
        return [instead] if isinstance(event, Received) else []

    machine = Script(react)
    running = conduct(machine, ours)
    await settle()
    await theirs.send(b"no tea")
    await asyncio.sleep(5)  # both wait behind the send
    assert machine.heard == [Started()]
    await theirs.receive()
    await settle()
    assert machine.heard[:2] == [Started(), Received(b"no tea")]
    assert machine.heard[2:] == []
    await asyncio.sleep(60)
    assert machine.heard[2:] == ([TimerFired("tea")] if isinstance(instead, SetTimer) else [])
    await theirs.close()
    await running


@simulated
async def test_a_question_is_answered_or_refused_under_its_tag():
    ours, theirs = loopback_pair()

    async def answer(request):
        await asyncio.sleep(request)
        if request == 2:
            raise InvalidError("two is too many")
        return request * 10

    machine = Script(lambda event: [Ask("b", 2), Ask("a", 1), Ask("c", 3)] if event == Started() else [])
    running = conduct(machine, ours, answer)
    await asyncio.sleep(10)
    _, first, second, third = machine.heard
    assert first == Answered("a", 10)
    assert isinstance(second, Refused)
    assert (second.tag, second.error.message) == ("b", "two is too many")
    assert third == Answered("c", 30)
    await theirs.close()
    await running


@simulated
async def test_a_question_that_fails_unforeseen_is_refused_in_plain_words_and_logged(caplog):
    ours, theirs = loopback_pair()

    async def answer(_request):
        raise KeyError("/secret/path")

    machine = Script(lambda event: [Ask("a", 1)] if event == Started() else [])
    running = conduct(machine, ours, answer)
    await settle()
    refused = machine.heard[-1]
    assert isinstance(refused, Refused)
    assert type(refused.error) is ComityError
    assert "secret" not in refused.error.message
    assert "/secret/path" in caplog.text
    await theirs.close()
    await running


@simulated
async def test_messages_are_heard_while_a_question_is_open():
    ours, theirs = loopback_pair()
    machine = Script(lambda event: [Ask("slow", 1)] if event == Started() else [])
    running = conduct(machine, ours, lambda _request: asyncio.sleep(100, "at last"))
    await theirs.send(b"still there?")
    await asyncio.sleep(50)
    assert machine.heard == [Started(), Received(b"still there?")]
    await asyncio.sleep(51)
    assert machine.heard[-1] == Answered("slow", "at last")
    await theirs.close()
    await running


@simulated
async def test_a_peer_that_takes_nothing_is_given_up():
    ours, theirs = loopback_pair(capacity=1)
    machine = Script(lambda event: [Send(b"1"), Send(b"2"), Send(b"3")] if event == Started() else [])
    assert await conduct(machine, ours, send_seconds=7.0) == "the peer took nothing for 7 seconds"
    assert asyncio.get_running_loop().time() == pytest.approx(7.0)
    assert machine.heard[-1] == LinkLost("the peer took nothing for 7 seconds")
    assert await theirs.receive() == b"1"
    with pytest.raises(LinkClosed, match="took nothing"):
        await theirs.receive()
    assert others_running() == set()


@simulated
async def test_a_peer_that_takes_a_little_now_and_then_is_waited_for():
    ours, theirs = loopback_pair(capacity=1)
    machine = Script(lambda event: [Send(b"%d" % n) for n in range(10)] if event == Started() else [])
    running = conduct(machine, ours, send_seconds=7.0)
    for number in range(10):
        await asyncio.sleep(6)
        assert await theirs.receive() == b"%d" % number
    await theirs.close("enough")
    assert await running == "enough"


@simulated
async def test_close_comes_after_what_was_sent_before_and_nothing_comes_after_it():
    ours, theirs = loopback_pair(capacity=8)
    machine = Script(
        lambda event: (
            [Send(b"last words"), Close("goodbye"), Send(b"never said")] if event == Started() else []
        )
    )
    assert await conduct(machine, ours) == "goodbye"
    assert machine.heard == [Started()]
    assert await theirs.receive() == b"last words"
    with pytest.raises(LinkClosed, match="goodbye"):
        await theirs.receive()


@simulated
async def test_timers_and_questions_still_open_at_the_end_are_dropped():
    ours, theirs = loopback_pair()
    ended = []

    async def answer(_request):
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("question")

    machine = Script(lambda event: [SetTimer("tea", 500.0), Ask("a", 1)] if event == Started() else [])
    running = conduct(machine, ours, answer)
    await asyncio.sleep(1)
    await theirs.close("gone")
    assert await running == "gone"
    assert ended == ["question"]
    assert others_running() == set()
    assert asyncio.get_running_loop().time() == 1.0


def fail(_event):
    raise ZeroDivisionError("a bug in the machine")


@pytest.mark.parametrize(
    ("react", "raised"),
    [
        (fail, ZeroDivisionError),
        (lambda _event: [Effect()], TypeError),
        (lambda _event: [Send(b"x" * 2000)], TooLargeError),
    ],
)
@simulated
async def test_a_machine_that_fails_ends_the_link_and_leaves_nothing_running(react, raised):
    ours, theirs = loopback_pair(max_message_bytes=1000)
    running = conduct(Script(react), ours)
    with pytest.raises(raised):
        await running
    with pytest.raises(LinkClosed, match="something failed on our side"):
        await theirs.receive()
    assert others_running() == set()


@simulated
async def test_a_run_that_is_cancelled_ends_the_link_and_leaves_nothing_running():
    ours, theirs = loopback_pair()
    machine = Script(lambda event: [SetTimer("tea", 9.0), Ask("a", 1)] if event == Started() else [])
    running = conduct(machine, ours, lambda _request: asyncio.sleep(1000))
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(LinkClosed, match="this side stops"):
        await theirs.receive()
    assert others_running() == set()


class BadLink:
    """A link that fails to receive, or to close."""

    max_message_bytes = 1000
    peer = "test:bad"

    def __init__(self, failure=None):
        self.failure = failure

    async def send(self, message):
        raise LinkClosed("broken pipe")

    async def receive(self):
        if self.failure:
            raise self.failure
        await asyncio.sleep(10_000)

    async def close(self, reason=""):
        if not self.failure:
            await asyncio.sleep(10_000)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (
            TooLargeError("the message", 1000),
            "the message exceeds the limit of 1,000 bytes; send less or split it",
        ),
        (OSError("/dev/secret"), "something failed on our side"),
    ],
)
@simulated
async def test_a_link_that_fails_to_receive_is_lost(failure, reason, caplog):
    machine = Script()
    assert await conduct(machine, BadLink(failure)) == reason
    assert machine.heard == [Started(), LinkLost(reason)]
    assert ("/dev/secret" in caplog.text) == isinstance(failure, OSError)


@simulated
async def test_a_link_that_does_not_even_close_is_left_to_itself():
    machine = Script(lambda event: [Send(b"hello")] if event == Started() else [])
    assert await conduct(machine, BadLink(), send_seconds=7.0) == "broken pipe"
    assert machine.heard == [Started(), LinkLost("broken pipe")]
    assert asyncio.get_running_loop().time() == pytest.approx(7.0)
    assert others_running() == set()


class Chatter:
    """Sends when its timer fires, moves and cancels that timer, asks now and then; what it hears must fit."""

    def __init__(self, randomness, rounds):
        self.randomness = randomness
        self.rounds = rounds
        self.open_questions = set()
        self.timer_at = None
        self.seen = 0
        self.fired = 0
        self.over = False

    def receive(self, event, now):
        assert not self.over
        self.hear(event, now)
        self.rounds -= 1
        if self.rounds < 0:
            self.over = True
            return [Close("all said")]
        sends = self.randomness.integer(0, 2) if isinstance(event, TimerFired) else 0
        return [Send(b"%d" % self.rounds)] * sends + self.wishes(now)

    def hear(self, event, now):
        match event:
            case Received(message):
                assert message.isdigit()
                self.seen += 1
            case TimerFired():
                assert self.timer_at == pytest.approx(now, abs=1e-6)
                self.timer_at = None
                self.fired += 1
            case Answered(tag, answer):
                assert answer == tag.upper()
                self.open_questions.remove(tag)
            case Refused(tag, _):
                self.open_questions.remove(tag)
            case LinkLost():
                self.over = True

    def wishes(self, now):
        draw = self.randomness
        if draw.chance(0.3):
            tag = draw.hex(4)
            self.open_questions.add(tag)
            return [Ask(tag, tag)]
        if draw.chance(0.2):
            self.timer_at = None
            if self.open_questions:  # somebody must go on
                return [CancelTimer("one")]
        if self.timer_at is None or draw.chance(0.5):
            self.timer_at = now + draw.choice([0.0, 0.003, 0.02])
            return [SetTimer("one", self.timer_at)]
        return []


@pytest.mark.parametrize("seed", range(25))
def test_two_chattering_machines_on_a_bad_link_keep_every_promise(seed):
    async def evening():
        randomness = Randomness(seed)
        clock = SimulatedClock()
        links = simulated_pair(
            clock=clock,
            randomness=randomness.branch("links"),
            faults=Faults(loss=0.1, duplication=0.1, reordering=0.2),
        )

        async def answer(tag):
            await asyncio.sleep(randomness.between(0, 0.03))
            if randomness.chance(0.2):
                raise InvalidError("not tonight")
            return tag.upper()

        machines = [Chatter(randomness.branch(name), 200) for name in "ab"]
        runs = [
            Conductor(machine, link, clock, answer).run()
            for machine, link in zip(machines, links, strict=True)
        ]
        reasons = await asyncio.wait_for(asyncio.gather(*runs), 600)
        assert set(reasons) == {"all said"}
        assert all(machine.over for machine in machines)
        assert all(machine.seen > 5 and machine.fired > 5 for machine in machines)
        assert others_running() == set()

    run_simulated(evening, seed)
