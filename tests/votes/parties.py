"""Nodes that deliberate: the first one keeps, the others take part. And a stranger with a key who only has the door."""

import contextlib
import json
import secrets

from comity.http.client import GuardedHttp
from comity.identity.protocol.keys import SigningKey
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.memory import MemoryStore
from comity.testing import running_node
from comity.votes.client import VoteHostClient
from comity.votes.part import Deliberations
from comity.votes.party import VoteParty
from comity.votes.protocol import log

CLAUSES = ["Every call is answered within a day.", "Logs are kept for a year."]
SPACES = ("deliberations", "deliberation.entries", "deliberation.waiting")


def keeper_client(store, key, clock, holder, record=None):
    http = GuardedHttp(allow_loopback=True)
    record = record or Recorder(store, clock, audited=False)
    return VoteHostClient(store, key, clock, http, public_http=GuardedHttp(), holder=holder, record=record)


class Party:
    def __init__(self, node):
        self.node = node
        self.part = node.runtime.find(Deliberations)
        self.desk = self.part.desk
        self.ledger = self.desk.ledger

    @property
    def id(self):
        return self.node.vacant_id.hex()

    @property
    def voice(self):
        return self.desk.voice()

    def another_desk(self, holder="another", wrap=lambda post: post):
        """As another process of the same node has it. `wrap` stands between it and the keepers."""
        runtime = self.node.runtime
        post = keeper_client(runtime.store, runtime.key, runtime.clock, holder, runtime.record)
        return VoteParty(
            store=runtime.store,
            ledger=type(self.ledger)(runtime.store, runtime.current_vault),
            record=runtime.record,
            clock=runtime.clock,
            key=runtime.key,
            post=wrap(post),
            holder=holder,
        )

    async def open(self, *others, clauses=CLAUSES, **changes):
        args = {"title": "How we answer", "clauses": clauses, "stakeholders": list(others)} | changes
        return await self.desk.open(f"dlb_{secrets.token_hex(8)}", args, self.voice)

    async def join(self, at, kept, **more):
        return await self.desk.join(at.node.url, kept.id, self.voice, **more)

    async def say(self, kept, op, **args):
        return await self.desk.act(f"consensus.{op}", {"delib_id": kept.id, **args}, self.voice)

    async def frozen(self):
        """All that is stored of deliberations, byte for byte."""
        return [await self.node.store.scan(space, limit=1000) for space in SPACES]

    async def numbers(self, kept):
        return [entry.number for entry in await self.ledger.all_entries(kept.id)]


@contextlib.asynccontextmanager
async def parties(count=3, **settings):
    async with contextlib.AsyncExitStack() as stack:
        yield [Party(await stack.enter_async_context(running_node(**settings))) for _ in range(count)]


class AtTheDoor:
    """Somebody with a key and nothing of ours but the way to post: no desk that keeps mistakes from leaving."""

    def __init__(self, keeper, key=None):
        self.key = key or SigningKey(secrets.token_bytes(32))
        self._keeper = keeper
        clock = SystemClock()
        self._client = keeper_client(MemoryStore(clock), self.key, clock, "door")

    @property
    def id(self):
        return self.key.vacant_id.hex()

    async def post(self, text):
        """The answer of the keeper, read back from its signed envelope."""
        node = self._keeper.node
        return json.loads(await self._client.post(node.url, node.vacant_id.hex(), text, public_only=False))

    async def read(self, delib_id, after=0, tip=None):
        return await self.post(log.write_question(delib_id, after, tip))

    async def act(self, head, op, *, now=None, tip=None, on_behalf=None, alter=lambda entry: entry, **args):
        delib_id = head.deliberation.id
        given = {"delib_id": delib_id, **args}
        moment = SystemClock().now() if now is None else now
        entry = log.propose(head, delib_id, f"consensus.{op}", given, self.key, moment, on_behalf=on_behalf)
        return await self.post(log.write_act(alter(entry), tip))
