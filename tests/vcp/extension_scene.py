"""A node with all its extensions and both of its VCP doors, and raw clients that speak JSON as the sheet says."""

import asyncio
import contextlib
import json

from websockets.asyncio.client import connect

from comity.identity.key_files import load_identity
from comity.identity.protocol.tokens import issue_a
from comity.runtime.settings import VcpSettings
from comity.testing import VirtualClock, running_node
from tests.ports import unused_port

PERSONAL, RELATIONAL, TORCH, INTENT = ("VCP-X-Personal", "VCP-X-Relational", "VCP-X-Torch", "VCP-X-Intent")
CONSENSUS = "VCP-X-Consensus"
FOUR = (PERSONAL, RELATIONAL, TORCH, INTENT)
DOORS = ("websocket", "tcp")
PAIN = {"body_signals": {"category": "pain", "intensity": 5}}
WIRE = "🧑⚕️:💬:🔒:🌙:🏠:👤:📱:🧘:🇬🇧"
NORM = {
    "norm_id": "n1",
    "description": "Say what is uncertain",
    "origin": "human",
    "established_date": "2026-01-15T00:00:00Z",
}


class RefusalError(Exception):
    """What an operation refused with."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.field = error.get("field")


class RawClient:
    """`say` and `hear` are of the carrier."""

    def __init__(self, say, hear):
        self.say = say
        self.hear = hear
        self._ids = iter(range(1, 1 << 30))

    async def ask(self, message):
        await self.say(message)
        return await self.hear()

    async def hello(self, *extensions, identity=None):
        message = {
            "type": "vcp-hello",
            "version": "3.1",
            "extensions": list(extensions),
            "identity": identity,
        }
        ack = await self.ask(message)
        assert ack["type"] == "vcp-ack", ack
        self.session_id = ack["session_id"]
        return ack

    async def call(self, op, **args):
        id_ = str(next(self._ids))
        answer = await self.ask({"type": "vcp-call", "id": id_, "op": op, "args": args})
        assert (answer["type"], answer["id"]) == ("vcp-result", id_)
        if answer["ok"]:
            return answer["result"]
        raise RefusalError(answer["error"])


class ExtensionScene:
    def __init__(self, node, clock, tcp_port):
        self.node = node
        self.clock = clock
        self.tcp_port = tcp_port

    def token(self, subject="alice"):
        key = load_identity(self.node.settings.data)
        return issue_a(key, issuer=self.node.vacant_id.hex(), kind="user", subject=subject)

    def owner(self, subject="alice"):
        return f"{self.node.vacant_id.hex()}:user:{subject}"

    @contextlib.asynccontextmanager
    async def client(self, door="websocket"):
        """A connection that has said nothing yet."""
        if door == "websocket":
            async with connect(self.node.url.replace("http", "ws", 1) + "/vcp", proxy=None) as peer:

                async def hear():
                    return json.loads(await peer.recv())

                async def say(message):
                    await peer.send(message if isinstance(message, str) else json.dumps(message))

                client = RawClient(say, hear)
                client.peer = peer
                yield client
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.tcp_port)

            async def hear():
                return json.loads(await reader.readline())

            async def say(message):
                writer.write((message if isinstance(message, str) else json.dumps(message)).encode() + b"\n")
                await writer.drain()

            try:
                yield RawClient(say, hear)
            finally:
                writer.close()

    @contextlib.asynccontextmanager
    async def session(self, *extensions, subject="alice", door="websocket"):
        """A client with its session; `subject` None is a stranger."""
        async with self.client(door) as client:
            identity = None if subject is None else self.token(subject)
            await client.hello(*(extensions or FOUR), identity=identity)
            yield client

    async def stored(self):
        """All that is stored of sessions and owners, as it is: sealed."""
        store = self.node.store
        found = [*await store.scan("vcp:session"), *await store.scan("vcp:owner")]
        return {key: held.value for key, held in found}


@contextlib.asynccontextmanager
async def extension_scene(data=None, *, clock=None, vcp=None, **settings):
    port = unused_port()
    clock = clock or VirtualClock()
    # clocks jump here by hours within one session
    lasting = {"idle_seconds": 86_400, "session_ttl_seconds": 86_400} | (vcp or {})
    vcp = VcpSettings(tcp_port=port, **lasting)
    async with running_node(data, clock=clock, vcp=vcp, **settings) as node:
        yield ExtensionScene(node, clock, port)
