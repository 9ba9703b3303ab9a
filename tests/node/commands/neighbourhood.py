"""Nodes, and servers that say what a test wants said, in a thread of their own: the command line blocks."""

import asyncio
import contextlib
import threading

from comity.envelopes.protocol.card import CapabilityCard, SubstrateSpec, serialize
from comity.identity.key_files import load_identity
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from comity.wire import strict_json
from tests.http.local_server import read_request, reply, serving

SEND = "/a2a/message/send"
ECHO = AgentSettings(behaviour="echo")


class Neighbourhood:
    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._stack = contextlib.AsyncExitStack()

    def run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def enter(self, context):
        return self.run(self._stack.enter_async_context(context))

    def node(self, data, agent=ECHO, **settings):
        return self.enter(running_node(data, agent=agent, **settings))

    def server(self, answer):
        return self.enter(serving(answer))

    def leave(self):
        """Stop everything that was started until now."""
        self.run(self._stack.aclose())

    def close(self):
        self.leave()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class UnreliablePostman:
    """Stands before a node, and does with each answer what it is told to: pass, lose, or keep for ever."""

    def __init__(self, node, *orders):
        self.orders = list(orders)
        self.carried = []
        self._port = int(node.url.rpartition(":")[2])

    async def carry(self, reader, writer):
        while True:
            request = await read_request(reader)
            self.carried.append(request.partition(b"\r\n\r\n")[2])
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                back.write(request.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
                answer = await there.read()
            finally:
                back.close()
            match self.orders.pop(0) if self.orders else "pass":
                case "pass":
                    writer.write(answer)
                    await writer.drain()
                    return
                case "lose":
                    return
                case "keep":
                    await asyncio.Event().wait()


def card_of(data, endpoint, text="echoes"):
    """A card that the identity of that folder signs for any endpoint."""
    key = load_identity(data)
    spec = SubstrateSpec(policy={"bind_replies": True})
    card = CapabilityCard(
        vacant_id=key.vacant_id, capability_text=text, substrate_spec=spec, endpoint=endpoint
    )
    return card.signed(key)


def save(card, path):
    path.write_bytes(serialize(card))
    return path


def refusing(status, detail):
    """A server whose one answer to everything is a refusal."""
    body = strict_json.dumps({"detail": detail})
    return lambda _request: reply(body, f"{status} No")
