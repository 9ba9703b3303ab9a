"""The official Python client, in the eras it speaks, over both carriers: it must find nothing unusual."""

import asyncio
import sys
from contextlib import asynccontextmanager

import pytest

mcp = pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp.client import Client  # noqa: E402
from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402
from mcp.shared.exceptions import MCPError  # noqa: E402

from tests.mcp.workshop import over_http  # noqa: E402
from tests.places import ROOT  # noqa: E402

MODES = ["legacy", "2026-07-28", "auto"]


@asynccontextmanager
async def connected(carrier, mode, **options):
    if carrier == "http":
        async with (
            over_http() as shop,
            Client(streamable_http_client(shop.url), mode=mode, **options) as client,
        ):
            yield client
    else:
        process = StdioServerParameters(command=sys.executable, args=["-m", "tests.mcp.workshop"], cwd=ROOT)
        async with Client(stdio_client(process), mode=mode, **options) as client:
            yield client


pytestmark = [pytest.mark.parametrize("carrier", ["stdio", "http"]), pytest.mark.parametrize("mode", MODES)]


async def test_it_lists_calls_and_reads(carrier, mode):
    async with connected(carrier, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools["measure"].output_schema["required"] == ["length"]
        assert "feel" not in tools
        answer = await client.call_tool("echo", {"text": "grüß dich 🐝"})
        assert answer.content[0].text == "grüß dich 🐝"
        assert not answer.is_error
        assert (await client.call_tool("measure", {"text": "four"})).structured_content == {"length": 4}
        listed = [str(found.uri) for found in (await client.list_resources()).resources]
        assert listed == ["shop://sign"]
        assert (await client.read_resource("shop://shelf/7")).contents[0].text == "shelf 7"
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["shop://shelf/{number}"]
        prompt = await client.get_prompt("greet", {"who": "Ada"})
        assert prompt.messages[0].content.text == "Greet Ada"


async def test_what_goes_wrong_is_told_in_the_right_way(carrier, mode):
    async with connected(carrier, mode) as client:
        wrong = await client.call_tool("echo", {"text": 7})
        assert wrong.is_error
        assert "/text" in wrong.content[0].text
        refused = await client.call_tool("refuse", {})
        assert refused.is_error
        assert refused.content[0].text == "not today; come back tomorrow"
        for asked in (client.call_tool("nothing", {}), client.read_resource("shop://shelf/0")):
            with pytest.raises(MCPError):
                await asked
        with pytest.raises(MCPError) as crashed:
            await client.call_tool("crash", {})
        assert "42" not in str(crashed.value)
        assert (await client.call_tool("echo", {"text": "still here"})).content[0].text == "still here"


async def test_progress_is_told_while_a_call_runs(carrier, mode):
    result = []

    async def hear(progress, total, message):
        result.append((progress, total, message))

    async with connected(carrier, mode) as client:
        answer = await client.call_tool("steps", {}, progress_callback=hear)
    assert answer.content[0].text == "three steps"
    assert result == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_cancelled_call_ends_and_the_next_one_is_served(carrier, mode):
    async with connected(carrier, mode) as client:
        waiting = asyncio.create_task(client.call_tool("wait", {}))
        assert (await client.call_tool("echo", {"text": "meanwhile"})).content[0].text == "meanwhile"
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await client.call_tool("echo", {"text": "after"})).content[0].text == "after"


async def test_a_question_of_a_tool_reaches_the_client(carrier, mode):
    from mcp_types import ElicitResult

    async def answer(_context, params):
        assert params.message == "Who are you?"
        return ElicitResult(action="accept", content={"name": "Ada"})

    async with connected(carrier, mode, elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {})
    assert result.structured_content["answer"]["content"] == {"name": "Ada"}
