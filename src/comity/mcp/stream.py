"""MCP on a stream of bytes: stdio, or a Unix socket. Bytes in, bytes out; nothing here opens anything.

- The answers to one read leave in one write; later answers leave with all that is ready in the same iteration of the
  loop.
- Calls run side by side. When the stream ends, those that still run get a moment to finish; then what the
  connection has opened is ended.
- A client that does not read what it asked for is not read from either, and what it has sent before waits: a
  small request may have a large answer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any, Final

from comity.mcp.calls import McpCalls, Outcome, Questions
from comity.mcp.protocol.context import SEE_LOG, HandshakeResult, McpClient
from comity.mcp.protocol.conversation import (
    INTERNAL,
    Drop,
    Effect,
    Exit,
    Greet,
    McpConversation,
    PeerAnswered,
    Shutdown,
    refused,
)
from comity.mcp.protocol.methods import Listen, RunningRequest, Server
from comity.mcp.protocol.results import InputRequest, Json
from comity.mcp.protocol.session import McpSession, notification
from comity.requests.handler import begin_request
from comity.requests.record import REQUEST_IDS
from comity.wire.errors import OverloadedError
from comity.wire.jsonrpc import Incoming, Notification, RpcError, RpcRequest, RpcStream

log = logging.getLogger("comity.mcp")

CLOSE_SECONDS: Final = 1.0
_WRITE_AT: Final = 1 << 18
"""Bytes of answers that are written before the rest of a read is processed."""

_numbers = count(1)

Negotiate = Callable[[Any, McpClient], Awaitable[HandshakeResult]]


class McpStream:
    """`write` takes bytes and never waits. Its owner sets `clogged`, which returns whether too much is still unread, and
    calls `proceed` once it is not. `exit_asked` is set when the client says exit.
    """

    def __init__(
        self,
        calls: McpCalls,
        conversation: McpConversation,
        *,
        limit: int,
        write: Callable[[bytes], None],
        negotiate: Negotiate,
        shutdown: Callable[[], Awaitable[None]] | None = None,
        left: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`left` is called with the name of a client that said shutdown or exit, not if it only disconnected."""
        self.name = f"stream {next(_numbers)}"
        self.exit_asked = asyncio.Event()
        self.clogged: Callable[[], bool] = lambda: False
        self._calls = calls
        self._conversation = conversation
        self._stream = RpcStream(limit)
        self._write = write
        self._negotiate = negotiate
        self._shutdown = shutdown
        self._left = left
        self._said_goodbye = False
        self._questions = Questions()
        self._tasks: dict[asyncio.Task[Any], RunningRequest | None] = {}
        self._incoming: deque[Iterator[Incoming]] = deque()
        self._ready: list[bytes] = []
        self._ready_bytes = 0
        self._reading = False
        self._flush_due = False
        self._open = ExitStack()
        self._subscribed = False

    def receive(self, data: bytes) -> None:
        self._incoming.append(self._stream.receive(data))
        self.proceed()

    def end(self) -> None:
        """Note the end of the input, and serve what was received."""
        self._incoming.append(self._stream.end())
        self.proceed()

    @property
    def waits(self) -> bool:
        """Return whether received messages are not processed yet."""
        return bool(self._incoming)

    def proceed(self) -> None:
        while self._incoming and not self.clogged():
            self._take(self._incoming[0])

    async def wait_for_answers(self, patience: float) -> None:
        """Wait until all requests that were read are answered, at most so many seconds. Requests that wait for a
        negotiation start only when it has ended.
        """
        self._questions.abandon()  # the client cannot answer any more
        loop = asyncio.get_running_loop()
        until = loop.time() + patience
        while (ending := self._answering()) and (left := until - loop.time()) > 0:
            await asyncio.wait(ending, timeout=left)

    def _answering(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that end with an answer."""
        return [
            task for task, work in self._tasks.items() if work is None or not isinstance(work.special, Listen)
        ]

    async def close(self, patience: float = CLOSE_SECONDS) -> None:
        await self.wait_for_answers(patience)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._open.close()
        self._flush()
        if self._shutdown is not None:
            await self._shutdown()
        if self._left is not None and self._said_goodbye:
            await self._left(self.name)

    def _take(self, messages: Iterator[Incoming]) -> None:
        self._reading = True
        try:
            for message in messages:
                for effect in self._effects_of(message):
                    self._do(effect)
                self._stream.batches = self._conversation.batches
                if self._ready_bytes > _WRITE_AT:
                    return
            self._incoming.popleft()
        finally:
            self._reading = False
            self._flush()

    def _effects_of(self, message: Incoming) -> list[Effect]:
        if type(message) is Notification and message.method == "initialize":
            log.warning("an initialize without an id came: that is a notification, and nothing answers it")
        try:
            return self._conversation.receive(message)
        except Exception:  # an unexpected fault of a handler
            log.exception("a message could not be answered")
            return [refused(message.id, INTERNAL)] if isinstance(message, RpcRequest) else []

    def _do(self, effect: Effect) -> None:
        if type(effect) is bytes:
            self._ready.append(effect)
            self._ready_bytes += len(effect)
        elif type(effect) is RunningRequest:
            self._start(effect)
        elif type(effect) is Greet:
            begin_request(REQUEST_IDS.new())
            self._later(self._greet(effect), None)
        elif type(effect) is Drop:
            self._drop(effect.work)
        elif type(effect) is PeerAnswered:
            self._questions.answered(effect.response)
        elif type(effect) is Shutdown:
            self._said_goodbye = True
            if self._shutdown is not None:
                self._later(self._shutdown(), None)
        elif type(effect) is Exit:
            self._said_goodbye = True
            self.exit_asked.set()

    def _start(self, work: RunningRequest) -> None:
        conversation = self._conversation
        begin_request(REQUEST_IDS.new())
        outcome = self._calls.start(work, _StreamOutlet(self, work), conversation.reply_of(work))
        if isinstance(outcome, (bytes, RpcError)):
            self._send_outcome(work, outcome)
        else:
            self._later(self._finish(work, outcome), work)

    async def _finish(self, work: RunningRequest, running: Coroutine[Any, Any, Outcome]) -> None:
        self._send_outcome(work, await running)

    def _send_outcome(self, work: RunningRequest, outcome: Outcome) -> None:
        conversation = self._conversation
        if isinstance(outcome, bytes):
            done = conversation.finish(work, outcome)
        else:
            done = conversation.refuse(work, outcome)
        if done is not None:
            self.send(done)

    async def _greet(self, greet: Greet) -> None:
        if greet.request is not None:
            warn_of_differing_hellos(self._calls.server, greet.request)
        try:
            negotiated = await self._negotiate(greet.hello, greet.client)
        except Exception:  # the client waits for an answer to its hello, and its next messages wait too
            log.exception("a hello could not be negotiated")
            handshake = self._calls.server.handshake
            assert handshake is not None, "there is a hello only where there is a handshake"
            negotiated = handshake.refused(SEE_LOG)
        for effect in self._conversation.greeted(greet, negotiated):
            self._do(effect)
        self._stream.batches = self._conversation.batches
        self._flush_soon()

    def _drop(self, work: RunningRequest) -> None:
        for task, its in self._tasks.items():
            if its is work:
                asyncio.get_running_loop().call_soon(
                    task.cancel
                )  # after it has begun: only then it cleans up
                return

    def _later(self, coroutine: Any, work: RunningRequest | None) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks[task] = work
        task.add_done_callback(self._over)

    def _over(self, task: "asyncio.Task[Any]") -> None:
        work = self._tasks.pop(task)
        if task.cancelled():
            return
        fault = task.exception()
        if fault is not None:
            log.error("a message could not be answered", exc_info=fault)
            if work is not None and self._conversation.is_running(work):
                self._send_outcome(work, INTERNAL)

    def send(self, message: bytes) -> None:
        self._ready.append(message)
        self._ready_bytes += len(message)
        if not self._reading:
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._conversation.initialized and not self._subscribed:
            self._subscribed = True
            try:
                self._open.enter_context(self._calls.changes.subscribe(self._wants, self._notify))
            except OverloadedError as full:
                log.warning("a client will not be notified of changes: %s", full)
        if self._ready:
            ready, self._ready, self._ready_bytes = self._ready, [], 0
            encode = self._stream.encode
            self._write(b"".join([encode(message) for message in ready]))

    def _wants(self, kind: str, name: str) -> bool:
        return kind == "list" or (kind == "resource" and name in self._conversation.session.subscribed)

    def _notify(self, method: str, params: Json) -> None:
        self.send(notification(method, params or None))

    def ask(self, request: InputRequest) -> Awaitable[Any]:
        return self._questions.ask(request, self.send)

    @property
    def session(self) -> McpSession:
        return self._conversation.session


def warn_of_differing_hellos(server: Server, request: RpcRequest) -> None:
    params = request.params
    if request.method == "initialize" and isinstance(params, dict) and server.handshake is not None:
        for place in server.handshake.find_differing(params):
            log.warning(
                "initialize holds more than one VCP hello: what stands in %s differs and does not count",
                place,
            )


class _StreamOutlet:
    """Sends messages about one request to the stream of its client."""

    __slots__ = ("_stream", "_work", "connection")

    def __init__(self, stream: McpStream, work: RunningRequest) -> None:
        self._stream = stream
        self._work = work
        self.connection = stream.name

    @property
    def session(self) -> McpSession | None:
        return None if self._work.client.modern else self._stream.session

    def send(self, message: bytes) -> None:
        self._stream.send(message)

    async def ask(self, request: InputRequest) -> Any:
        return await self._stream.ask(request)

    async def release(self) -> None:
        """Do nothing: one stream carries everything."""
