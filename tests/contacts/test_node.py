"""Consent in a real node: the MCP tool, and the card that is public or not."""

from comity.agents.part import Agent
from comity.contacts.part import contacts_of
from comity.contacts.service import OUTSIDE
from comity.contacts.settings import ContactsSettings
from comity.directory.client import DirectoryClient
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.envelopes.tools import call
from comity.http.client import GuardedHttp
from comity.identity.key_files import load_identity
from comity.requests.caller import MODEL, OWN_PROCESS
from comity.runtime.settings import AgentSettings
from comity.runtime.system_clock import SystemClock
from comity.testing.nodes import running_node
from tests.envelopes.peers import Caller

ECHO = AgentSettings(behaviour="echo")


async def _vacant_call(node, envelope):
    vacant = node.runtime.find(Agent).resident
    return await call(
        vacant.form, vacant.handler, vacant.pipeline, {"envelope": to_a2a_jsonrpc(envelope)}, MODEL
    )


async def test_the_tool_vacant_call_answers_with_an_error_until_the_owner_agrees():
    async with running_node(agent=ECHO, parts={"contacts": ContactsSettings(unknown_call="hold")}) as node:
        caller = Caller(to_vid=node.vacant_id)
        envelope = caller.next()
        assert await _vacant_call(node, envelope) == {"error": "waiting for the owner's consent"}
        contacts = contacts_of(node.runtime)
        await contacts.add("anna", caller.key.vacant_id.hex(), caller=OWN_PROCESS)
        assert "message" in await _vacant_call(node, envelope)
        await contacts.block("anna", caller=OWN_PROCESS)
        assert await _vacant_call(node, envelope) == {"error": "the owner does not accept calls from you"}


async def _show(node, data, visibility):
    http = GuardedHttp(allow_loopback=True)
    directory = DirectoryClient(http, node.url, clock=SystemClock(), key=load_identity(data))
    card = node.runtime.find(Agent).resident.form.capability_card
    await directory.publish(card, visibility=visibility)
    await http.aclose()


async def test_strangers_of_the_outside_door_wait_unless_the_card_of_the_agent_is_public(tmp_path):
    data, stranger = tmp_path / "data", "31" * 32
    for visibility, consent in ((None, "hold"), (Visibility.PUBLIC, "accept"), (Visibility.NONE, "hold")):
        if visibility is not None:
            async with running_node(data, agent=ECHO) as node:
                await _show(node, data, visibility)
        async with running_node(data, agent=ECHO) as node:
            contacts = contacts_of(node.runtime)
            assert contacts.right_of(stranger, "call", OUTSIDE) == consent, visibility
            assert contacts.right_of(stranger, "call") == "accept"
