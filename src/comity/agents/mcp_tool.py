"""A tool of an MCP server as a behaviour: `mcp:COMMAND#tool` or `mcp:URL#tool`, by the official client.

- The text of the envelope goes into the tool's one text argument. Where it is not clear which that is,
  the owner says so: `#tool:argument`.
- A tool with an argument called `model_safe_context` or `generation_preferences` asks for the context that its caller sent in a
  VCP session. It gets the argument as an object while there is such a session.
- The connection is made with the first call and kept. When the server ends, the call fails, and the
  next one starts it again: a call is never made twice by us, since the tool may have done its work.
- The client must be left by the task that entered it, so each connection has a task of its own.
"""

import asyncio
import importlib.util
import logging
import shlex
import shutil
import sys
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import to_builtins

from comity.agents.behaviour import saying, text_of
from comity.agents.substrate import (
    SubstrateError,
    SubstrateRequest,
    SubstrateResponse,
    SubstrateUnavailableError,
    substrate_failure,
)
from comity.envelopes.client.calls import DispatchTransport
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage
from comity.http.client import TIMEOUT
from comity.runtime.lazy import late
from comity.system import install_command
from comity.vcp.protocol.context import CallerContext
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConfigError

if TYPE_CHECKING:
    from mcp import client as mcp_client
    from mcp.client import stdio
    from mcp.types import CallToolResult, Tool
else:
    mcp_client = late("mcp.client")
    stdio = late("mcp.client.stdio")

# A tool of another MCP server as a substrate, over any transport, in the contract's own shape.

MCPTransport = DispatchTransport
"""Carries one JSON-RPC request to the server and brings back its answer."""


class MCPClientSubstrate:
    def __init__(self, server_url: str, tool_name: str, transport: DispatchTransport) -> None:
        self.server_url = server_url
        self.tool_name = tool_name
        self.transport = transport

    @property
    def name(self) -> str:
        return f"mcp:{self.server_url}:{self.tool_name}"

    async def infer(self, request: SubstrateRequest) -> SubstrateResponse:
        body = {
            "jsonrpc": "2.0",
            "id": "mcp-call",
            "method": "tools/call",
            "params": {
                "name": self.tool_name,
                "arguments": {
                    "system_prompt": request.system_prompt,
                    "user_prompt": request.user_prompt,
                    "tools": list(request.tools),
                    "metadata": dict(request.metadata),
                },
            },
        }
        try:
            answer: object = await self.transport(self.server_url, body)
        except ComityError as failure:
            raise substrate_failure(self.name, failure) from None
        return SubstrateResponse(
            text=_text_of_answer(answer, self.name),
            model_id=self.tool_name,
            proof={"server_url": self.server_url},
        )


def _text_of_answer(answer: object, name: str) -> str:
    """Return `text` of the answer, else of its `result`, else the text of their content blocks, else nothing."""
    if not isinstance(answer, dict):
        return ""
    if answer.get("error") is not None:
        raise SubstrateError(f"{name} answered with an error: {_reason(answer['error'])}")
    holders = [holder for holder in (answer, answer.get("result")) if isinstance(holder, dict)]
    for holder in holders:
        if holder.get("isError") is True:
            raise SubstrateError(
                f"{name} failed: {_content(holder) or holder.get('text') or 'it does not say why'}"
            )
    for holder in holders:
        if "text" in holder:
            return str(holder["text"])
    return next((text for text in map(_content, holders) if text), "")


def _content(result: dict[str, Any]) -> str:
    blocks = result.get("content")
    texts = [
        block["text"]
        for block in (blocks if isinstance(blocks, list) else ())
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
    ]
    if not texts and result.get("structuredContent") is not None:
        return strict_json.dumps(result["structuredContent"]).decode()
    return "\n".join(texts)


def _reason(error: Any) -> str:
    if isinstance(error, dict):
        return f"{error.get('message') or 'it does not say why'} (code {error.get('code')})"
    return str(error)


log = logging.getLogger("comity.agents")

_LIKELY: Final = ("text", "message", "prompt", "query", "input", "question")
_CONNECTION_CLOSED: Final = -32000
_URLS: Final = ("http://", "https://")
_PAGES: Final = 100
_NAMES_SHOWN: Final = 10
_OF_THE_CALLER: Final = frozenset(CallerContext.__struct_fields__)


class _Arguments(NamedTuple):
    """The argument for the text, and those for the context of the caller."""

    text: str
    of_caller: frozenset[str]


class McpTool:
    takes_context = True

    def __init__(self, server: str, tool: str, argument: str = "", *, timeout: float = TIMEOUT) -> None:
        """`server` is an http(s) URL, or a command as one would type it."""
        self._tool = tool
        self._timeout = timeout
        self._connect = partial(_Connection, server, tool, argument, timeout)
        self._connection: _Connection | None = None

    async def __call__(self, envelope: VacantEnvelope, context: CallerContext | None = None) -> A2AMessage:
        connection = self._connection
        if connection is None or connection.over:
            connection = self._connection = self._connect()
        client, arguments = await connection.ready()
        known = {} if context is None else to_builtins(context)
        given = {name: known[name] for name in arguments.of_caller if name in known}
        try:
            result = await client.call_tool(
                self._tool, given | {arguments.text: text_of(envelope)}, read_timeout_seconds=self._timeout
            )
        except Exception as failure:  # noqa: BLE001 - whatever the library raises, the tool did not answer
            if getattr(failure, "code", None) == _CONNECTION_CLOSED:
                await connection.close()
                raise SubstrateUnavailableError(
                    f"the MCP server of {self._tool} ended during the call; the next one starts it again"
                ) from None
            raise SubstrateError(f"the MCP tool {self._tool} gave no answer: {failure}") from None
        return saying(_text_of_result(result, self._tool))

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class _Connection:
    def __init__(self, server: str, tool: str, argument: str, timeout: float) -> None:
        self._server = server
        self._tool = tool
        self._argument = argument
        self._timeout = timeout
        self._opened: asyncio.Future[tuple[mcp_client.Client, _Arguments]] = (
            asyncio.get_running_loop().create_future()
        )
        self._end = asyncio.Event()
        self._task = asyncio.create_task(self._stay_open())
        self.over = False

    async def ready(self) -> "tuple[mcp_client.Client, _Arguments]":
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        self.over = True
        self._end.set()
        await asyncio.wait([self._task])

    async def _stay_open(self) -> None:
        try:
            async with asyncio.timeout(self._timeout) as patience, _client_of(self._server) as client:
                arguments = await _find_arguments(client, self._tool, self._argument)
                patience.reschedule(None)
                self._opened.set_result((client, arguments))
                await self._end.wait()
        except Exception as failure:  # noqa: BLE001 - the library wraps what happened in groups of anything
            if self._opened.done():
                log.warning("a connection to an MCP server ended badly: %s", failure)
            else:
                self._opened.set_exception(_why_unusable(failure, self._tool, self._timeout))
                self._opened.exception()  # it may be that nobody waits for it any more
        finally:
            self.over = True
            self._opened.cancel()


def _client_of(server: str) -> "AbstractAsyncContextManager[mcp_client.Client]":
    if server.startswith(_URLS):
        return mcp_client.Client(server)
    command, *arguments = shlex.split(server)
    parameters = stdio.StdioServerParameters(command=command, args=arguments)
    return mcp_client.Client(stdio.stdio_client(parameters, errlog=sys.__stderr__ or sys.stderr))


async def _find_arguments(client: "mcp_client.Client", name: str, argument: str) -> _Arguments:
    offered: list[str] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            if tool.name == name:
                known = tool.input_schema.get("properties") or {}
                return _Arguments(argument or _text_argument(tool), _OF_THE_CALLER.intersection(known))
            offered.append(tool.name)
        cursor = page.next_cursor
        if not cursor:
            break
    shown = ", ".join(offered[:_NAMES_SHOWN]) or "none"
    raise SubstrateError(f"the MCP server has no tool {name}; it has: {shown}")


def _why_unusable(failure: BaseException, tool: str, patience: float) -> SubstrateError:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if isinstance(failure, SubstrateError):
        return failure
    if isinstance(failure, TimeoutError):
        said = f"it did not answer within {patience:g} seconds"
    elif isinstance(failure, OSError):
        said = (failure.strerror or str(failure)).lower()
    else:
        said = str(failure)
    return SubstrateUnavailableError(f"the MCP server of {tool} cannot be used: {said}")


def _text_of_result(result: "CallToolResult", tool: str) -> str:
    texts = [block.text for block in result.content if block.type == "text"]
    if result.is_error:
        raise SubstrateError(f"the MCP tool {tool} failed: {' '.join(texts) or 'it does not say why'}")
    if not texts and result.structured_content is not None:
        return strict_json.dumps(result.structured_content).decode()
    return "\n".join(texts)


def load_mcp_tool(spec: str, *, timeout: float = TIMEOUT) -> McpTool:
    server, _, wanted = spec.removeprefix("mcp:").rpartition("#")
    tool, _, argument = wanted.partition(":")
    if not server.strip() or not tool:
        raise ConfigError(
            f"{spec!r} names no tool; write it as mcp:https://host/mcp#tool or mcp:command#tool"
        )
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(f"an MCP tool as agent needs the package mcp; run: {install_command('mcp')}")
    if not server.startswith(_URLS):
        try:
            command = shlex.split(server)[0]
        except ValueError as fault:
            raise ConfigError(f"the command of {spec!r} cannot be read: {fault}") from None
        if shutil.which(command) is None:
            raise ConfigError(f"the command {command} of {spec!r} was not found; check its name and the PATH")
    return McpTool(server, tool, argument, timeout=timeout)


def _text_argument(tool: "Tool") -> str:
    schema: dict[str, Any] = tool.input_schema
    properties = [name for name in schema.get("properties") or {} if name not in _OF_THE_CALLER]
    required = [name for name in schema.get("required") or [] if name not in _OF_THE_CALLER]
    for names in (required, properties):
        if len(names) == 1:
            return str(names[0])
    for name in _LIKELY:
        if name in properties:
            return name
    shown = ", ".join(properties) or "nothing"
    raise SubstrateError(
        f"the MCP tool {tool.name} takes {shown}; say which one is the text as #{tool.name}:argument"
    )
