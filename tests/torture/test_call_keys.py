"""Callers that repeat by key while the agent's node is killed: one reply for each key, and few extra runs (ruling 65)."""

import asyncio
import os
import random
from collections import Counter

import pytest

import comity
from comity.wire.errors import ConflictError, RetryLaterError
from tests.torture.live_node import LiveNode

ROUNDS = int(os.environ.get("COMITY_TORTURE_ROUNDS", "4"))
CLIENTS = 8
"""Each has a folder of its own, and so a chain with the node."""
CALLERS = 4
"""Of each client."""
LATEST_KILL = 0.5
REPEATED = 10
"""Calls of each caller that are made again at the end, by another process on the folder."""


class Caller:
    """Makes one call after the other, each under its key until it has a reply."""

    def __init__(self, name, node, client):
        self.name, self.node, self.client = name, node, client
        self.replies = {}
        self.given_up = 0

    async def run(self, stopped):
        while not stopped.is_set():
            key = f"{self.name} {len(self.replies) + 1}"
            self.replies[key] = await self.call(key)

    async def call(self, key, seconds=2.0):
        while True:
            await self.node.up.wait()
            try:
                reply = await self.client.call(self.node.url, key, idempotency_key=key, timeout=seconds)
            except RetryLaterError:  # it may have been carried out
                self.given_up += 1
            else:
                return reply.text, reply.request.compute_hash(), reply.envelope.compute_hash()


@pytest.mark.torture
async def test_no_kill_gives_a_key_two_replies(tmp_path):
    seed = random.randrange(2**32)
    print(f"seed {seed}, {ROUNDS} kills", flush=True)
    chance, node = random.Random(seed), LiveNode("bert", tmp_path)
    folders = [tmp_path / f"client {number}" for number in range(CLIENTS)]
    try:
        await node.start()
        clients = [comity.Client(data=folder) for folder in folders]
        callers = [
            Caller(f"{client}.{caller}", node, clients[client])
            for client in range(CLIENTS)
            for caller in range(CALLERS)
        ]
        for client in clients:
            await client.__aenter__()
        stopped = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(caller.run(stopped))
            for _ in range(ROUNDS):
                before = sum(len(caller.replies) for caller in callers)
                while sum(len(caller.replies) for caller in callers) < before + CLIENTS:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                await asyncio.sleep(chance.uniform(0, LATEST_KILL))
                await node.kill()
                await node.start()
            stopped.set()
        runs = node.runs()
        _check_runs(callers, runs)
        for client in clients:
            await client.__aexit__()
        await _check_repeated(callers, folders)
        assert node.runs() == runs, "a call that has its reply was made again"
    finally:
        await node.stop()
    print(
        f"{len(runs)} calls, {sum(runs.values()) - len(runs)} extra runs, {sum(c.given_up for c in callers)} given up"
    )


def _check_runs(callers, runs: Counter):
    answered = [key for caller in callers for key in caller.replies]
    assert set(answered) == set(runs), "a call without a run, or a run without a call"
    # each client has one call at a time at the agent
    extra = sum(runs.values()) - len(answered)
    assert extra <= ROUNDS * CLIENTS, f"{extra} extra runs by {ROUNDS} kills"


async def _check_repeated(callers, folders):
    """From new processes' clients: the reply that there was, and other content is refused."""
    for number, folder in enumerate(folders):
        async with comity.Client(data=folder) as client:
            for caller in callers[number * CALLERS : (number + 1) * CALLERS]:
                caller.client = client
                for key in list(caller.replies)[-REPEATED:]:
                    assert await caller.call(key) == caller.replies[key]
                    with pytest.raises(ConflictError, match="was used for another message"):
                        await client.call(caller.node.url, "other", idempotency_key=key)
