"""The official Python client against the program itself: `comity mcp` alone and attached, and a node with its token."""

import sys
from contextlib import asynccontextmanager

import pytest

mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

import httpx2  # noqa: E402 - comes with it
from mcp.client import Client, advertise  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from comity.testing.nodes import bearer, running_node  # noqa: E402

EXTENSION = "space.creed/vcp"
HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": []}
MODES = ["legacy", "2026-07-28", "auto"]


@asynccontextmanager
async def alone(data):
    yield stdio_client(started(data))


@asynccontextmanager
async def attached(data):
    async with running_node(data):
        yield stdio_client(started(data))


@asynccontextmanager
async def over_http(data):
    async with running_node(data) as node, httpx2.AsyncClient(headers=bearer(node)) as http:
        yield streamable_http_client(f"{node.url}/mcp", http_client=http)


def started(data):
    return StdioServerParameters(command=sys.executable, args=["-m", "comity", "mcp", "--data", str(data)])


@pytest.mark.parametrize("way", [alone, attached, over_http])
@pytest.mark.parametrize("mode", MODES)
async def test_it_says_hello_and_finds_the_rooms(tmp_path, way, mode):
    greeting = [advertise(EXTENSION, {"hello": HELLO})]
    async with (
        way(tmp_path / "data") as transport,
        Client(transport, mode=mode, extensions=greeting) as client,
    ):
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert {"vcp_status", "vacant_call"} <= tools
        if mode != "2026-07-28":  # there it asks for no capabilities
            assert client.server_capabilities.extensions[EXTENSION]["ack"]["type"] == "vcp-ack"
        status = await client.call_tool("vcp_status", {})
        assert status.structured_content["negotiated"] is True
        if mode != "legacy":
            assert status.meta["space.creed/vcp-ack"]["type"] == "vcp-ack"
            assert status.meta["space.creed.vcp/ack"]["type"] == "vcp-ack"
        resources = [str(one.uri) for one in (await client.list_resources()).resources]
        assert "vcp://capabilities" in resources
        assert (await client.read_resource("vcp://capabilities")).contents[0].text
        wrong = await client.call_tool("vdo_burn", {})
        assert wrong.is_error
        assert wrong.structured_content["error"]["type"] == "validation_error"
