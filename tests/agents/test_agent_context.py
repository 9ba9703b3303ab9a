"""A node's agent is given what its caller told in a VCP session, and nothing of anybody else."""

import json
import shlex
import sys
from contextlib import asynccontextmanager

import pytest

import comity
from comity.identity.key_files import load_identity
from comity.identity.protocol.tokens import issue_a
from comity.runtime.settings import AgentSettings
from comity.testing import running_node
from comity.vcp.client import VcpClient
from tests.http.local_server import reply, serving
from tests.places import file_of
from tests.vcp.extension_scene import PAIN, PERSONAL

MODULE = """
def handle(text, context):
    if context is None:
        return "nobody"
    safe, wishes = context.model_safe_context, context.generation_preferences
    return f"{safe.protection_level} {wishes.depth}"
"""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    (tmp_path / "gentle_agent.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return AgentSettings(behaviour="gentle_agent:handle")


def token_for(node, subject):
    key = load_identity(node.settings.data)
    return issue_a(key, issuer=node.vacant_id.hex(), kind="agent", subject=subject)


@pytest.mark.usefixtures("patience")
async def test_the_agent_hears_of_its_caller_while_the_caller_has_a_session(agent, tmp_path):
    async with running_node(agent=agent) as node, comity.Client(data=tmp_path / "mine") as client:
        assert (await client.call(node.url, "hi")).text == "nobody"
        mine, forged = (
            token_for(node, client.vacant_id.hex()),
            token_for(node, client.vacant_id.hex())[:-4] + "AAAA",
        )
        async with (
            VcpClient.connect(node.url, extensions=[PERSONAL], identity=token_for(node, "somebody")) as other,
            VcpClient.connect(node.url, extensions=[PERSONAL], identity=forged) as liar,
        ):
            for session in (other, liar):
                await session.send_context({"personal": PAIN})
            assert (await client.call(node.url, "hi")).text == "nobody"
        async with VcpClient.connect(node.url, extensions=[PERSONAL], identity=mine) as session:
            assert (await client.call(node.url, "hi")).text == "standard None"
            await session.send_context({"personal": PAIN, "generation_preferences": {"depth": 2}})
            assert (await client.call(node.url, "hi")).text == "high 2"
        assert (await client.call(node.url, "hi")).text == "nobody"


CARE = {"personal": PAIN, "generation_preferences": {"depth": 2}}
TOOLS = file_of("tests.agents.mcp_server")


@asynccontextmanager
async def caller_in_need(node, data):
    """A client that has told the node of itself in a session of its own."""
    async with comity.Client(data=data) as client:
        mine = token_for(node, client.vacant_id.hex())
        async with VcpClient.connect(node.url, extensions=[PERSONAL], identity=mine) as session:
            await session.send_context(CARE)
            yield client


class TestAnMcpTool:
    async def test_is_given_what_it_has_arguments_for(self, tmp_path):
        pytest.importorskip("mcp.client", reason="the extra `mcp` is not installed")
        command = shlex.join([sys.executable, str(TOOLS)])
        async with running_node(agent=AgentSettings(behaviour=f"mcp:{command}#gentle")) as node:
            async with caller_in_need(node, tmp_path / "mine") as client:
                assert (await client.call(node.url, "hi")).text == "high 2: hi"
            async with comity.Client(data=tmp_path / "stranger") as stranger:
                assert (await stranger.call(node.url, "hi")).text == "None None: hi"

    async def test_that_has_no_such_arguments_is_given_none(self, tmp_path):
        pytest.importorskip("mcp.client", reason="the extra `mcp` is not installed")
        command = shlex.join([sys.executable, "-m", "comity", "mcp", "--data", str(tmp_path / "tools")])
        behaviour = f"mcp:{command}#vcp_parse_csm1"  # it refuses arguments that it does not know
        async with (
            running_node(agent=AgentSettings(behaviour=behaviour)) as node,
            caller_in_need(node, tmp_path / "mine") as client,
        ):
            assert '"persona_name":"nanny"' in (await client.call(node.url, "N5+E+F")).text


@pytest.mark.usefixtures("patience")
class TestAModelBehindAnEndpoint:
    COMPLETION = json.dumps({"choices": [{"message": {"content": "fine"}}]}).encode()
    BLOCK = """[VCP Context — v3.1]
Protection level: high
Depth: 2/5, from brief to detailed
[End VCP Context]"""

    @pytest.mark.parametrize(
        ("asks", "prompt", "shown"),
        [(True, "Be kind.", f"{BLOCK}\n\nBe kind."), (True, "", BLOCK), (False, "Be kind.", "Be kind.")],
    )
    async def test_is_told_before_its_system_prompt_where_the_owner_has_set_it(
        self, tmp_path, asks, prompt, shown
    ):
        async with serving(lambda _: reply(self.COMPLETION, "200 OK")) as model:
            agent = AgentSettings(
                behaviour=f"openai:{model.url('/v1')}#tiny", system_prompt=prompt, tell_context=asks
            )
            async with running_node(agent=agent) as node:
                async with caller_in_need(node, tmp_path / "mine") as client:
                    assert (await client.call(node.url, "hi")).text == "fine"
                async with comity.Client(data=tmp_path / "stranger") as stranger:
                    await stranger.call(node.url, "hi")
            bodies = [json.loads(sent.partition(b"\r\n\r\n")[2]) for sent in model.requests]
        [[system, _], *rest] = [body["messages"] for body in bodies]
        assert system == {"role": "system", "content": shown}
        assert [message["content"] for message in rest[0]] == ([prompt] if prompt else []) + ["hi"]
