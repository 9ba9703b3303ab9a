"""A vote through bad weather: requests and answers are lost, the host and the parties crash at any commit.

However it goes: what a party was told is an entry, or waits, is in the log exactly once; what was interrupted is there at
most once; and all have the same log in the end. `COMITY_SIM_SEEDS` sets how many stories are told; `COMITY_SEED` tells
one of them again.
"""

import asyncio
import os

import pytest

from comity.envelopes.server import MessageSend
from comity.identity.protocol.keys import SigningKey
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryDisk
from comity.store.vault import Vault
from comity.testing.links import Randomness
from comity.testing.loop import SimulatedClock, run_simulated
from comity.votes.client import VOTES_PATH, VoteHostClient
from comity.votes.host import HOST_BOOK, VoteHostHandler
from comity.votes.logs import Ledger
from comity.votes.party import VoteParty
from comity.votes.protocol.provenance import verify_record, write_record
from comity.wire.errors import StoreUnavailableError
from tests.envelopes.client.lossy_world import ENDPOINT, NODE, CalledNode, CrashingStore, Network

BATCH = 5
ACTS = 5
CHAOS_SECONDS = 30.0
PATIENCE_SECONDS = 7200.0
URL = "https://host.example"
ID = "dlb_simulated"
OPEN_VAULT = Vault([], environment="development", plaintext=True)


def batches():
    if "COMITY_SEED" in os.environ:
        seed = int(os.environ["COMITY_SEED"])
        return [range(seed, seed + 1)]
    seeds = max(int(os.environ.get("COMITY_SIM_SEEDS", "200")) // 10, 1)
    return [range(first, min(first + BATCH, seeds)) for first in range(0, seeds, BATCH)]


def party_of(store, key, clock, client, holder):
    return VoteParty(
        store=store,
        ledger=Ledger(store, lambda: OPEN_VAULT),
        record=Recorder(store, clock, audited=False),
        clock=clock,
        key=key,
        client=client,
        holder=holder,
    )


class HostNode(CalledNode):
    def start(self):
        delay = self._randomness.between(0, 0.01)
        self.store = CrashingStore(self._clock, self.disk, AuditTrail("main", NODE), commit_delay=delay)
        self.store.omen = lambda: self._randomness.chance(self._crashing)
        self.store.die = self.crash
        self.ledger = Ledger(self.store, lambda: OPEN_VAULT)
        handler = VoteHostHandler(
            ledger=self.ledger,
            key=NODE,
            state_provider=lambda: "ACTIVE",
            store=self.store,
            clock=self._clock,
            book=HOST_BOOK,
        )
        self._door = MessageSend(
            handler, Pipeline(Recorder(self.store, self._clock), self._clock, budget=None)
        )
        self.party = party_of(self.store, NODE, self._clock, None, "main")
        self.up = True


class WayToTheHost(Network):
    async def request(self, method, url, json=None, headers=None, *, body=None):
        assert url == URL + VOTES_PATH
        return await super().request(method, ENDPOINT, json, headers, body=body)


class Knows(VoteHostClient):
    async def identify(self, url, *, public_only):
        return NODE.vacant_id.hex()


class SimulatedParty:
    def __init__(self, number, clock, randomness, network, crashing):
        self.key = SigningKey.from_seed(bytes([number]) * 32)
        self.number = number
        self.crashes = 0
        self.promised, self.interrupted = [], []
        self._clock = clock
        self._randomness = randomness
        self._network = network
        self._crashing = crashing
        self.disk = MemoryDisk()
        self.start()

    def calm(self):
        self._crashing = 0.0

    def start(self):
        self.store = CrashingStore(self._clock, self.disk)
        self.store.omen = lambda: self._randomness.chance(self._crashing)
        self.store.die = self._die
        client = Knows(
            self.store,
            self.key,
            self._clock,
            self._network,
            public_http=self._network,
            holder=f"process {self.number}",
            record=Recorder(self.store, self._clock, audited=False),
        )
        self.party = party_of(self.store, self.key, self._clock, client, f"process {self.number}")

    def _die(self):
        self.crashes += 1
        self.store.crash()

    async def insist(self, work):
        """Until it is done, whoever crashes or does not answer meanwhile. After a crash there is a new party."""
        while True:
            try:
                return await work()
            except StoreUnavailableError:
                self.start()
            except Exception as reason:
                if not getattr(reason, "retry_after", None):
                    raise
            await self._clock.sleep(self._randomness.between(0.1, 1.0))

    async def take_part(self):
        voice = self.party.voice()
        await self.insist(lambda: self.party.join(URL, ID, voice))
        for number in range(ACTS):
            text = f"{self.number}.{number}"
            args = {"delib_id": ID, "action": "amend", "text": text}
            try:
                await self.party.act("consensus.act", args, voice)
                self.promised.append(text)
            except StoreUnavailableError:
                self.interrupted.append(text)
                self.start()
            await self._clock.sleep(self._randomness.between(0, 2))

    async def finish(self):
        while await self.insist(self._what_waits):
            await self.insist(self._send)
            await self._clock.sleep(1)
        await self.insist(lambda: self.party.refresh(ID))

    async def _what_waits(self):
        return await self.party.ledger.waiting()

    async def _send(self):
        await self.party.send_waiting()

    async def record(self):
        stored = await self.party.find(ID)
        return write_record(await self.party.ledger.all_entries(ID), stored.head)


async def story(seed):
    clock, randomness = SimulatedClock(), Randomness(seed)
    node = HostNode(clock, randomness.branch("node"), crashing=0.0)
    network = WayToTheHost(clock, randomness.branch("network"), node, loss=0.15)
    people = [
        SimulatedParty(number, clock, randomness.branch(f"party {number}"), network, crashing=0.03)
        for number in (1, 2, 3)
    ]
    stakeholders = [{"id": party.key.vacant_id.hex()} for party in people]
    opening = {"title": "Weather", "clauses": ["It rains."], "stakeholders": stakeholders}
    voice = node.party.voice()
    await node.party.open(ID, opening, voice)
    await node.party.act("consensus.advance", {"delib_id": ID, "to": "deliberation"}, voice)
    node._crashing = 0.03
    for calmed in (node, network, *people):
        asyncio.get_running_loop().call_later(CHAOS_SECONDS, calmed.calm)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await asyncio.gather(*(party.take_part() for party in people))
        await clock.sleep(CHAOS_SECONDS)
        for party in people:
            await party.finish()
        for party in people:  # what the others sent last
            await party.finish()
    stored = await node.party.find(ID)
    texts = [variant.text for variant in stored.vote.clauses["c1"].variants[1:]]
    promised = [text for party in people for text in party.promised]
    assert len(texts) == len(set(texts)), "an act was done twice"
    assert set(promised) <= set(texts), "what was promised is missing"
    assert set(texts) <= set(promised) | {text for party in people for text in party.interrupted}
    kept_record = write_record(await node.party.ledger.all_entries(ID), stored.head)
    assert {await party.record() for party in people} == {kept_record}
    assert verify_record(kept_record).ok
    return node, network, people


@pytest.mark.parametrize("seeds", batches(), ids=lambda seeds: f"seeds {seeds[0]} to {seeds[-1]}")
def test_every_act_that_was_promised_is_one_entry_and_all_have_the_same_log(seeds):
    for seed in seeds:
        run_simulated(lambda seed=seed: story(seed), seed)


def test_the_weather_is_bad_enough_to_mean_something():
    lost = node_crashes = party_crashes = 0
    for seed in range(5):
        node, network, people = run_simulated(lambda seed=seed: story(seed), seed)
        lost += network.lost
        node_crashes += node.crashes
        party_crashes += sum(party.crashes for party in people)
    assert lost > 20
    assert node_crashes > 3
    assert party_crashes > 3
