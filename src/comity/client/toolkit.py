"""MCP servers of other programs: the toolkit behind `comity mcp` with tools of your own.

    server = comity.McpServer("weather")

    @server.tool({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    async def forecast(context, arguments):
        "Tell the weather of a city."
        return f"It will rain in {arguments['city']}."

    server.run()

There is no VCP, no store and no task in such a server; `catalog` takes resources and prompts.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from comity.envelopes.app import EmbeddedVacant, OnStore
from comity.envelopes.protocol.chain import ReplayStore
from comity.envelopes.protocol.envelope import Behaviour
from comity.envelopes.protocol.resident import ResidentForm
from comity.envelopes.tools import TOOLS, call, describe
from comity.identity.protocol.keys import AnySigningKey
from comity.mcp.calls import McpCalls
from comity.mcp.protocol.catalog import ANYTHING, Catalog, Selection, Tool, ToolAnswer, ToolHandler
from comity.mcp.protocol.context import Context, HandshakeResult, McpClient
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.results import InputRequired, ToolResult, said, structured
from comity.mcp.protocol.session import KEY_BYTES, Sealer
from comity.mcp.socket import MESSAGE_LIMIT
from comity.mcp.stdio import serve_stdio
from comity.mcp.stream import McpStream
from comity.mcp.streams import Changes
from comity.requests.caller import MODEL
from comity.runtime.system_clock import SystemClock
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.errors import ConfigError

GROUP: Final = "own"

_VCP: Final = VcpHandshake()
"""It is not spoken here, and a client that says hello gets that answer."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class McpServer:
    def __init__(self, name: str, *, version: str = "1", instructions: str = "") -> None:
        """`instructions` describe the server to a model."""
        self.catalog = Catalog()
        self._server = Server(
            catalog=self.catalog,
            info={"name": name, "version": version},
            instructions=instructions,
            handshake=_VCP,
        )

    def tool(
        self,
        input_schema: Mapping[str, Any] = ANYTHING,
        *,
        name: str = "",
        description: str = "",
        **more: Any,
    ) -> Callable[[_Function], _Function]:
        """Make a tool of a function that takes the context of a call and its arguments. The tool has the name and the
        docstring of the function unless others are given. What the function gives is a text, an object (shown as
        structured content too), or a whole `ToolResult`; `more` are other fields of `Tool`.
        """

        def register(function: _Function) -> _Function:
            words = description or inspect.getdoc(function)
            if not words:
                raise ConfigError(f"the tool {function.__name__} needs a description or a docstring")
            self.catalog.add_tools(
                [
                    Tool(
                        name=name or function.__name__,
                        description=words,
                        group=GROUP,
                        handler=_handler(function),
                        input_schema=input_schema,
                        **more,
                    )
                ]
            )
            return function

        return register

    def run(self) -> None:
        """Serve standard input and output until the input ends."""
        asyncio.run(self.serve_stdio())

    async def serve_stdio(self, *, message_limit: int = MESSAGE_LIMIT) -> None:
        """The same inside a running event loop. `message_limit` is in bytes."""
        calls = McpCalls(
            self._server,
            SystemClock(),
            sealer=Sealer(os.urandom(KEY_BYTES), os.urandom),
            changes=Changes(self.catalog),
        )

        def connected(write: Callable[[bytes], None]) -> McpStream:
            conversation = McpConversation(self._server, Selection(), caller=MODEL)
            return McpStream(calls, conversation, limit=message_limit, write=write, negotiate=_no_vcp)

        await serve_stdio(connected)


def _handler(function: Callable[..., Any]) -> ToolHandler:
    async def wait_for(given: Awaitable[Any]) -> ToolAnswer:
        return _result(await given)

    def handler(context: Context, arguments: dict[str, Any]) -> ToolAnswer | Awaitable[ToolAnswer]:
        given = function(context, arguments)
        return wait_for(given) if isinstance(given, Awaitable) else _result(given)

    return handler


def _result(given: Any) -> ToolAnswer:
    if isinstance(given, ToolResult | InputRequired):
        return given
    return structured(given) if isinstance(given, Mapping) else said(str(given))


async def _no_vcp(_hello: object, _client: McpClient) -> HandshakeResult:
    return _VCP.not_offered("VCP is not offered here; the request goes on without it")


# A vacant as two MCP tools: `vacant_call` takes a signed envelope, `vacant_describe` shows the card.


class VacantAsMCPServer:
    def __init__(
        self,
        self_form: ResidentForm,
        self_signing_key: AnySigningKey,
        behavior: Behaviour,
        replay_store: OnStore | ReplayStore,
    ) -> None:
        self.self_form = self_form
        self.self_signing_key = self_signing_key
        self.behavior = behavior
        self.replay_store = replay_store
        self._vacant = EmbeddedVacant(
            self_form=self_form,
            self_signing_key=self_signing_key,
            behavior=behavior,
            replay_store=replay_store,
        )

    def list_tools(self) -> list[dict[str, Any]]:
        return [dict(tool) for tool in TOOLS]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the tool. Raise for a bad format, signature or chain, as the contract says."""
        if name == "vacant_describe":
            return describe(self.self_form)
        if name == "vacant_call":
            handler, pipeline = await self._vacant.open_once()
            return await call(self.self_form, handler, pipeline, arguments, MODEL)
        return {"error": f"unknown tool {name!r}"}
