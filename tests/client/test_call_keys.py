"""One reply for one key, as it is seen from outside: slow agents, programs at once, restarts (ruling 65)."""

import asyncio
import os
import subprocess
import sys
from collections import Counter

import pytest

import comity
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from comity.wire.errors import ConflictError, NoAnswerError, UnreachableError
from tests.ports import unused_port
from tests.waiting import eventually


class SlowAgent:
    """Answers when its gate is open, and counts how often it was asked."""

    def __init__(self):
        self.runs = Counter()
        self.gate = asyncio.Event()

    async def __call__(self, text):
        self.runs[text] += 1
        await self.gate.wait()
        return f"{text}, run {self.runs[text]}"


@pytest.fixture
def agent(monkeypatch):
    agent = SlowAgent()
    monkeypatch.setattr("tests.client.slow_agent.answer", agent.__call__)
    return agent


SLOW = AgentSettings(behaviour="tests.client.slow_agent:answer")


async def test_five_calls_that_time_out_at_once_and_are_repeated_run_once_each(tmp_path, agent):
    async with running_node(tmp_path / "there", agent=SLOW) as node:
        async with comity.Client(data=tmp_path / "me") as client:

            async def call(number, seconds):
                return await client.call(
                    node.url, f"order {number}", idempotency_key=f"k{number}", timeout=seconds
                )

            late = await asyncio.gather(*(call(n, 1.0) for n in range(5)), return_exceptions=True)
            assert {type(each) for each in late} <= {NoAnswerError}
            agent.gate.set()
            other = await client.call(node.url, "another call")
            replies = await asyncio.gather(*(call(n, 60.0) for n in range(5)))
        async with comity.Client(data=tmp_path / "me") as client:
            again = await asyncio.gather(*(call(n, 60.0) for n in reversed(range(5))))
        assert [reply.text for reply in replies] == [f"order {n}, run 1" for n in range(5)]
        assert again[::-1] == replies
        assert other.text == "another call, run 1"
        assert set(agent.runs.values()) == {1}


async def test_the_reply_is_there_although_the_agent_is_gone(tmp_path, agent):
    agent.gate.set()
    async with (
        running_node(tmp_path / "there", agent=SLOW) as node,
        comity.Client(data=tmp_path / "me") as client,
    ):
        first = await client.call(node.url, "order 17", idempotency_key="order-17")
    async with comity.Client(data=tmp_path / "me") as client:
        assert await client.call(node.url, "order 17", idempotency_key="order-17") == first
        with pytest.raises(ConflictError, match="was used for another message") as refusal:
            await client.call(node.url, "order 18", idempotency_key="order-17")
        assert refusal.value.code == "IDEMPOTENCY_KEY_REUSED"
        with pytest.raises(UnreachableError):
            await client.call(node.url, "order 18", idempotency_key="order-18")


async def test_another_agent_that_is_named_under_the_key_is_refused(tmp_path, agent):
    agent.gate.set()
    async with (
        running_node(tmp_path / "a", agent=SLOW) as a,
        running_node(tmp_path / "b", agent=SLOW) as b,
        comity.Client(data=tmp_path / "me") as client,
    ):
        first = await client.call(a.url, "x", idempotency_key="k")
        with pytest.raises(ConflictError, match="was used for a call to"):
            await client.call(b.vacant_id, "x", idempotency_key="k")
        assert await client.call([b.url, a.url], "x", idempotency_key="k") == first


def command(*arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
    return subprocess.Popen(
        [sys.executable, "-m", "comity", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


async def test_commands_at_once_beside_a_node_and_a_program_make_one_call(tmp_path, agent):
    """Three programs share the folder of the caller, and all of them want the reply to the same key."""
    me = tmp_path / "me"
    async with (
        running_node(tmp_path / "there", agent=SLOW) as node,
        running_node(me, port=unused_port()),
        comity.Client(data=me) as client,
    ):
        key = ("--idempotency-key", "order-17", "--data", me)
        commands = [command("call", node.url, "order 17", *key) for _ in range(3)]
        program = asyncio.create_task(client.call(node.url, "order 17", idempotency_key="order-17"))
        await eventually(lambda: agent.runs["order 17"], 60, 0.02, "nobody called")
        agent.gate.set()
        told = await asyncio.gather(*(asyncio.to_thread(each.communicate) for each in commands))
        reply = await program
    assert [out.decode() for out, _ in told] == [reply.text + "\n"] * 3, told
    assert agent.runs == {"order 17": 1}
