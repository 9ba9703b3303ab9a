"""A name stands wherever an id does."""

import json

import pytest
from msgspec.structs import replace

from comity.agents.calling import AgentCall, AgentSearch
from comity.agents.part import Calling
from comity.contacts.part import contacts_of
from comity.contacts.service import Contacts
from comity.identity.key_files import create_identity
from comity.outside.part import OutsideSettings
from comity.requests.caller import OWN_PROCESS
from comity.requests.handler import Request
from comity.runtime.settings import AgentSettings
from comity.testing.nodes import running_node
from comity.wire.errors import ComityError, NotFoundError
from tests.agents.commands.test_call import publish
from tests.callers import visitor
from tests.node.commands.neighbourhood import SEND
from tests.ports import unused_port

ECHO = AgentSettings(behaviour="echo")


@pytest.fixture
def node(neighbourhood, tmp_path):
    return neighbourhood.node(tmp_path / "there")


@pytest.fixture
def anna(comity, node, data):
    """The contact of that name: the node at its address."""
    create_identity(data)
    assert comity("contacts", "add", node.url, "--name", "Anna").code == 0
    return node


def test_a_contact_is_called_at_its_own_address_without_a_directory(comity, anna):
    outcome = comity("call", "anna", "hello")
    assert outcome.out == f"echo from {anna.vacant_id.short()}: hello\n"
    assert outcome.err.startswith(f"answered by Anna ({anna.vacant_id}), message 1 between you")
    by_id = json.loads(comity("call", anna.vacant_id.hex(), "hello", "--json").out)
    assert (by_id["contact"], by_id["request_seq"]) == ("Anna", 2)


def test_an_id_alone_is_a_contact_that_needs_a_directory_to_be_called(comity, data):
    create_identity(data)
    comity("contacts", "add", "31" * 32, "--name", "anna")
    outcome = comity("call", "anna", "hello")
    assert (outcome.code, outcome.out) == (2, "")
    assert "no directory is known" in outcome.err


def test_a_name_leads_to_the_chain_the_receipt_and_the_review(comity, anna, tmp_path):
    assert comity("call", "anna", "hello").code == 0
    shown = json.loads(comity("chain", "show", "ANNA", "--json").out)["peers"]
    assert [each["vacant_id"] for each in shown] == [anna.vacant_id.hex()]
    assert comity("chain", "verify", "anna").code == 0
    assert comity("receipt", "call", "anna", "--out", str(tmp_path / "call.json")).code == 0
    assert comity("verify", str(tmp_path / "call.json")).code == 0
    assert json.loads(comity("review", "anna", "good", "--json").out)["agent"] == anna.vacant_id.hex()


def test_a_vote_takes_names_of_parties(comity, anna):
    asked = json.loads(comity("vote", "ask", "Shall we?", "--with", "anna", "--json").out)
    shown = json.loads(comity("vote", "result", asked["delib_id"], "--json").out)
    assert anna.vacant_id.hex() in json.dumps(asked) + json.dumps(shown)
    unknown = comity("vote", "ask", "Shall we?", "--with", "nobody")
    assert "'nobody' is not a party" in unknown.err


async def _asked(node, caller, body):
    handler = node.runtime.find(Calling).agents
    return await node.pipeline.run(handler, Request(door="mcp", caller=caller, body=body))


async def test_a_contact_that_another_process_added_is_known_at_once():
    async with running_node(agent=ECHO) as there, running_node() as mine:
        runtime = mine.runtime
        another = Contacts(runtime.store, runtime.record, runtime.clock, own=runtime.vacant_id)
        await another.add("anna", there.vacant_id.hex(), caller=OWN_PROCESS, addresses=[there.url])
        reply = await _asked(mine, OWN_PROCESS, AgentCall(agent="anna", message="hello"))
        assert (reply.agent, reply.name) == (there.vacant_id.hex(), "anna")


async def test_another_agent_at_the_address_of_a_contact_is_not_called():
    async with running_node(agent=ECHO) as there, running_node() as mine:
        await contacts_of(mine.runtime).add("anna", "31" * 32, caller=OWN_PROCESS, addresses=[there.url])
        with pytest.raises(ComityError, match="answers there now; it was not called"):
            await _asked(mine, OWN_PROCESS, AgentCall(agent="anna", message="hello"))


async def test_a_model_calls_a_contact_by_name_and_a_visitor_learns_no_names():
    async with running_node(agent=ECHO) as there, running_node() as mine:
        anna = there.vacant_id.hex()
        await contacts_of(mine.runtime).add("anna", anna, caller=OWN_PROCESS, addresses=[there.url])
        reply = await _asked(mine, OWN_PROCESS, AgentCall(agent="Anna", message="hello"))
        assert (reply.agent, reply.name, reply.number) == (anna, "anna", 1)
        by_id = await _asked(mine, OWN_PROCESS, AgentCall(agent=anna, message="again"))
        assert (by_id.name, by_id.number) == ("anna", 2)
        eve = replace(visitor("eve"), scopes=("mcp", "agents"))
        with pytest.raises(NotFoundError, match="offers 'anna'"):
            await _asked(mine, eve, AgentCall(agent="anna", message="hello"))
        with pytest.raises(ComityError, match="no card of"):
            await _asked(mine, eve, AgentCall(agent=anna, message="hello"))


def test_a_found_agent_is_shown_with_its_name_to_the_owner_alone(neighbourhood, comity, anna, data, tmp_path):
    publish(neighbourhood, tmp_path / "there", anna.url + SEND, anna)
    mine = neighbourhood.node(data, agent=AgentSettings())

    async def names(caller):
        found = await _asked(mine, caller, AgentSearch(capability="", directory=anna.url, limit=5))
        return [getattr(each, "name", None) for each in found.agents]

    assert neighbourhood.run(names(OWN_PROCESS)) == ["Anna"]


def test_a_contact_keeps_the_address_with_the_pin_under_which_it_was_found(
    comity, neighbourhood, data, tmp_path
):
    create_identity(data)
    there = tmp_path / "there"
    node = neighbourhood.node(
        there, parts={"outside": OutsideSettings(listen="127.0.0.1", port=unused_port())}
    )
    opened = comity("outside", "on", "--data", str(there))
    pinned = next(word for word in opened.out.split() if word.startswith("https://") and "@" in word)
    assert comity("contacts", "add", pinned, "--name", "anna").code == 0
    (anna,) = json.loads(comity("contacts", "--json").out)["contacts"]
    assert anna["addresses"][0] == pinned
    held = comity("call", "anna", "hello", "--idempotency-key", "k")
    assert held.code == 3, held.err  # it came through the outside door, and the card is not public
    caller = json.loads(comity("contacts", "held", "--json", "--data", str(there)).out)["held"][0]
    assert caller["listener"] == "outside"
    assert comity("contacts", "accept", caller["sender"], "--data", str(there)).code == 0
    outcome = comity("call", "anna", "hello", "--idempotency-key", "k")
    assert outcome.out == f"echo from {node.vacant_id.short()}: hello\n"
