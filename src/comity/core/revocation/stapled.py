"""Stapled proofs: a responder's signed word about one bundle, brought along by whoever presents it (vcp 5.4).

A proof counts when a responder we know signed it, it was produced at most 24 hours ago, and now lies in
its window. Otherwise its status is `unknown`, as if it had not been sent. So a good proof saves a request to
the issuer, and a bad one prevents nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.core.errors import MalformedError
from comity.core.identity.keys import SigningKey
from comity.core.revocation.moment import read_moment, write_moment
from comity.core.revocation.signature import TrustKey, sign_members, signature_holds

MAX_PROOF_AGE_S: Final = 86_400.0


class Status(StrEnum):
    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


class StapledProof(Struct, frozen=True, kw_only=True):
    status: Status
    produced_at: str
    this_update: str
    next_update: str
    responder_id: str
    signature: str


def read_proof(received: Any) -> StapledProof:
    """The proof that a JSON value spells; MalformedError otherwise. Its signature is not judged here."""
    try:
        return msgspec.convert(received, StapledProof)
    except msgspec.ValidationError:
        raise MalformedError(
            "a stapled proof has a status (good, revoked or unknown), produced_at, this_update, next_update, "
            "responder_id and signature, all of them texts"
        ) from None


def proof_status(received: Any, *, responders: Mapping[str, TrustKey], now: float) -> Status:
    """What a proof, as it was received, is worth."""
    try:
        proof = read_proof(received)
        produced = read_moment("produced_at", proof.produced_at)
        begins = read_moment("this_update", proof.this_update)
        ends = read_moment("next_update", proof.next_update)
    except MalformedError:
        return Status.UNKNOWN
    key = responders.get(proof.responder_id)
    in_time = now - produced <= MAX_PROOF_AGE_S and begins <= now < ends
    if key is None or not in_time or not signature_holds(received, key):
        return Status.UNKNOWN
    return proof.status


def sign_proof(
    key: SigningKey,
    *,
    status: Status,
    produced_at: int,
    this_update: int,
    next_update: int,
    responder_id: str,
) -> StapledProof:
    proof = StapledProof(
        status=status,
        produced_at=write_moment(produced_at),
        this_update=write_moment(this_update),
        next_update=write_moment(next_update),
        responder_id=responder_id,
        signature="",
    )
    return msgspec.structs.replace(proof, signature=sign_members(msgspec.to_builtins(proof), key))
