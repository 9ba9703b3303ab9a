"""The real skills behind the machine: whatever stands where in an input, there is one valid line."""

import json

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from comity.actions.library import built_in, registry_of
from comity.actions.protocol.action import plain
from comity.actions.protocol.calls import NAMES, contract_of
from tests.actions.protocol.driving import Served

TEXT = st.text(st.characters(codec=None), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MODES = ("strict", "compat", "enhanced")
UNUSUAL = [
    "",
    " ",
    "\x00",
    "\ud800",
    "a" * 5000,
    "\U0001d54a" * 50,
    "\u202e",
    "<" * 200,
    "{",
    "%s",
    "$&",
    "\\",
    "1e309",
]


@pytest.fixture(scope="module")
def served():
    return {mode: Served(mode) for mode in MODES}


def reply_to(server, name, given):
    request = {"id": "h", "type": "invoke", "payload": {"action": name, "input": given}}
    said = server.send(json.dumps(request).encode())
    assert said.endswith(b"\n")
    assert said.count(b"\n") == 1
    reply = json.loads(said)
    assert reply["id"] == "h"
    assert reply["ok"] is ("data" in reply)
    assert reply.get("error") != "Internal error"
    return reply


def good(name, mode):
    """An input that the contract accepts, with everything that may be there."""
    schema = contract_of(built_in(name), mode).input_schema
    return {field: _value(rule) for field, rule in schema["properties"].items()}


def _value(rule):
    if "enum" in rule:
        return rule["enum"][0]
    if rule.get("type") == "array":
        return [_value(rule.get("items", {}))]
    if rule.get("type") == "object":
        return {field: _value(inner) for field, inner in rule.get("properties", {}).items()}
    return "You must act now. We cannot refund you."


@pytest.mark.parametrize("name", NAMES)
def test_a_good_input_is_answered_in_every_mode(name, served):
    for mode in MODES:
        if registry_of(mode).entry(name) is not None:
            reply = reply_to(served[mode], name, good(name, mode))
            assert reply["ok"], (mode, reply)


@pytest.mark.parametrize("name", NAMES)
def test_an_enhanced_answer_keeps_the_schema_of_its_contract(name, served):
    schema = plain(contract_of(built_in(name), "enhanced").output_schema)
    given = good(name, "enhanced")
    for text in ("I want to end my life.", "Hey guys, see you on 03/04/2026!", given):
        changed = text if isinstance(text, dict) else {**given, **_texts(name, text)}
        reply = reply_to(served["enhanced"], name, changed)
        jsonschema.validate(reply["data"]["output"], schema)
        assert reply["data"]["assumptions"]


def _texts(name, text):
    """The fields that the contract leaves free, with another text in them."""
    properties = contract_of(built_in(name), "enhanced").input_schema["properties"]
    return {
        field: text for field, rule in properties.items() if rule == {"type": "string"} and field != "url"
    }


@pytest.mark.parametrize("name", NAMES)
def test_any_value_in_any_field_gives_one_valid_line(name, served):

    @given(mode=st.sampled_from(MODES), data=st.data(), value=JSON | st.sampled_from(UNUSUAL))
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    def judge(mode, data, value):
        given = good(name, mode)
        field = data.draw(st.sampled_from([*given, "unknown"]))
        reply_to(served[mode], name, {**given, field: value})
        reply_to(served[mode], name, {field: value})

    judge()


@pytest.mark.parametrize("name", NAMES)
def test_any_item_of_a_list_gives_one_valid_line(name, served):
    lists = [field for field, value in good(name, "strict").items() if isinstance(value, list)]
    for field in lists:
        for item in (1, None, [], {}, {"url": "u"}, {"url": 1, "html": 2}, "x", True, [[[]]]):
            for mode in MODES:
                if registry_of(mode).entry(name) is not None:
                    reply_to(served[mode], name, {**good(name, mode), field: [item]})
                    reply_to(served[mode], name, {**good(name, mode), field: [item, "x", item]})
