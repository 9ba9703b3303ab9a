import pytest
from msgspec import UNSET

from comity.actions.protocol.machine import describe_issues, envelope_issues, invoke_issues, refusal, rules_of

STRICT = rules_of("strict")
EXPECTED = "'list_actions' | 'invoke'"


def wrong(expected, received, *path):
    said = "Required" if received == "undefined" else f"Expected {expected}, received {received}"
    return {
        "code": "invalid_type",
        "expected": expected,
        "received": received,
        "path": list(path),
        "message": said,
    }


KINDS = [([], "array"), (None, "null"), (1, "number"), (1.5, "number"), ("s", "string"), (True, "boolean")]


@pytest.mark.parametrize(("value", "received"), KINDS)
def test_an_envelope_is_an_object(value, received):
    (issue,) = envelope_issues(value, STRICT)
    assert list(issue.items()) == list(wrong("object", received).items())


@pytest.mark.parametrize(
    ("value", "received"), [kind for kind in KINDS if kind[1] != "string"] + [({}, "object")]
)
def test_an_id_is_a_string(value, received):
    (issue,) = envelope_issues({"id": value, "type": "invoke"}, STRICT)
    assert list(issue.items()) == list(wrong("string", received, "id").items())


@pytest.mark.parametrize(
    ("value", "received"), [(5, "number"), (None, "null"), ({}, "object"), (True, "boolean")]
)
def test_a_type_that_is_no_string_keeps_the_recorded_order_of_keys(value, received):
    (issue,) = envelope_issues({"type": value}, STRICT)
    assert list(issue.items()) == [
        ("expected", EXPECTED),
        ("received", received),
        ("code", "invalid_type"),
        ("path", ["type"]),
        ("message", f"Expected {EXPECTED}, received {received}"),
    ]


def test_the_id_is_named_before_the_type():
    assert [issue["path"] for issue in envelope_issues({"type": "foo", "id": 1}, STRICT)] == [
        ["id"],
        ["type"],
    ]


def test_enhanced_knows_one_type_more():
    (issue,) = envelope_issues({"type": "foo"}, rules_of("enhanced"))
    assert issue["options"] == ["list_actions", "invoke", "describe_action"]
    assert issue["message"].startswith(f"Invalid enum value. Expected {EXPECTED} | 'describe_action'")
    assert rules_of("compat") == STRICT


def test_a_payload_tells_the_action_before_the_input():
    assert invoke_issues({"action": 1, "input": []}) == [
        wrong("string", "number", "action"),
        wrong("object", "array", "input"),
    ]
    assert invoke_issues(UNSET) == [wrong("object", "undefined")]
    assert invoke_issues("x") == [wrong("object", "string")]
    assert invoke_issues({"action": "a", "input": None}) == [wrong("object", "null", "input")]
    assert invoke_issues({"action": "a", "input": {}, "more": 1}) == []


def test_an_empty_action_is_too_small_and_the_input_is_named_too():
    empty, missing = invoke_issues({"action": ""})
    assert list(empty) == ["code", "minimum", "type", "inclusive", "exact", "message", "path"]
    assert missing["path"] == ["input"]
    assert describe_issues({"action": ""}) == [empty]


def test_a_refusal_has_its_keys_in_order():
    assert list(refusal("no", [{"code": "x"}], id_="")) == ["id", "ok", "error", "issues"]
    assert refusal("no") == {"ok": False, "error": "no"}
