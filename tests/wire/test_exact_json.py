import json

import pytest
from hypothesis import given

from comity.wire import strict_json
from comity.wire.errors import MalformedError
from comity.wire.strict_json import Form, read, write
from tests.wire.json_values import nested, values

PLAIN = Form(strict_json.raw_string, strict_json.whole, float.__repr__, dict.items)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "character 0: it ends too early"),
        (b"[1,]", "character 3: a value is missing"),
        (b"[1 2]", "character 3: a comma or ] is missing"),
        (b'{"a":1', "character 6: a comma or } is missing"),
        (b'{"a":1,}', "character 7: a key in double quotes is missing"),
        (b'{"a" 1}', "character 5: a colon is missing"),
        (b"1 2", "character 2: there is more after the value"),
        (b'["\x01"]', "character 1: the string does not end"),
        (b'["\\ud800"]', "character 1: the string holds half a surrogate pair"),
        (b"[1e400]", "character 1: the number is too large"),
        (b"[" + b"9" * 5000, "character 1: the integer has too many digits"),
        (b'{"a":{"k":1,"k":2}}', 'character 12: the key "k" is there twice'),
        (b"[[[]]]", "character 2: it is nested deeper than 2 levels"),
        (b'["\xc3"]', "byte 2: it must be UTF-8"),
    ],
)
def test_the_reader_says_what_is_wrong_and_where(data, what):
    with pytest.raises(MalformedError) as refusal:
        read(data, depth=2, unique_keys=True)
    assert what in refusal.value.message


@given(values())
def test_the_writer_spells_a_value_as_the_standard_library_does(value):
    assert write(value, PLAIN) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_depth_costs_no_stack():
    data = b"[" * 9_000 + b"]" * 9_000
    assert write(read(data, depth=9_000), PLAIN).encode() == data
    assert write(nested(9_000), PLAIN).encode() == data


def test_the_form_decides_on_strings_numbers_and_order():
    form = Form(
        lambda text: f"<{text}>", lambda number: f"i{number}", lambda number: f"f{number}", sorted_items
    )
    assert write({"b": [1, 2.5, True], "a": ("x", None)}, form) == "{<a>:[<x>,null],<b>:[i1,f2.5,true]}"


def sorted_items(members):
    return sorted(members.items())
