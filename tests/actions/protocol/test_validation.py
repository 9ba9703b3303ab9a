import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.actions.protocol.action import check_for, plain, schema_check
from comity.wire.errors import ConfigError

SCHEMA = {
    "type": "object",
    "required": ["b", "level"],
    "properties": {
        "a": {"type": "string"},
        "b": {"type": "string", "minLength": 2, "maxLength": 4},
        "level": {"type": "string", "enum": ["low", "high"]},
        "n": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "pages": {"type": "array", "items": {"type": "object"}},
        "map": {"type": "object"},
    },
}
GOOD = {"b": "abc", "level": "low"}
MISSING = "Required field '{}' is missing or empty"


def faults(given, mode="strict"):
    return check_for(SCHEMA, mode)(given)


def test_all_required_come_first_and_then_what_is_there_in_the_order_of_the_schema():
    assert faults({"n": "x", "level": None, "a": 1}) == [
        MISSING.format("b"),
        MISSING.format("level"),
        "'a' must be a string",
        "'level' must be one of: low, high",
        "'n' must be a number",
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("a", None, "'a' must be a string"),
        ("n", True, "'n' must be a number"),
        ("n", None, "'n' must be a number"),
        ("flag", 1, "'flag' must be a boolean"),
        ("list", "adhd", "'list' must be an array"),
        ("list", {}, "'list' must be an array"),
        ("map", [], "'map' must be an object"),
        ("map", None, "'map' must be an object"),
        ("level", 1, "'level' must be one of: low, high"),
        ("level", "Low", "'level' must be one of: low, high"),
        ("level", ["low"], "'level' must be one of: low, high"),
    ],
)
def test_a_value_of_the_wrong_kind_has_its_sentence(field, value, said):
    for mode in ("strict", "compat", "enhanced"):
        assert faults({**GOOD, field: value}, mode) == [said]


@pytest.mark.parametrize("value", ["", None])
def test_an_empty_required_field_is_missing(value):
    expected = [MISSING.format("b")] + (["'b' must be a string"] if value is None else [])
    assert faults({**GOOD, "b": value}) == expected


def test_an_empty_choice_is_missing_and_no_choice():
    assert faults({**GOOD, "level": ""}) == [MISSING.format("level"), "'level' must be one of: low, high"]


@pytest.mark.parametrize("given", [{**GOOD, "b": "   "}, {**GOOD, "more": 1}, {**GOOD, "n": 1e999, "a": ""}])
def test_spaces_and_unknown_keys_pass(given):
    assert faults(given) == []


def test_items_are_looked_at_from_1_0_on():
    given = {**GOOD, "list": ["a", 1, None], "pages": [1]}
    assert faults(given) == []
    assert faults(given, "compat") == ["'list[1]' must be a string", "'list[2]' must be a string"]


def test_lengths_count_utf16_units_from_1_0_on():
    assert faults({**GOOD, "b": "x"}) == []
    assert faults({**GOOD, "b": "x"}, "compat") == ["'b' must be at least 2 characters"]
    assert faults({**GOOD, "b": "😀"}, "compat") == []
    assert faults({**GOOD, "b": "😀😀x"}, "compat") == ["'b' must be at most 4 characters"]


def test_enhanced_asks_the_whole_schema_for_what_is_left():
    schema = {**SCHEMA, "additionalProperties": False}
    schema["properties"] = {
        **SCHEMA["properties"],
        "pages": {"type": "array", "items": {"type": "object", "required": ["url"]}},
    }
    check = check_for(schema, "enhanced")
    assert check(GOOD) == []
    (unknown,) = check({**GOOD, "more": 1})
    assert "more" in unknown
    (nested,) = check({**GOOD, "pages": [{"url": "u"}, {}]})
    assert nested.startswith("/pages/1: ")
    assert "url" in nested


def test_a_sentence_about_a_schema_does_not_repeat_what_was_sent():
    check = schema_check({"type": "object", "properties": {"a": {"pattern": "^x"}}})
    (said,) = check({"a": "a private text"})
    assert "private" not in said


@pytest.mark.parametrize("deep", [10, 300, 9000])
def test_halves_of_pairs_and_deep_values_are_reported_like_others(deep):
    value = "\ud800"
    for _ in range(deep):
        value = [value]
    check = schema_check({"properties": {"a": {"type": "array"}}, "additionalProperties": False})
    assert check({"\udfff": value, "a": "\ud800"})
    assert check({"\ud800": 1})


def test_many_faults_are_reported_shortly():
    check = schema_check({"properties": {"a": {"items": {"type": "string"}}}})
    (said,) = check({"a": [1] * 1000})
    assert len(said) < 1000
    (said,) = schema_check({"additionalProperties": False})({"k" * 5000: 1})
    assert len(said) < 400


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "file:///etc/hostname"},
        {"properties": {"a": {"$ref": "other.json"}}},
        {"type": "sometimes"},
        {"properties": []},
    ],
)
def test_a_schema_that_points_outside_or_is_none_is_refused(schema):
    with pytest.raises(ConfigError, match="schema cannot be used"):
        schema_check(schema)


def test_a_schema_may_point_to_itself():
    check = schema_check({"$defs": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/a"}}})
    assert check({"a": "x"}) == []
    assert check({"a": 1})


def test_plain_leaves_nothing_but_dicts_and_lists():
    assert plain({"a": ({"b": (1,)},)}) == {"a": [{"b": [1]}]}


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()) | st.just({})
)


@given(given=st.dictionaries(st.sampled_from([*SCHEMA["properties"], "else"]), VALUES))
def test_what_the_whole_schema_accepts_the_recorded_checks_accept_too(given):
    valid = not schema_check(SCHEMA)(given)
    if valid and "" not in (given.get("b"), given.get("level")):
        assert faults(given, "compat") == []
