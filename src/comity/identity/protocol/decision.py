"""Whether something is revoked: the order in which the sources are asked (vcp 5.4).

| asked | answers when | else |
|---|---|---|
| our own denylist | it names the id | the next |
| the stapled proof | it counts and says good or revoked | the next |
| the issuer's list, by jti and then by bundle id | there is a usable one | the next |
| nothing: the issuer has no address for a list | good | |
| an address that gave no usable list | unknown, from `fail_closed` | |

Unknown counts as revoked wherever safety depends on it: `RevocationStatus.refuses`.

A stapled proof is a responder's signed word about one bundle, brought along by whoever presents it. It counts when a
responder we know signed it, it was produced at most 24 hours ago, and now lies in its window. Otherwise its status is
`unknown`, as if it had not been sent. So a good proof saves a request to the issuer, and a bad one prevents nothing.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.revocation import RevocationList, read_moment, write_moment
from comity.identity.protocol.signature import TrustKey, sign_members, signature_holds
from comity.wire.errors import MalformedError

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


NO_RESPONDERS: Final[Mapping[str, TrustKey]] = {}


class Source(StrEnum):
    DENYLIST = "denylist"
    STAPLED = "stapled"
    CRL = "crl"
    FAIL_CLOSED = "fail_closed"


class Revocable(Struct, frozen=True):
    """The ids under which something may have been revoked. A token can have several ids of its own."""

    jtis: tuple[str, ...]
    bundle_id: str | None = None


class Denylist(Struct, frozen=True):
    """What the owner of this node revoked here, whatever the issuer says."""

    jtis: frozenset[str] = frozenset()
    bundle_ids: frozenset[str] = frozenset()

    def names(self, subject: Revocable) -> bool:
        return not self.jtis.isdisjoint(subject.jtis) or subject.bundle_id in self.bundle_ids


class Unavailable(Struct, frozen=True):
    """There is an address for a list, and no usable list; `reason` is for the log."""

    reason: str


class RevocationStatus(Struct, frozen=True):
    """`detail` is the reason that was given for a revocation, or why nothing is known."""

    status: Status
    source: Source
    detail: str = ""

    @property
    def refuses(self) -> bool:
        return self.status is not Status.GOOD


def revocation_status(
    subject: Revocable,
    *,
    crl: RevocationList | Unavailable | None,
    now: float,
    grace: float = 0.0,
    stapled: Any = None,
    responders: Mapping[str, TrustKey] = NO_RESPONDERS,
    denylist: Denylist = Denylist(),  # noqa: B008 - frozen
) -> RevocationStatus:
    """`crl` is None when the issuer has no address for a list. `grace` is how long a list out of date is still
    taken, which is for whoever is already fetching the next one. `stapled` is the proof as it was received.
    """
    if denylist.names(subject):
        return RevocationStatus(Status.REVOKED, Source.DENYLIST, "revoked on this node")
    if stapled is not None:
        told = proof_status(stapled, responders=responders, now=now)
        if told is not Status.UNKNOWN:
            return RevocationStatus(told, Source.STAPLED)
    if crl is None:
        return RevocationStatus(Status.GOOD, Source.CRL, "the issuer publishes no list")
    if isinstance(crl, Unavailable):
        return RevocationStatus(Status.UNKNOWN, Source.FAIL_CLOSED, crl.reason)
    if not crl.is_fresh(now, grace):
        return RevocationStatus(Status.UNKNOWN, Source.FAIL_CLOSED, "the list is out of date")
    reason = _listed(crl, subject)
    if reason is not None:
        return RevocationStatus(Status.REVOKED, Source.CRL, reason)
    return RevocationStatus(Status.GOOD, Source.CRL)


def _listed(crl: RevocationList, subject: Revocable) -> str | None:
    for jti in subject.jtis:
        if jti in crl.jtis:
            return crl.jtis[jti]
    return None if subject.bundle_id is None else crl.bundle_ids.get(subject.bundle_id)
