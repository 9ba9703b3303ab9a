"""Calls over a carrier that writes down what it carries, in simulated time."""

import asyncio
import itertools

from comity.mcp.calls import McpCalls, Questions
from comity.mcp.protocol.catalog import Catalog, Selection, Tool
from comity.mcp.protocol.context import McpClient
from comity.mcp.protocol.methods import Server, begin
from comity.mcp.protocol.results import InputRequest
from comity.mcp.protocol.session import McpSession, Sealer
from comity.mcp.streams import Changes
from comity.testing import SimulatedClock
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire import jsonrpc, strict_json
from comity.wire.jsonrpc import RpcError, RpcRequest
from tests.callers import named

ABLE = {"elicitation": {}, "sampling": {}, "roots": {}}
WHO = InputRequest("elicitation/create", {"message": "Who?"})
WHEN = InputRequest("elicitation/create", {"message": "When?"})


class Carrier:
    """Of a legacy client when it has a session. `connection` names it. `questions` are answered by whoever calls `answer`."""

    def __init__(self, session=None, connection=""):
        self.session = session
        self.connection = connection
        self.sent = []
        self.questions = Questions()
        self.released = 0

    def send(self, message):
        self.sent.append(strict_json.loads(message))

    async def ask(self, request):
        return await self.questions.ask(request, self.send)

    async def release(self):
        self.released += 1

    def answer(self, id_, **members):
        body = strict_json.dumps({"jsonrpc": "2.0", "id": id_, **members})
        return self.questions.answered(jsonrpc.parse(body))

    def of(self, method):
        return [message["params"] for message in self.sent if message["method"] == method]


class Counter:
    """Where calls are handed in."""

    def __init__(self):
        self.clock = SimulatedClock()
        self.catalog = Catalog()
        self.changes = Changes(self.catalog)
        self.server = Server(
            catalog=self.catalog, info={"name": "t", "version": "1"}, handshake=VcpHandshake()
        )
        self.tallied = []
        self.calls = McpCalls(
            self.server,
            self.clock,
            sealer=Sealer(bytes(32), self._random),
            changes=self.changes,
            tally=lambda what, caller, outcome: self.tallied.append((what, caller.id, outcome)),
        )
        self._numbers = itertools.count(1)

    def _random(self, length):
        return next(self._numbers).to_bytes(length, "big")

    def tool(self, handler, name="t", **more):
        self.catalog.add_tools([Tool(name=name, handler=handler, group="r", description="", **more)])

    def work(self, method, params, *, modern=True, owner="ann", capabilities=ABLE, id_=1):
        version = "2026-07-28" if modern else "2025-11-25"
        client = McpClient(version=version, modern=modern, caller=named(owner), capabilities=capabilities)
        return begin(self.server, Selection(demands="d"), client, RpcRequest(id_, method, params))

    def start(self, name="t", arguments=None, carrier=None, reply=None, more=None, **client):
        """An outcome, or the coroutine that gives one."""
        params = {"name": name, "arguments": arguments or {}, **(more or {})}
        work = self.work("tools/call", params, **client)
        if carrier is None:
            carrier = Carrier(None if work.client.modern else McpSession(work.client))
        return self.calls.start(work, carrier, reply)

    async def call(self, *given, **named):
        outcome = self.start(*given, **named)
        return read(await outcome if asyncio.iscoroutine(outcome) else outcome)


def read(outcome):
    return outcome if isinstance(outcome, RpcError) else strict_json.loads(outcome)


def words(result):
    return result["content"][0]["text"]


async def soon(condition):
    """Until it is so; in simulated time nothing else has to be waited for."""
    for _ in range(100):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")
