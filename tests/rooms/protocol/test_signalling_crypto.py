"""Hashes and encryption of signalling: the recorded answers, and what is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.rooms.protocol.signalling import (
    SALT,
    RoomCipher,
    effective_password,
    signalling_room,
    signalling_stream,
)
from comity.testing.vectors import format_runner, known_keys, vector_file
from comity.wire.errors import MalformedError


def sdk_cases(content):
    for at, case in enumerate(content["sdk"]):
        yield f"sdk-{at}", case


@format_runner("peers", "crypto_vectors", cases=sdk_cases)
def test_vector_peers_names_are_hashed_and_texts_encrypted_as_recorded(case):
    known_keys(
        case,
        "password",
        "effective_password",
        "salt",
        "room_in",
        "room_sanitized",
        "stream_in",
        "stream_sanitized",
        "hashed_room",
        "hashed_stream",
        "aes",
    )
    password = None if case["password"] == "<undefined>" else case["password"]
    cipher = RoomCipher(effective_password(password))
    assert cipher.password == case["effective_password"]
    assert case["salt"] == SALT
    assert signalling_room(case["room_in"]) == case["room_sanitized"]
    assert signalling_stream(case["stream_in"]) == case["stream_sanitized"]
    assert cipher.room_id(case["room_in"]) == case.get("hashed_room", case["room_sanitized"])
    assert cipher.stream_id(case["stream_in"]) == case.get("hashed_stream", case["stream_sanitized"])
    if cipher.password is not None:
        aes = case["aes"]
        known_keys(aes, "plaintext", "key_phrase", "vector", "ciphertext", "roundtrip")
        assert cipher.encrypt(aes["plaintext"], bytes.fromhex(aes["vector"])) == (
            aes["ciphertext"],
            aes["vector"],
        )
        assert cipher.decrypt(aes["ciphertext"], aes["vector"]) == aes["plaintext"]


@pytest.mark.vector
def test_vector_peers_recorded_descriptions_and_candidates_can_be_read():
    cipher = RoomCipher(effective_password(None))
    seen = set()
    for line in vector_file("peers", "sig_relay"):
        message = line.get("msg", {})
        for name in ("description", "candidates"):
            if name in message:
                result = json.loads(cipher.decrypt(message[name], message["vector"]))
                seen.add(result["type"] if name == "description" else name)
    assert seen == {"offer", "answer", "candidates"}


@given(st.text(), st.text(min_size=1), st.binary(min_size=16, max_size=16))
def test_what_was_encrypted_is_decrypted(text, password, iv):
    if password.isspace():
        return
    cipher = RoomCipher(effective_password(password))
    assert cipher.decrypt(*cipher.encrypt(text, iv)) == text


@pytest.mark.parametrize(
    ("text", "vector"),
    [
        ("", "00" * 16),
        ("zz" * 16, "00" * 16),
        ("00" * 15, "00" * 16),
        ("00" * 16, "00" * 15),
        ("00" * 16, "0" * 31),
        ("00" * 16, ""),
        ("ab\n" * 16, "00" * 16),
        ("é" * 32, "00" * 16),
    ],
)
def test_damaged_messages_are_refused(text, vector):
    with pytest.raises(MalformedError):
        RoomCipher("secret").decrypt(text, vector)


def test_another_password_is_noticed():
    text, vector = RoomCipher("one").encrypt('{"type":"offer"}', bytes(16))
    with pytest.raises(MalformedError, match="passwords differ"):
        RoomCipher("two").decrypt(text, vector)


def test_a_stream_of_another_password_is_not_ours():
    assert RoomCipher("one").clear_stream(RoomCipher("one").stream_id("agent")) == "agent"
    assert RoomCipher("one").clear_stream(RoomCipher("two").stream_id("agent")) is None
    assert RoomCipher(None).clear_stream("agent") == "agent"


def test_only_spaces_are_no_password():
    with pytest.raises(Exception, match="only spaces"):
        effective_password(" \ufeff ")
    with pytest.raises(Exception, match="half a character"):
        effective_password("a\ud800")


def test_names_are_cut_to_what_the_reference_keeps():
    assert signalling_room("r" * 40) == "r" * 30
    assert signalling_stream("s" * 80) == "s" * 64
