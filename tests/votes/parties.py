"""Nodes that vote: the first one hosts, the others take part. And a stranger with a key who only has the door."""

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
from comity.votes.part import Votes
from comity.votes.party import VoteParty
from comity.votes.protocol import log

CLAUSES = ["Every call is answered within a day.", "Logs are kept for a year."]
SPACES = ("deliberations", "deliberation.entries", "deliberation.waiting")


def host_client(store, key, clock, holder, record=None):
    http = GuardedHttp(allow_loopback=True)
    record = record or Recorder(store, clock, audited=False)
    return VoteHostClient(store, key, clock, http, public_http=GuardedHttp(), holder=holder, record=record)


class Party:
    def __init__(self, node):
        self.node = node
        self.part = node.runtime.find(Votes)
        self.votes = self.part.party
        self.ledger = self.votes.ledger

    @property
    def id(self):
        return self.node.vacant_id.hex()

    @property
    def voice(self):
        return self.votes.voice()

    def another_party(self, holder="another", wrap=lambda client: client):
        """Return the party of another process of the same node. `wrap` stands between it and the hosts."""
        runtime = self.node.runtime
        client = host_client(runtime.store, runtime.key, runtime.clock, holder, runtime.record)
        return VoteParty(
            store=runtime.store,
            ledger=type(self.ledger)(runtime.store, runtime.current_vault),
            record=runtime.record,
            clock=runtime.clock,
            key=runtime.key,
            client=wrap(client),
            holder=holder,
        )

    async def open(self, *others, clauses=CLAUSES, **changes):
        args = {"title": "How we answer", "clauses": clauses, "stakeholders": list(others)} | changes
        return await self.votes.open(f"dlb_{secrets.token_hex(8)}", args, self.voice)

    async def join(self, at, stored, **more):
        return await self.votes.join(at.node.url, stored.id, self.voice, **more)

    async def say(self, stored, op, **args):
        return await self.votes.act(f"consensus.{op}", {"delib_id": stored.id, **args}, self.voice)

    async def frozen(self):
        """Return all that is stored of votes, byte for byte."""
        return [await self.node.store.scan(space, limit=1000) for space in SPACES]

    async def numbers(self, stored):
        return [entry.number for entry in await self.ledger.all_entries(stored.id)]


@contextlib.asynccontextmanager
async def parties(count=3, **settings):
    async with contextlib.AsyncExitStack() as stack:
        yield [Party(await stack.enter_async_context(running_node(**settings))) for _ in range(count)]


class AtTheDoor:
    """Somebody with a key and the client alone: no party that refuses mistakes before they are sent."""

    def __init__(self, host, key=None):
        self.key = key or SigningKey(secrets.token_bytes(32))
        self._host = host
        clock = SystemClock()
        self._client = host_client(MemoryStore(clock), self.key, clock, "door")

    @property
    def id(self):
        return self.key.vacant_id.hex()

    async def post(self, text):
        """Return the reply of the host, read from its signed envelope."""
        node = self._host.node
        return json.loads(await self._client.post(node.url, node.vacant_id.hex(), text, public_only=False))

    async def read(self, delib_id, after=0, tip=None):
        return await self.post(log.write_read(delib_id, after, tip))

    async def act(self, head, op, *, now=None, tip=None, on_behalf=None, alter=lambda entry: entry, **args):
        delib_id = head.vote.id
        given = {"delib_id": delib_id, **args}
        moment = SystemClock().now() if now is None else now
        entry = log.propose(head, delib_id, f"consensus.{op}", given, self.key, moment, on_behalf=on_behalf)
        return await self.post(log.write_act(alter(entry), tip))
