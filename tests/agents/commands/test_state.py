"""`comity state`, with a node that serves the agent, one that serves none, and no node at all."""

import json

import pytest

from comity.runtime.settings import AgentSettings, StoreSettings
from comity.store.claim import FolderClaim
from tests.node.commands.neighbourhood import ECHO


def json_of(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


@pytest.mark.parametrize("agent", [None, ECHO, AgentSettings()], ids=["no node", "served", "not served"])
def test_a_state_that_is_set_is_shown_and_stays(comity, neighbourhood, data, identity, agent):
    url = None if agent is None else neighbourhood.node(data, agent).url
    vacant_id = identity.vacant_id.hex()
    shown = {"vacant_id": vacant_id, "state": "LOCAL", "node": url}
    assert json_of(comity("state", "show", "--json")) == shown
    result = json_of(comity("state", "set", "hibernating", "--json"))
    assert result == {"state": "HIBERNATING", "former": "LOCAL", "node": url}
    assert json_of(comity("state", "show", "--json")) == {**shown, "state": "HIBERNATING"}
    assert (
        comity("state", "set", "active").out
        == "HIBERNATING → ACTIVE: accepts calls; directories show its card if it is published\n"
    )
    assert (
        comity("state", "set", "ACTIVE").out
        == "ACTIVE, unchanged: accepts calls; directories show its card if it is published\n"
    )
    assert "state  ACTIVE\n" in comity("state", "show").out
    assert comity("audit", "verify").code == 0


def test_a_state_set_without_a_node_is_what_the_node_starts_with(comity, neighbourhood, data, identity):
    comity("state", "set", "sunk")
    neighbourhood.node(data)
    assert json_of(comity("state", "show", "--json"))["state"] == "SUNK"
    assert "STATE_SET" in comity("audit", "tail", "--chain", "cli").out


def test_archiving_asks_first(comity, identity):
    outcome = comity("state", "set", "archived")
    assert (outcome.code, "--yes" in outcome.err) == (2, True)
    assert json_of(comity("state", "show", "--json"))["state"] == "LOCAL"


@pytest.mark.parametrize("served", [True, False])
def test_nothing_leads_out_of_archived(comity, neighbourhood, data, identity, served):
    if served:
        neighbourhood.node(data)
    comity("state", "set", "archived", "--yes")
    outcome = comity("state", "set", "active")
    assert (outcome.code, outcome.out) == (1, "")
    assert "ARCHIVED, and that state is final" in outcome.err
    assert json_of(comity("state", "show", "--json"))["state"] == "ARCHIVED"


def test_a_node_that_is_just_starting_is_not_overtaken(comity, data, identity):
    claim = FolderClaim(data)
    outcome = comity("state", "set", "sunk")
    claim.release()
    assert outcome.code == 1
    assert "a node is already running" in outcome.err
    assert json_of(comity("state", "show", "--json"))["state"] == "LOCAL"
    assert comity("state", "set", "sunk").code == 0


def test_only_a_running_node_knows_what_is_kept_in_memory(comity, neighbourhood, data, identity, monkeypatch):
    monkeypatch.setenv("COMITY_STORE_ENGINE", "memory")
    for command in (["show"], ["set", "sunk"]):
        outcome = comity("state", *command)
        assert (outcome.code, outcome.out) == (2, "")
        assert "store.engine memory keeps nothing on disk" in outcome.err
    neighbourhood.node(data, store=StoreSettings(engine="memory"))
    assert json_of(comity("state", "set", "sunk", "--json"))["former"] == "LOCAL"
    assert json_of(comity("state", "show", "--json"))["state"] == "SUNK"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["set", "asleep"], 2, "STATE must be one of LOCAL, ACTIVE, HIBERNATING, STALE, SUNK, ARCHIVED"),
        (["set"], 2, "missing argument 'STATE'"),
        (["set", "sunk"], 1, "there is no identity in"),
        (["show"], 1, "make one with `comity id new`"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_makes_nothing(comity, data, arguments, code, words):
    outcome = comity("state", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert words in outcome.err
    assert not data.exists()
