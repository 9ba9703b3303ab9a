import asyncio
import os

import pytest

from comity.actions.library import Library, load_plugins
from comity.actions.protocol.action import FetchedPage
from comity.actions.protocol.calls import Work
from comity.actions.runner import MAX_CHARACTERS_HERE, ActionLimits, Allowance, Runner
from comity.wire.errors import ActionError, ComityError, DeadlineError, NotFoundError, OverloadedError
from tests.callers import OWNER, visitor

SAMPLE = "tests.actions.sample_plugin"


class Fetcher:
    def __init__(self):
        self.asked = []
        self.closed = False

    async def fetch(self, urls, fetched):
        self.asked.append(tuple(urls))
        return [FetchedPage(url=url, html="<p>x</p>") for url in urls]

    async def aclose(self):
        self.closed = True


@pytest.fixture
async def fetcher():
    return Fetcher()


@pytest.fixture
async def runner(fetcher):
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])), fetcher)
    yield runner
    await runner.aclose()


async def test_a_quick_action_answers(runner):
    data = await runner.call("greet", {"name": "Ada"})
    assert data["output"] == {"greeting": "Hello, Ada", "mode": "enhanced"}
    assert data["boundaryNotice"] == "A sample; do not rely on it"


async def test_pages_are_fetched_for_whoever_asks(runner, fetcher):
    data = await runner.call("read_titles", {"urls": ["https://a.example/", "https://b.example/"]})
    assert data["output"] == {"lengths": [8, 8]}
    assert fetcher.asked == [("https://a.example/", "https://b.example/")]


async def test_without_a_fetcher_the_page_says_so():
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])))
    data = await runner.call("read_titles", {"urls": ["https://a.example/"]})
    assert data["output"] == {"lengths": [0]}
    await runner.aclose()


async def test_unknown_actions_and_bad_inputs_are_refused(runner):
    with pytest.raises(NotFoundError):
        await runner.call("nobody", {})
    with pytest.raises(ActionError, match="Required field 'name' is missing or empty"):
        await runner.call("greet", {})
    with pytest.raises(ActionError, match="more"):
        await runner.call("greet", {"name": "x", "more": 1})


async def test_a_worker_that_has_loaded_the_action_is_taken_before_others(runner):
    async def pid_of(name, given, caller):
        return (await runner.call(name, given, caller))["output"]["pid"]

    hard = ("work_hard", {"do": "answer"}, visitor("ann"))
    long = ("tell_where", {"text": "x" * MAX_CHARACTERS_HERE}, visitor("bob"))
    first, other = await asyncio.gather(pid_of(*hard), pid_of(*long))
    assert len({first, other, os.getpid()}) == 3
    for _ in range(2):
        assert [await pid_of(*long), await pid_of(*hard)] == [other, first]


async def test_slow_work_is_done_by_a_worker_that_outlives_every_refusal(runner, fetcher, caplog):
    first = (await runner.call("work_hard", {"do": "answer", "text": "\ud800é"}))["output"]
    assert first["pid"] != os.getpid()
    assert first["text"] == "\ud800é"
    with pytest.raises(ActionError, match=r"There is nothing to work on\."):
        await runner.call("work_hard", {"do": "refuse"})
    assert (await runner.call("work_hard", {"do": "answer"}))["output"]["pid"] == first["pid"]

    fetched = await runner.call("work_hard", {"do": "fetch"})
    assert fetched["output"] == {"html": "<p>x</p>", "failure": ""}
    assert fetcher.asked == [("https://one.example/",)]

    for what in ("raise", "nonsense", "die"):
        with pytest.raises(ComityError) as failed:
            await runner.call("work_hard", {"do": what})
        assert failed.value.message == "Internal error"
    assert "a secret" in caplog.text
    assert (await runner.call("work_hard", {"do": "answer"}))["output"]["pid"] != first["pid"]


async def test_work_beyond_its_memory_is_refused(runner):
    with pytest.raises(ActionError, match="more memory"):
        await runner.call("work_hard", {"do": "hoard"})


async def test_work_beyond_its_time_is_ended(fetcher):
    limits = ActionLimits(own=Allowance(characters=1000, seconds=1.5))
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])), fetcher, limits=limits)
    _, work = runner.library.calls.begin("work_hard", {"do": "hang"})
    assert isinstance(work, Work)
    async with asyncio.timeout(15):
        result = await runner.run(work)
    assert isinstance(result, DeadlineError)
    assert "work_hard took longer than 1.5 seconds" in result.message
    await runner.aclose()
    assert fetcher.closed


async def test_a_short_text_is_worked_on_here_and_a_long_one_by_a_worker(runner):
    here = await runner.call("tell_where", {"text": "x"})
    assert here["output"] == {"pid": os.getpid()}
    elsewhere = await runner.call("tell_where", {"text": "x" * MAX_CHARACTERS_HERE})
    assert elsewhere["output"]["pid"] != os.getpid()
    with pytest.raises(ActionError, match="Required field 'text' is missing or empty"):
        await runner.call("tell_where", {"more": "x" * MAX_CHARACTERS_HERE})


@pytest.mark.parametrize(
    ("own", "limit", "whose"), [(True, 500, "the user of this node"), (False, 100, "a caller who is not")]
)
async def test_a_text_beyond_the_limit_of_its_caller_is_refused_by_name(own, limit, whose):
    limits = ActionLimits(own=Allowance(characters=500), others=Allowance(characters=100))
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])), limits=limits)
    caller = OWNER if own else visitor("somebody")
    fits = {"name": "x" * (limit - len("name") - 3)}
    assert await runner.call("greet", fits, caller)
    with pytest.raises(ActionError, match=f"longer than the {limit} characters that {whose}"):
        await runner.call("greet", {"name": fits["name"] + "x"}, caller)
    with pytest.raises(ActionError, match="longer than the"):
        await runner.call("greet", {"name": ["x"] * limit}, caller)
    await runner.aclose()


async def test_slow_work_of_one_caller_leaves_a_worker_for_another(runner):
    greedy = [
        asyncio.ensure_future(runner.call("work_hard", {"do": "hang"}, OWNER, "greedy")) for _ in range(8)
    ]
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        answered = await runner.call("tell_where", {"text": "x" * MAX_CHARACTERS_HERE}, OWNER, "other")
    assert answered["output"]["pid"] != os.getpid()
    assert not any(one.done() for one in greedy)
    for one in greedy:
        one.cancel()
    await asyncio.wait(greedy)


async def test_who_has_too_much_waiting_is_refused_and_learns_when_to_come_back():
    limits = ActionLimits(queued=2)
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])), limits=limits)
    waiting = [asyncio.ensure_future(runner.call("work_hard", {"do": "hang"})) for _ in range(12)]
    refused, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(OverloadedError, match=r"try again in \d+ seconds"):
        raise refused.pop().exception()
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    await runner.aclose()
