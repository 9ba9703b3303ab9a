"""What `comity mcp` costs before the first call: it must not load the house for a greeting."""

import sys

import pytest

from tests.mcp.conversing import initialize, request
from tests.mcp.processes import started

TELLING = """
import atexit, sys
from comity.cli.app import run
atexit.register(lambda: print("\\n".join(sorted(sys.modules)), file=sys.stderr))
sys.exit(run(sys.argv[1:]))
"""
HEAVY = {
    "aiohttp",
    "apsw",
    "cryptography",
    "httpx",
    "jsonschema_rs",
    "mcp",
    "nacl",
    "prometheus_client",
    "pydantic",
    "rich",
    "starlette",
    "uvicorn",
    "yaml",
}
NOT_YET = {"comity.runtime.node_runtime", "comity.node.http_server", "comity.actions.protocol.action"}
MOST_RESIDENT = 40 << 20


async def greeted(data, *more):
    """The modules that were loaded, and the memory in use after the last answer."""
    async with started(sys.executable, "-c", TELLING, "mcp", "--data", str(data)) as client:
        for message in (initialize(), *more):
            assert "result" in await client.ask(message)
        resident = client.resident()
        client.end()
        code, _, err = await client.over()
    assert code == 0
    return set(err.split()), resident


async def test_a_greeting_loads_no_room(data):
    modules, _ = await greeted(data)
    assert "comity.mcp.stdio" in modules
    assert NOT_YET & modules == set()
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()


async def test_lists_load_neither_a_database_nor_a_web_server(data):
    asked = [request(name, name) for name in ("tools/list", "prompts/list", "resources/templates/list")]
    modules, _ = await greeted(data, *asked)
    compiles = {"jsonschema_rs"}  # the table of actions has its schemas compiled
    assert {name.partition(".")[0] for name in modules} & (HEAVY - compiles) == set()


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
async def test_little_memory_is_used_before_the_first_call(data):
    _, resident = await greeted(data, request(1, "tools/list"))
    assert resident <= MOST_RESIDENT
