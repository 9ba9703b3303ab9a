"""An MCP server with one tool that says what it was told: with our toolkit, and with the SDK's three ways.

`python -m bench.baselines.mcp_echo MAKER CARRIER`: MAKER is ours, ours-unaudited, lowlevel, mcpserver or fastmcp;
CARRIER is stdio or http. With `-json` behind it, an SDK server answers without a stream of events over HTTP. Over HTTP the first line on stdout is a JSON object with `url` and, for ours, the token.
Ours is a whole node with its store and its audit trail; unaudited, the same without the trail.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


async def ours(carrier: str, *, audited: bool) -> None:
    from comity.identity.secrets import TOKEN_FILE, read_token
    from comity.mcp.protocol.catalog import Selection, Tool
    from comity.mcp.protocol.results import said
    from comity.mcp.socket import MESSAGE_LIMIT
    from comity.mcp.stdio import serve_stdio
    from comity.node.mcp_server import Mcp
    from comity.node.node import Node
    from comity.runtime.settings import Settings

    echo = Tool(
        name="echo",
        description="Deliver what you were told.",
        handler=lambda _context, arguments: said(arguments["text"]),
        input_schema=SCHEMA,
        group="bench",
        audit="tally" if audited else "own",
    )
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "data"
        node = Node(Settings(data=data, port=0), guest=carrier == "stdio")
        await node.start()
        stack.push_async_callback(node.stop)
        side = node.runtime.find(Mcp).node_mcp
        side.catalog.add_tools([echo])
        if carrier == "stdio":
            await serve_stdio(lambda write: side.open_stream(Selection(), MESSAGE_LIMIT, write))
        else:
            _ready(f"{node.url}/mcp", token=read_token(data / TOKEN_FILE))
            await node.wait_stopped()


def lowlevel() -> Any:
    import mcp_types as types
    from mcp.server.lowlevel import Server

    async def list_tools(_context: Any, _params: Any) -> Any:
        tool = types.Tool(name="echo", description="Deliver what you were told.", input_schema=SCHEMA)
        return types.ListToolsResult(tools=[tool])

    async def call_tool(_context: Any, params: Any) -> Any:
        return types.CallToolResult(content=[types.TextContent(text=params.arguments["text"])])

    return Server("echo", on_list_tools=list_tools, on_call_tool=call_tool)


def mcpserver() -> Any:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("echo")

    @server.tool()
    def echo(text: str) -> str:
        """Deliver what you were told."""
        return text

    return server


def fastmcp() -> Any:
    from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]

    server: Any = FastMCP("echo")

    @server.tool  # type: ignore[untyped-decorator, unused-ignore]
    def echo(text: str) -> str:
        """Deliver what you were told."""
        return text

    return server


async def theirs(maker: str, carrier: str) -> None:
    server = {"lowlevel": lowlevel, "mcpserver": mcpserver, "fastmcp": fastmcp}[maker.removesuffix("-json")]()
    if carrier == "stdio":
        await _over_stdio(maker, server)
    else:
        app = (
            server.http_app(path="/mcp")
            if maker == "fastmcp"
            else server.streamable_http_app(json_response=maker.endswith("-json"))
        )
        await _over_http(app)


async def _over_stdio(maker: str, server: Any) -> None:
    if maker == "fastmcp":
        await server.run_async(transport="stdio", show_banner=False)
    elif maker == "mcpserver":
        await server.run_stdio_async()
    else:
        from mcp.server.stdio import stdio_server

        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())


async def _over_http(app: Any) -> None:
    import uvicorn

    listening = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
    server = uvicorn.Server(listening)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - it has no event to wait for
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    _ready(f"http://127.0.0.1:{port}/mcp")
    await running


def _ready(url: str, **more: str) -> None:
    print(json.dumps({"url": url, **more}), flush=True)


def serve(maker: str, carrier: str) -> Coroutine[Any, Any, None]:
    if maker.startswith("ours"):
        return ours(carrier, audited=maker == "ours")
    return theirs(maker, carrier)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(*sys.argv[1:]))
