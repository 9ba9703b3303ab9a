"""A contact that replaces its key: it waits for the owner, and keeps its name, its rights and its history."""

import json

from msgspec.structs import replace

from comity.client.client import Client
from comity.contacts.part import contacts_of
from comity.contacts.settings import ContactsSettings
from comity.identity.key_files import create_identity, load_identity
from comity.requests.caller import OWN_PROCESS
from comity.runtime.settings import AgentSettings
from tests.node.test_successions import hand_over, key_of

ASKS = {"contacts": ContactsSettings(unknown_call="hold")}


def _call(neighbourhood, data, node):
    async def call():
        async with Client(data=data) as client:
            return await client.call(node.url, "hello", idempotency_key="one call")

    return neighbourhood.run(call())


def test_a_contact_with_a_new_key_waits_until_the_owner_follows_it(comity, neighbourhood, tmp_path):
    mine, hers = tmp_path / "mine", tmp_path / "hers"
    node = neighbourhood.node(mine, parts=ASKS)
    old = create_identity(hers)
    contacts = contacts_of(node.runtime)
    anna = neighbourhood.run(contacts.add("anna", old.vacant_id.hex(), caller=OWN_PROCESS, how="invite"))
    assert comity("call", node.url, "hello", "--data", str(hers)).code == 0
    new = hand_over(hers, "new")
    assert comity("call", node.url, "again", "--data", str(hers), "--idempotency-key", "k").code == 3
    assert contacts.find("anna").id == old.vacant_id.hex()
    (line,) = json.loads(comity("id", "follow", "--json", "--data", str(mine)).out)["lines"]
    assert (line["old"], line["state"], line["current"]) == (
        old.vacant_id.hex(),
        "waits",
        old.vacant_id.hex(),
    )
    followed = comity("id", "follow", "anna", "--yes", "--data", str(mine))
    assert followed.out.endswith("Your contact anna has that id now.\n")
    moved = contacts.find("anna")
    assert moved == replace(anna, id=new.vacant_id.hex(), last=moved.last)
    assert contacts.find(old.vacant_id.hex()) is None
    assert comity("call", node.url, "again", "--data", str(hers), "--idempotency-key", "k").code == 0


def test_a_contact_that_never_called_is_known_by_its_former_key_too(comity, neighbourhood, tmp_path):
    mine, hers = tmp_path / "mine", tmp_path / "hers"
    node = neighbourhood.node(hers, agent=AgentSettings(behaviour="echo"))
    create_identity(mine)
    assert comity("contacts", "add", node.url, "--name", "anna", "--data", str(mine)).code == 0
    old = node.vacant_id
    neighbourhood.leave()
    new = hand_over(hers, "new").vacant_id
    again = neighbourhood.node(hers, agent=AgentSettings(behaviour="echo"))
    refused = comity("call", "anna", "hello", "--data", str(mine))
    assert (refused.code, refused.out) == (1, "")
    assert comity("call", again.url, "hello", "--data", str(mine)).code == 0
    waits = json.loads(comity("id", "follow", "--json", "--data", str(mine)).out)["lines"]
    assert [(each["old"], each["state"]) for each in waits] == [(old.hex(), "waits")]
    assert comity("id", "follow", "anna", "--yes", "--data", str(mine)).code == 0
    (anna,) = json.loads(comity("contacts", "--json", "--data", str(mine)).out)["contacts"]
    assert (anna["name"], anna["id"]) == ("anna", new.hex())


def test_a_line_that_a_held_caller_did_not_sign_is_not_believed(comity, neighbourhood, tmp_path):
    mine, hers = tmp_path / "mine", tmp_path / "hers"
    node = neighbourhood.node(mine, parts=ASKS)
    neighbourhood.run(
        contacts_of(node.runtime).add("anna", key_of("anna").vacant_id.hex(), caller=OWN_PROCESS)
    )
    create_identity(hers)
    assert comity("call", node.url, "hello", "--data", str(hers)).code == 3
    assert json.loads(comity("id", "follow", "--json", "--data", str(mine)).out)["lines"] == []
    assert load_identity(hers).vacant_id.hex() not in {each.id for each in contacts_of(node.runtime).all()}
