"""The other shape of a revocation list (vcp 5.4): `issuer`, `updated_at`, `next_update`, `revoked`.

It usually carries no signature. Then its truth is that of the connection it came over, and it counts only
under the conditions of ruling 18, which `reading` keeps. Anything wrong in it makes the whole list
unavailable: half a list would let through what its other half revokes.
"""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from comity.core.errors import InvalidError, MalformedError
from comity.core.revocation.crl import RevocationList, malformed_list, window
from comity.core.revocation.moment import read_moment


class AlternateEntry(Struct, frozen=True, kw_only=True):
    jti: str
    reason: str
    revoked_at: str


class AlternateCRL(Struct, frozen=True, kw_only=True):
    issuer: str
    updated_at: str
    next_update: str
    revoked: tuple[AlternateEntry, ...]


class AlternateOutcome(StrEnum):
    NOT_REVOKED = "not_revoked"
    REVOKED = "revoked"
    UNAVAILABLE = "unavailable"


def read_alternate(received: Any) -> RevocationList:
    """Raises MalformedError or InvalidError."""
    try:
        crl = msgspec.convert(received, AlternateCRL)
    except msgspec.ValidationError as error:
        raise malformed_list(error) from None
    updated, next_update = window("updated_at", crl.updated_at, crl.next_update)
    jtis: dict[str, str] = {}
    for entry in crl.revoked:
        read_moment("revoked_at", entry.revoked_at)
        if not entry.jti.strip() or not entry.reason.strip():
            raise MalformedError("an entry of the revocation list has a blank jti or reason")
        if entry.jti in jtis:
            raise InvalidError("the revocation list names a jti twice")
        jtis[entry.jti] = entry.reason
    return RevocationList(crl.issuer, updated, next_update, jtis, {})


def alternate_outcome(received: Any, *, issuer: str, jti: str, now: float) -> AlternateOutcome:
    """What a response of this shape says about one id."""
    try:
        found = read_alternate(received)
    except (MalformedError, InvalidError):
        return AlternateOutcome.UNAVAILABLE
    if found.issuer_id != issuer or not found.is_fresh(now):
        return AlternateOutcome.UNAVAILABLE
    return AlternateOutcome.REVOKED if jti in found.jtis else AlternateOutcome.NOT_REVOKED
