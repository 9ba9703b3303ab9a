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

from comity.agents.mcp_tool import load_mcp_tool
from comity.agents.substrate import SubstrateError, SubstrateUnavailableError
from comity.wire.errors import ConfigError
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
