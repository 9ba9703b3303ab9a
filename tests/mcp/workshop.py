"""A server for tests, built with the toolkit: tools that wait, tell how far they are, ask, fail, and change things.

`python -m tests.mcp.workshop` serves it on standard input and output.
"""

import asyncio
import contextlib
import os
import sys
from types import SimpleNamespace

from comity.http.guard import CALLER
from comity.http.server import HttpServer
from comity.identity.protocol.keys import SigningKey
from comity.mcp.calls import McpCalls
from comity.mcp.http import McpEndpoint
from comity.mcp.protocol.catalog import Catalog, Prompt, Resources, Selection, Tool, resource
from comity.mcp.protocol.context import HandshakeResult
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.results import Contents, InputRequest, PromptResult, said, structured
from comity.mcp.protocol.session import Sealer
from comity.mcp.sessions import Sessions
from comity.mcp.stdio import serve_stdio
from comity.mcp.stream import McpStream
from comity.mcp.streams import Changes
from comity.requests.caller import OWN_PROCESS
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.audit_trail import AuditTrail
from comity.store.memory import MemoryStore
from comity.store.vault import Vault
from comity.vcp.protocol.agreement import Session as VcpSession
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.errors import InvalidError, NotFoundError
from tests.callers import OWNER

LIMIT = 1 << 20
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
CLOSED = {**TEXT, "additionalProperties": False}
PERSONAL = "VCP-X-Personal"
ANSWER = {"type": "object", "properties": {"length": {"type": "integer"}}, "required": ["length"]}
NAME = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
}


class OfTheOwner:
    """An endpoint as behind a guard that let the node's own user pass."""

    def __init__(self, endpoint):
        self.sessions = endpoint.sessions
        self._endpoint = endpoint

    async def __call__(self, scope, receive, send):
        await self._endpoint({CALLER: OWNER, **scope}, receive, send)


class Workshop:
    """`called` are the names of the tools that began; `cancelled` those that noticed that nobody waits."""

    def __init__(self):
        self.called = []
        self.cancelled = []
        self.gate = asyncio.Event()
        self.audited = []
        self.catalog = Catalog()
        self.catalog.add_tools(self._tools())
        self.catalog.add_resources(
            resource(
                "shop://sign",
                lambda _c, uri: Contents([{"uri": uri, "text": "open"}]),
                group="shop",
                name="sign",
            ),
            Resources(
                group="shop",
                owns=lambda uri: uri.startswith("shop://shelf/"),
                read=self._shelf,
                templates=[{"uriTemplate": "shop://shelf/{number}", "name": "shelf"}],
                complete=lambda _c, _argument, typed, _others: [
                    n for n in ("1", "2", "12") if n.startswith(typed)
                ],
            ),
            Resources(
                group="shop",
                owns=lambda uri: uri == "shop://odd" and self._break(uri),
                read=lambda _c, uri: Contents([{"uri": uri, "text": "never"}]),
            ),
            Resources(
                group="shop",
                owns=lambda uri: uri.startswith("shop://private/"),
                read=lambda _c, uri: Contents([{"uri": uri, "text": "calm"}]),
                list=lambda _c: [{"uri": "shop://private/state", "name": "state"}],
                templates=[{"uriTemplate": "shop://private/{id}", "name": "private"}],
                extension=PERSONAL,
            ),
        )
        self.catalog.add_prompts(
            Prompt(
                name="greet",
                group="shop",
                arguments=[{"name": "who", "required": True}],
                handler=lambda _c, given: PromptResult(
                    [{"role": "user", "content": {"type": "text", "text": f"Greet {given['who']}"}}]
                ),
                complete=lambda _c, _argument, typed, _others: [
                    w for w in ("Ada", "Alan") if w.startswith(typed)
                ],
            )
        )
        self.server = Server(
            catalog=self.catalog,
            info={"name": "workshop", "version": "1"},
            instructions="Be kind.",
            handshake=VcpHandshake(["3.1"]),
        )
        self.changes = Changes(self.catalog)
        self.calls = McpCalls(
            self.server,
            SystemClock(),
            sealer=Sealer(b"k" * 32, os.urandom),
            changes=self.changes,
            tally=lambda what, caller, outcome: self.audited.append((what, caller.owner, outcome)),
        )

    def stream(self, write, *, selection=None, limit=LIMIT, **options):
        conversation = McpConversation(self.server, selection or Selection(), caller=OWN_PROCESS)
        options.setdefault("negotiate", negotiate)
        return McpStream(self.calls, conversation, limit=limit, write=write, **options)

    def endpoint(self, store, *, clock=None, idle=60.0, **settings):
        clock = clock or SystemClock()
        record = Recorder(store, clock)
        vault = Vault([], environment="test", plaintext=True)
        sessions = Sessions(
            store,
            record,
            clock,
            self.changes,
            vault=lambda: vault,
            idle=idle,
            handshake=self.server.handshake,
            **settings,
        )
        endpoint = McpEndpoint(
            calls=self.calls, sessions=sessions, negotiate=negotiate, body_limit=LIMIT, record=record
        )
        return OfTheOwner(endpoint)

    def _tools(self):  # noqa: C901 - a list of tools is as long as it is
        def tool(handler, **more):
            settings = {
                "name": handler.__name__.strip("_"),
                "group": "shop",
                "description": "For tests.",
                **more,
            }
            return Tool(handler=handler, **settings)

        def echo(_context, arguments):
            return said(arguments["text"])

        async def wait(context, _arguments):
            self.called.append("wait")
            context.cancelled.on_set(lambda: self.cancelled.append("wait"))
            await self.gate.wait()
            return said("done")

        async def steps(context, _arguments):
            for step in (1, 2, 3):
                context.progress(step, 3, f"step {step}")
                context.log("info", {"step": step}, "shop")
                await asyncio.sleep(0)
            return said("three steps")

        async def slowly(context, _arguments):
            context.progress(1, 2)
            await self.gate.wait()
            context.progress(2, 2)
            self.called.append("slowly")
            return said("slow and done")

        def open_gate(_context, _arguments):
            self.gate.set()
            return said("open")

        async def ask(context, _arguments):
            answers = await context.ask({"who": InputRequest("elicitation/create", NAME)})
            return structured({"answer": answers["who"]})

        async def sample(context, _arguments):
            asked = {
                "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
                "maxTokens": 5,
            }
            answers = await context.ask({"model": InputRequest("sampling/createMessage", asked)})
            return said(answers["model"]["content"]["text"])

        def measure(_context, arguments):
            return structured({"length": len(arguments["text"])})

        def lie(_context, _arguments):
            return structured({"length": "long"})

        def refuse(_context, _arguments):
            raise InvalidError("not today; come back tomorrow")

        async def crash(_context, _arguments):
            raise RuntimeError("the secret is 42")

        def add(_context, _arguments):
            self.catalog.add_tools([tool(echo, name=f"extra{len(self.called)}")])
            self.called.append("add")
            return said("added")

        def remember(context, arguments):
            before = context.state.get("text", "nothing")
            context.state["text"] = arguments["text"]
            return said(before)

        async def shout(_context, arguments):
            print(arguments["text"])
            sys.stdout.flush()
            os.write(1, b"and again\n")
            os.read(0, 1)
            return said("shouted")

        def repeat(_context, arguments):
            return said("x" * arguments["times"])

        def mirrored(_context, arguments):
            return said(arguments["region"])

        region = {"region": {"type": "string", "x-mcp-header": "Region"}}
        return [
            tool(echo, input_schema=CLOSED),
            tool(wait),
            tool(steps),
            tool(slowly),
            tool(open_gate),
            tool(ask),
            tool(sample),
            tool(measure, input_schema=TEXT, output_schema=ANSWER),
            tool(lie, input_schema=TEXT, output_schema=ANSWER),
            tool(refuse),
            tool(crash),
            tool(add),
            tool(remember, input_schema=TEXT),
            tool(shout, input_schema=TEXT),
            tool(repeat),
            tool(echo, name="odd", validator=self._break),
            tool(mirrored, input_schema={"type": "object", "properties": region, "required": ["region"]}),
            tool(echo, name="feel", extension=PERSONAL, input_schema=TEXT),
            tool(wait, name="brief", deadline=0.05),
            tool(wait, name="unhurried", deadline=1.5),
        ]

    def _break(self, _arguments):
        raise RuntimeError("the secret is 42")

    async def _shelf(self, _context, uri):
        await asyncio.sleep(0)
        if uri.endswith("/0"):
            raise NotFoundError("there is no shelf 0")
        return Contents([{"uri": uri, "mimeType": "text/plain", "text": f"shelf {uri.rpartition('/')[2]}"}])


async def negotiate(hello, _client):
    """Grants what it knows, refuses what says so."""
    wanted = hello.get("extensions", [])
    if hello.get("version") == "9.9":
        return HandshakeResult(reply={"type": "vcp-error", "code": "VERSION_UNSUPPORTED", "message": "no"})
    granted = tuple(name for name in wanted if name == PERSONAL)
    session = VcpSession(id="ses_1", version="3.1", extensions=granted)
    reply = {"type": "vcp-ack", "supported": list(granted)}
    return HandshakeResult(reply=reply, active=frozenset(granted), attached=session)


@contextlib.asynccontextmanager
async def over_http(workshop=None, *, store=None, **settings):
    """The workshop at an address of this machine: `url`, `workshop` and `store`."""
    workshop = workshop or Workshop()
    trail = AuditTrail("main", SigningKey.from_seed(b"s" * 32))
    store = store or MemoryStore(settings.get("clock") or SystemClock(), trail=trail)
    endpoint = workshop.endpoint(store, **settings)
    server = HttpServer("127.0.0.1", 0, cert=None, key=None)
    await server.start(endpoint, shutdown_seconds=0.5)
    try:
        yield SimpleNamespace(
            url=f"{server.url}/mcp", workshop=workshop, store=store, sessions=endpoint.sessions
        )
    finally:
        workshop.gate.set()
        workshop.changes.closing.set()
        endpoint.sessions.close()
        await server.stop()


async def main():
    workshop = Workshop()
    await serve_stdio(workshop.stream)


if __name__ == "__main__":
    asyncio.run(main())
