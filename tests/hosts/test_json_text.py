import json

import pytest
from hypothesis import example, given, settings

from comity.hosts import json_text
from comity.wire.errors import MalformedError
from tests.hosts.documents import comments_of, json_texts, plain_json

PATH = ("mcpServers", "comity")
ENTRY = {"command": "/a b/python", "args": ["-m", "comity"], "env": {}}


def with_ours(value, path=PATH, entry=ENTRY):
    servers = value.get(path[0]) or {}
    return {**value, path[0]: {**servers, path[1]: entry}}


def test_a_member_takes_the_layout_of_its_neighbours():
    before = '{\n\t"mcpServers": {\n\t\t"other": {"command": "x"} // theirs\n\t}\n}\n'
    assert json_text.put(before, PATH, ENTRY) == (
        '{\n\t"mcpServers": {\n\t\t"other": {"command": "x"}, // theirs\n'
        '\t\t"comity": {\n\t\t\t"command": "/a b/python",\n\t\t\t"args": ["-m", "comity"],\n\t\t\t"env": {}\n\t\t}\n\t}\n}\n'
    )


def test_a_text_on_one_line_stays_on_one_line():
    assert json_text.put('{"a":1}', ("b", "c"), 2) == '{"a":1, "b": {"c": 2}}'
    assert json_text.put('{"a":1,}', ("b",), 2) == '{"a":1, "b": 2,}'
    assert json_text.put('{"a":1,"b":{}}', ("b", "c"), 2) == '{"a":1,"b":{"c": 2}}'


def test_line_ends_are_those_of_the_text():
    new = json_text.put('{\r\n  "a": 1\r\n}\r\n', PATH, ENTRY)
    assert new.count("\n") == new.count("\r\n")


def test_an_empty_text_becomes_an_object():
    for empty in ("", "\n", "// nothing\n", "{}", "{ }", "{\n}", "{ /* nothing */ }", "{ // nothing\n}"):
        new = json_text.put(empty, PATH, ENTRY)
        assert plain_json(new) == {"mcpServers": {"comity": ENTRY}}, empty
        assert comments_of(new) == comments_of(empty), empty


def test_numbers_of_others_keep_their_digits():
    text = '{"big": 123456789012345678901234567890, "e": 1E400, "f": 1.10}'
    assert json_text.put(text, PATH, ENTRY).startswith(text[:-1])


def test_what_was_there_is_replaced_and_can_be_found():
    text = '{"mcpServers": {"comity": {"command": "old"} /* kept */, "z": 1}}'
    new = json_text.put(text, PATH, ENTRY)
    assert json_text.find(new, PATH) == ENTRY
    assert plain_json(new)["mcpServers"]["z"] == 1
    assert "/* kept */" in new
    assert json_text.find(text, ("mcpServers", "nobody")) is None
    assert json_text.find(text, ("mcpServers", "z", "deeper")) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": }', "line 1, column 7: a value is expected, not '}'"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: a comma or } is expected"),
        ("{\r\n  a: 1\r\n}", 'line 2, column 3: a key in "quotes" or } is expected'),
        ('{"a": "open\n"}', "line 1, column 7: a string is not closed"),
        ('{"a": 01}', "line 1, column 7: a value is expected"),
        ('{"a": [1 2]}', "line 1, column 10: a comma or ] is expected"),
        ('{"a": 1', "line 1, column 8: a comma or } is expected, not the end of the file"),
        ('{"a" 1}', "line 1, column 6: a colon is expected"),
        ("{} {}", "line 1, column 4: there is more after the end"),
        ("[]", "line 1, column 1: the file must hold an object"),
        ("/* open", "line 1, column 1: a value is expected"),
        ("{" * 3, "line 1, column 2: a key"),
        ('{"a":' * 200, "nested deeper than 100 levels"),
        ('{"mcpServers": []}', "'mcpServers' does not hold named entries"),
        ('{"mcpServers": {}, "mcpServers": {}}', "the key 'mcpServers' is there twice"),
        ("{\x00}", "line 1, column 2"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(text, place):
    with pytest.raises(MalformedError) as refusal:
        json_text.put(text, PATH, ENTRY)
    assert place in refusal.value.message


def test_taking_out_leaves_the_comments_of_others():
    text = (
        '{\n  "mcpServers": {\n    // about a\n    "a": 1, // a\n    "comity": {},\n    "b": 2 // b\n  }\n}\n'
    )
    assert json_text.drop(text, PATH) == text.replace('    "comity": {},\n', "")
    last = '{"s": {\n  "a": 1, // a\n  // before\n  "comity": 1 }}'
    assert plain_json(json_text.drop(last, ("s", "comity"))) == {"s": {"a": 1}}


def test_holders_that_were_made_go_too_when_they_are_empty():
    assert json_text.drop('{"mcpServers": {"comity": 1}}', PATH, 1) == "{}"
    assert json_text.drop('{"mcpServers": {"comity": 1}}', PATH) == '{"mcpServers": {}}'
    kept = '{"mcpServers": {/* mine */ "comity": 1}}'
    assert "/* mine */" in json_text.drop(kept, PATH, 1)
    assert json_text.drop('{"a": 1}', PATH, 1) == '{"a": 1}'


@given(json_texts())
@settings(max_examples=80, deadline=None)
def test_putting_in_changes_nothing_but_our_key(text):
    new = json_text.put(text, PATH, ENTRY)
    assert plain_json(new) == with_ours(plain_json(text))
    assert comments_of(new) == comments_of(text)
    assert json_text.put(new, PATH, ENTRY) == new


@given(json_texts())
@example('{"a":[""],"mcpServers":{\n    "other":"","third":""}}')
@settings(max_examples=80, deadline=None)
def test_taking_out_of_a_text_that_was_changed_since_keeps_the_change(text):
    changed = json_text.put(json_text.put(text, PATH, ENTRY), ("mcpServers", "later"), [1])
    left = json_text.drop(changed, PATH, 1)
    assert plain_json(left) == with_ours(plain_json(text), ("mcpServers", "later"), [1])
    assert comments_of(left) == comments_of(text)


def test_every_character_survives_the_quoting():
    value = "".join(map(chr, range(0x2100))) + "\ufeff\U0001f600"
    assert json.loads(json_text.put("", ("k",), value)) == {"k": value}
