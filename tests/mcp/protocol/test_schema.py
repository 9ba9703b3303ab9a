"""Complaints about arguments: where, what, short, and without what was sent."""

import pytest

from comity.wire.errors import ConfigError
from comity.wire.json_schema import complainer

CLOSED = {
    "type": "object",
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "a/b~c": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
    },
    "required": ["count"],
    "additionalProperties": False,
}


def test_what_fits_is_not_complained_about():
    assert complainer(CLOSED)({"count": 1, "list": ["abc"]}) is None


def test_a_complaint_names_the_place_by_its_pointer():
    complain = complainer(CLOSED)
    assert complain({"count": "x"}).startswith("/count: ")
    assert complain({"count": 1, "list": ["ok", "too long"]}).startswith("/list/1: ")
    assert complain({"count": 1, "a/b~c": 7}).startswith("/a~1b~0c: ")
    assert complain({}).startswith("the arguments: ")


def test_who_sends_an_unknown_argument_is_told_the_known_ones():
    assert complainer(CLOSED)({"count": 1, "number": 2}).endswith("; allowed are count, a/b~c, list")
    assert "allowed" not in complainer(CLOSED)({"count": "x"})
    assert "allowed" not in complainer({"type": "object", "additionalProperties": False})({"x": 1})


def test_values_are_not_repeated():
    complain = complainer(CLOSED)
    for given in ({"count": "hunter2"}, {"count": 1, "list": ["hunter2"]}, {"count": 1, "list": "hunter2"}):
        assert "hunter2" not in complain(given)


def test_a_complaint_stays_short():
    schema = {"type": "object", "required": [f"{n}" * 400 for n in range(9)]}
    assert len(complainer(schema)({})) < 1000
    assert len(complainer(CLOSED)({"count": 1, "x" * 5000: 1})) < 1000


def test_at_most_three_things_are_named():
    schema = {"type": "object", "required": ["a", "b", "c", "d", "e"]}
    assert complainer(schema)({}).count(";") == 2


def test_newer_keywords_are_understood():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"name": {"$anchor": "n", "type": "string"}},
        "type": "object",
        "properties": {"name": {"$ref": "#n"}, "pair": {"prefixItems": [{"type": "integer"}]}},
        "if": {"required": ["name"]},
        "then": {"required": ["pair"]},
    }
    complain = complainer(schema)
    assert complain({"name": "a", "pair": [1]}) is None
    assert complain({"name": "a"}) is not None
    assert complain({"pair": ["x"]}).startswith("/pair/0")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.invalid/schema.json"},
        {"$ref": "file:///etc/passwd"},
        {"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}},
        {"$ref": "#/$defs/none"},
        {"type": "no such type"},
        {"type": "string", "pattern": "("},
    ],
)
def test_what_is_no_schema_or_would_have_to_be_fetched_is_refused(schema):
    with pytest.raises(ConfigError, match="cannot be used"):
        complainer(schema)


def test_what_is_too_deep_to_be_checked_is_a_complaint():
    value = {}
    for _ in range(400):
        value = {"a": value}
    assert "too deeply" in complainer(CLOSED)(value)


@pytest.mark.parametrize("value", [10**60, 1e300, -(10**60), 2**64])
def test_numbers_of_any_size_are_checked(value):
    assert complainer({"type": "number"})(value) is None
    assert complainer({"type": "string"})(value) is not None
