"""Both ends of a stream in one process: what is said to it, and what it wrote."""

import asyncio
import json

from comity.wire.frames import FrameDecoder

SECONDS = 10.0


def request(id_, method, params=None):
    message = {"jsonrpc": "2.0", "id": id_, "method": method}
    return message if params is None else {**message, "params": params}


def call(id_, name, meta=None, **arguments):
    params = {"name": name, "arguments": arguments}
    return request(id_, "tools/call", params if meta is None else {**params, "_meta": meta})


def initialize(id_=0, version="2025-11-25", **more):
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return request(id_, "initialize", {**about, **more})


def notify(method, **params):
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


def modern(id_, method, params=None, capabilities=None, **meta):
    prefix = "io.modelcontextprotocol"
    result = {f"{prefix}/protocolVersion": "2026-07-28", f"{prefix}/clientCapabilities": capabilities or {}}
    return request(id_, method, {**(params or {}), "_meta": {**result, **meta}})


def line(message):
    return json.dumps(message).encode() + b"\n"


def frame(message, end=b"\r\n"):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d%b%b%b" % (len(body), end, end, body)


def decoded(output):
    """Each message that stands in these bytes, and whether it is framed; nothing else may stand there."""
    decoder = FrameDecoder(1 << 26)
    events = [*decoder.feed(output), *decoder.end()]
    return [(event.framed, json.loads(event.body)) for event in events]


class Talk:
    """`writes` are the pieces in which the stream wrote."""

    def __init__(self, shop, **options):
        self.writes = []
        self._stirred = asyncio.Event()
        self.stream = shop.stream(self._write, **options)

    def _write(self, data):
        self.writes.append(data)
        self._stirred.set()

    def say(self, *messages):
        self.stream.receive(b"".join(one if isinstance(one, bytes) else line(one) for one in messages))

    @property
    def heard(self):
        return [message for _, message in decoded(b"".join(self.writes))]

    async def until(self, wanted):
        """What `wanted` gives for the messages so far, once it gives anything."""
        async with asyncio.timeout(SECONDS):
            while not (found := wanted(self.heard)):
                self._stirred.clear()
                await self._stirred.wait()
        return found

    async def answer(self, id_):
        found = await self.until(lambda heard: [one for one in heard if one.get("id") == id_])
        return found[0]

    async def ask(self, message):
        self.say(message)
        return await self.answer(message["id"])


def said_by(answer):
    return answer["result"]["content"][0]["text"]
