"""Known answers of the actions: the recorded wire, the recorded properties of each action, their schemas."""

import base64
import functools
import json

import pytest

from comity.actions.library import built_in, registry_of
from comity.testing.vectors import format_runner, known_keys, vector_file
from tests.actions.protocol.driving import Served


@functools.cache
def served(mode):
    return Served(mode)


def reply_to(mode, action, given):
    request = {"id": "v", "type": "invoke", "payload": {"action": action, "input": given}}
    (line,) = served(mode).send(json.dumps(request).encode()).splitlines()
    reply = json.loads(line)
    assert reply.pop("id") == "v"
    return reply


@format_runner("actions", "ndjson_protocol")
def test_vector_actions_ndjson_protocol_is_answered_byte_for_byte(case):
    known_keys(case, "name", "send_b64", "send_text", "recv", "recv_text", "exit_code")
    sent = base64.b64decode(case["send_b64"])
    assert sent.decode() == case["send_text"]
    assert Served("strict").send(sent).decode() == "".join(f"{line}\n" for line in case["recv_text"])
    assert case["exit_code"] == 0


@format_runner("actions", "actions_v01_properties")
def test_vector_actions_v01_properties_hold_in_strict(case):
    judge_properties(case, "strict")


@format_runner("actions", "actions_v108_properties")
def test_vector_actions_v108_properties_hold_in_compat(case):
    judge_properties(case, "compat")


def judge_properties(case, mode):
    known_keys(case, "action", "input", "expect")
    expect = case["expect"]
    reply = reply_to(mode, case["action"], case["input"])
    if not expect["ok"]:
        known_keys(expect, "ok", "error")
        assert reply == {"ok": False, "error": expect["error"]}
        return
    known = ("ok", "uncertainty", "boundaryNotice", "assumptions_count", "output_keys", "lengths", "scalars")
    known_keys(expect, *known)
    assert reply["ok"], reply
    data = reply["data"]
    assert list(data) == ["action", "boundaryNotice", "uncertainty", "assumptions", "output"]
    assert data["action"] == case["action"]
    output = data["output"]
    found = {
        "uncertainty": data["uncertainty"],
        "boundaryNotice": data["boundaryNotice"],
        "assumptions_count": len(data["assumptions"]),
        "output_keys": list(output),
        "lengths": {name: len(output.get(name, ())) for name in expect["lengths"]},
        "scalars": {name: output.get(name) for name in expect["scalars"]},
    }
    assert found == {name: expect[name] for name in known if name != "ok"}


def _schemas(content):
    for version, files in content.items():
        for name, schema in files.items():
            yield f"{version}/{name}", (version, name, schema)


@format_runner("actions", "schemas", cases=_schemas)
def test_vector_actions_schemas_are_those_of_the_contracts(case):
    version, file, schema = case
    mode = {"v0.1": "strict", "v1.0.8": "compat"}[version]
    skill, direction, ending = file.split(".")
    assert ending == "json"
    names = registry_of(mode).listed
    (contract,) = (c for name in names if (c := built_in(name).contracts[mode]).skill == skill)
    if direction == "input":
        recorded = {key: value for key, value in schema.items() if key != "allOf"}  # never applied (1.4)
        assert without_words(contract.input_schema) == without_words(recorded)
        assert list(contract.input_schema["properties"]) == list(schema["properties"])
        return
    # the recorded output schemas leave out what the server says; ours may promise more, never less
    ours, theirs = without_words(contract.output_schema), without_words(schema)
    assert set(theirs.get("required", ())) <= set(ours.get("required", ()))
    shared = ours["properties"].keys() & theirs.get("properties", {}).keys()
    assert {name: ours["properties"][name] for name in shared} == {
        name: theirs["properties"][name] for name in shared
    }


def without_words(schema):
    """A schema without its address and its prose."""
    if isinstance(schema, dict):
        kept = {key: without_words(value) for key, value in schema.items() if key not in {"$id", "$schema"}}
        return {key: value for key, value in kept.items() if key != "description" or isinstance(value, dict)}
    if isinstance(schema, list | tuple):
        return [without_words(item) for item in schema]
    return schema


def _scenarios(content):
    known_keys(content, "structured", "prompt_only")
    for kind, scenarios in content.items():
        for scenario in scenarios:
            yield f"{kind}-{scenario['id']}", scenario


@format_runner("actions", "scenarios", cases=_scenarios)
def test_vector_actions_scenarios_are_answered(case):
    known_keys(case, "skill", "action", "id", "title", "input", "expected", "reference_result", "prompt")
    given = case.get("input")
    if given is None:
        given = input_of(case["action"], case["prompt"])
    reply = reply_to("compat", case["action"], given)
    assert reply["ok"] in {True, False}
    assert ("data" in reply) == reply["ok"]
    assert set(case.get("expected", ())) <= set(PREDICATES), "a predicate that this runner cannot state"


def test_vector_actions_scenarios_are_met_at_a_rate_that_is_told(record_property):
    results = {}
    for scenario in vector_file("actions", "scenarios")["structured"]:
        reply = reply_to("compat", scenario["action"], scenario["input"])
        results[scenario["id"]] = all(
            PREDICATES[name](reply, expected) for name, expected in scenario["expected"].items()
        )
    missed = sorted(name for name, met in results.items() if not met)
    met = len(results) - len(missed)
    record_property("scenarios", f"{met}/{len(results)}")
    print(f"scenarios met: {met} of {len(results)}; missed: {', '.join(missed) or 'none'}")
    assert results


def input_of(action, prompt):
    """A prompt as the first text that the action needs, the other fields with their first choice."""
    schema = built_in(action).contracts["compat"].input_schema
    given = {}
    for name in schema.get("required") or ["pages"]:
        rule = schema["properties"][name]
        if "enum" in rule:
            given[name] = rule["enum"][0]
        elif rule["type"] == "array":
            given[name] = [{"url": "https://example.com/", "html": prompt}]
        else:
            given[name] = prompt
    return given


def _output(reply):
    return reply.get("data", {}).get("output", {})


def _count(field):
    return lambda reply, expected: len(_output(reply).get(field, ())) == expected


def _count_gte(field):
    return lambda reply, expected: len(_output(reply).get(field, ())) >= expected


def _contains(field):
    return lambda reply, expected: (
        expected.lower() in json.dumps(_output(reply).get(field, ""), ensure_ascii=False).lower()
    )


def _ranking(reply):
    return _output(reply).get("ranking", [])


PREDICATES = {
    "ok": lambda reply, expected: reply["ok"] is expected,
    "error_contains": lambda reply, expected: expected in reply.get("error", ""),
    "has_ranking": lambda reply, expected: bool(_ranking(reply)) is expected,
    "ranking_length": _count("ranking"),
    "site_aggregate_range": lambda reply, expected: (
        expected[0] <= _output(reply).get("site_aggregate", -1) <= expected[1]
    ),
    "page3_highest": lambda reply, expected: (_ranking(reply)[0]["url"].endswith("page3")) is expected,
    "heuristic": lambda reply, expected: _ranking(reply)[0].get("heuristic") is expected,
    "checklist_sorted": lambda reply, expected: _is_sorted(_output(reply)["checklist"]) is expected,
    "recommendations_count_gte": _count_gte("recommendations"),
    "findings_count_gte": _count_gte("findings"),
    "plan_steps_count": _count("plan"),
    "risk_notes_count_gte": _count_gte("risk_notes"),
    "adapted_message_contains": _contains("adapted_message"),
    "notes_contains": lambda reply, expected: all(
        _contains("notes")(reply, word.strip()) for word in expected.split(",")
    ),
    "escalation_guidance_count": _count("escalation_guidance"),
}


def _is_sorted(checklist):
    order = ["perceivable", "operable", "understandable", "robust"]
    keys = [(order.index(item["principle"].lower()), item["id"]) for item in checklist]
    return keys == sorted(keys)


@pytest.mark.parametrize("mode", ["strict", "compat", "enhanced"])
def test_the_recorded_crash_is_an_answer(mode):
    reply = reply_to(mode, "neurodiversity_design_check", {"ui_description": "x", "focus": [1, 2]})
    assert reply["ok"] in {True, False}
    assert reply.get("error") != "Internal error"
