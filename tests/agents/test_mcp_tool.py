"""Tools of a real MCP server as agents."""

import asyncio
import importlib.util
import os
import shlex
import socket
import subprocess
import sys

import pytest
import pytest_asyncio

from comity.agents.mcp_tool import MCPClientSubstrate, load_mcp_tool
from comity.agents.substrate import (
    SubstrateError,
    SubstrateRateLimitError,
    SubstrateRequest,
    SubstrateResponse,
    SubstrateUnavailableError,
)
from comity.envelopes.client.calls import CallRefusedError
from comity.wire.errors import ConfigError, UnreachableError
from tests.agents.envelopes import request, said
from tests.places import file_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

COMMAND = f"{shlex.quote(sys.executable)} {shlex.quote(str(file_of('tests.agents.mcp_server')))}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http_server():
    """The same tools over Streamable HTTP, for as long as the module is tested."""
    import uvicorn

    from tests.agents.mcp_server import server

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    app = server.streamable_http_app()
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    task = asyncio.create_task(running.serve(sockets=[listener]))
    while not running.started:  # noqa: ASYNC110 - the server has no other sign
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    running.should_exit = True
    await task


async def ask(url, tool, text="hi"):
    agent = load_mcp_tool(f"mcp:{url}#{tool}", timeout=10)
    try:
        return said(await agent(request(text)))
    finally:
        await agent.aclose()


async def test_a_tool_over_stdio_answers_is_kept_and_comes_back_after_its_death():
    agent = load_mcp_tool(f"mcp:{COMMAND}#process", timeout=20)
    mortal = load_mcp_tool(f"mcp:{COMMAND}#die", timeout=20)
    try:
        first = said(await agent(request()))
        others = await asyncio.gather(*(agent(request()) for _ in range(5)))
        assert {said(other) for other in others} == {first}
        os.kill(int(first), 9)
        with pytest.raises(SubstrateUnavailableError, match="the next one starts it again"):
            await agent(request())
        assert said(await agent(request())) != first
        for _ in range(2):
            with pytest.raises(SubstrateUnavailableError, match="ended during the call"):
                await mortal(request())
    finally:
        await agent.aclose()
        await mortal.aclose()


async def test_a_tool_over_http_answers(http_server):
    assert await ask(http_server, "shout", "hello") == "HELLO"


@pytest.mark.parametrize(
    ("tool", "answer"),
    [
        ("greet", "hello hi"),
        ("greet:greeting", None),
        ("likely", "1 hi "),
        ("likely:extra", "1  hi"),
        ("unclear:a", None),
    ],
)
async def test_the_text_goes_where_it_belongs(http_server, tool, answer):
    if answer is None:
        with pytest.raises(SubstrateError, match="failed"):  # the other argument is missing
            await ask(http_server, tool)
    else:
        assert await ask(http_server, tool) == answer


async def test_a_tool_with_no_clear_argument_asks_for_one(http_server):
    with pytest.raises(
        SubstrateError, match="unclear takes a, b; say which one is the text as #unclear:argument"
    ):
        await ask(http_server, "unclear")


async def test_a_tool_that_is_not_there_is_told_with_those_that_are(http_server):
    with pytest.raises(SubstrateError, match="no tool whisper; it has: shout, greet"):
        await ask(http_server, "whisper")


async def test_a_tool_that_fails_is_a_failure_of_the_agent(http_server):
    with pytest.raises(SubstrateError, match="the MCP tool refuse failed"):
        await ask(http_server, "refuse")


async def test_structured_content_comes_as_text(http_server):
    assert '"text": "hi"' in await ask(http_server, "table")


async def test_nobody_at_the_url_is_unavailable():
    with pytest.raises(SubstrateUnavailableError, match="cannot be used"):
        await ask("http://127.0.0.1:9/mcp", "x")


@pytest.mark.parametrize("command", ["true", "cat"])
async def test_a_command_that_is_no_server_is_unavailable(command):
    with pytest.raises(SubstrateUnavailableError, match="the MCP server of x cannot be used"):
        await ask(command, "x")


async def test_a_server_that_says_nothing_is_given_up():
    agent = load_mcp_tool("mcp:sleep 60#x", timeout=0.2)
    with pytest.raises(SubstrateUnavailableError, match=r"did not answer within 0\.2 seconds"):
        await agent(request())
    await agent.aclose()


async def test_an_agent_that_was_never_called_is_closed_without_ado():
    await load_mcp_tool("mcp:sleep 60#x").aclose()


@pytest.mark.parametrize(
    "spec", ["mcp:", "mcp:#tool", "mcp:cat", "mcp:cat#", "mcp: #tool", "mcp:https://a/mcp"]
)
async def test_a_spec_without_server_or_tool_is_refused(spec):
    with pytest.raises(ConfigError, match="names no tool"):
        load_mcp_tool(spec)


async def test_a_command_that_cannot_be_read_or_found_is_refused():
    with pytest.raises(ConfigError, match="cannot be read"):
        load_mcp_tool("mcp:cat 'x#tool")
    with pytest.raises(ConfigError, match=r"no-such-command-here of .* was not found"):
        load_mcp_tool("mcp:no-such-command-here --x#tool")


async def test_without_the_mcp_package_the_remedy_is_told(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs the package mcp; run: uv pip install --python .+ mcp"):
        load_mcp_tool("mcp:cat#tool")


async def test_the_mcp_package_is_loaded_with_the_first_call():
    program = (
        "import sys; from comity.agents.behaviour import load_behaviour\n"
        "load_behaviour('mcp:cat#x')\n"
        "assert not {'mcp', 'pydantic', 'httpx2', 'httpcore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: ASYNC221 - nothing else runs


# The contract's own way to a tool of another MCP server.


ASKED = SubstrateRequest(system_prompt="s", user_prompt="u", tools=["calculator"], metadata={"trace": "t"})


class Transport:
    def __init__(self, answer):
        self.answer = answer

    async def __call__(self, url, body):
        self.called = (url, body)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


async def test_the_tool_is_called_as_the_contract_says():
    transport = Transport({"text": "hello"})
    substrate = MCPClientSubstrate("https://a.example/mcp", "think", transport)
    assert substrate.name == "mcp:https://a.example/mcp:think"
    assert await substrate.infer(ASKED) == SubstrateResponse(
        text="hello", model_id="think", usage={}, proof={"server_url": "https://a.example/mcp"}
    )
    assert transport.called == (
        "https://a.example/mcp",
        {
            "jsonrpc": "2.0",
            "id": "mcp-call",
            "method": "tools/call",
            "params": {
                "name": "think",
                "arguments": {
                    "system_prompt": "s",
                    "user_prompt": "u",
                    "tools": ["calculator"],
                    "metadata": {"trace": "t"},
                },
            },
        },
    )


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"text": "a", "result": {"text": "b"}}, "a"),
        ({"result": {"text": "b"}}, "b"),
        ({"result": {"content": [{"type": "text", "text": "c"}]}}, "c"),
        (
            {"content": [{"type": "text", "text": "c"}, {"type": "image"}, {"type": "text", "text": "d"}]},
            "c\nd",
        ),
        ({"result": {"content": [], "structuredContent": {"a": 1}}}, '{"a":1}'),
        ({"result": {"content": "no list", "isError": False}}, ""),
        ({"result": {"text": "t", "content": [{"type": "text", "text": "c"}]}}, "t"),
        ({"result": "b"}, ""),
        ({"result": None}, ""),
        ({"text": ""}, ""),
        ({"text": 7}, "7"),
        ({}, ""),
        ([], ""),
        (None, ""),
    ],
)
async def test_the_text_is_read_where_the_contract_has_it(answer, text):
    substrate = MCPClientSubstrate("https://a.example/mcp", "think", Transport(answer))
    assert (await substrate.infer(ASKED)).text == text


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"result": {"content": [{"type": "text", "text": "no quota"}], "isError": True}},
            "failed: no quota",
        ),
        ({"isError": True, "content": []}, "does not say why"),
        ({"error": {"code": -32601, "message": "no such tool"}}, "no such tool \\(code -32601\\)"),
        ({"error": "odd"}, "error: odd"),
    ],
)
async def test_an_error_of_the_tool_is_never_taken_for_its_text(answer, words):
    with pytest.raises(SubstrateError, match=words):
        await MCPClientSubstrate("https://a.example/mcp", "think", Transport(answer)).infer(ASKED)


def test_it_shows_what_it_was_made_of():
    transport = Transport({})
    substrate = MCPClientSubstrate(server_url="u", tool_name="t", transport=transport)
    assert (substrate.server_url, substrate.tool_name, substrate.transport) == ("u", "t", transport)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (UnreachableError("x"), SubstrateUnavailableError),
        (CallRefusedError(429, ""), SubstrateRateLimitError),
    ],
)
async def test_a_failure_of_the_transport_is_one_of_the_substrate(failure, kind):
    with pytest.raises(kind):
        await MCPClientSubstrate("https://a.example/mcp", "think", Transport(failure)).infer(ASKED)
