"""A real MCP server, on the official SDK: over stdio when it is run, over HTTP when it is mounted."""

import os
from typing import Any

from mcp.server.mcpserver import MCPServer

server = MCPServer("comity-test-tools", log_level="CRITICAL")


@server.tool()
def shout(text: str) -> str:
    return text.upper()


@server.tool()
def greet(name: str, greeting: str = "hello") -> str:
    return f"{greeting} {name}"


@server.tool()
def likely(id: int = 1, query: str = "", extra: str = "") -> str:  # noqa: A002 - a tool of somebody else's
    return f"{id} {query} {extra}"


@server.tool()
def unclear(a: str, b: str) -> str:
    return a + b


@server.tool()
def table(text: str) -> dict[str, str]:
    return {"text": text}


@server.tool()
def refuse(text: str) -> str:
    raise ValueError(text)


@server.tool()
def gentle(
    text: str,
    model_safe_context: dict[str, Any] | None = None,
    generation_preferences: dict[str, Any] | None = None,
) -> str:
    level = model_safe_context and model_safe_context["protection_level"]
    return f"{level} {generation_preferences and generation_preferences['depth']}: {text}"


@server.tool()
def die(text: str) -> str:
    os._exit(3)


@server.tool()
def process(text: str) -> str:
    return str(os.getpid())


if __name__ == "__main__":
    server.run()
