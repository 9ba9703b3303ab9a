"""The recorded wire as the contract writes it down (actions 1): what is sent, and the very bytes that come back.

Nothing here is taken from the code under test: lines, sentences, orders of keys and of checks are the sheet's.
"""

import functools
import json

from tests.actions.protocol.driving import Served, drive

LIMIT = 524_288

MALFORMED = '{"ok":false,"error":"Malformed JSON request"}'
OVERSIZE = '{"ok":false,"error":"Request exceeds maximum size (512 KB)"}'
TYPES = "'list_actions' | 'invoke'"

CONTRACTS = (
    ("wcag-aaa-accessibility", "wcagaaa_check", "Compliance guidance only; does not replace legal review"),
    (
        "depression-sensitive-content",
        "rewrite_depression_sensitive_content",
        "Non-clinical UX/content guidance only",
    ),
    (
        "supportive-conversation",
        "supportive_reply",
        "Non-clinical support; must provide escalation cues when risk is elevated",
    ),
    ("cognitive-accessibility", "cognitive_accessibility_audit", "Design guidance only"),
    (
        "cultural-sensitivity",
        "cultural_context_check",
        "Context-sensitive recommendations with uncertainty disclosure",
    ),
    ("conflict-de-escalation", "deescalation_plan", "No coercive tactics"),
    ("empathetic-communication", "empathetic_reframe", "No manipulation or deceptive empathy"),
    ("grief-loss-support", "grief_support_response", "Non-clinical bereavement support only"),
    ("neurodiversity-aware-design", "neurodiversity_design_check", "Inclusive design guidance only"),
    ("age-inclusive-design", "age_inclusive_design_check", "Inclusive design guidance only"),
)


@functools.cache
def served(mode="strict"):
    return Served(mode)


def replies(sent, mode="strict"):
    return served(mode).send(sent).decode().split("\n")[:-1]


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def wrong(table):
    """What differs, by name, so that one failure does not hide the others."""
    return {
        name: {"came": found, "due": due}
        for name, sent, due in table
        if (found := replies(sent.encode() if isinstance(sent, str) else sent)) != due
    }


def kind_issue(expected, received, path):
    said = "Required" if received == "undefined" else f"Expected {expected}, received {received}"
    parts = {
        "code": "invalid_type",
        "expected": expected,
        "received": received,
        "path": path,
        "message": said,
    }
    if path == ["type"]:
        parts = {key: parts[key] for key in ("expected", "received", "code", "path", "message")}
    return parts


def choice_issue(received):
    return {
        "received": received,
        "code": "invalid_enum_value",
        "options": ["list_actions", "invoke"],
        "path": ["type"],
        "message": f"Invalid enum value. Expected {TYPES}, received '{received}'",
    }


EMPTY_ACTION = {
    "code": "too_small",
    "minimum": 1,
    "type": "string",
    "inclusive": True,
    "exact": False,
    "message": "String must contain at least 1 character(s)",
    "path": ["action"],
}
VALUES = {
    "null": "null",
    "5": "number",
    "1.5e400": "number",
    "true": "boolean",
    "[]": "array",
    "{}": "object",
}


def envelope(*issues):
    return [compact({"ok": False, "error": "Invalid request envelope", "issues": issues})]


def payload(*issues, id_="a"):
    return [compact({"id": id_, "ok": False, "error": "Invalid invoke payload", "issues": issues})]


def unknown(name):
    return compact(
        {
            "id": "a",
            "ok": False,
            "error": f"Unknown action: '{name}'. Call list_actions to see available actions.",
        }
    )


def invoke(action, input_="{}", more=""):
    return f'{{"id":"a","type":"invoke","payload":{{"action":{action},"input":{input_}}}{more}}}\n'


def test_what_is_no_json_is_malformed_and_blank_lines_are_not_skipped():
    lines = (
        "",
        " ",
        "\t \t",
        "\ufeff{}",
        '\ufeff{"type":"list_actions"}',
        "NaN",
        '{"type":NaN}',
        '{"type":"list_actions","x":Infinity}',
        '{"type":"list_actions","x":-Infinity}',
        '{"type":"list_actions"} x',
        '{"type":"list_actions"}{}',
        '{"type":"list_actions",}',
        "{'type':'list_actions'}",
        '{"type":"list\tactions"}',
        '{"id":01,"type":"list_actions"}',
        '{"type":"list_actions"}\u00a0',
        '\x0b{"type":"list_actions"}',
        '{"type":"\\x41"}',
        "[" * 5,
        "\0",
    )
    table = [(repr(line), f"{line}\n", [MALFORMED]) for line in lines]
    assert wrong([*table, ("bytes", b"\xff\xfe\n", [MALFORMED])]) == {}


def test_an_envelope_gets_all_its_faults_the_id_before_the_type_and_never_gets_an_id_back():
    table = [
        (value, f"{value}\n", envelope(kind_issue("object", received, [])))
        for value, received in {**VALUES, '"x"': "string"}.items()
        if received != "object"
    ]
    for value, received in VALUES.items():
        bad_id, bad_type = kind_issue("string", received, ["id"]), kind_issue(TYPES, received, ["type"])
        missing = kind_issue(TYPES, "undefined", ["type"])
        table += [
            (f"id {value}", f'{{"id":{value},"type":"list_actions"}}\n', envelope(bad_id)),
            (f"type {value}", f'{{"id":"a","type":{value}}}\n', envelope(bad_type)),
            (f"both {value}", f'{{"type":{value},"id":{value}}}\n', envelope(bad_id, bad_type)),
            (f"id {value}, no type", f'{{"id":{value}}}\n', envelope(bad_id, missing)),
            (f"id {value}, odd type", f'{{"type":"x","id":{value}}}\n', envelope(bad_id, choice_issue("x"))),
        ]
    for name in ("foo", "", "Invoke", "invoke ", "describe_action", "it's", 'a"b', "é\u2028日本", "<b>/\x7f"):
        table.append((name, compact({"id": "a", "type": name}) + "\n", envelope(choice_issue(name))))
    escaped = envelope(choice_issue("HALF"))[0].replace("HALF", "\\ud800")
    table.append(("half a pair", '{"type":"\\ud800"}\n', [escaped]))
    table.append(("empty", '{"payload":{}}\n', envelope(kind_issue(TYPES, "undefined", ["type"]))))
    table.append(
        ("last of two", '{"type":"foo","type":5}\n', envelope(kind_issue(TYPES, "number", ["type"])))
    )
    assert wrong(table) == {}


def test_a_payload_names_the_action_before_the_input_and_keeps_the_id():
    no_action = kind_issue("string", "undefined", ["action"])
    no_input = kind_issue("object", "undefined", ["input"])
    head = '{"id":"a","type":"invoke"'
    table = [
        ("none", head + "}\n", payload(kind_issue("object", "undefined", []))),
        ("empty", head + ',"payload":{}}\n', payload(no_action, no_input)),
        ("extra", head + ',"payload":{"x":1}}\n', payload(no_action, no_input)),
        ("empty name", invoke('""'), payload(EMPTY_ACTION)),
        ("empty name, no input", head + ',"payload":{"action":""}}\n', payload(EMPTY_ACTION, no_input)),
        (
            "no id",
            '{"type":"invoke"}\n',
            [
                compact(
                    {
                        "ok": False,
                        "error": "Invalid invoke payload",
                        "issues": [kind_issue("object", "undefined", [])],
                    }
                )
            ],
        ),
        ("id empty", '{"id":"","type":"invoke","payload":{}}\n', payload(no_action, no_input, id_="")),
    ]
    for value, received in {**VALUES, '"x"': "string"}.items():
        of_action = kind_issue("string", received, ["action"])
        of_input = kind_issue("object", received, ["input"])
        if received != "object":
            table.append(
                (
                    f"payload {value}",
                    head + f',"payload":{value}}}\n',
                    payload(kind_issue("object", received, [])),
                )
            )
            table.append((f"input {value}", invoke('"supportive_reply"', value), payload(of_input)))
            table.append((f"{value}, empty name", invoke('""', value), payload(EMPTY_ACTION, of_input)))
        if received != "string":
            table.append((f"action {value}", invoke(value), payload(of_action)))
            table.append((f"{value} and null", invoke(value, "null"), payload(of_action, NULL_INPUT)))
    assert wrong(table) == {}


NULL_INPUT = kind_issue("object", "null", ["input"])


def test_a_name_is_exact_and_comes_back_between_quotes_as_it_was_sent():
    names = (
        "x", "Supportive_reply", "SUPPORTIVE_REPLY", " supportive_reply", "supportive_reply ", "supportive-reply",
        "it's", 'say "hi"', "a\\b", "日本 é 😀", "\u2028", "tab\there", "\x00\x1f\x7f", "</script>", "list_actions",
        "constructor", "__proto__",
    )  # fmt: skip
    table = [(name, invoke(json.dumps(name), '{"x":1}', ',"more":[1]'), [unknown(name)]) for name in names]
    half = unknown("HALF").replace("HALF", "\\udc00")
    assert wrong([*table, ("half a pair", invoke('"\\udc00"'), [half])]) == {}


def listing(mode):
    return json.loads(replies(b'{"type":"list_actions"}\n', mode)[0])["data"]


def test_the_listing_is_an_array_of_the_ten_contracts_and_ignores_its_payload():
    data = [
        {
            "skill": skill,
            "action": action,
            "inputSchemaPath": f"schemas/{skill}.input.json",
            "outputSchemaPath": f"schemas/{skill}.output.json",
            "safetyBoundary": boundary,
        }
        for skill, action, boundary in CONTRACTS
    ]
    bare = [compact({"ok": True, "data": data})]
    table = [("no id", '{"type":"list_actions"}\n', bare)]
    table += [
        (more, f'{{"payload":{more},"type":"list_actions","x":0}}\n', bare)
        for more in ("null", "5", "[]", '"x"', '{"action":1}')
    ]
    for id_ in ("", "a", "ünï", "'\"\\", "1"):
        due = [compact({"id": id_, "ok": True, "data": data})]
        table.append((f"id {id_}", compact({"type": "list_actions", "id": id_}) + "\n", due))
    assert wrong(table) == {}


def test_compat_lists_nine_with_a_description_behind_the_action():
    rows = listing("compat")
    names = [action for _, action, _ in CONTRACTS if action != "grief_support_response"]
    assert [row["action"] for row in rows] == ["accessibility_audit", *names[1:]]
    skills = {action: (skill, boundary) for skill, action, boundary in CONTRACTS}
    skills["accessibility_audit"] = ("accessibility", skills["wcagaaa_check"][1])
    keys = ["skill", "action", "description", "inputSchemaPath", "outputSchemaPath", "safetyBoundary"]
    for row in rows:
        assert list(row) == keys
        assert (row["skill"], row["safetyBoundary"]) == skills[row["action"]]
        assert row["inputSchemaPath"] == f"schemas/{row['skill']}.input.json"
        assert row["outputSchemaPath"] == f"schemas/{row['skill']}.output.json"
        assert row["description"]
    for name in ("wcagaaa_check", "grief_support_response", "nope"):
        (line,) = replies(invoke(json.dumps(name)).encode(), "compat")
        assert (
            json.loads(line)["error"] == f"Unknown action: '{name}'. Use tools/list to see available actions."
        )


def test_every_line_end_ends_one_line_wherever_the_stream_is_cut():
    names = [f"n{at}" for at in range(6)]
    ends = ("\n", "\r\n", "\r", "\r\n", "\n", "")
    stream = "".join(invoke(f'"{name}"')[:-1] + end for name, end in zip(names, ends, strict=True)).encode()
    due = [unknown(name) for name in names]
    assert replies(stream) == due
    for size in (1, 2, 3, 7, 90, 91, 92):
        cut = Served("strict")
        said = b"".join(
            drive(cut.machine.receive(stream[at : at + size])) for at in range(0, len(stream), size)
        )
        assert (said + drive(cut.machine.end())).decode().split("\n")[:-1] == due, size
    assert replies(b"\r\r\n\n\n\r") == [MALFORMED] * 5
    assert replies(b"") == []
    assert replies(b"\r") == [MALFORMED]
    assert replies(invoke('"a\u2028b\u2029c\u0085d"').encode()) == [unknown("a\u2028b\u2029c\u0085d")]


def test_a_line_that_ends_in_a_cr_is_answered_before_anything_follows():
    cut = Served("strict")
    assert drive(cut.machine.receive(b"5\r")).count(b"\n") == 1
    assert drive(cut.machine.receive(b"")) == b""
    assert drive(cut.machine.receive(b"\n5\n")).count(b"\n") == 1


def padded(size, unit=b"x"):
    """An invocation of so many bytes; its name is made of `unit`."""
    bare = len(invoke('""')) - 1
    times, rest = divmod(size - bare, len(unit))
    name = unit * times + b"x" * rest
    return invoke('"@"')[:-1].encode().replace(b"@", name), name.decode("utf-8", "replace")


def test_the_size_is_that_of_the_text_in_utf8_without_its_line_end():
    grown = LIMIT * 11 // 12 // 4  # characters of four bytes, and so many bytes more that become three each
    torn, _ = padded(0)
    mixed = torn.replace(b'"action":""', b'"action":"' + "😀".encode() * grown + b"\xff" * 40_000 + b'"')
    assert len(mixed) < LIMIT
    bare = len(invoke('""')) - 1
    for end in (b"\n", b"\r\n", b"\r"):
        for unit in (b"x", "é".encode(), "日".encode(), "😀".encode()):
            line, name = padded(LIMIT, unit)
            assert replies(line + end + b" \n") == [unknown(name), MALFORMED], (unit, end)
            line, _ = padded(LIMIT + 1, unit)
            assert replies(line + end + b" \n") == [OVERSIZE, MALFORMED], (unit, end)
        assert replies(mixed + end + b" \n") == [OVERSIZE, MALFORMED]
    for torn in (b"\xff", b"\xe2\x82", b"\xf0\x9f\x98"):
        most = (LIMIT - bare) // 3
        line = invoke('"@"').encode()
        assert replies(line.replace(b"@", torn * most)) == [unknown("\ufffd" * most)], torn
        assert replies(line.replace(b"@", torn * (most + 1))) == [OVERSIZE], torn
    assert replies(b" " * LIMIT + b"\n") == [MALFORMED]
    assert replies(b" " * (LIMIT + 1)) == [OVERSIZE]
    assert replies(b"x" * (3 * LIMIT) + b"\n5x\n") == [OVERSIZE, MALFORMED]
