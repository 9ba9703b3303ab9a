"""Loose values are read as the reference reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.rooms.protocol.loose_values import read_boolean, read_integer, read_text, sanitize_id, trim

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (7, 7),
        (1.9, 1),
        (-1.9, -1),
        ("7", 7),
        (" 12px", 12),
        ("+3", 3),
        ("-4", -4),
        ("x7", None),
        ("", None),
        (True, None),
        (None, None),
        ([5], None),
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_an_integer_is_read_like_parse_int(value, read):
    assert read_integer(value) == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        *((word, True) for word in (True, 1, "true", "1", "yes", "Y", " on ")),
        *((word, False) for word in (False, 0, "false", "0", "no", "N", "off")),
        *((word, None) for word in ("", "maybe", 2, None, 1.0, [])),
    ],
)
def test_words_for_true_and_false_are_known(value, read):
    assert read_boolean(value) is read


def test_space_is_what_javascript_calls_space():
    assert trim("\ufeff\u3000 \t\u2028x\x1c\u00a0") == "x\x1c"


@given(ANYTHING)
def test_nothing_that_is_read_raises(value):
    read_integer(value), read_boolean(value), read_text(value), sanitize_id(value)


@given(st.text())
def test_an_identifier_is_sanitised_once_and_for_all(text):
    name = sanitize_id(text)
    if name is not None:
        assert sanitize_id(name) == name
        assert name.isascii()
        assert name.replace("_", "a").isalnum()
        assert name.strip("_") == name
