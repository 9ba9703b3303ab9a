"""The recorded list, the recorded proof and the other shape of a list."""

from base64 import b64decode

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import (
    CrlSource,
    Revocable,
    Status,
    alternate_outcome,
    proof_status,
    read_crl,
    read_list,
    read_moment,
    read_proof,
    read_trust_key,
    revocation_status,
    sign_crl,
    sign_proof,
    signed_bytes,
)
from comity.testing.vectors import format_runner, known_keys
from comity.wire.strict_json import dumps
from tests.identity.protocol.known_answers import of, signed_objects

KEY = SigningKey.from_seed(b"\x01" * 32)


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("crl"))
def test_vector_vcp_list_is_signed_and_read_byte_for_byte(case):
    received = case["object"]
    assert signed_bytes(received).decode() == case["payload"]
    crl = read_crl(received)
    published = read_moment("published_at", crl.published_at)
    next_update = read_moment("next_update", crl.next_update)
    assert crl == sign_crl(
        KEY,
        issuer_id=crl.issuer_id,
        published_at=int(published),
        next_update=int(next_update),
        entries=crl.entries,
    )
    source = CrlSource(
        issuer_id=crl.issuer_id, uri="https://creed.example/crl", key=read_trust_key(case.public_base64)
    )
    for now in (published, next_update - 1):
        found = read_list(dumps(received), source, now=now)
        for entry in crl.entries:
            status = revocation_status(Revocable((entry.jti,), entry.bundle_id), crl=found, now=now)
            assert (status.status, status.detail) == (Status.REVOKED, entry.reason)


@format_runner("vcp", "signed_objects", cases=signed_objects, takes=of("stapled_proof"))
def test_vector_vcp_proof_is_signed_and_believed_byte_for_byte(case):
    received = case["object"]
    assert signed_bytes(received).decode() == case["payload"]
    proof = read_proof(received)
    moments = {
        name: int(read_moment(name, getattr(proof, name)))
        for name in ("produced_at", "this_update", "next_update")
    }
    assert proof == sign_proof(KEY, status=proof.status, responder_id=proof.responder_id, **moments)
    responders = {proof.responder_id: read_trust_key(case.public_base64)}
    for now in (moments["produced_at"] - 300, moments["produced_at"], moments["next_update"] - 1):
        assert proof_status(received, responders=responders, now=now) is proof.status
    assert b64decode(case.public_base64) == KEY.vacant_id.public


@format_runner("vcp", "crl_alternate_shape")
def test_vector_vcp_other_shape_has_the_recorded_outcome(case):
    known_keys(case, "id", "jti", "issuer", "response", "expected")
    now = read_moment("now", "2026-09-01T00:00:00Z")
    found = alternate_outcome(case["response"], issuer=case["issuer"], jti=case["jti"], now=now)
    assert found == case["expected"]
