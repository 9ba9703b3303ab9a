import asyncio
import os

import pytest

from comity.core.actions.action import Page
from comity.core.actions.calls import Work
from comity.core.errors import ActionError, ComityError, DeadlineError, NotFoundError
from comity.pipeline.actions.library import Library
from comity.pipeline.actions.plugins import load_plugins
from comity.pipeline.actions.runner import Runner

SAMPLE = "tests.pipeline.actions.sample_plugin"


class Fetcher:
    def __init__(self):
        self.asked = []
        self.closed = False

    async def fetch(self, urls):
        self.asked.append(tuple(urls))
        return [Page(url=url, html="<p>x</p>") for url in urls]

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
    runner = Runner(Library("enhanced", load_plugins([SAMPLE])), fetcher, deadline=1.5)
    _, work = runner.library.calls.begin("work_hard", {"do": "hang"})
    assert isinstance(work, Work)
    async with asyncio.timeout(15):
        settled = await runner.settle(work)
    assert isinstance(settled, DeadlineError)
    assert "work_hard took longer than 1.5 seconds" in settled.message
    await runner.aclose()
    assert fetcher.closed
