"""From what the owner wrote to the behaviour."""

import subprocess
import sys

import pytest

from comity.agents.behaviour import FunctionAgent, close_behaviour, echo, load_behaviour
from comity.agents.mcp_tool import McpTool
from comity.agents.substrate import SubstrateAgent
from comity.wire.errors import ConfigError
from tests.agents.envelopes import request, said
from tests.http.local_server import reply, serving

COMPLETION = b'{"choices":[{"message":{"content":"fine"}}]}'


async def test_each_kind_is_known_by_its_beginning():
    assert load_behaviour("echo") is echo
    for spec, kind in (
        ("mcp:cat#tool", McpTool),
        ("openai:https://a.example/v1#m", SubstrateAgent),
        ("textwrap:dedent", FunctionAgent),
    ):
        behaviour = load_behaviour(spec, environ={})
        assert isinstance(behaviour, kind)
        await close_behaviour(behaviour)


async def test_a_model_gets_its_prompt_and_its_key():
    async with serving(lambda _: reply(COMPLETION)) as server:
        behaviour = load_behaviour(
            f"openai:{server.url('/v1')}#m",
            system_prompt="be kind",
            key_variable="A_KEY",
            environ={"A_KEY": "sk-1"},
        )
        assert said(await behaviour(request("hi"))) == "fine"
        await close_behaviour(behaviour)
    assert b"be kind" in server.requests[0]
    assert b"Bearer sk-1" in server.requests[0]


async def test_the_environment_of_the_process_is_the_default(monkeypatch):
    monkeypatch.setenv("A_KEY", "sk-2")
    async with serving(lambda _: reply(COMPLETION)) as server:
        behaviour = load_behaviour(f"openai:{server.url('/v1')}#m", key_variable="A_KEY")
        await behaviour(request("hi"))
        await close_behaviour(behaviour)
    assert b"Bearer sk-2" in server.requests[0]


@pytest.mark.parametrize("spec", ["", "parrot", "Echo"])
def test_anything_else_is_refused_with_what_there_is(spec):
    with pytest.raises(
        ConfigError, match="use echo, actions, module:function, mcp:command#tool or openai:URL#model"
    ):
        load_behaviour(spec)


def test_each_kind_is_loaded_when_it_is_asked_for():
    program = (
        "import sys; from comity.agents.behaviour import load_behaviour\n"
        "load_behaviour('echo')\n"
        "names = ('function', 'mcp_tool', 'openai_endpoint', 'substrate')\n"
        "assert not {f'comity.agents.{name}' for name in names} & set(sys.modules)\n"
        "assert not {'httpcore', 'anyio', 'mcp'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
