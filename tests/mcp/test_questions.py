"""Questions of ours: their ids, their limit, and answers that nobody waits for."""

import asyncio

import pytest

from comity.mcp import calls
from comity.mcp.calls import ClientRefusedError, Questions
from comity.testing import run_simulated
from comity.wire.errors import OverloadedError
from comity.wire.jsonrpc import Response, RpcError
from tests.mcp.counter import WHO, soon


def asking(open_, sent):
    return asyncio.ensure_future(open_.ask(WHO, sent.append))


def test_each_question_has_an_id_of_its_own_and_gets_its_own_answer():
    async def main():
        open_, sent = Questions("p"), []
        first, second = asking(open_, sent), asking(open_, sent)
        await soon(lambda: len(sent) == 2)
        assert open_.answered(Response("p-2", {"n": 2}))
        assert open_.answered(Response("p-1", {"n": 1}))
        assert (await first, await second) == ({"n": 1}, {"n": 2})

    run_simulated(main)


@pytest.mark.parametrize("id_", ["p-2", "other", 1, None, 1.5])
def test_an_answer_nobody_waits_for_is_dropped(id_):
    async def main():
        open_, sent = Questions("p"), []
        running = asking(open_, sent)
        await soon(lambda: sent)
        assert not open_.answered(Response(id_, {}))
        assert open_.answered(Response("p-1", {}))
        assert not open_.answered(Response("p-1", {}))
        await running
        assert not open_.answered(Response("p-1", {}))

    run_simulated(main)


def test_an_error_is_raised_where_the_answer_was_waited_for():
    async def main():
        open_, sent = Questions("p"), []
        running = asking(open_, sent)
        await soon(lambda: sent)
        open_.answered(Response("p-1", error=RpcError(-1, "no")))
        with pytest.raises(ClientRefusedError, match="the client refused: no"):
            await running

    run_simulated(main)


def test_questions_are_bounded(monkeypatch):
    monkeypatch.setattr(calls, "MAX_OPEN", 1)

    async def main():
        open_, sent = Questions(), []
        running = asking(open_, sent)
        await soon(lambda: sent)
        with pytest.raises(OverloadedError):
            await open_.ask(WHO, sent.append)
        running.cancel()
        await asyncio.wait([running])
        assert b"notifications/cancelled" in sent[-1]
        again = asking(open_, sent)
        await soon(lambda: len(sent) == 3)
        open_.abandon()
        with pytest.raises(ClientRefusedError, match="went away"):
            await again
        with pytest.raises(ClientRefusedError, match="went away"):
            await open_.ask(WHO, sent.append)
        assert len(sent) == 3  # nobody is asked any more

    run_simulated(main)


def test_who_stops_waiting_tells_the_client_unless_it_has_answered():
    async def main():
        open_, sent = Questions("p"), []
        unanswered, answered = asking(open_, sent), asking(open_, sent)
        await soon(lambda: len(sent) == 2)
        open_.answered(Response("p-2", {}))
        for task in (unanswered, answered):
            task.cancel()
        await asyncio.wait([unanswered, answered])
        assert len(sent) == 3
        assert b'"requestId":"p-1"' in sent[-1]

    run_simulated(main)
