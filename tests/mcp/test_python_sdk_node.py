"""The official Python client against the program itself: `comity mcp` alone and attached, and a node with its token."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import pytest

mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

import httpx2  # noqa: E402 - comes with it
from mcp.client import Client, advertise  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

import comity  # noqa: E402
from comity.mcp.protocol.fence import read_fence  # noqa: E402
from comity.runtime.settings import AgentSettings  # noqa: E402
from comity.testing.nodes import bearer, running_node  # noqa: E402
from tests.http.local_server import reply, serving  # noqa: E402
from tests.node.commands.neighbourhood import SEND, card_of  # noqa: E402

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


def started(data, **env):
    return StdioServerParameters(
        command=sys.executable, args=["-m", "comity", "mcp", "--data", str(data)], env=env or None
    )


async def command(*words):
    """What `comity` prints, if it ends well."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "comity", *map(str, words)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


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


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_model_finds_an_agent_and_calls_it_three_times_and_the_chain_holds(tmp_path, mode):
    there, mine = tmp_path / "there", tmp_path / "mine"
    async with running_node(there, agent=AgentSettings(behaviour="echo")) as node:
        async with comity.Client(data=there, directory=node.url) as owner:
            await owner.directory().publish(card_of(there, node.url + SEND, "translates letters"))
        server = stdio_client(started(mine, COMITY_DIRECTORY_URL=node.url))
        async with Client(server, mode=mode) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            assert tools[:2] == ["find_agents", "call_agent"]
            found = await client.call_tool("find_agents", {"capability": "letters"})
            (agent,) = found.structured_content["agents"]
            assert agent["agent"] == node.vacant_id.hex()
            for number in (1, 2, 3):
                said = {"agent": agent["agent"], "message": f"letter {number}"}
                called = await client.call_tool("call_agent", said)
                reply = read_fence(called.content[0].text)
                assert reply == f"echo from {node.vacant_id.short()}: letter {number}"
                assert called.structured_content["number"] == number
                assert called.structured_content["verified"] is True
        (peer,) = (await command("chain", "show", "--data", mine, "--json"))["peers"]
        (other,) = (await command("chain", "show", "--data", there, "--json"))["peers"]
        for kind in ("requests", "replies"):
            assert peer["call"][kind] == other["serve"][kind]
            assert peer["call"][kind]["seq"] == 3
        for data in (mine, there):
            assert (await command("audit", "verify", "--data", data, "--json"))["ok"] is True


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_audit_of_addresses_sends_progress_to_who_asked_for_it(tmp_path, mode):
    answer = []

    async def hear(done, total, message):
        answer.append((done, total, message))

    async with serving(lambda _request: reply(b"<html lang=en><title>t</title>")) as pages:
        allowed = {"COMITY_DISPATCH_ALLOWED_HOSTS": "127.0.0.1"}
        async with Client(stdio_client(started(tmp_path, **allowed)), mode=mode) as client:
            urls = [pages.url(f"/{number}") for number in range(3)]
            result = await client.call_tool("accessibility_audit", {"urls": urls}, progress_callback=hear)
    assert len(result.structured_content["output"]["ranking"]) == 3
    assert [step[:2] for step in answer] == [(1, 4), (2, 4), (3, 4)]
