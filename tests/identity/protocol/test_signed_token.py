import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.identity.protocol.keys import SigningKey, signature_bytes, verify
from comity.identity.protocol.tokens import (
    SignedToken,
    StampedToken,
    issue_a,
    issue_b,
    log_prefix,
    parse_signed,
    token_id,
)
from comity.wire.errors import InvalidError, MalformedError

KEY = SigningKey.from_seed(bytes(range(32)))
SECRET = b"a shared secret of enough bytes"
A = issue_a(KEY, issuer="creed", kind="user", subject="u_1")
B = issue_b(SECRET, issuer="creedspace", subject="user_42", issued_at=1_709_136_000)

fields = st.text(st.sampled_from("ABCXYZabcxyz0189._-"), min_size=1, max_size=128)


@given(fields, fields, fields)
def test_an_issued_signed_token_reads_back_with_a_true_signature(issuer, kind, subject):
    text = issue_a(KEY, issuer=issuer, kind=kind, subject=subject)
    token = parse_signed(text)
    assert isinstance(token, SignedToken)
    assert (token.issuer, token.kind, token.subject) == (issuer, kind, subject)
    assert str(token) == text
    assert len(token.signature) == 86
    signed, _, _ = text.rpartition(":")
    assert verify(KEY.vacant_id.public, signed.encode(), signature_bytes(token.signature))


@given(fields, fields, st.integers(0, 10**12 - 1))
def test_an_issued_stamped_token_reads_back_with_a_true_tag(issuer, subject, issued_at):
    text = issue_b(SECRET, issuer=issuer, subject=subject, issued_at=issued_at)
    token = parse_signed(text)
    assert isinstance(token, StampedToken)
    assert (token.issuer, token.subject, token.issued_at) == (issuer, subject, issued_at)
    assert str(token) == text
    signed, _, tag = text.rpartition(":")
    assert tag == hmac.new(SECRET, signed.encode(), hashlib.sha256).hexdigest()


@given(st.text(max_size=60) | st.text(st.sampled_from("vcp-i:.@ed25519aZ_=\n"), max_size=60), st.booleans())
def test_garbage_is_refused_or_reads_back_as_itself(text, form_b):
    text = ("vcp:i:" if form_b else "vcp-i:") + text
    try:
        token = parse_signed(text)
    except MalformedError:
        return
    assert str(token) == text


@pytest.mark.parametrize(
    "text",
    [
        "vcp-i:creed:user:u_8f3k2m:ed25519:base64url_signature",
        "vcp-i:a:b:c:ed25519:s",
        "vcp:i:creedspace:user_42:1709136000:abc123def456",
        "vcp:i:a:b:0:0",
        "vcp:i:a:b:999999999999:" + "f" * 64,
        f"vcp:i:{'a' * 128}:{'b' * 128}:000000000007:0",
    ],
)
def test_the_grammar_asks_for_no_proof(text):
    assert str(parse_signed(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "family.safe.guide",
        "VCP-I:creed:user:u:ed25519:s",
        " vcp-i:creed:user:u:ed25519:s",
        "vcp-i:creed:user:u:ed25519:s ",
        "vcp-i:creed:user:u:ed25519:s\n",
        "vcp-i:creed:user:u:ed25519:",
        "vcp-i:creed:user:u:ed25519",
        "vcp-i:creed:user:u:ed25519:s:s",
        "vcp-i:creed:user:u:ed25519:s=",
        "vcp-i:creed:user:u:ed25519:s+/",
        "vcp-i:creed:user:u:ed25519:\u017f",
        "vcp-i:creed:user:u:rsa:s",
        "vcp-i:creed:user:u:Ed25519:s",
        "vcp-i:creed:user:u::s",
        "vcp-i::user:u:ed25519:s",
        "vcp-i:creed::u:ed25519:s",
        "vcp-i:creed:user::ed25519:s",
        "vcp-i:cr eed:user:u:ed25519:s",
        "vcp-i:creed:us/er:u:ed25519:s",
        "vcp-i:creed:user:ü:ed25519:s",
        f"vcp-i:{'a' * 129}:user:u:ed25519:s",
        f"vcp-i:creed:{'a' * 129}:u:ed25519:s",
        f"vcp-i:creed:user:{'a' * 129}:ed25519:s",
        "vcp-i:creed:user:u:ed25519:" + "s" * 2048,
        "vcp:i:a:b:1",
        "vcp:i:a:b:1:",
        "vcp:i:a:b::0",
        "vcp:i:a:b:-1:0",
        "vcp:i:a:b:1.0:0",
        "vcp:i:a:b:+1:0",
        "vcp:i:a:b:1_0:0",
        "vcp:i:a:b:٣:0",
        "vcp:i:a:b:1000000000000:0",
        "vcp:i:a:b:1:A",
        "vcp:i:a:b:1:g",
        "vcp:i:a:b:1:" + "0" * 65,
        "vcp:i::b:1:0",
        "vcp:i:a::1:0",
        "vcp:i:a:b c:1:0",
        f"vcp:i:{'a' * 129}:b:1:0",
        f"vcp:i:a:{'b' * 129}:1:0",
        "vcp:i:a:b:c:1:0",
        "vcp:I:a:b:1:0",
    ],
)
def test_what_breaks_the_grammar_is_malformed(text):
    with pytest.raises(MalformedError):
        parse_signed(text)


def test_the_longest_token_is_still_read():
    head = "vcp-i:creed:user:u:ed25519:"
    assert parse_signed(head + "s" * (2048 - len(head)))
    with pytest.raises(MalformedError, match="2,048"):
        parse_signed(head + "s" * (2049 - len(head)))


@pytest.mark.parametrize(
    "signature",
    [
        "base64url_signature",
        parse_signed(A).signature[:-1],
        parse_signed(A).signature + "A",
        parse_signed(A).signature[:-1] + "B",
        "A" * 85 + "B",
        "é" * 86,
    ],
)
def test_a_signature_is_sixty_four_bytes_in_the_one_spelling(signature):
    token = SignedToken(issuer="a", kind="b", subject="c", signature=signature)
    assert signature_bytes(token.signature) is None


def test_nothing_is_issued_that_could_not_be_read():
    for wrong in ["", "a:b", "a b", "ü", "a" * 129, "a\n"]:
        for name in ("issuer", "kind", "subject"):
            given_fields = {"issuer": "a", "kind": "b", "subject": "c", name: wrong}
            with pytest.raises(InvalidError, match=name):
                issue_a(KEY, **given_fields)
        for name in ("issuer", "subject"):
            given_fields = {"issuer": "a", "subject": "c", name: wrong}
            with pytest.raises(InvalidError, match=name):
                issue_b(SECRET, issued_at=1, **given_fields)
    for stamp in (-1, 10**12):
        with pytest.raises(InvalidError, match="12 digits"):
            issue_b(SECRET, issuer="a", subject="b", issued_at=stamp)


def test_the_id_is_the_hash_of_the_token_and_a_log_sees_eight_digits_of_it():
    assert token_id(A) == hashlib.sha256(A.encode()).hexdigest()
    assert log_prefix(A) == token_id(A)[:8]
    assert token_id("\ud800") != token_id("\udc00")


@pytest.mark.parametrize("text", [A, B])
def test_a_token_does_not_show_its_proof(text):
    token = parse_signed(text)
    proof = text.rpartition(":")[2]
    assert proof not in repr(token)
    assert log_prefix(text) in repr(token)
