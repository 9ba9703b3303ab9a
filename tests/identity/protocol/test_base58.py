import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.keys import BASE58, decode_base58, encode_base58
from comity.wire.errors import MalformedError


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\0", "1"),
        (b"\0\0\x01", "112"),
        (b"Hello World!", "2NEpo7TZRRrLZSi2U"),
        (bytes.fromhex("0000287fb4cd"), "11233QC4"),
        (b"\xff", "5Q"),
    ],
)
def test_known_answers_hold_both_ways(data, text):
    assert encode_base58(data) == text
    assert decode_base58(text) == data


@given(st.binary(max_size=80))
def test_whatever_is_encoded_comes_back(data):
    assert decode_base58(encode_base58(data)) == data


@given(st.text(BASE58, max_size=80))
def test_every_text_stands_for_one_value_only(text):
    assert encode_base58(decode_base58(text)) == text


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "2NEpo7TZRRrLZSi2U ", "é", "1\n"])
def test_a_foreign_character_is_refused(text):
    with pytest.raises(MalformedError, match="alphabet"):
        decode_base58(text)
