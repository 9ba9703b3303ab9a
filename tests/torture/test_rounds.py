"""Two nodes under load, one or both of which are killed in each round: what was acknowledged is there, once."""

import asyncio
import os
import random
import time
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial

import pytest

from comity.store.audit_chain import NOT_APPLICABLE
from comity.store.audit_log import chains, verify_chain
from tests.torture.calls import KEPT_REPLIES, Calls
from tests.torture.live_node import LiveNode
from tests.torture.messages import Messages, check_signed, meet, until_linked
from tests.torture.votes import Vote

ROUNDS = int(os.environ.get("COMITY_TORTURE_ROUNDS", "4"))
CALLERS = 2
"""Of each node."""
VOTE_ROUNDS = 4
"""One vote goes through so many rounds: half of them while it is deliberated, half while its variants are ranked."""
COMMAND_ROUNDS = 25
"""After so many rounds the commands of the owner look at both folders too."""
LATEST_KILL = 0.5
LATEST_KILL_AT_START = 1.0
MOST_WHILE_ALONE = 20
"""Acts of each worker from the kill to the restart: more would fill the queues of what waits for an absent node."""


MOST_MESSAGES = 300
"""Of each sender in a round: nobody reads on a node that will be killed, and more would not fit its inbox."""


async def work(killed, stopped, act, most=None):
    """One act after the other."""
    done, alone = 0, 0
    while done != most and alone < MOST_WHILE_ALONE and not stopped.is_set():
        done += 1
        alone += killed.is_set()
        await act()


async def on_live_node(node, act):
    await node.up.wait()
    await act()


async def read_on(stopped, messages):
    while not stopped.is_set():
        await messages.read(wait_ms=50)


async def check_audit(node, each=lambda _entry: None):
    async with node.reading() as store:
        for chain in await chains(store):
            report = await verify_chain(store, chain, node.vacant_id.public, node.data / "audit", each=each)
            assert report.ok, f"{node.name}, {chain}: {report.message}"


class Rounds:
    def __init__(self, nodes, chance, folder):
        self.nodes, self.chance, self.folder = nodes, chance, folder
        self.calls = [
            Calls(f"caller {number} of {node.name}", node) for node in nodes for number in range(CALLERS)
        ]
        self.messages = [Messages(*nodes), Messages(*reversed(nodes))]
        self.votes = []
        self.kills = Counter()

    async def play(self, number):
        if number % VOTE_ROUNDS == 0:
            host, party = self.chance.sample(self.nodes, 2)
            self.votes.append(await Vote.open(host, party))
        elif number % VOTE_ROUNDS == VOTE_ROUNDS // 2:
            await self.votes[-1].rank()
        victims = self.chance.sample(self.nodes, 2 if self.chance.random() < 0.25 else 1)
        async with self._load(victims) as killed:
            for victim in victims:
                await asyncio.sleep(self.chance.uniform(0, LATEST_KILL))
                await victim.kill()
                killed.set()
                self.kills["host of the vote" if victim is self.votes[-1].host else "party of the vote"] += 1
            if self.chance.random() < 0.3:
                await victims[0].launch()
                await asyncio.sleep(self.chance.uniform(0, LATEST_KILL_AT_START))
                await victims[0].kill()
                self.kills["while it started"] += 1
            for victim in victims:
                await victim.start()
        await until_linked(*self.nodes)
        await self._check()
        if number % VOTE_ROUNDS == VOTE_ROUNDS - 1:
            await self.votes[-1].finish()
            await self.votes[-1].check()
        if number % COMMAND_ROUNDS == COMMAND_ROUNDS - 1 or number == ROUNDS - 1:
            await self._check_with_commands()

    @asynccontextmanager
    async def _load(self, victims):
        """Nobody reads on a node that will be killed: what is read at that moment may be shown again."""
        killed, stopped, vote = asyncio.Event(), asyncio.Event(), self.votes[-1]
        acts = [calls.make_one for calls in self.calls]
        acts += [partial(on_live_node, node, partial(vote.act, node)) for node in self.nodes]
        sends = [partial(on_live_node, one.sender, one.send) for one in self.messages]
        async with asyncio.TaskGroup() as group:
            for act in acts:
                group.create_task(work(killed, stopped, act))
            for send in sends:
                group.create_task(work(killed, stopped, send, MOST_MESSAGES))
            for messages in self.messages:
                if messages.receiver not in victims:
                    group.create_task(read_on(stopped, messages))
                    group.create_task(check_audit(messages.receiver))
            yield killed
            stopped.set()

    async def _check(self):
        for calls in self.calls:
            await calls.check()
        await self.votes[-1].check()
        for messages in self.messages:
            await messages.check()
        recorded = Counter()

        def count(entry):
            if entry.verification_result == "ENVELOPE_OK" and entry.content_hash != NOT_APPLICABLE:
                recorded[entry.request_id_hash] += 1

        for node in self.nodes:
            await check_audit(node, count)
        for calls in self.calls:
            calls.check_record(recorded)

    async def _check_with_commands(self):
        """What earlier rounds left, too."""
        for calls in self.calls:
            await calls.repeat(KEPT_REPLIES)
        for vote in self.votes:
            await vote.check()
        records = [self.folder / f"{node.name}.json" for node in self.nodes]
        for node, record in zip(self.nodes, records, strict=True):
            code, _ = await node.command("vote", "record", self.votes[-1].id, "--out", record)
            assert code == 0
        code, recount = await self.nodes[0].command("vote", "verify", *records)
        assert (code, recount["ok"], recount["fraud"]) == (0, True, None), recount
        for node in self.nodes:
            code, verified = await node.command("audit", "verify")
            assert (code, verified["ok"]) == (0, True), verified
            code, found = await node.command("doctor")
            assert code == 0, found
        signed = [await check_signed(node) for node in self.nodes]
        assert signed[0] == signed[1], "the nodes have different signed messages"

    def check_load(self):
        """Without load a kill shows nothing."""
        assert all(calls.answered for calls in self.calls)
        assert all(one.acknowledged for one in (*self.votes, *self.messages))

    def told(self):
        calls = [call for one in self.calls for call in one.answered]
        counts = {
            "kills": dict(self.kills),
            "calls": {"answered": len(calls), "sent again": sum(call.sent > 1 for call in calls)},
            "acts": _counts(self.votes, "acknowledged", "unanswered"),
            "messages": _counts(self.messages, "acknowledged", "stored", "unanswered"),
        }
        return ", ".join(f"{name} {counted}" for name, counted in counts.items())


def _counts(workers, *names):
    return {name: sum(len(getattr(one, name)) for one in workers) for name in names}


@pytest.mark.torture
async def test_no_kill_loses_or_doubles_what_two_nodes_acknowledged(tmp_path):
    seed = random.randrange(2**32)
    print(f"seed {seed}, {ROUNDS} rounds", flush=True)
    nodes = [LiveNode("anna", tmp_path), LiveNode("bert", tmp_path)]
    try:
        for node in nodes:
            await node.start()
        await meet(*nodes)
        rounds = Rounds(nodes, random.Random(seed), tmp_path)
        for number in range(ROUNDS):
            began = time.monotonic()
            await rounds.play(number)
            print(f"round {number + 1}, {time.monotonic() - began:.1f} s: {rounds.told()}", flush=True)
        rounds.check_load()
    finally:
        for node in nodes:
            await node.stop()
