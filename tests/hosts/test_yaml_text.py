import re

import pytest
import yaml
from hypothesis import given, settings

from comity.hosts import yaml_text
from comity.wire.errors import MalformedError
from tests.hosts.documents import comments_of, yaml_texts

PATH = ("extensions", "comity")
ENTRY = {
    "name": "comity",
    "cmd": "/a b/python",
    "args": ["-m", "comity"],
    "envs": {},
    "enabled": True,
    "timeout": 300,
}

# comments are whole lines or follow a blank; what the documents hold otherwise stands in quotes or in blocks
COMMENT = re.compile(r"(?:(?<=\s)|^)# (?:head|between|indented|why)\b", re.MULTILINE)


def read(text):
    return yaml.safe_load(text) or {}


def with_ours(value, name="comity", entry=ENTRY):
    return {**value, "extensions": {**(value.get("extensions") or {}), name: entry}}


def same(one, other):
    return repr(one) == repr(other) or one == other


def test_an_entry_stands_under_its_neighbours_and_comments_stay():
    before = "# mine\nextensions:\n    other:\n        cmd: x # theirs\n# after\nMODEL: y\n"
    assert yaml_text.put(before, PATH, {"cmd": "c", "args": []}) == (
        "# mine\nextensions:\n    other:\n        cmd: x # theirs\n"
        '    comity:\n        cmd: "c"\n        args: []\n# after\nMODEL: y\n'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only\n",
        "a: 1",
        "extensions:\n",
        "extensions: {} # c\n",
        "extensions: ~\nb: 2\n",
        "---\n",
        "{}",
        "{a: 1}\n",
    ],
)
def test_what_is_missing_or_empty_is_made(text):
    new = yaml_text.put(text, PATH, ENTRY)
    assert read(new) == with_ours(read(text))
    assert new.count("#") == text.count("#")


def test_flow_style_stays_flow_style():
    text = '{"extensions": {"o": {"cmd": "x"},}}'
    new = yaml_text.put(text, PATH, ENTRY)
    assert read(new) == with_ours(read(text))
    assert "\n" not in new
    assert yaml_text.drop(new, PATH) == text


def test_what_was_there_is_replaced_and_can_be_found():
    for old in (
        "extensions:\n  comity:\n    cmd: old # c\n  z: 1\n",
        "extensions:\n  comity: {cmd: old}\n  z: 1\n",
    ):
        assert yaml_text.find(old, PATH) == {"cmd": "old"}
        new = yaml_text.put(old, PATH, ENTRY)
        assert read(new) == with_ours(read(old))
        assert yaml_text.find(new, PATH) == ENTRY
        assert read(yaml_text.drop(new, PATH)) == {"extensions": {"z": 1}}


def test_the_last_one_taken_out_leaves_an_empty_holder_or_none():
    text = "a: 1\nextensions: # mine\n  comity:\n    cmd: x\nb: 2\n"
    assert read(yaml_text.drop(text, PATH)) == {"a": 1, "extensions": {}, "b": 2}
    assert yaml_text.drop(text, PATH, 1) == "a: 1\nb: 2\n"
    assert yaml_text.drop("a: 1\n", PATH) == "a: 1\n"


def test_names_that_are_words_of_yaml_are_quoted():
    for name in ("null", "true", "on", "12", "1e3", "a-b", "~"):
        assert read(yaml_text.put("", ("extensions", name), {"args": []})) == {
            "extensions": {name: {"args": []}}
        }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: [1\n", "line 2, column 1"),
        ("a: 1\n\tb: 2\n", "line 2, column 1"),
        ("a: b: c\n", "line 1, column 5"),
        ("- 1\n", "line 1, column 1: the file must hold keys"),
        ("a: 1\n---\nb: 2\n", "line 3, column 1: a second document"),
        ("a: \x00\n", "line 1, column 4: this character is not allowed"),
        ("extensions: 3\n", "'extensions' does not hold named entries"),
        ("extensions: {a: 1}\nextensions: {}\n", "'extensions' is there twice"),
        ("x: &a {o: 1}\nextensions: *a\n", "'extensions' does not hold named entries"),
        ("extensions: &a\n  o: 1\nother: *a\n", "cannot be changed without touching more"),
        ("a: " + "[" * 200 + "]" * 200, "nested deeper than 100 levels"),
    ],
)
def test_a_text_that_cannot_be_changed_is_refused_with_its_place(text, place):
    with pytest.raises(MalformedError) as refusal:
        yaml_text.put(text, PATH, ENTRY)
    assert place in refusal.value.message


@given(yaml_texts())
@settings(max_examples=80, deadline=None)
def test_putting_in_changes_nothing_but_our_key(text):
    new = yaml_text.put(text, PATH, ENTRY)
    assert same(read(new), with_ours(read(text)))
    assert comments_of(new, COMMENT, "#") == comments_of(text, COMMENT, "#")
    again = yaml_text.put(new, PATH, ENTRY)
    assert same(read(again), read(new))


@given(yaml_texts())
@settings(max_examples=80, deadline=None)
def test_taking_out_of_a_text_that_was_changed_since_keeps_the_change(text):
    changed = yaml_text.put(yaml_text.put(text, PATH, ENTRY), ("extensions", "later"), {"args": [1]})
    left = yaml_text.drop(changed, PATH, 1)
    assert same(read(left), with_ours(read(text), "later", {"args": [1]}))
    assert comments_of(left, COMMENT, "#") == comments_of(text, COMMENT, "#")


def test_every_character_survives_the_quoting():
    value = "".join(map(chr, range(0x2100))) + "\ufeff\U0001f600"
    assert read(yaml_text.put("", ("k",), {"v": value, "l": []})) == {"k": {"v": value, "l": []}}
