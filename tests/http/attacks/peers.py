"""A stranger on a bare socket, the door it attacks, and a node in a process of its own whose memory is looked at.

Everything goes over real sockets and public names, so that these tests judge whichever server is there.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import Struct

from comity.http.server import HttpServer
from comity.http.serving import ServerLimits
from tests.http.runtime import NodeRuntime

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
PING = b"POST /v1/ping HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer right\r\ncontent-type: application/json\r\n"
HIDDEN = b"GET /v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer right\r\n\r\n"
"""A request inside another one: whoever reads the outer one right never sees it."""
BODY_LIMIT = 1000
GROWTH_MB = 20
"""More memory than this, no stranger gets."""

memory_is_told = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not tell a process's memory in /proc"
)


class Answer(Struct):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def ends_the_connection(self):
        return self.headers.get("connection", "").lower() == "close"


class Door:
    """The whole application behind a server; `seen` is what got through to the application, which waits for
    `before_answering` where that is set.
    """

    def __init__(self, server):
        self.port = server.port
        self.seen = []
        self.refused = []
        self.before_answering = None

    def peer(self, **named):
        return connected(self.port, **named)

    async def still_serves(self):
        """An honest client is answered, whatever came before."""
        async with self.peer() as peer:
            await peer.send(PING + b"content-length: 13\r\n\r\n" + b'{"nonce":"x"}')
            answer = await peer.answer()
            return (answer.status, json.loads(answer.body)["pong"]) == (200, "x")


@contextlib.asynccontextmanager
async def open_door(**limits):
    app = NodeRuntime(body_limit=BODY_LIMIT).door.app

    async def watched(scope, receive, send):
        door.seen.append((scope["method"], scope["path"], dict(scope["headers"])))
        if door.before_answering is not None:
            await door.before_answering()
        await app(scope, receive, send)

    server = HttpServer(
        "127.0.0.1", 0, cert=None, key=None, limits=ServerLimits(**{"patience": 2.0, **limits})
    )
    door = Door(server)
    try:
        await server.start(watched, shutdown_seconds=0.2, refused=door.refused.append)
        yield door
    finally:
        await server.stop()


class Peer:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer
        self.lost = False

    async def send(self, *pieces):
        """Stops where the other side has closed."""
        for piece in pieces:
            self.writer.write(piece)
            try:
                await self.writer.drain()
            except ConnectionError:
                self.lost = True
                return

    async def send_in_pieces(self, data, size):
        """Each piece is a packet of its own, as far as the system lets us say so."""
        await self.send(*(data[at : at + size] for at in range(0, len(data), size)))

    async def push(self, piece, most, pause=0.5):
        """Send `piece` again and again, up to `most` bytes. Whether the other side stopped taking it: either it
        takes nothing for `pause` seconds, or it has closed.
        """
        transport, sent = self.writer.transport, 0
        transport.set_write_buffer_limits(high=0)
        while sent < most:
            self.writer.write(piece)
            sent += len(piece)
            try:
                await asyncio.wait_for(self.writer.drain(), pause)
            except TimeoutError:
                return True
            except ConnectionError:
                self.lost = True
                return True
        return False

    async def answer(self):
        """The next answer; None where the connection ended without one."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        assert first.startswith("HTTP/1.1 "), first
        status = int(first.split()[1])
        size = 0 if status == 101 else int(headers.get("content-length", 0))
        return Answer(status, headers, await self.reader.readexactly(size))

    async def answers(self):
        """All of them, until the other side closes."""
        found = []
        while (answer := await self.answer()) is not None:
            found.append(answer)
        return found

    async def rest(self):
        """What comes until the other side closes."""
        said = b""
        with contextlib.suppress(ConnectionError):
            while piece := await self.reader.read(65_536):
                said += piece
        return said

    async def hears(self, seconds):
        """What comes within so much time; None for nothing."""
        try:
            return await asyncio.wait_for(self.reader.read(65_536), seconds)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""


@contextlib.asynccontextmanager
async def connected(port, **named):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **named)
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


class ChildNode:
    """A node of its own; `growth` is how much more memory it ever had than when it was last looked at."""

    def __init__(self, process, told):
        self.process = process
        self.port = int(told["url"].rpartition(":")[2])
        self._before = self._most()

    def peer(self, **named):
        return connected(self.port, **named)

    async def get(self, path="/healthz"):
        async with self.peer() as peer:
            await peer.send(b"GET %b HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode())
            return await peer.answer()

    def look(self):
        self._before = self._most()

    @property
    def growth(self):
        return self._most() - self._before

    def _most(self):
        """In MB; the system remembers the largest there ever was."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise LookupError("the process is gone")


@contextlib.asynccontextmanager
async def child_node(folder, *arguments):
    with _started(folder, arguments) as process:
        result = json.loads(await asyncio.to_thread(process.stdout.readline))
        node = ChildNode(process, result)
        for _ in range(50):  # what is loaded with the first requests is not what they cost
            await node.get()
        node.look()
        yield node


@contextlib.contextmanager
def _started(folder, arguments):
    environ = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
    command = [sys.executable, "-m", "comity", "up", "--json", "--port", "0", "--data", str(folder / "data")]
    with (
        (folder / "stderr").open("wb") as errors,
        subprocess.Popen(
            [*command, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
