"""The product itself before the suite: a real node with its token and SQLite, and `comity mcp` on its pipes.

The suite speaks HTTP without a token, so something stands in between in both cases, and changes nothing else.

- Before the node: each connection carries one request, whose head gets the token. All other bytes pass as they are.
- Before the pipes: modern requests share one process, since each stands alone; a legacy session has one of its own. A
  message goes in as one line; the answer comes back as JSON, or, for a subscription, as events.
"""

import asyncio
import contextlib
import itertools
import json
import secrets
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any, Final

from comity.http.asgi import Receive, Scope, Send, answer, header, read_body
from comity.http.server import HttpServer
from comity.identity.secrets import TOKEN_FILE, read_token
from comity.mcp.http import MCP_PATH
from comity.mcp.protocol import http_rules
from comity.mcp.protocol.results import META_SUBSCRIPTION, status_of
from comity.store.claim import running_node
from comity.wire import jsonrpc

BODY_LIMIT: Final = 1_048_576
_HEAD_LIMIT: Final = 65_536
_START_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 20.0
_MOST_SESSIONS: Final = 4
"""The suite leaves its sessions open; the oldest ends."""
_LINE_LIMIT: Final = 16 * 1024 * 1024
Message = dict[str, Any]

_COMITY: Final = (sys.executable, "-m", "comity")


@contextlib.asynccontextmanager
async def node_behind_its_token() -> AsyncIterator[str]:
    """The address of /mcp of a real node, for a client that has no token."""
    with tempfile.TemporaryDirectory(prefix="comity-") as folder:
        data = Path(folder) / "data"
        command = (*_COMITY, "up", "--data", str(data), "--port", "0")
        async with _process(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        ) as process:
            url = await _announced(data, process)
            port = int(url.rpartition(":")[2])
            token = read_token(data / TOKEN_FILE)
            async with _forwarding(port, f"Authorization: Bearer {token}\r\n".encode()) as own:
                yield f"http://localhost:{own}{MCP_PATH}"


@contextlib.asynccontextmanager
async def stdio_behind_http() -> AsyncIterator[str]:
    """The address at which `comity mcp` answers, each time on its standard input and output."""
    with tempfile.TemporaryDirectory(prefix="comity-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            bridge = _Bridge(Path(folder) / "data", stack)
            await bridge.prepare()
            http = HttpServer("127.0.0.1", 0, cert=None, key=None)
            await http.start(bridge, shutdown_seconds=1.0)
            stack.push_async_callback(http.stop)
            yield f"{http.url}{MCP_PATH}"


async def _announced(data: Path, process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(_START_SECONDS):
        while (node := running_node(data)) is None:
            if process.returncode is not None:
                raise RuntimeError(f"the node ended with status {process.returncode} instead of starting")
            await asyncio.sleep(0.02)
    return node.url


@contextlib.asynccontextmanager
async def _process(*command: str, **options: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, **options)
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        if process.returncode is None:
            process.terminate()
        await process.wait()


@contextlib.asynccontextmanager
async def _forwarding(port: int, line: bytes) -> AsyncIterator[int]:
    """A port of our own whose requests go to the other one, each with one more line in its head."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            first, _, rest = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
            kept = b"".join(
                one + b"\r\n"
                for one in rest.split(b"\r\n")
                if one and not one.lower().startswith(b"connection:")
            )
            answers, there = await asyncio.open_connection("127.0.0.1", port)
            there.write(first + b"\r\n" + line + kept + b"Connection: close\r\n\r\n")
            both = [
                asyncio.ensure_future(_pass_on(reader, there)),
                asyncio.ensure_future(_pass_on(answers, writer)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client went away, or sent no head
        finally:
            for end in (writer, there):
                if end is not None:
                    end.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0, limit=_HEAD_LIMIT)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(_HEAD_LIMIT):
            writer.write(data)
            await writer.drain()


class _Client:
    """One `comity mcp`. Those who ask it choose their ids without knowing of each other, so each request gets another
    one on the way in, and its own again in what comes back.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._asked: dict[str, asyncio.Queue[Message]] = {}
        self._numbers = itertools.count(1)

    def end(self) -> None:
        """Nothing more will be asked."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def say(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def ask(self, message: Message) -> Message:
        """The answer; what is told before it is passed over."""
        async with asyncio.timeout(_ANSWER_SECONDS), contextlib.aclosing(self.follow(message)) as told:
            async for heard in told:
                if "method" not in heard:
                    return heard
        raise ConnectionError("comity mcp ended")

    async def follow(self, message: Message) -> AsyncGenerator[Message]:
        """What is told about a request, and its answer as the last."""
        id_ = f"request {next(self._numbers)}"
        coming = self._asked[id_] = asyncio.Queue()
        self.say({**message, "id": id_})
        answered = False
        try:
            while not answered:
                heard = await coming.get()
                answered = "method" not in heard
                yield _renamed(heard, message["id"])
        finally:
            del self._asked[id_]
            if not answered:
                self.say(_notification("notifications/cancelled", requestId=id_))

    async def read(self) -> None:
        """Hand out what comes, until the process ends. What is about no request is dropped."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            heard: Message = json.loads(line)
            about = heard.get("id") or _meta_of(heard).get(META_SUBSCRIPTION)
            if about in self._asked:
                self._asked[about].put_nowait(heard)


class _Bridge:
    def __init__(self, data: Path, stack: contextlib.AsyncExitStack) -> None:
        self._command = (*_COMITY, "mcp", "--data", str(data))
        self._stack = stack
        self._sessions: dict[str, _Client] = {}
        self._shared: _Client

    async def prepare(self) -> None:
        """Modern requests share a process."""
        self._shared = await self._started()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = header(scope, b"mcp-session-id") or ""
        if scope["method"] == "DELETE" and session in self._sessions:
            self._sessions.pop(session).end()
            await answer(send, 200, b"")
        elif scope["method"] == "POST":
            message = json.loads(await read_body(scope, receive, BODY_LIMIT))
            if http_rules.read_headers(scope["headers"]).modern:
                await self._modern(message, receive, send)
            else:
                await self._legacy(message, session, send)
        else:
            await answer(send, 405, b"")

    async def _modern(self, message: Message, receive: Receive, send: Send) -> None:
        if "id" not in message:
            await answer(send, 202, b"")
        elif message["method"] == "subscriptions/listen":
            await _events(self._shared.follow(message), receive, send)
        else:
            heard = await self._shared.ask(message)
            await _say(send, heard, status_of(heard["error"]["code"]) if "error" in heard else 200)

    async def _legacy(self, message: Message, session: str, send: Send) -> None:
        if message.get("method") == "initialize":
            client = await self._started()
            session = secrets.token_hex(8)
            self._sessions[session] = client
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.pop(next(iter(self._sessions))).end()
            await _say(send, await client.ask(message), 200, session)
        elif session not in self._sessions:
            await answer(send, 404 if session else 400, b"")
        elif "id" in message:
            await _say(send, await self._sessions[session].ask(message), 200)
        else:
            self._sessions[session].say(message)
            await answer(send, 202, b"")

    async def _started(self) -> _Client:
        started = _process(*self._command, stdout=asyncio.subprocess.PIPE, limit=_LINE_LIMIT)
        client = _Client(await self._stack.enter_async_context(started))
        reading = asyncio.create_task(client.read())
        self._stack.callback(reading.cancel)
        return client


def _meta_of(heard: Message) -> Message:
    meta: Message = heard.get("params", {}).get("_meta", {})
    return meta


def _renamed(heard: Message, id_: Any) -> Message:
    """With the id that its client chose, wherever an id stands."""
    if "id" in heard:
        heard["id"] = id_
    for meta in (_meta_of(heard), heard.get("result", {}).get("_meta", {})):
        if META_SUBSCRIPTION in meta:
            meta[META_SUBSCRIPTION] = id_
    return heard


def _notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


async def _say(send: Send, heard: Message, status: int, session: str | None = None) -> None:
    headers = [] if session is None else [(b"mcp-session-id", session.encode())]
    await answer(send, status, json.dumps(heard).encode(), headers=headers)


async def _events(told: AsyncGenerator[Message], receive: Receive, send: Send) -> None:
    """What is told, as it comes, until whoever listens goes away."""
    head = [(b"content-type", jsonrpc.CONTENT_TYPE), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": head})

    async def tell() -> None:
        async with contextlib.aclosing(told):
            async for heard in told:
                event = jsonrpc.event(json.dumps(heard).encode())
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    both = [asyncio.ensure_future(tell()), asyncio.ensure_future(gone())]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    for one in both:
        one.cancel()
    await asyncio.wait(both)
