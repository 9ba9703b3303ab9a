"""A real node, killed while it answers, on the same data again: the chain goes on."""

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from itertools import pairwise

import httpx
import pytest

from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import from_a2a_result, reply_is_bound, to_a2a_jsonrpc
from comity.envelopes.queues import chain_of
from comity.identity.protocol.keys import VacantId
from comity.runtime.system_clock import SystemClock
from comity.store.interface import CHAIN_BYTES, REPLIES
from comity.store.sqlite import SqliteStore
from comity.store.vault import SEAL_BYTES
from comity.wire import strict_json
from tests.envelopes.peers import Caller
from tests.ports import unused_port

CALLS = 50


class KillableNode:
    def __init__(self, data) -> None:
        self._data = data
        self.port = unused_port()
        self._process = None
        self.starts = 0

    def start(self) -> VacantId:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
        command = [sys.executable, "-m", "comity", "up", "--json", "--agent", "echo"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port), "--data", str(self._data)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        ready = json.loads(self._process.stdout.readline())
        self.starts += 1
        return VacantId.from_hex(ready["vacant_id"])

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}/a2a/message/send"


@pytest.mark.torture
async def test_fifty_calls_to_a_node_that_is_killed_at_random_are_all_answered_once_and_alike(tmp_path):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    node = KillableNode(tmp_path / "data")
    target = node.start()
    caller = Caller(to_vid=target)
    requests, replies = [], []
    async with httpx.AsyncClient(trust_env=False) as http:

        async def ask(envelope) -> str:
            """The same bytes until they are answered, however often the node has to be started again."""
            while True:
                try:
                    response = await http.post(node.endpoint, json=to_a2a_jsonrpc(envelope))
                except httpx.TransportError:
                    node.start()
                    continue
                assert response.status_code == 200, response.text
                return response.text

        for number in range(CALLS):
            envelope = caller.next(f"call {number}")
            call = asyncio.create_task(ask(envelope))
            if chance.random() < 0.25:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(call), chance.uniform(0, 0.006))
                node.kill()
                if call.done():
                    node.start()
            requests.append(envelope)
            replies.append(await call)
        again = [await ask(envelope) for envelope in requests]
    node.kill()
    store = await SqliteStore.open_for_reading(tmp_path / "data" / "comity.db", SystemClock())
    kept = await store.kept(chain_of(PairKey(caller.key.vacant_id, target)))
    held = await store.held(REPLIES)
    await store.close()
    assert kept.bytes == sum(
        SEAL_BYTES + len(strict_json.dumps(json.loads(reply)["result"]["message"])) for reply in replies
    )
    assert held == kept.bytes + 2 * CHAIN_BYTES, "what is held is not what is there"
    assert node.starts > 3, "the node was not killed often enough to show anything"
    assert again == replies, "a call was answered twice, and differently"
    envelopes = [from_a2a_result(json.loads(reply)) for reply in replies]
    assert all(envelope.verify(target) for envelope in envelopes)
    assert all(map(reply_is_bound, envelopes, requests))
    assert [envelope.sequence_no for envelope in envelopes] == list(range(1, CALLS + 1))
    assert all(after.prev_envelope_hash == before.compute_hash() for before, after in pairwise(envelopes))
