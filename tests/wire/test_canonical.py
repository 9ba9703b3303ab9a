import hashlib
import json
import math
import shutil
import struct
import subprocess

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from comity.testing.vectors import vector_file
from comity.wire.canonical import ascii_form, envelope_form, envelope_form_of_text, jcs, js_stringify
from comity.wire.errors import MalformedError
from comity.wire.strict_json import loads
from tests.wire.json_values import NASTY_FLOATS, NASTY_INTEGERS, NASTY_TEXTS, floats, integers, nested, values

FORMS = [envelope_form, ascii_form, jcs, js_stringify]


def reference(value, *, ascii_only=False):
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=ascii_only, allow_nan=False)
    return text.encode()


def doubles():
    """Every bit pattern is as likely as any other, so that all magnitudes come up."""
    patterns = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack(">d", struct.pack(">Q", bits))[0])
    return patterns.filter(math.isfinite)


def turned_around(value):
    """The same value with the members of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    return [turned_around(item) for item in value] if isinstance(value, list) else value


@given(
    st.recursive(
        st.none() | st.text() | st.integers(-(2**63), 2**63 - 1),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_the_form_of_text_is_the_envelope_form_where_there_is_only_text(value):
    assert envelope_form_of_text(value) == envelope_form(value)


def test_the_form_of_text_refuses_half_a_surrogate_pair_as_the_envelope_form_does():
    with pytest.raises(MalformedError, match="surrogate"):
        envelope_form_of_text({"text": "\ud800"})


@given(values())
def test_the_envelope_form_is_pythons_sorted_form(value):
    assert envelope_form(value) == reference(value)


@given(values())
def test_the_ascii_form_is_pythons_sorted_form_in_ascii(value):
    assert ascii_form(value) == reference(value, ascii_only=True)


@given(values(floats=doubles()))
def test_numbers_of_any_magnitude_look_as_in_python(value):
    assert envelope_form(value) == reference(value)
    assert ascii_form(value) == reference(value, ascii_only=True)


@given(values(integers=st.integers(-(2**53) + 1, 2**53 - 1), floats=floats | doubles()))
def test_jcs_is_what_the_rfc_package_gives(value):
    assert jcs(value) == rfc8785.dumps(value)


@given(st.lists(floats | doubles() | integers.filter(lambda number: abs(number) < 2**1023)))
def test_javascript_writes_numbers_as_the_rfc_does(numbers):
    assert js_stringify(numbers) == rfc8785.dumps([float(number) for number in numbers])
    assert jcs(numbers) == js_stringify(numbers)


@pytest.mark.parametrize("text", [*NASTY_TEXTS, *map(chr, range(0x100))])
@pytest.mark.parametrize("slow", [[], [1e-7, 2**70]], ids=["fast", "exact"])
def test_strings_are_escaped_alike_on_both_ways(text, slow):
    value = {text: [text, *slow]}
    assert envelope_form(value) == reference(value)
    assert ascii_form(value) == reference(value, ascii_only=True)
    plain = json.dumps({text: text}, separators=(",", ":"), ensure_ascii=False).encode()
    assert jcs({text: text}) == js_stringify({text: text}) == plain


@pytest.mark.parametrize(
    ("number", "python", "javascript"),
    [
        (1.0, "1.0", "1"),
        (-0.0, "-0.0", "0"),
        (0.5, "0.5", "0.5"),
        (1e-05, "1e-05", "0.00001"),
        (1e-06, "1e-06", "0.000001"),
        (1e-07, "1e-07", "1e-7"),
        (-1.5e-07, "-1.5e-07", "-1.5e-7"),
        (1e15, "1000000000000000.0", "1000000000000000"),
        (1e16, "1e+16", "10000000000000000"),
        (1e21, "1e+21", "1e+21"),
        (1.5e300, "1.5e+300", "1.5e+300"),
        (5e-324, "5e-324", "5e-324"),
        (123456789012345680000.0, "1.2345678901234568e+20", "123456789012345680000"),
        (1000.25, "1000.25", "1000.25"),
        (2**53, "9007199254740992", "9007199254740992"),
        (2**53 + 1, "9007199254740993", "9007199254740992"),
        (-(2**53) - 1, "-9007199254740993", "-9007199254740992"),
        (2**63, "9223372036854775808", "9223372036854776000"),
        (2**63 - 1, "9223372036854775807", "9223372036854776000"),
        (2**64 - 1, "18446744073709551615", "18446744073709552000"),
        (10**21, "1000000000000000000000", "1e+21"),
        (1794722172217, "1794722172217", "1794722172217"),
    ],
)
def test_each_contract_has_its_own_numbers(number, python, javascript):
    assert envelope_form([number]) == ascii_form([number]) == f"[{python}]".encode()
    assert jcs([number]) == js_stringify([number]) == f"[{javascript}]".encode()
    assert js_stringify(number) == jcs(number) == javascript.encode()


def test_keys_sort_by_code_point_in_python_and_by_utf16_unit_in_the_rfc():
    value = {"\U00010000": 1, "\ue000": 2, "é": 3, "z": 4, "a": {"\ufe0f": 5, "😀": 6}}
    assert envelope_form(value) == '{"a":{"\ufe0f":5,"😀":6},"z":4,"é":3,"\ue000":2,"\U00010000":1}'.encode()
    assert jcs(value) == '{"a":{"😀":6,"\ufe0f":5},"z":4,"é":3,"\U00010000":1,"\ue000":2}'.encode()


def test_javascript_puts_array_indices_first_and_keeps_the_rest_as_inserted():
    value = {
        "b": {"2": 0, "1": 0},
        "10": 0,
        "4294967295": 0,
        "9": 0,
        "01": 0,
        "-1": 0,
        "4294967294": 0,
        "1.0": 0,
        "²": 0,
        "٣": 0,
        "": 0,
        "0": 0,
        "a": 0,
    }
    written = json.loads(js_stringify(value))
    expected = ["0", "9", "10", "4294967294", "b", "4294967295", "01", "-1", "1.0", "²", "٣", "", "a"]
    assert list(written) == expected
    assert list(written["b"]) == ["1", "2"]


@given(st.dictionaries(st.integers(0, 2**33).map(str) | st.text(max_size=3), st.integers(0, 9)))
def test_javascript_order_holds_for_any_keys(members):
    written = list(json.loads(js_stringify(members)))
    indices = [key for key in members if key.isascii() and key.isdigit() and str(int(key)) == key]
    indices = sorted((key for key in indices if int(key) < 2**32 - 1), key=int)
    assert written == indices + [key for key in members if key not in indices]


@pytest.mark.skipif(
    shutil.which("node") is None, reason="there is no JavaScript here to ask: node is not installed"
)
def test_javascript_itself_agrees(randomness):
    def scalar():
        number = struct.unpack(">d", randomness.bytes(8))[0]
        integer = randomness.integer(0, 2**64) >> randomness.integer(0, 63)
        return randomness.choice(
            [
                number if math.isfinite(number) else 0.5,
                randomness.choice(NASTY_FLOATS),
                randomness.choice(NASTY_INTEGERS),
                integer,
                key(),
                "\ud800" + key(),
                None,
            ]
        )

    def key():
        index = randomness.integer(0, 2**34) >> randomness.integer(0, 33)
        return randomness.choice([*NASTY_TEXTS, str(index), str(index), str(index)])

    given = [{key(): [scalar(), {key(): scalar() for _ in range(4)}] for _ in range(6)} for _ in range(500)]
    script = "process.stdout.write(JSON.stringify(JSON.parse(require('fs').readFileSync(0, 'utf8'))))"
    spelled = json.dumps(given).encode()
    said = subprocess.run(["node", "-e", script], input=spelled, capture_output=True, check=True).stdout
    assert js_stringify(loads(spelled, lone_surrogates=True)) == said


def test_half_a_surrogate_pair_is_escaped_where_the_form_can_and_refused_where_it_cannot():
    value = {"a\ud800": "\udc00"}
    assert js_stringify(value) == ascii_form(value) == b'{"a\\ud800":"\\udc00"}'
    for form in (envelope_form, jcs):
        with pytest.raises(MalformedError, match="surrogate"):
            form(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null_in_javascript_and_refused_elsewhere(number):
    value = {"a": None, "b": number}
    assert js_stringify(value) == b'{"a":null,"b":null}'
    for form in (envelope_form, ascii_form, jcs):
        with pytest.raises(MalformedError, match="no canonical form"):
            form(value)


def test_an_integer_too_large_for_a_double_is_infinite_where_numbers_are_doubles():
    assert js_stringify([10**400]) == b"[null]"
    assert envelope_form([10**400]) == b"[1" + b"0" * 400 + b"]"
    with pytest.raises(MalformedError, match="no canonical form"):
        jcs([10**400])


@pytest.mark.parametrize("form", FORMS)
def test_the_deepest_value_that_can_be_read_can_be_signed(form):
    assert form(nested(512)) == b"[" * 512 + b"]" * 512


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [{1: 2}, [b"x"], {"a": {1}}, {"b": 1, 2: 3}])
def test_what_is_not_json_is_a_programming_error(form, value):
    with pytest.raises(TypeError):
        form(value)


@given(values(texts=st.text(max_size=5)))
def test_a_canonical_form_is_a_fixed_point(value):
    for form in (envelope_form, ascii_form, js_stringify):
        once = form(value)
        assert form(loads(once)) == once
    once = jcs(json.loads(js_stringify(value)))
    assert jcs(loads(once)) == once


@given(values())
def test_sorted_forms_do_not_depend_on_the_order_of_members(value):
    value = json.loads(json.dumps(value))
    for form in (envelope_form, ascii_form):
        assert form(turned_around(value)) == form(value)


@pytest.mark.vector
@pytest.mark.parametrize("dialect", ["seed", "selfeval"])
def test_vector_envelope_signing_payloads_are_in_the_envelope_form(dialect):
    content = vector_file("envelope", "vectors")["dialects"][dialect]
    envelopes = content["envelopes"] + content["chain"]["envelopes"]
    assert envelopes
    for envelope in envelopes:
        payload = bytes.fromhex(envelope["signing_payload_hex"])
        assert payload == envelope["signing_payload_utf8"].encode()
        assert envelope_form(turned_around(loads(payload, unique_keys=True))) == payload


@pytest.mark.vector
def test_vector_envelope_cards_are_in_the_envelope_form():
    cards = vector_file("envelope", "vectors")["cards"]
    assert cards
    for card in cards:
        given = card["input"]
        substrate = {"policy": given["policy"], "allowed_substrates": given["allowed_substrates"]}
        assert envelope_form(substrate) == card["substrate_canonical_utf8"].encode()
        serialized = bytes.fromhex(card["serialized_hex"])
        assert envelope_form(turned_around(loads(serialized))) == serialized


@pytest.mark.vector
def test_vector_envelope_logbook_and_bundle_are_hashed_over_the_envelope_form():
    content = vector_file("envelope", "vectors")
    for entry in content["logbook"]["entries"]:
        payload = bytes.fromhex(entry["signing_payload_hex"])
        head = f"{entry['kind']}\x1f{entry['ts']}\x1f".encode()
        assert payload.startswith(head + envelope_form(turned_around(entry["payload"])) + b"\x1f")
    bundle = content["behavior_bundle"]
    keys = ("tool_whitelist", "system_prompt", "policy_dsl")
    hashed = envelope_form({key: sorted(bundle[key]) if key == keys[0] else bundle[key] for key in keys})
    assert hashlib.blake2b(hashed, digest_size=32).hexdigest() == bundle["bundle_hash_hex"]


@pytest.mark.vector
def test_vector_envelope_register_event_is_hashed_over_the_ascii_form():
    content = vector_file("envelope", "vectors")
    event = content["register_event"]
    owner = next(key for key in content["keys"] if key["name"] == event["owner"])
    payload = {
        "visibility": event["visibility"],
        "vacant_id": owner["public_hex"],
        "card_hash": event["card_hash_hex"],
        "halo_version": event["halo_version"],
    }
    digest = hashlib.blake2b(ascii_form(payload), digest_size=32).digest()
    assert digest in bytes.fromhex(event["canonical_hex"])


@pytest.mark.vector
def test_vector_peers_signed_strings_are_what_javascript_makes_of_the_wire():
    envelopes = vector_file("peers", "crypto_vectors")["mac"]["envelopes"]
    assert envelopes
    for envelope in envelopes:
        sent = loads(envelope["wire"].encode(), lone_surrogates=True)["pipe"]
        signed = {key: sent[key] for key in ("kind", "ts", "nonce", "room", "from_stream_id", "payload")}
        assert js_stringify(signed) == envelope["signed_string"].encode()
        assert js_stringify({"pipe": sent}) == envelope["wire"].encode()
