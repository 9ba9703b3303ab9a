"""Both doors over one service on free ports, in real time, and a client of each that speaks JSON.

A WebSocket client is a real one (`websockets`); a TCP client is a plain connection.
"""

import asyncio
import contextlib
import json

from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from websockets.asyncio.client import connect
from websockets.protocol import State

from comity.http.guard import Guard, HttpAccess
from comity.http.server import HttpServer, bind
from comity.requests.budget import Budget
from comity.runtime.system_clock import SystemClock
from comity.vcp.doors import VCP_PATH, TcpDoor, VcpOverWebSocket
from tests.vcp.runtime import NodeRuntime

DOORS = ("websocket", "tcp")


class Doors:
    def __init__(self, runtime, http, tcp):
        self.runtime = runtime
        self.http = http
        self.tcp = tcp

    @property
    def url(self):
        return f"ws://127.0.0.1:{self.http.port}{VCP_PATH}"

    @contextlib.asynccontextmanager
    async def client(self, door):
        if door == "websocket":
            socket = await connect(self.url, max_size=None, ping_interval=None, proxy=None)
            try:
                yield WebSocketClient(socket)
            finally:
                if socket.state is State.OPEN:
                    await socket.close()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.tcp.port)
            try:
                yield TcpClient(reader, writer)
            finally:
                writer.close()


class WebSocketClient:
    def __init__(self, socket):
        self.socket = socket

    async def say(self, message):
        await self.socket.send(text(message))

    async def hear(self):
        return json.loads(await self.socket.recv())

    async def ask(self, message):
        await self.say(message)
        return await self.hear()

    async def ended(self):
        await self.socket.wait_closed()
        return True


class TcpClient:
    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def say(self, message):
        self.writer.write(text(message).encode() + b"\n")
        await self.writer.drain()

    async def hear(self):
        return json.loads(await self.reader.readline())

    async def ask(self, message):
        await self.say(message)
        return await self.hear()

    async def ended(self):
        with contextlib.suppress(ConnectionError):
            return await self.reader.read() == b""
        return True


def text(message):
    return message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)


@contextlib.asynccontextmanager
async def open_doors(**named):
    runtime = NodeRuntime(clock=SystemClock(), **named)
    http = HttpServer("127.0.0.1", 0, cert=None, key=None)
    app = Starlette(routes=[WebSocketRoute(VCP_PATH, VcpOverWebSocket(runtime.service))])
    entry = HttpAccess(lambda _token: None, runtime.clock, port=http.port, secure=False)
    guard = Guard(
        app, entry, is_public=lambda path: path == VCP_PATH, body_limit=65_536, budget=Budget(runtime.clock)
    )
    tcp = TcpDoor(runtime.service, bind("127.0.0.1", 0), None)
    await http.start(guard, shutdown_seconds=1.0, websockets=[VCP_PATH])
    await tcp.start()
    try:
        yield Doors(runtime, http, tcp)
    finally:
        await tcp.stop()
        await http.stop()
        await runtime.features.aclose()
