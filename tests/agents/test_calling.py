"""The handler for agents of other owners: who may use it, and how often at a time."""

import asyncio

import pytest
from msgspec.structs import replace

from comity.agents.calling import MAX_OF_A_VISITOR, AgentCall, AgentReply, AgentsHandler
from comity.requests.caller import OWN_PROCESS, UNKNOWN
from comity.requests.handler import Request
from comity.testing.nodes import running_node
from comity.wire.errors import ForbiddenError, OverloadedError
from tests.callers import visitor

CALL = AgentCall(agent="letters", message="hello")
ANN, BOB = (replace(visitor(name), scopes=("mcp", "agents")) for name in ("ann", "bob"))


class AgentCaller:
    def __init__(self):
        self.callers = []
        self.answered = asyncio.Event()

    async def call(self, asked, caller):
        self.callers.append(caller)
        await self.answered.wait()
        return AgentReply(
            agent="a", number=len(self.callers), text=asked.message, receipt=None, name="", seconds=0.0
        )


async def test_a_visitor_makes_some_calls_at_a_time_and_the_owner_any_number(patience):
    calls = AgentCaller()
    handler = AgentsHandler(calls)
    async with running_node() as node:

        def calling(caller):
            return node.pipeline.run(handler, Request(door="mcp", caller=caller, body=CALL))

        many = [asyncio.ensure_future(calling(ANN)) for _ in range(MAX_OF_A_VISITOR)]
        while len(calls.callers) < MAX_OF_A_VISITOR:  # noqa: ASYNC110 - they only have to begin
            await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="wait for one to end"):
            await calling(ANN)
        more = [asyncio.ensure_future(calling(OWN_PROCESS)) for _ in range(2 * MAX_OF_A_VISITOR)]
        more.append(asyncio.ensure_future(calling(BOB)))
        calls.answered.set()
        await asyncio.gather(*many, *more)
        assert (await calling(ANN)).text == "hello"


async def test_nobody_else_has_the_node_sign_for_them():
    calls = AgentCaller()
    async with running_node() as node:
        for caller in (
            UNKNOWN,
            visitor("ann"),
            replace(visitor("ann"), scopes=("mcp",)),
            replace(ANN, kind="peer"),
        ):
            with pytest.raises(ForbiddenError, match="the scope agents"):
                await node.pipeline.run(AgentsHandler(calls), Request(door="mcp", caller=caller, body=CALL))
    assert calls.callers == []
