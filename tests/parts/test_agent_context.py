"""A node's agent is given what its caller told in a VCP session, and nothing of anybody else."""

import pytest

import comity
from comity.clients.vcp import VcpClient
from comity.config import AgentSettings
from comity.core.identity.signed_token import issue_a
from comity.keys.identity import load_identity
from comity.testing import running_node
from tests.doors.vcp.extension_scene import PAIN, PERSONAL

pytestmark = pytest.mark.usefixtures("patience")

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
