"""`comity contacts` as somebody types it, beside a running node and without one."""

import json

import pytest

from comity.contacts.part import contacts_of as contacts_part
from comity.contacts.settings import ContactsSettings
from comity.identity.key_files import create_identity, load_identity
from comity.requests.caller import OWN_PROCESS

ASKS = {"contacts": ContactsSettings(unknown_call="hold")}
ANNA, BEN = "31" * 32, "9d" * 32


@pytest.fixture
def mine(tmp_path):
    """The folder of the owner who is called."""
    return tmp_path / "mine"


@pytest.fixture
def node(neighbourhood, mine):
    return neighbourhood.node(mine, parts=ASKS)


def contacts_of(comity, *home):
    return {each["name"]: each for each in json.loads(comity("contacts", "--json", *home).out)["contacts"]}


def test_a_folder_without_a_node_keeps_contacts_too(comity, data):
    assert comity("contacts").out == "No contacts. Add one: `comity contacts add AGENT --name NAME`\n"
    create_identity(data)
    added = comity("contacts", "add", ANNA, "--name", "Anna")
    assert (added.code, added.out) == (0, f"Anna (vacant:{ANNA[:12]}) is a contact.\n")
    assert comity("contacts", "add", BEN).out == f"caller-{BEN[:8]} (vacant:{BEN[:12]}) is a contact.\n"
    comity("contacts", "rename", BEN, "ben")
    comity("contacts", "limit", "anna", "call=hold", "wake=accept")
    comity("contacts", "block", "ben")
    listed = contacts_of(comity)
    assert list(listed) == ["Anna", "ben"]
    assert listed["Anna"]["rights"]["call"] == "hold"
    assert "accept room, file, see, wake; hold call" in comity("contacts", "list").out
    assert comity("contacts", "remove", "ben").out == f"ben (vacant:{BEN[:12]}) is no contact any more.\n"
    assert comity("contacts", "held").out == "No call waits for you.\n"
    assert list(contacts_of(comity)) == ["Anna"]


def test_a_caller_waits_is_let_in_and_gets_its_reply(comity, node, mine, data):
    first = comity("call", node.url, "hello", "--idempotency-key", "k")
    assert (first.code, first.out) == (3, "")
    assert "waiting: the owner of the agent has to agree first" in first.err
    again = json.loads(comity("call", node.url, "hello", "--idempotency-key", "k", "--json").out)
    assert again == {"waiting": "awaits_consent", "idempotency_key": "k", "retry_after": 30.0}
    caller = load_identity(data).vacant_id
    shown = comity("contacts", "held", "--data", str(mine))
    assert caller.short() in shown.out
    assert "hello" in shown.out
    (held,) = json.loads(comity("contacts", "held", "--json", "--data", str(mine)).out)["held"]
    assert held["sender"] == caller.hex()
    accepted = comity("contacts", "accept", caller.short(), "--name", "anna", "--data", str(mine))
    assert accepted.out == f"anna ({caller}) may call. What waited runs when it asks again.\n"
    answered = comity("call", node.url, "hello", "--idempotency-key", "k")
    assert (answered.code, answered.out) == (0, f"echo from {node.vacant_id.short()}: hello\n")
    assert "message 1 between you" in answered.err


def test_one_call_is_allowed_or_refused_by_its_id(comity, node, mine, data):
    for key in ("first", "second"):
        assert comity("call", node.url, key, "--idempotency-key", key).code == 3
    held = json.loads(comity("contacts", "held", "--json", "--data", str(mine)).out)["held"]
    ids = {each["words"]: each["id"][:12] for each in held}
    at_mine = ("--once", "--data", str(mine))
    assert (
        comity("contacts", "accept", ids["first"], *at_mine).out
        == "The call runs when its caller asks again.\n"
    )
    assert comity("contacts", "refuse", ids["second"], *at_mine).out == "The call is refused.\n"
    assert comity("call", node.url, "first", "--idempotency-key", "first").code == 0
    assert contacts_of(comity, "--data", str(mine)) == {}
    assert comity("call", node.url, "third").code == 3


def test_a_refused_caller_hears_so_and_is_kept_as_a_blocked_contact(comity, node, mine, data):
    assert comity("call", node.url, "hello").code == 3
    caller = load_identity(data).vacant_id
    refused = comity("contacts", "refuse", caller.hex(), "--name", "pest", "--data", str(mine))
    assert refused.out == f"Calls of pest ({caller}) are refused.\n"
    outcome = comity("call", node.url, "hello")
    assert (outcome.code, outcome.out) == (1, "")
    assert "does not accept calls from you" in outcome.err
    assert contacts_of(comity, "--data", str(mine))["pest"]["rights"]["room"] == "refuse"


def test_with_wait_a_call_goes_on_when_the_owner_agrees(comity, node, mine, data, monkeypatch):
    """Each wait lets the owner decide: there is no time in it."""
    create_identity(data)
    caller = load_identity(data).vacant_id
    waits = []

    async def let_in(seconds):
        waits.append(seconds)
        await contacts_part(node.runtime).add("anna", caller.hex(), caller=OWN_PROCESS)

    monkeypatch.setattr("comity.agents.commands.call.pause", let_in)
    outcome = comity("call", node.url, "hello", "--wait")
    assert (outcome.code, waits) == (0, [30.0])


@pytest.mark.parametrize(
    ("words", "sentence", "code"),
    [
        (["add", ANNA, "--name", "an\x1bna"], "U+001B is none of these", 1),
        (["add", ANNA, "--name", "аnna"], "must not mix letters of Cyrillic and Latin", 1),  # noqa: RUF001
        (["add", "nowhere.json"], "is not a contact, a URL, an id or a file", 2),
        (["limit", "anna", "call"], "write it as call=hold", 2),
        (["limit", "anna", "shout=hold"], "shout=hold is no right", 1),
        (["block", "nobody"], "'nobody' is no contact", 1),
        (["accept", "nobody"], "is no contact and no caller who waits", 1),
        (["accept", "abcdef012345", "--once"], "no call 'abcdef012345' waits", 1),
        (["accept", "x", "--once", "--name", "y"], "--once makes no contact", 2),
        (["--json", "list"], "write options after the command", 2),
    ],
)
def test_a_wrong_call_is_one_sentence(comity, data, words, sentence, code):
    create_identity(data)
    comity("contacts", "add", BEN, "--name", "anna")
    outcome = comity("contacts", *words)
    assert (outcome.code, outcome.out) == (code, "")
    assert sentence in outcome.err
