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

from comity.mcp.calls import McpCalls
from comity.mcp.changes import Changes
from comity.mcp.opening import MESSAGE_LIMIT
from comity.mcp.protocol.catalog import ANYTHING, Catalog, Selection, Tool, ToolAnswer, ToolHandler
from comity.mcp.protocol.context import Asker, Context, HandshakeResult
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.request_state import KEY_BYTES, Sealer
from comity.mcp.protocol.results import InputRequired, ToolResult, said, structured
from comity.mcp.stdio import serve_stdio
from comity.mcp.stream import McpStream
from comity.requests.caller import MODEL
from comity.runtime.system_clock import SystemClock
from comity.vcp.protocol.mcp_places import VcpHandshake
from comity.wire.errors import ConfigError

ROOM: Final = "own"

_VCP: Final = VcpHandshake()
"""It is not spoken here, and a client that says hello is told that."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


class McpServer:
    def __init__(self, name: str, *, version: str = "1", instructions: str = "") -> None:
        """`instructions` tell a model what the server is for."""
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
                        room=ROOM,
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


async def _no_vcp(_hello: object, _asker: Asker) -> HandshakeResult:
    return _VCP.not_offered("VCP is not offered here; the request goes on without it")
