"""Nodes that deliberate: the first one keeps, the others take part."""

import contextlib
import secrets

from comity.parts.deliberations import Deliberations
from comity.testing import running_node

CLAUSES = ["Every call is answered within a day.", "Logs are kept for a year."]


class Party:
    def __init__(self, node):
        self.node = node
        self.desk = node.house.find(Deliberations).desk
        self.ledger = self.desk.ledger

    @property
    def id(self):
        return self.node.vacant_id.hex()

    @property
    def voice(self):
        return self.desk.voice()

    async def open(self, *others, clauses=CLAUSES, **changes):
        args = {"title": "How we answer", "clauses": clauses, "stakeholders": list(others)} | changes
        return await self.desk.open(f"dlb_{secrets.token_hex(8)}", args, self.voice)

    async def join(self, keeper, kept, **more):
        return await self.desk.join(keeper.node.url, kept.id, self.voice, **more)

    async def say(self, kept, op, **args):
        return await self.desk.act(f"consensus.{op}", {"delib_id": kept.id, **args}, self.voice)

    async def frozen(self, kept):
        """All that is stored of a deliberation, byte for byte."""
        spaces = ("deliberations", "deliberation.entries", "deliberation.waiting")
        return [await self.node.store.scan(space) for space in spaces]


@contextlib.asynccontextmanager
async def parties(count=3, **settings):
    async with contextlib.AsyncExitStack() as stack:
        yield [Party(await stack.enter_async_context(running_node(**settings))) for _ in range(count)]
