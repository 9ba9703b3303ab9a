"""VCP inside MCP, on the client's side: `initialize` carries the hello, and its result the answer.

- The hello is written to every place that servers read; the answer is taken from the first place that has one. A context
  request calls the tool `vcp_send_context`, an operation its own tool. They return what a model may see.
- Each hello needs a session of its own: another `initialize`, or the program started again.
- An error of MCP itself becomes an error of the handshake with a code of ours: MCP_REFUSED if the server refuses, NO_VCP
  if its answer holds nothing about VCP.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final, get_args

from comity.http.addresses import read_url
from comity.http.client import GuardedHttp
from comity.release import __version__
from comity.vcp.client_targets import McpTarget
from comity.vcp.protocol import mcp_places as vcp_places
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.extension_calls import CALL, RESULT, Code
from comity.wire import strict_json
from comity.wire.errors import ComityError, MalformedError, PeerError, UnreachableError
from comity.wire.link import LinkClosed

log = logging.getLogger("comity.vcp")

MESSAGE_LIMIT: Final = 1_048_576
ANSWER_SECONDS: Final = 30.0
MCP_REFUSED: Final = "MCP_REFUSED"
NO_VCP: Final = "NO_VCP"

REVISION: Final = "2025-06-18"
_HELLO: Final = "vcp-hello"
_TOOL: Final = "vcp_send_context"
_CLOSE_SECONDS: Final = 2.0
_ENDED: Final = "the MCP server ended without an answer"
_MAX_DETAIL_LENGTH: Final = 300


class McpRefusedError(PeerError):
    """The MCP server answered with an error instead of a result."""

    code = "mcp_refused"


async def dial_mcp(target: McpTarget, tls: ssl.SSLContext | None = None) -> "McpLink":
    carrier = McpOverHttp(target, tls) if target.address else _Stdio(target.command)
    await carrier.begin()
    return McpLink(target.url, carrier)


class McpLink:
    """A link whose carrier can `begin` a new session, `request` a response (raises McpRefusedError, or LinkClosed when there
    is none) and `notify`.
    """

    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, carrier: "McpOverHttp | _Stdio") -> None:
        self.peer = peer
        self._carrier = carrier
        self._out: asyncio.Queue[bytes] = asyncio.Queue()  # a session has eight waiting requests at most
        self._in: asyncio.Queue[bytes | LinkClosed] = asyncio.Queue()
        self._ended: LinkClosed | None = None
        self._number = 0
        self._initialized = False
        self._handlers = {_HELLO: self._initialize, CALL: self._call}
        self._running = asyncio.create_task(self._run())

    async def send(self, message: bytes) -> None:
        if self._ended is not None:
            raise self._ended
        self._out.put_nowait(message)

    async def receive(self) -> bytes:
        if self._ended is not None and self._in.empty():
            raise self._ended
        received = await self._in.get()
        if isinstance(received, LinkClosed):
            raise received
        return received

    async def close(self, reason: str = "") -> None:
        self._ended = self._ended or LinkClosed(reason or "closed")
        self._running.cancel()
        await asyncio.wait([self._running])
        await self._carrier.close()

    async def _run(self) -> None:
        """Handle one message after the other, so that answers come in order."""
        try:
            while True:
                value = strict_json.loads(await self._out.get())
                handle = self._handlers.get(value.get("type"), self._send_context)
                answer = await handle(value)
                self._in.put_nowait(strict_json.dumps(answer))
        except LinkClosed as closed:
            self._end(closed)
        except ComityError as fault:
            self._end(LinkClosed(fault.message))
        except Exception:
            log.exception("the conversation with %s failed", self.peer)
            self._end(LinkClosed("something failed on our side"))

    def _end(self, closed: LinkClosed) -> None:
        self._ended = closed
        self._in.put_nowait(closed)

    async def _initialize(self, hello: dict[str, Any]) -> Any:
        if self._initialized:
            await self._carrier.begin()
        self._initialized = True
        params = {
            "protocolVersion": REVISION,
            "clientInfo": {"name": "comity", "version": __version__},
            **vcp_places.hello_for_initialize(hello),
        }
        try:
            result = await self._request("initialize", params)
            await self._carrier.notify({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except McpRefusedError as refusal:
            return _error(MCP_REFUSED, f"the MCP server refuses: {refusal.message}")
        answer = vcp_places.answer_in_initialize(result)
        if answer is None:
            return _error(NO_VCP, "the MCP server does not answer the VCP hello; it supports VCP 1.0 at most")
        return answer

    async def _send_context(self, request: dict[str, Any]) -> Any:
        try:
            result = await self._request("tools/call", {"name": _TOOL, "arguments": {"context": request}})
        except McpRefusedError as refusal:
            return {"error": {"code": MCP_REFUSED, "message": refusal.message, "field": None}}
        content = _structured(result)
        if not result.get("isError"):
            return content
        message = content.get("error") or "\n".join(_texts(result)) or "the tool gave no reason"
        return {
            "error": {
                "code": content.get("code", MCP_REFUSED),
                "message": message,
                "field": content.get("field"),
            }
        }

    async def _call(self, call: dict[str, Any]) -> Any:
        answered: dict[str, Any] = {"type": RESULT, "id": call["id"], "ok": False}
        operation = operations().get(call["op"])
        if operation is None:
            return answered | {"error": {"code": "NOT_FOUND", "message": "there is no such operation"}}
        try:
            result = await self._request("tools/call", {"name": operation.tool, "arguments": call["args"]})
        except McpRefusedError as refusal:
            return answered | {"error": {"code": "NOT_FOUND", "message": refusal.message}}
        content = _structured(result)
        if not result.get("isError"):
            return answered | {"ok": True, "result": content}
        code, message = content.get("code"), content.get("error") or "\n".join(_texts(result))
        error = {
            "code": code if code in get_args(Code) else "FORBIDDEN",
            "message": str(message)[:1024] or "the tool gave no reason",
            "field": content.get("field"),
        }
        return answered | {"error": error}

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        response = await self._carrier.request(
            {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        )
        result, error = response.get("result"), response.get("error")
        if isinstance(result, dict):
            return result
        message = error.get("message") if isinstance(error, dict) else None
        raise McpRefusedError(message[:_MAX_DETAIL_LENGTH] if isinstance(message, str) else "no result")


class _Stdio:
    """An MCP server that this program starts, with one JSON message per line."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def begin(self) -> None:
        await self.close()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=4 * MESSAGE_LIMIT,
            )
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "strerror", None) or str(fault)
            raise UnreachableError(f"{self._command[0]} cannot be started: {reason}") from None

    async def request(self, message: dict[str, Any]) -> dict[str, Any]:
        await self.notify(message)
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise LinkClosed(f"a line of the MCP server exceeds {4 * MESSAGE_LIMIT:,} bytes") from None
            if not line:
                raise LinkClosed(_ENDED)
            try:
                received = strict_json.loads(line)
            except MalformedError:
                continue  # some programs write other text to their output
            if not isinstance(received, dict):
                continue
            if "method" not in received and received.get("id") == message["id"]:
                return received
            if "method" in received and "id" in received:
                refusal = {"code": -32601, "message": "this client answers no requests"}
                await self.notify({"jsonrpc": "2.0", "id": received["id"], "error": refusal})

    async def notify(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(strict_json.dumps(message) + b"\n")
            await self._process.stdin.drain()
        except OSError:
            raise LinkClosed(_ENDED) from None

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        for end in (None, process.terminate, process.kill):
            with contextlib.suppress(ProcessLookupError):
                if end is not None:
                    end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await process.wait()
                    while await process.stdout.read(MESSAGE_LIMIT):
                        pass  # read until the pipe is closed, before the event loop ends
                    with contextlib.suppress(OSError):
                        await process.stdin.wait_closed()
                    return


class McpOverHttp:
    """Streamable HTTP; each answer is a JSON body or a short stream of events."""

    def __init__(self, target: McpTarget, tls: ssl.SSLContext | None) -> None:
        self._url = target.address
        self._bearer = target.bearer
        self._session: str | None = None
        # the user of this program gives the address, so that any is allowed
        host = read_url(target.address).host
        self._http = GuardedHttp(allow=(host,), allow_loopback=True, timeout=ANSWER_SECONDS, tls=tls)

    async def begin(self) -> None:
        await self._leave()

    async def request(self, message: dict[str, Any]) -> dict[str, Any]:
        answer = await self._http.request("POST", self._url, message, self._headers(message["method"]))
        if answer.status != 200:
            detail = answer.body[:_MAX_DETAIL_LENGTH].decode(errors="replace")
            raise McpRefusedError(f"status {answer.status}: {_refusal_in(answer.body) or detail}")
        self._session = self._session or answer.headers.get("mcp-session-id")
        streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
        for data in _events(answer.body) if streamed else (answer.body,):
            with contextlib.suppress(MalformedError):
                received = strict_json.loads(data)
                if (
                    isinstance(received, dict)
                    and received.get("id") == message["id"]
                    and "method" not in received
                ):
                    return received
        raise McpRefusedError("it sent no response to the request")

    async def notify(self, message: dict[str, Any]) -> None:
        await self._http.request("POST", self._url, message, self._headers(message["method"]))

    async def close(self) -> None:
        await self._leave()
        await self._http.aclose()

    async def _leave(self) -> None:
        if self._session is None:
            return
        headers = self._headers("")
        self._session = None
        with contextlib.suppress(ComityError):  # the session expires anyway
            await self._http.request("DELETE", self._url, headers=headers)

    def _headers(self, method: str) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if self._bearer is not None:
            headers["authorization"] = f"Bearer {self._bearer}"
        if method != "initialize":
            headers["mcp-protocol-version"] = REVISION
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        return headers


def _events(body: bytes) -> Iterator[bytes]:
    for block in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line for line in block.split(b"\n") if line.startswith(b"data:")]
        if lines:
            yield b"\n".join(line.removeprefix(b"data:").removeprefix(b" ") for line in lines)


def _refusal_in(body: bytes) -> str | None:
    with contextlib.suppress(MalformedError):
        answer = strict_json.loads(body)
        if isinstance(answer, dict):
            error = answer.get("error")
            message = error.get("message") if isinstance(error, dict) else answer.get("detail")
            return message[:_MAX_DETAIL_LENGTH] if isinstance(message, str) else None
    return None


def _structured(result: Mapping[str, Any]) -> dict[str, Any]:
    content = result.get("structuredContent")
    return content if isinstance(content, dict) else {}


def _texts(result: Mapping[str, Any]) -> Iterator[str]:
    content = result.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "vcp-error", "code": code, "message": message[:1024], "retry_after": None}
