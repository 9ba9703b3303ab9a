import pytest

from comity.identity.protocol.keys import SigningKey, is_key, signature_bytes, signature_holds, signature_of

KEY = SigningKey(b"k" * 32)
SIGNED = signature_of(b"words", KEY)
NAME = KEY.vacant_id.hex()


def test_a_signature_holds_for_its_key_and_its_words_alone():
    assert signature_holds(NAME, b"words", SIGNED)
    assert not signature_holds(NAME, b"other words", SIGNED)
    assert not signature_holds(SigningKey(b"o" * 32).vacant_id.hex(), b"words", SIGNED)
    assert signature_bytes(SIGNED) == KEY.sign(b"words")


@pytest.mark.parametrize(
    "text",
    [
        "",
        SIGNED + "==",
        SIGNED + "=",
        f" {SIGNED}",
        SIGNED[:-1],
        SIGNED[:-1] + chr(ord(SIGNED[-1]) + 1),
        f"{SIGNED[:40]}!{SIGNED[40:]}",
        SIGNED.replace("-", "+").replace("_", "/") + " ",
        "\u00e9" * 86,
    ],
)
def test_a_signature_is_written_in_one_way(text):
    assert signature_bytes(text) is None
    assert not signature_holds(NAME, b"words", text)


@pytest.mark.parametrize("name", ["", NAME.upper(), NAME[:-1], "g" * 64, f" {NAME}"])
def test_a_key_is_named_in_lower_case_hex(name):
    assert is_key(NAME)
    assert not is_key(name)
    assert not signature_holds(name, b"words", SIGNED)
