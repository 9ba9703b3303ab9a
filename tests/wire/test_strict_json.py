import json
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.wire import strict_json
from comity.wire.errors import MalformedError
from comity.wire.strict_json import Form, dumps, loads, read, write
from tests.wire.json_values import nested, same, values

ACCEPTED = {
    b"null": None,
    b" true\t": True,
    b"\r\nfalse ": False,
    b"0": 0,
    b"-0": 0,
    b"-0.0": -0.0,
    b"-12": -12,
    b"1.50": 1.5,
    b"1E5": 100000.0,
    b"1e-400": 0.0,
    b"0e999999999999": 0.0,
    b"[1e+2,1e-2]": [100.0, 0.01],
    b"18446744073709551615": 2**64 - 1,
    b"18446744073709551616": 2**64,
    b"-9223372036854775809": -(2**63) - 1,
    b"9" * 400: int("9" * 400),
    b"123456789012345678901234567890.5": 1.2345678901234568e29,
    b'""': "",
    b'"\\"\\\\\\/\\b\\f\\n\\r\\t"': '"\\/\b\f\n\r\t',
    b'"\\u0000\\u00e9\\uFFFF"': "\x00é\uffff",
    b'"\\ud83d\\ude00"': "😀",
    '"é✓😀\x7f\u2028\ufeff"'.encode(): "é✓😀\x7f\u2028\ufeff",
    b"[]": [],
    b"[ ]": [],
    b"{}": {},
    b"{ }": {},
    b'[[],{},"",0]': [[], {}, "", 0],
    b'{"a":{"b":[1,2,{"c":null}]},"":1}': {"a": {"b": [1, 2, {"c": None}]}, "": 1},
    b'{"a":1,"b":2,"a":3}': {"a": 3, "b": 2},
}
REFUSED = [
    b"",
    b" ",
    b"\xef\xbb\xbf{}",
    b"\x00",
    b"{}\x00",
    b"NaN",
    b"-NaN",
    b"Infinity",
    b"-Infinity",
    b"[nan]",
    b"nul",
    b"nulll",
    b"True",
    b"undefined",
    b"1e400",
    b"-1e400",
    b"1" * 310 + b".5",
    b"9" * 5000,
    b"01",
    b"-01",
    b"+1",
    b"-",
    b".5",
    b"1.",
    b"1.e1",
    b"1e",
    b"1e+",
    b"0x10",
    b"1_000",
    b"1,2",
    b"1 2",
    b"{}{}",
    b"[",
    b"[1",
    b"[1,",
    b"[1,]",
    b"[,1]",
    b"[1 2]",
    b"]",
    b"[}",
    b"[1}",
    b"{",
    b'{"a"',
    b'{"a":',
    b'{"a":1',
    b'{"a":1,',
    b'{"a":1,}',
    b'{"a" 1}',
    b'{"a":1 "b":2}',
    b'{"a":1]',
    b"{a:1}",
    b"{1:1}",
    b"{'a':1}",
    b"{null:1}",
    b'"',
    b'"a',
    b'"\\"',
    b'"\\',
    b'"\\u',
    b'"\\u12"',
    b'"\\u12zz"',
    b'"\\u+123"',
    b'"\\x41"',
    b'"\\a"',
    b'"\\\'"',
    b'"\n"',
    b'"\t"',
    b'"\x00"',
    b'"\x1f"',
    b"'a'",
    b"// a\n1",
    b"/* a */1",
    b"#1",
    b"\x0c1",
    b"\x0b1",
    b"\xc2\xa01",
    b"\xe2\x80\xa81",
    b'"\xff"',
    b'{"\xff":1}',
    b'"\xc3"',
    b'"\xc0\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    '"a"'.encode("utf-16"),
    '"a"'.encode("utf-16-le"),
    b'"\\ud800"',
    b'"\\udc00"',
    b'"\\ud800\\u0041"',
    b'"\\udc00\\ud800"',
    b'"\\ud800\\ud800"',
    b'{"\\ud800":1}',
]


@pytest.mark.parametrize(("data", "value"), ACCEPTED.items(), ids=lambda given: repr(given)[:30])
def test_strict_json_is_accepted_with_its_exact_value(data, value):
    assert same(loads(data), value)
    assert same(strict_json.read(data, depth=512), value)


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: repr(data)[:30])
def test_anything_else_is_malformed(data):
    with pytest.raises(MalformedError, match=r"JSON is malformed|truncated|out of range"):
        loads(data)
    with pytest.raises(MalformedError, match=r"malformed at (character|byte) "):
        strict_json.read(data, depth=512)


@pytest.mark.parametrize(
    ("data", "place"), [(b"[1,]", "byte 3"), (b'{"a" 1}', "byte 5"), (b'["a","\xff"]', "byte 6")]
)
def test_a_refusal_says_where(data, place):
    with pytest.raises(MalformedError, match=place):
        loads(data)


@given(values())
def test_what_is_written_is_read_back(value):
    as_lists = json.loads(json.dumps(value))
    assert same(loads(dumps(value)), as_lists)


@given(values())
def test_foreign_spellings_of_a_value_are_read_alike(value):
    for data in (json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        expected = json.loads(data)
        assert same(loads(data.encode()), expected)
        assert same(loads(data.encode(), unique_keys=True), expected)
        assert same(strict_json.read(data.encode(), depth=512), expected)


@given(st.text(alphabet=' \t\n[]{},:"\\/u0dD89eE+-.1tfn\x00aé', max_size=30))
def test_the_fast_and_the_exact_reader_agree_on_what_is_json(text):
    def outcome(read, **options):
        try:
            return read(text.encode(), **options)
        except MalformedError:
            return MalformedError

    for options in ({}, {"unique_keys": True}, {"lone_surrogates": True}):
        fast = outcome(loads, depth=3, **options)
        assert same(fast, outcome(strict_json.read, depth=3, **options))


@pytest.mark.parametrize("opener", [b"[", b'{"a":'])
@pytest.mark.parametrize("noise", [b"", b'"]}\\"]}",'])
def test_the_depth_limit_is_exact(opener, noise):
    def document(depth):
        closer = b"]" if opener == b"[" else b"}"
        inner = b"[" + noise + b"1]" if opener == b"[" else b"1"
        levels = depth - 1 if opener == b"[" else depth
        return opener * levels + inner + closer * levels

    assert loads(document(512))
    assert loads(document(7), depth=7)
    for data, limit in ((document(513), 512), (document(8), 7)):
        with pytest.raises(MalformedError, match=f"deeper than {limit} levels"):
            loads(data, depth=limit)


def test_brackets_in_strings_and_side_by_side_are_no_depth():
    flat = b'["' + b"[{" * 600 + b'","' + b'\\"[' * 600 + b'","\\\\",[' + b"[]," * 600 + b"{}]]"
    assert len(loads(flat)) == 4
    assert len(loads(flat, depth=3)) == 4
    with pytest.raises(MalformedError, match="deeper than 2 levels"):
        loads(flat, depth=2)


@pytest.mark.parametrize("opener", [b"[", b'{"a":', b"[[],", b'[{"a":['])
@pytest.mark.parametrize("options", [{}, {"unique_keys": True}, {"lone_surrogates": True}])
def test_hundred_thousand_levels_are_malformed_and_no_crash(opener, options):
    closed = b"[" * 100_000 + b"]" * 100_000
    for data in (opener * 100_000, opener * 100_000 + b'"\\ud800"', closed):
        with pytest.raises(MalformedError):
            loads(data, **options)


def test_depth_does_not_depend_on_how_much_stack_is_left():
    data = b"[" * 512 + b'{"a":12345678901234567890123}' + b"]" * 512

    def deep_in_the_stack(frames):
        return deep_in_the_stack(frames - 1) if frames else (loads(data, depth=513), dumps(nested(512)))

    room = sys.getrecursionlimit() - len(__import__("inspect").stack()) - 100
    value, written = deep_in_the_stack(room)
    assert dumps(value) == data
    assert written == b"[" * 512 + b"]" * 512


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'[{"x":{"y":[0,{"k":1,"j":2,"k":3}]}}]',
        b'{"a" :1,"b":":","a"\n:2}',
        b'{"":1,"":2}',
        b'{"\\"":1,"\\u0022":2}',
        b'{"\\\\":1,"b":"\\\\","\\u005c":2}',
        '{"é":1,"\\u00e9":2}'.encode(),
        b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}',
    ],
)
def test_a_key_that_is_there_twice_is_refused_where_keys_must_be_unique(data):
    assert loads(data)
    with pytest.raises(MalformedError, match="is there twice"):
        loads(data, unique_keys=True)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":{"a":1},"b":[{"a":1},{"a":2}]}',
        b'{"a":":","b":" :","\\":":1,":":"::\\\\","c":"{\\"a\\":1,\\"a\\":2}"}',
        b'{"a\\\\":1,"a":[":",":"]}',
    ],
)
def test_unique_keys_are_no_matter_of_colons_in_strings(data):
    assert loads(data, unique_keys=True) == json.loads(data)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", ":", '"', "\\", " :", '":"']), values()), max_size=4))
def test_keys_are_unique_exactly_when_no_two_are_equal(members):
    spelled = ",".join(f"{json.dumps(key)}:{json.dumps(value)}" for key, value in members)
    data = f"[{{{spelled}}}]".encode()
    if len({key for key, _ in members}) == len(members):
        assert loads(data, unique_keys=True)
    else:
        with pytest.raises(MalformedError):
            loads(data, unique_keys=True)


def test_lone_surrogates_are_kept_for_those_who_ask():
    data = b'{"\\ud800":["\\uDC00x","\\ud83d\\ude00",12345678901234567890123]}'
    value = loads(data, lone_surrogates=True)
    assert value == {"\ud800": ["\udc00x", "😀", 12345678901234567890123]}
    assert loads(dumps(value), lone_surrogates=True) == value
    assert loads(b'"\\uDFFF"', lone_surrogates=True) == "\udfff"
    with pytest.raises(MalformedError):
        loads(b'{"\\ud800":1,"\\ud800":2}', lone_surrogates=True, unique_keys=True)
    with pytest.raises(MalformedError):
        loads(b'["\\ud800",', lone_surrogates=True)


def test_lone_surrogates_are_written_as_escapes_and_halves_that_meet_as_one_character():
    assert dumps({"\udfff": "a\ud800b"}) == b'{"\\udfff":"a\\ud800b"}'
    assert dumps("\ud83d\ude00\ud83d") == '"😀\\ud83d"'.encode()


def test_integers_beyond_64_bits_are_written_exactly():
    assert dumps([2**64, -(2**63) - 1, 2**200]) == f"[{2**64},{-(2**63) - 1},{2**200}]".encode()


def test_output_is_compact_and_keeps_the_order_of_members():
    assert dumps({"b": [1, True, None], "a": "é/"}) == '{"b":[1,true,null],"a":"é/"}'.encode()


@pytest.mark.parametrize("beside", [0, 2**70])
def test_what_is_no_number_is_written_as_null(beside):
    written = dumps([float("nan"), float("inf"), -float("inf"), beside])
    assert written == b"[null,null,null,%d]" % beside


@pytest.mark.parametrize("value", [{1: 2}, {"a": datetime(2026, 1, 1, tzinfo=UTC)}, [b"x"], {1.5}])
def test_what_is_not_json_is_a_programming_error(value):
    with pytest.raises(TypeError):
        dumps(value)


def test_a_value_that_holds_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(MalformedError, match="nested deeper"):
        dumps(value)


def test_an_integer_of_too_many_digits_is_refused():
    with pytest.raises(MalformedError, match="more digits"):
        dumps(10**5000)


@pytest.mark.parametrize(
    "data",
    [
        b'["' + b"\\u0041" * 80_000 + b'\\ud800"',
        b'["' + b'\\"' * 250_000 + b'\\ud800"',
        b"[" + b'"\\ud800",' * 50_000,
        b"[" * 400 + b"[]," * 100_000,
        b'{"a":1,' * 60_000,
        b"-" * 500_000,
        b"1" * 4000 + b"e" + b"1" * 400_000,
    ],
    ids=lambda data: repr(data[:10]),
)
def test_hostile_input_is_refused_in_linear_time(data, cpu_seconds):
    for options in ({}, {"unique_keys": True}, {"lone_surrogates": True}):
        with cpu_seconds(1.5), pytest.raises(MalformedError):
            loads(data, **options)


# test_exact_json


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
