import hashlib
import hmac
import json
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.revocation import (
    PublicKey,
    SharedSecret,
    read_trust_key,
    sign_members,
    signature_holds,
    signed_bytes,
)
from comity.wire.errors import InvalidError
from tests.identity.protocol.samples import KEY, STRANGER, TRUSTED

RAW = KEY.vacant_id.public
BASE64 = b64encode(RAW).decode()


def pem(public):
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


PEM = pem(ed25519.Ed25519PublicKey.from_public_bytes(RAW))
members = st.dictionaries(st.text(max_size=8), st.text(max_size=8) | st.integers(-9, 9), max_size=4)


@given(members)
def test_all_members_but_the_signature_are_signed_as_sorted_ascii_json(content):
    content.pop("signature", None)
    expected = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    assert signed_bytes(content) == expected
    assert signed_bytes(content | {"signature": "x"}) == expected


@given(members)
def test_a_signature_holds_for_what_was_signed_and_by_whom(content):
    signed = content | {"signature": sign_members(content, KEY)}
    assert signature_holds(signed, TRUSTED)
    assert not signature_holds(signed, PublicKey(STRANGER.vacant_id.public))
    assert not signature_holds(signed | {"added on the way": 1}, TRUSTED)


@pytest.mark.parametrize("signature", [None, 5, "", "A", "é", "AAAA", b64encode(bytes(64)).decode(), ["x"]])
def test_anything_else_is_no_signature(signature):
    assert not signature_holds({"a": 1, "signature": signature}, TRUSTED)
    assert not signature_holds({"a": 1, "signature": signature}, SharedSecret(b"secret"))
    assert not signature_holds({"a": 1}, TRUSTED)


def test_a_signature_is_spelled_in_standard_base64():
    content = {"a": 0}
    while not set("+/") & set(sign_members(content, KEY)):
        content["a"] += 1
    signature = sign_members(content, KEY)
    assert signature_holds(content | {"signature": signature}, TRUSTED)
    url_safe = signature.replace("+", "-").replace("/", "_")
    assert not signature_holds(content | {"signature": url_safe}, TRUSTED)
    assert not signature_holds(content | {"signature": signature + "\n"}, TRUSTED)


@pytest.mark.parametrize("text", [PEM, PEM.strip(), PEM.replace("\n", "\r\n"), BASE64, f" {BASE64}\n"])
@pytest.mark.parametrize("hmac_fallback", [False, True])
def test_a_public_key_is_pem_or_base64_and_never_a_secret(text, hmac_fallback):
    assert read_trust_key(text, hmac_fallback=hmac_fallback) == PublicKey(RAW)


@pytest.mark.parametrize(
    "text",
    [
        "-----",
        "-----BEGIN PUBLIC KEY-----",
        PEM.replace("PUBLIC", "PRIVATE"),
        pem(ec.derive_private_key(7, ec.SECP256R1()).public_key()),
        PEM.replace("MCow", "MCox"),
    ],
)
@pytest.mark.parametrize("hmac_fallback", [False, True])
def test_another_pem_is_refused_even_where_a_secret_would_do(text, hmac_fallback):
    with pytest.raises(InvalidError, match="PEM"):
        read_trust_key(text, hmac_fallback=hmac_fallback)


@pytest.mark.parametrize("text", ["shared-secret-01", b64encode(bytes(31)).decode(), "clé"])
def test_a_shared_secret_needs_its_own_setting(text):
    with pytest.raises(InvalidError, match="hmac_fallback"):
        read_trust_key(text)
    key = read_trust_key(text, hmac_fallback=True)
    content = {"a": 1}
    tag = hmac.new(text.encode(), signed_bytes(content), hashlib.sha256).digest()
    assert signature_holds(content | {"signature": b64encode(tag).decode()}, key)
    assert not signature_holds({"a": 2, "signature": b64encode(tag).decode()}, key)
    assert text not in repr(key)


def test_nothing_is_no_key_and_no_secret():
    for text in ("", " "):
        with pytest.raises(InvalidError):
            read_trust_key(text, hmac_fallback=True)
