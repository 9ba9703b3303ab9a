"""Lists and proofs of an issuer that is ours."""

import msgspec

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import (
    CRLEntry,
    CrlSource,
    PublicKey,
    RevocationReason,
    Status,
    sign_crl,
    sign_members,
    sign_proof,
)
from comity.wire.strict_json import dumps

NOW = 1_767_225_600
HOUR = 3600
KEY = SigningKey.from_seed(bytes(range(32)))
STRANGER = SigningKey.from_seed(bytes(32))
TRUSTED = PublicKey(KEY.vacant_id.public)
SOURCE = CrlSource(issuer_id="creed", uri="https://creed.example/crl", key=TRUSTED)
UNSIGNED_SOURCE = CrlSource(issuer_id="creed", uri="https://creed.example/crl", accept_unsigned=True)


def entry(jti="j-1", bundle_id="b-1", reason=RevocationReason.KEY_COMPROMISE):
    return CRLEntry(bundle_id=bundle_id, jti=jti, revoked_at="2025-12-31T00:00:00Z", reason=reason)


def crl(key=KEY, *entries, issuer_id="creed", published_at=NOW, next_update=NOW + HOUR):
    """The members of a signed list, as they are received."""
    signed = sign_crl(
        key, issuer_id=issuer_id, published_at=published_at, next_update=next_update, entries=entries
    )
    return msgspec.to_builtins(signed)


def crl_body(*arguments, **fields):
    return dumps(crl(*arguments, **fields))


def signed_again(members, key=KEY):
    return members | {"signature": sign_members(members, key)}


def proof(key=KEY, status=Status.GOOD, **fields):
    fields = {
        "produced_at": NOW,
        "this_update": NOW - HOUR,
        "next_update": NOW + HOUR,
        "responder_id": "responder",
    } | fields
    return msgspec.to_builtins(sign_proof(key, status=status, **fields))


def alternate(*revoked, **fields):
    return {
        "issuer": "creed",
        "updated_at": "2026-01-01T00:00:00Z",
        "next_update": "2026-01-01T01:00:00Z",
        "revoked": [
            {"jti": jti, "reason": "key_compromise", "revoked_at": "2025-12-31T00:00:00Z"} for jti in revoked
        ],
    } | fields
