"""Revocation lists and stapled proofs: what does not count is refused with a reason, and never read as good.

The input is taken as it is and, where it is an object, signed by the issuer.
"""

import contextlib
from typing import Any

import msgspec

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import (
    AlternateOutcome,
    CRLEntry,
    CrlSource,
    PublicKey,
    RevocationReason,
    Status,
    alternate_outcome,
    proof_status,
    read_list,
    read_trust_key,
    sign_crl,
    sign_members,
    sign_proof,
)
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError

LONGEST = 1024

_KEY = SigningKey.from_seed(bytes(32))
_NOW = 1_790_000_000
_TRUST = PublicKey(_KEY.vacant_id.public)
_SIGNED = CrlSource(issuer_id="creed", uri="https://creed.example/crl", key=_TRUST)
_UNSIGNED = CrlSource(issuer_id="creed", uri="https://creed.example/crl", accept_unsigned=True)
_CRL = sign_crl(
    _KEY,
    issuer_id="creed",
    published_at=_NOW - 60,
    next_update=_NOW + 60,
    entries=[
        CRLEntry(
            bundle_id="b", jti="j", revoked_at="2026-01-01T00:00:00Z", reason=RevocationReason.SUPERSEDED
        )
    ],
)
_PROOF = sign_proof(
    _KEY,
    status=Status.GOOD,
    produced_at=_NOW - 60,
    this_update=_NOW - 60,
    next_update=_NOW + 60,
    responder_id="r",
)
_OTHER = (
    b'{"issuer":"creed","updated_at":"2026-09-21T14:00:00Z","next_update":"2026-12-21T15:00:00Z",'
    b'"revoked":[{"jti":"j","revoked_at":"2026-01-01T00:00:00+02:00","reason":"why"}]}'
)
EXAMPLES = [
    msgspec.json.encode(_CRL),
    msgspec.json.encode(_PROOF),
    _OTHER,
    b'{"issuer_id":"creed","entries":[],"revoked":[],"published_at":"9999-12-31T23:59:60Z"}',
    b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAO2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=\n-----END PUBLIC KEY-----",
]


def check(data: bytes) -> None:
    for source in (_SIGNED, _UNSIGNED):
        _read(data, source)
    with contextlib.suppress(InvalidError):
        read_trust_key(data.decode("utf-8", "replace"), hmac_fallback=False)
    try:
        received = strict_json.loads(data, unique_keys=True)
    except MalformedError:
        return
    _outcomes(received)
    if isinstance(received, dict):
        with contextlib.suppress(MalformedError, InvalidError):
            signed = {**received, "signature": sign_members(received, _KEY)}
            _read(strict_json.dumps(signed), _SIGNED)
            _outcomes(signed)


def _read(body: bytes, source: CrlSource) -> None:
    try:
        found = read_list(body, source, now=_NOW)
    except (MalformedError, InvalidError):
        return
    assert found.issuer_id == source.issuer_id
    assert found.is_fresh(_NOW)
    assert all(found.jtis)
    assert all(found.bundle_ids)


def _outcomes(received: Any) -> None:
    assert proof_status(received, responders={"r": _TRUST}, now=_NOW) in Status
    assert alternate_outcome(received, issuer="creed", jti="j", now=_NOW) in AlternateOutcome
    assert proof_status(received, responders={}, now=_NOW) is Status.UNKNOWN
