"""Servers for a VCP client: our machine or a script, in simulated time or on real sockets."""

import asyncio
import contextlib
import json
from itertools import count

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosed

from comity.runtime.system_clock import SystemClock
from comity.testing.loop import SimulatedClock
from comity.testing.loopback import loopback_pair
from comity.vcp.client import TcpClientLink, VcpClient
from comity.vcp.conductor import Conductor
from comity.vcp.protocol.context import SessionContext, after, respond
from comity.vcp.protocol.negotiation import CheckIdentity, ExchangeContext, WatchFeatures
from comity.vcp.protocol.server import ServerMachine
from comity.wire.errors import UnreachableError
from comity.wire.link import LinkClosed
from comity.wire.rate_limit import RateLimiter
from tests.vcp.protocol.negotiation_samples import ALICE, ALL_FEATURES, policy

URL = "ws://127.0.0.1:8420/vcp"
UNREACHABLE = "unreachable"
HANGS = "hangs"


def ack(*supported, **members):
    return {
        "type": "vcp-ack",
        "version": "3.1",
        "supported": list(supported),
        "unsupported": [],
        "capabilities": {},
        "core_features": ALL_FEATURES,
    } | members


def error(code="INTERNAL_ERROR", message="no", **members):
    return {"type": "vcp-error", "code": code, "message": message, "retry_after": None} | members


class Listening:
    """A link that notes down what came through it."""

    def __init__(self, link, heard, clock):
        self._link, self._heard, self._clock = link, heard, clock
        self.peer = "198.51.100.7"
        self.max_message_bytes = link.max_message_bytes
        self.send, self.close = link.send, link.close

    async def receive(self):
        message = await self._link.receive()
        self._heard.append((self._clock.monotonic(), json.loads(message)))
        return message


class OurServer:
    """Runs the server machine on each link it is given. `features` may be replaced by those left."""

    def __init__(self, clock, limiter=None, **settings):
        self.clock = clock
        self.policy = policy(**settings)
        self.limiter = limiter or RateLimiter(1_000_000, 1)
        self.heard = []
        self.lost_features = asyncio.get_running_loop().create_future()
        self.ends = []
        self._numbers = count(1)

    @property
    def said(self):
        return [message for _, message in self.heard]

    async def serve(self, link):
        context = SessionContext()

        async def answer(question):
            nonlocal context
            match question:
                case CheckIdentity():
                    return ALICE
                case ExchangeContext(session, request):
                    context = after(context, request)
                    return respond(request, context, session, {})
                case WatchFeatures():
                    return await asyncio.shield(self.lost_features)

        machine = ServerMachine(
            self.policy, peer="198.51.100.7", session_id=f"ses_{next(self._numbers)}", limiter=self.limiter
        )
        self.ends.append(
            await Conductor(machine, Listening(link, self.heard, self.clock), self.clock, answer).run()
        )


class Script:
    """Answers each message with the next line: an object, bytes, HANGS (no answer), or None (hang up).

    A list is several answers to one message.
    """

    def __init__(self, clock, *lines):
        self.clock = clock
        self.lines = list(lines)
        self.heard = []

    @property
    def said(self):
        return [message for _, message in self.heard]

    async def serve(self, link):
        with contextlib.suppress(LinkClosed):
            while True:
                message = await link.receive()
                self.heard.append((self.clock.monotonic(), json.loads(message)))
                line = self.lines.pop(0)
                if line is None:
                    await link.close("gone")
                    return
                for each in line if isinstance(line, list) else [line]:
                    if each != HANGS:
                        await link.send(each if isinstance(each, bytes) else json.dumps(each).encode())


class Simulation:
    """A client and its server in simulated time; `tries` says of each dialling whether it is UNREACHABLE."""

    def __init__(self, server=None, tries=()):
        self.clock = SimulatedClock()
        self.server = server
        self.tries = list(tries)
        self.dialled = []
        self._serving = set()

    async def dial(self, target, _tls):
        self.dialled.append(self.clock.monotonic())
        if self.tries and self.tries.pop(0) == UNREACHABLE:
            raise UnreachableError("nobody listens there")
        ours, theirs = loopback_pair()
        task = asyncio.create_task(self.server.serve(theirs))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return ours

    def connect(self, *extensions, url=URL, draw=lambda: 0.5, **options):
        options.setdefault("remember", "store" in options or "data" in options)
        return VcpClient.connect(
            url, extensions=extensions, clock=self.clock, draw=draw, dial=self.dial, **options
        )


@contextlib.asynccontextmanager
async def websocket_server(handle, **options):
    """`handle` gets each connection as a link; the URL of the server."""

    class Link:
        max_message_bytes = 1 << 20

        def __init__(self, connection):
            self._connection = connection

        async def send(self, message):
            await self._connection.send(message.decode())

        async def receive(self):
            try:
                message = await self._connection.recv()
            except ConnectionClosed as end:
                raise LinkClosed from end
            assert isinstance(message, str), "VCP is spoken in text frames"
            return message.encode()

        async def close(self, reason=""):
            await self._connection.close(reason=reason)

    async with serve(
        lambda connection: handle(Link(connection)), "127.0.0.1", 0, close_timeout=1, **options
    ) as server:
        port = server.sockets[0].getsockname()[1]
        yield f"{'wss' if 'ssl' in options else 'ws'}://127.0.0.1:{port}/vcp"


@contextlib.asynccontextmanager
async def line_server(handle, **options):
    async def connected(reader, writer):
        link = TcpClientLink("127.0.0.1", reader, writer)
        try:
            await handle(link)
        finally:  # also when the scene ends first
            await link.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, **options)
    async with server:
        yield f"{'tcps' if 'ssl' in options else 'tcp'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def real(server_class, *arguments, **settings):
    return server_class(SystemClock(), *arguments, **settings)
