"""Which of several agents is called: by what became of earlier calls, and by signs of life."""

import asyncio
import contextlib

import pytest

import comity
from comity.agents.calling import AgentCall, AgentSearch
from comity.agents.part import Calling
from comity.directory.outcomes import CallOutcomes
from comity.directory.protocol.reputation import Review, ReviewLimitError
from comity.envelopes.client.calls import BusyTargetError, CallRefusedError, TargetLimitError, outcome_of
from comity.envelopes.protocol.errors import EnvelopeSignatureError, TargetUnavailableError
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS
from comity.requests.handler import Request
from comity.requests.record import Act, Recorder
from comity.runtime.settings import AgentSettings, DirectorySettings
from comity.store.memory import MemoryDisk, MemoryStore
from comity.testing import VirtualClock
from comity.testing.nodes import running_node
from comity.wire.errors import ComityError, InvalidError, NoAnswerError, TargetRefusedError, UnreachableError
from tests.callers import visitor
from tests.http.local_server import serving
from tests.node.commands.neighbourhood import SEND, card_of, refusing
from tests.ports import unused_port
from tests.store.samples import trail_at

ECHO = AgentSettings(behaviour="echo")
GOOD, BAD, NEW = (SigningKey.from_seed(bytes([each]) * 32).vacant_id for each in b"gbn")
DAY = 86_400


# Between real nodes.


@contextlib.asynccontextmanager
async def neighbours(tmp_path, endpoint):
    """A node whose directory holds an agent at `endpoint`, and after it one that answers."""
    async with running_node(tmp_path / "good", agent=ECHO) as good:
        for name, where in (("bad", endpoint), ("good", good.url + SEND)):
            async with comity.Client(data=tmp_path / name, directory=good.url) as owner:
                await owner.directory().publish(card_of(tmp_path / name, where, "translates"))
        bad = comity.Client(data=tmp_path / "bad")
        async with bad:
            id_ = bad.vacant_id
        yield good, id_


async def ask(node, body, caller=OWN_PROCESS):
    return await node.pipeline.run(
        node.runtime.find(Calling).agents, Request(door="mcp", caller=caller, body=body)
    )


async def found_by(node):
    found = await ask(node, AgentSearch(capability="translates", directory=None, limit=5))
    return [each.agent for each in found.agents]


async def ten_calls(here):
    answered = []
    for number in range(10):
        try:
            reply = await ask(here, AgentCall(agent="translates", message=f"{number}", seconds=10))
            answered.append(reply.agent)
        except ComityError:
            answered.append("nobody")
    return answered


@pytest.mark.parametrize("status", [500, 503])
async def test_ten_calls_to_two_agents_of_unlike_quality_prefer_the_better_one(tmp_path, patience, status):
    async with (
        serving(refusing(status, "no")) as server,
        neighbours(tmp_path, server.url(SEND)) as (good, bad),
        running_node(directory=DirectorySettings(url=good.url)) as here,
    ):
        assert await found_by(here) == [bad.hex(), good.vacant_id.hex()]
        assert (await ten_calls(here))[1:] == [good.vacant_id.hex()] * 9
        assert await found_by(here) == [good.vacant_id.hex(), bad.hex()]


async def test_a_dead_agent_falls_behind_and_programs_remember_it(tmp_path, patience):
    async with neighbours(tmp_path, f"http://127.0.0.1:{unused_port()}{SEND}") as (good, bad):
        async with comity.Client(data=tmp_path / "me", directory=good.url) as me:
            found = await me.find("translates")
            assert [each.vacant_id for each in found] == [bad.hex(), good.vacant_id.hex()]
            assert (await me.call(found, "hello")).agent == good.vacant_id
        async with comity.Client(data=tmp_path / "me", directory=good.url) as me:
            found = await me.find("translates")
            assert [each.vacant_id for each in found] == [good.vacant_id.hex(), bad.hex()]


# By the clock of a test.


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def outcomes(clock, tmp_path):
    return CallOutcomes(MemoryStore(clock, MemoryDisk(), trail_at(tmp_path)), clock)


def call(outcomes, target, end=None, caller=OWN_PROCESS):
    with contextlib.suppress(UnreachableError), outcomes.watch(target, caller):
        fail(end)


def fail(end):
    if end is not None:
        raise end


async def order(outcomes, *targets):
    return await outcomes.ranked(targets, lambda each: each.hex())


DOWN = UnreachableError("nobody is there")


async def test_equals_stay_in_the_order_of_the_directory(outcomes):
    assert await order(outcomes, BAD, GOOD, NEW) == [BAD, GOOD, NEW]


async def test_who_answers_comes_before_who_is_new_and_who_does_not_comes_last(outcomes):
    for _ in range(5):
        call(outcomes, GOOD)
        call(outcomes, BAD, DOWN)
    assert await order(outcomes, BAD, NEW, GOOD) == [GOOD, NEW, BAD]
    await outcomes.flush()
    assert await order(outcomes, BAD, NEW, GOOD) == [GOOD, NEW, BAD]


async def test_an_agent_that_was_dead_gets_a_chance_later(outcomes, clock):
    call(outcomes, BAD, DOWN)
    for _ in range(40):
        call(outcomes, GOOD)
    assert await order(outcomes, GOOD, BAD) == [GOOD, BAD]
    clock.jump(61)
    assert await order(outcomes, GOOD, BAD) == [BAD, GOOD]
    call(outcomes, BAD, DOWN)
    clock.jump(61)
    assert await order(outcomes, GOOD, BAD) == [GOOD, BAD]
    clock.jump(60)
    assert await order(outcomes, GOOD, BAD) == [BAD, GOOD]
    for _ in range(30):
        call(outcomes, BAD, DOWN)
    clock.jump(DAY - 1)
    assert await order(outcomes, GOOD, BAD) == [GOOD, BAD]


async def test_after_one_reply_an_agent_does_not_rest_any_more(outcomes):
    for _ in range(20):
        call(outcomes, BAD, DOWN)
    call(outcomes, BAD)
    assert (await outcomes.of(BAD.hex())).rests_until == 0


async def test_the_calls_of_visitors_do_not_count(outcomes):
    for _ in range(100):
        call(outcomes, GOOD, DOWN, caller=visitor("ann"))
    assert (await outcomes.of(GOOD.hex())).events == 0
    assert await order(outcomes, GOOD, BAD) == [GOOD, BAD]


async def test_a_flood_of_calls_takes_no_more_memory_than_its_limit(outcomes):
    for _ in range(10_000):
        call(outcomes, GOOD)
    assert (await outcomes.of(GOOD.hex())).events == 256
    await outcomes.flush()
    call(outcomes, GOOD)
    assert (await outcomes.of(GOOD.hex())).events == 257


async def test_two_processes_on_one_folder_lose_none_of_their_outcomes(clock):
    store = MemoryStore(clock)
    both = CallOutcomes(store, clock), CallOutcomes(store, clock)
    for _ in range(5):
        for each in both:
            call(each, GOOD)
        await asyncio.gather(*(each.flush() for each in both))
    assert (await both[0].of(GOOD.hex())).events == 10


async def reviewed(outcomes, clock, target, signal, at=None):
    review = Review(
        reviewer=NEW.hex(),
        target=target.hex(),
        signals=dict.fromkeys(("factual", "logical", "relevance", "honesty", "adoption"), signal),
        source="caller_review",
        at=clock.now() if at is None else at,
    )
    await outcomes.review(
        review, Recorder(outcomes._store, clock), Act(feature="directory", result="REVIEW_MADE")
    )


async def test_one_review_puts_an_agent_that_answers_fast_rubbish_behind_a_new_one(outcomes, clock):
    for _ in range(5):
        call(outcomes, BAD)
    assert await order(outcomes, NEW, BAD) == [BAD, NEW]
    await reviewed(outcomes, clock, BAD, 0.0)
    assert await order(outcomes, BAD, NEW) == [NEW, BAD]


async def test_ten_thousand_reviews_of_one_agent_count_three_times_a_day_and_calls_without_limit(
    outcomes, clock
):
    counted = 0
    for _ in range(10_000):
        try:
            await reviewed(outcomes, clock, BAD, 1.0)
            counted += 1
        except ReviewLimitError:
            continue
    assert counted == 3
    for _ in range(5):
        call(outcomes, BAD)
    assert (await outcomes.of(BAD.hex())).events == 8
    clock.jump(DAY + 1)
    await reviewed(outcomes, clock, BAD, 1.0)


@pytest.mark.parametrize(
    ("end", "seconds", "outcome"),
    [
        (None, 1, "answered"),
        (None, 31, "late"),
        (NoAnswerError("none"), 60, "late"),
        (TimeoutError(), 60, "late"),
        (asyncio.CancelledError(), 60, "late"),
        (NoAnswerError("none"), 1, None),
        (asyncio.CancelledError(), 1, None),
        (TargetUnavailableError("asleep"), 0, "refused"),
        (TargetLimitError(429, ""), 0, "refused"),
        (BusyTargetError(503, ""), 0, "refused"),
        (CallRefusedError(403, ""), 0, "refused"),
        (CallRefusedError(500, ""), 0, "failed"),
        (UnreachableError("down"), 0, "failed"),
        (EnvelopeSignatureError("forged"), 0, "failed"),
        (CallRefusedError(400, ""), 0, None),
        (CallRefusedError(413, ""), 0, None),
        (TargetRefusedError("private"), 0, None),
        (InvalidError("mine"), 0, None),
    ],
)
def test_only_what_the_agent_did_counts(end, seconds, outcome):
    assert outcome_of(end, seconds) == outcome
