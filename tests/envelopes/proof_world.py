"""One identity whose calls are written by several processes at once, and what can happen to its folder in a year.

All of it is the real code on stores in memory that share a disk: handlers, dispatchers, audit trails with their head
files. What has no place here are sockets and time.
"""

import asyncio
import base64
import contextlib
import copy
import shutil
from unittest import mock

from comity.envelopes.client import pair as pairs
from comity.envelopes.client.conversation import Retries
from comity.envelopes.client.dispatcher import Dispatcher
from comity.envelopes.features import Features
from comity.envelopes.pairs import read_pairs
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.server import EnvelopeHandler, OutOfChainError
from comity.envelopes.verification import verify_pairs
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.caller import UNKNOWN
from comity.requests.handler import Request
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder, own_act
from comity.store.audit_log import RestoreMark, keep_restored, pruning
from comity.store.audit_trail import HEADS, AuditTrail, HeadFile, open_head_file
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.wire.errors import ComityError, NoAnswerError
from tests.envelopes.client.model_target import ModelTarget, message
from tests.envelopes.peers import Caller, echo

OWN = SigningKey.from_seed(b"own".ljust(32))
WRITERS = ("main", "client", "cli", "mcp")
DAY = 86_400.0
VAULT = Vault([base64.urlsafe_b64encode(b"vault".ljust(32))])
RETRIES = Retries(attempts=2)


def vault():
    return VAULT


class JumpingClock:
    """Nobody waits: a sleep is over at once."""

    def __init__(self):
        self._now = 1_800_000_000.0

    def now(self):
        self._now += 0.001
        return self._now

    monotonic = now

    async def sleep(self, seconds):
        self.jump(seconds)
        await asyncio.sleep(0)

    def jump(self, seconds):
        self._now += seconds


class Hint:
    """A feature that adds to each reply what no signature covers."""

    member = "witness"
    unasked = True
    introduces = False

    async def to_request(self, _peer):
        return None

    async def to_reply(self, _peer, _given, *, known):
        return {"hint": f"known: {known}"}

    async def take_reply(self, _peer, _given):
        return None


class Process:
    """One program on the folder: a node, a command, a program with a `Client`."""

    def __init__(self, world, chain):
        name, head = open_head_file(world.heads, chain)
        self.store = MemoryStore(world.clock, world.disk, AuditTrail(name, OWN, head))
        self.record = Recorder(self.store, world.clock)
        self.dispatcher = Dispatcher(
            self.store,
            OWN,
            world.clock,
            world,
            holder=name,
            record=self.record,
            retries=RETRIES,
            vault=vault,
        )
        self.handler = EnvelopeHandler(
            key=OWN,
            behaviour=echo,
            state_provider=lambda: "ACTIVE",
            store=self.store,
            clock=world.clock,
            vault=vault,
            features=Features([Hint()] if world.hints else []),
        )
        self.pipeline = Pipeline(self.record, world.clock, budget=None)

    async def answer(self, envelope):
        """Serve one call of a peer, as the door does."""
        body = to_a2a_jsonrpc(envelope)
        return await self.pipeline.run(
            self.handler, Request(door="a2a", caller=UNKNOWN, body=body, size=1000)
        )


class World:
    """`weather` says what the network does to the next request: deliver it, lose it, or lose the reply."""

    def __init__(self, folder, random, *, old=False):
        self.random = random
        self.clock = JumpingClock()
        self.heads = folder / "audit"
        self.disk = MemoryStore(self.clock)._disk
        self.processes = {}
        self.old = old
        strict = [random.chance(0.5) for _ in range(2)]
        keys = [SigningKey.from_seed(f"target {number}".encode().ljust(32)) for number in range(2)]
        self.targets = [ModelTarget(key, strict=each) for key, each in zip(keys, strict, strict=True)]
        self.callers = [Caller(f"caller {n}", to_vid=OWN.vacant_id) for n in range(2)]
        self.hints = random.chance(0.5)
        self.rate = random.choice([0.0, 0.0, 0.2])
        self._saved = None

    def process(self, chain):
        if chain not in self.processes:
            self.processes[chain] = Process(self, chain)
        return self.processes[chain]

    async def request(self, method, url, json=None, headers=None, *, body=None):
        target = next(each for each in self.targets if each.key.vacant_id.hex() in url)
        if self.random.chance(self.rate):
            raise NoAnswerError("the request was lost")
        got = await target.take(body)
        if self.random.chance(self.rate):
            raise NoAnswerError("the reply was lost")
        return got

    def card(self, target):
        card = target.card()
        url = f"https://target.example/{target.key.vacant_id.hex()}"
        return CapabilityCard(
            vacant_id=card.vacant_id,
            capability_text=card.capability_text,
            substrate_spec=card.substrate_spec,
            endpoint=url,
        ).signed(target.key)

    async def call(self, chain):
        target = self.random.choice(self.targets)
        key = f"key {self.random.integer(1, 9)}" if self.random.chance(0.7) else None
        with contextlib.suppress(ComityError):  # lost on the way, or taken over by another process
            await self.process(chain).dispatcher.call(
                self.card(target), message(f"text {self.random.integer(1, 9)}"), idempotency_key=key
            )

    async def serve(self, chain):
        caller = self.random.choice(self.callers)
        before = caller.seq, caller.tip
        try:
            await self.process(chain).answer(caller.next(f"hello {self.random.integer(1, 9)}"))
        except OutOfChainError as refusal:
            caller.seq, caller.tip = refusal.state.last_sequence_no, refusal.state.chain_tip
        except ComityError:
            caller.seq, caller.tip = before

    async def act(self):
        """Let one or several programs do something."""
        match self.random.integer(1, 12):
            case 1:
                chains = [self.random.choice(WRITERS) for _ in range(4)]
                await asyncio.gather(*map(self.call, chains))
            case 2:
                await self.prune()
            case 3:
                await self.close(self.random.choice(WRITERS))
            case 4:
                await self.forget(self.random.choice(WRITERS))
            case 5:
                self._saved = copy.deepcopy(self.disk) if not self.processes else self._saved
                await self.restore()
            case 6:
                await self.process("main").record.commit((), own_act("VAULT_KEY_ROTATED"))
            case 7 | 8 | 9:
                await self.serve(self.random.choice(("main", "main", "mcp")))
            case _:
                await self.call(self.random.choice(WRITERS))
        self.clock.jump(self.random.choice([0.1, 60.0, DAY]))

    async def live(self, acts):
        for number in range(acts):
            old = self.old and number < acts // 2
            with as_an_older_release(old):
                await self.act()

    async def forget(self, chain):
        target = self.random.choice(self.targets)
        process = self.process(chain)
        pair = pairs.Pair(
            process.store,
            process.record,
            pairs.PairKey(OWN.vacant_id, target.key.vacant_id),
            holder=process.dispatcher._holder,
            lease_seconds=30.0,
        )
        try:
            await pair.forget()
        except ComityError:
            return
        target.accepted.clear()
        target.replied.clear()
        target.kept.clear()

    async def prune(self):
        node = self.process("main")
        now, days = self.clock.now(), self.random.choice([1.0, 3.0])
        operations = await pruning(node.store, "main", OWN, now, days)
        if operations:
            await node.record.commit(operations, own_act("AUDIT_PRUNED"))

    async def restore(self):
        """Put an older database back, as `comity restore` does."""
        for chain in list(self.processes):
            await self.close(chain)
        if self._saved is None:
            self._saved = copy.deepcopy(self.disk)
            return
        self.disk = copy.deepcopy(self._saved)
        shutil.rmtree(self.heads, ignore_errors=True)
        for (space, chain), held in self.disk.values.items():
            if space == HEADS:
                file = HeadFile(self.heads / f"{chain}.head")
                file.write(held.value)
                file.write(held.value)
                file.close()
        mark = keep_restored(RestoreMark(at=self.clock.now()))
        await self.process("cli").record.commit((mark,), own_act("RESTORED"))

    async def close(self, chain):
        process = self.processes.pop(chain, None)
        if process is not None:
            process.record.flush()
            await process.store.close()

    async def end(self):
        for chain in list(self.processes):
            await self.close(chain)

    async def reports(self, disk=None):
        store = MemoryStore(self.clock, disk or self.disk)
        peers = [
            each.vacant_id for each in await read_pairs(store, OWN.vacant_id.hex(), vault, forgotten=True)
        ]
        peers = [VacantId.from_hex(peer) for peer in peers]
        return await verify_pairs(store, OWN.vacant_id, peers, vault, self.heads, whole=True)


def as_an_older_release(old):
    """Write entries that say nothing of what a pair is left with."""
    if not old:
        return contextlib.nullcontext()
    return mock.patch.object(Recorder, "entry", _without_checks(Recorder.entry))


def _without_checks(entry):
    def older(self, act, request=None):
        draft = entry(self, act, request)
        kept = tuple(each for each in draft.checks_passed if not each.startswith(("pair:", "place:")))
        return type(draft)(
            **{name: getattr(draft, name) for name in draft.__struct_fields__} | {"checks_passed": kept}
        )

    return older
