import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.envelopes.protocol.message import hex_bytes, shaped, vacant_id
from tests.envelopes.protocol.envelope_samples import ALICE
from tests.wire.json_values import values


class Shape(Struct):
    name: str
    number: int = 0


@given(st.binary(max_size=80), st.booleans())
def test_bytes_come_back_from_hex_of_either_case(data, upper):
    text = data.hex().upper() if upper else data.hex()
    assert hex_bytes(text, "tip") == data


@pytest.mark.parametrize("text", ["0", "0g", "00 00", " 0000", "0000\n", "0x00", "\u0660\u0660", "\ud800"])
def test_what_is_not_hex_is_refused_by_the_name_of_its_member(text):
    with pytest.raises(EnvelopeFormatError, match="tip must be"):
        hex_bytes(text, "tip")


@pytest.mark.parametrize("text", ["", "00", ALICE.vacant_id.hex()[2:], ALICE.vacant_id.hex() + "00"])
def test_an_id_is_64_digits_and_otherwise_refused_by_the_name_of_its_member(text):
    assert vacant_id(ALICE.vacant_id.hex().upper(), "to") == ALICE.vacant_id
    with pytest.raises(EnvelopeFormatError, match=f"to must be 64 hexadecimal digits, not {len(text)}"):
        vacant_id(text, "to")
    with pytest.raises(EnvelopeFormatError, match="to must be"):
        vacant_id("zz" * 32, "to")


def test_a_value_of_the_right_shape_is_taken():
    assert shaped({"name": "a", "more": 1}, Shape, "thing") == Shape("a")


@given(values())
def test_any_other_value_is_refused_by_what_it_should_have_been(value):
    with pytest.raises(EnvelopeFormatError, match="invalid thing: "):
        shaped(value, Shape, "thing")
