"""The sentences about an input that breaks its contract (actions 1.4), for every field and kind of value.

The tables are those of the contract sheet; what is due is worked out from them and not from the schemas in the code.
"""

import functools
import json

from tests.actions.protocol.driving import Served

RISK = ("low", "medium", "high")
GRIEF = ("presence", "practical", "reflection")
LEVELS = ("A", "AA", "AAA")
# action: its fields in the order of the schema; "!" marks what is required, a tuple its choices
STRICT = {
    "wcagaaa_check": {"target!": "string", "level!": LEVELS, "context": "string"},
    "rewrite_depression_sensitive_content": {
        "text!": "string",
        "mode": ("audit", "rewrite"),
        "domain": "string",
    },
    "supportive_reply": {"message!": "string", "risk_level!": RISK, "locale": "string"},
    "cognitive_accessibility_audit": {"content!": "string", "target_context": "string"},
    "cultural_context_check": {"message!": "string", "audience!": "string", "region": "string"},
    "deescalation_plan": {"situation!": "string", "intensity": RISK},
    "empathetic_reframe": {"message!": "string", "tone": ("neutral", "warm", "formal")},
    "grief_support_response": {"message!": "string", "support_mode!": GRIEF},
    "neurodiversity_design_check": {"ui_description!": "string", "focus": "array"},
    "age_inclusive_design_check": {"flow_description!": "string", "age_groups": "array"},
}
COMPAT = {
    "accessibility_audit": {
        "mode": ("crawl", "session"),
        "level": LEVELS,
        "url": "string",
        "urls": "array",
        "pages": "objects",
        "locale": "string",
    },
    **{name: STRICT[name] for name in STRICT if name not in {"wcagaaa_check", "grief_support_response"}},
    "supportive_reply": {**STRICT["supportive_reply"], "support_mode": ("general", *GRIEF)},
}
KINDS = {"string": "a string", "array": "an array", "objects": "an array"}


@functools.cache
def served(mode):
    return Served(mode)


def reply_to(mode, action, given):
    request = {"id": "a", "type": "invoke", "payload": {"action": action, "input": given}}
    (line,) = served(mode).send(json.dumps(request).encode()).splitlines()
    return json.loads(line)


def said_of(fields, given, thorough):
    """The sentences of 1.4 for an input, by the table."""
    said = [
        f"Required field '{name[:-1]}' is missing or empty"
        for name in fields
        if name.endswith("!") and given.get(name[:-1]) in (None, "")
    ]
    for marked, kind in fields.items():
        name = marked.rstrip("!")
        if name not in given:
            continue
        value = given[name]
        if isinstance(kind, tuple):
            if not (isinstance(value, str) and value in kind):
                said.append(f"'{name}' must be one of: {', '.join(kind)}")
        elif not isinstance(value, str if kind == "string" else list):
            said.append(f"'{name}' must be {KINDS[kind]}")
        elif kind == "array" and thorough:
            said += [
                f"'{name}[{at}]' must be a string"
                for at, item in enumerate(value)
                if not isinstance(item, str)
            ]
    return "; ".join(said)


def test_an_input_gets_every_fault_in_the_order_of_its_schema():
    values = (
        None,
        "",
        " ",
        "x",
        "LOW",
        "low ",
        0,
        1.5,
        True,
        False,
        [],
        {},
        ["low"],
        [1, "x", None],
        {"a": 1},
    )
    seen = 0
    for mode, actions in (("strict", STRICT), ("compat", COMPAT)):
        for action, fields in actions.items():
            names = [name.rstrip("!") for name in fields]
            inputs = [dict.fromkeys(names, value) for value in values]
            inputs += [{name: value, "unknown": value} for name in names for value in values]
            inputs += [dict.fromkeys(reversed(names), value) for value in values[:3]]
            for given in inputs:
                said = said_of(fields, given, mode == "compat")
                if not said:
                    continue
                due = f"Input validation failed for action '{action}': {said}"
                assert reply_to(mode, action, given) == {"id": "a", "ok": False, "error": due}, given
                seen += 1
    assert seen > 900


def test_what_the_sheet_lets_pass_is_answered():
    texts = {"string": " ", "array": []}
    for mode, actions in (("strict", STRICT), ("compat", COMPAT)):
        for action, fields in actions.items():
            if action == "accessibility_audit":
                continue
            given = {name.rstrip("!"): texts.get(kind) or kind[-1] for name, kind in fields.items()}
            given |= {name: [] for name, kind in fields.items() if kind == "array"}
            reply = reply_to(mode, action, {**given, "unknown": None})
            assert reply["ok"], reply
            required = {name[:-1]: given[name[:-1]] for name in fields if name.endswith("!")}
            assert reply_to(mode, action, required)["ok"], action


def test_items_of_lists_never_end_the_process():
    for action, description, field in (
        ("neurodiversity_design_check", "ui_description", "focus"),
        ("age_inclusive_design_check", "flow_description", "age_groups"),
    ):
        for mode in ("strict", "compat"):
            reply = reply_to(mode, action, {description: "x", field: [1, 2]})
            said = f"'{field}[0]' must be a string; '{field}[1]' must be a string"
            assert reply == {
                "id": "a",
                "ok": False,
                "error": f"Input validation failed for action '{action}': {said}",
            }
