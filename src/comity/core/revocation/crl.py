"""Revocation lists: what an issuer says no longer counts, signed and with a date (vcp 5.4).

`CRL` is the list as it was sent, with times as the texts that were signed. `RevocationList` is the form for lookups: both
shapes of a list are converted to it, and it finds an id in one step.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from comity.core.errors import InvalidError, MalformedError
from comity.core.identity.keys import SigningKey
from comity.core.revocation.moment import read_moment, write_moment
from comity.core.revocation.signature import sign_members


class RevocationReason(StrEnum):
    KEY_COMPROMISE = "key_compromise"
    CONTENT_UNSAFE = "content_unsafe"
    SUPERSEDED = "superseded"
    ISSUER_REQUEST = "issuer_request"


class CRLEntry(Struct, frozen=True, kw_only=True):
    bundle_id: str
    jti: str
    revoked_at: str
    reason: RevocationReason


class CRL(Struct, frozen=True, kw_only=True):
    issuer_id: str
    published_at: str
    next_update: str
    entries: tuple[CRLEntry, ...]
    signature: str


class RevocationList(Struct, frozen=True):
    """`jtis` and `bundle_ids` lead to the reason that was given."""

    issuer_id: str
    published_at: float
    next_update: float
    jtis: dict[str, str]
    bundle_ids: dict[str, str]

    def is_fresh(self, now: float, grace: float = 0.0) -> bool:
        return now < self.next_update + grace


def read_crl(received: Any) -> CRL:
    """The list that a JSON value spells; MalformedError otherwise. Its signature is not judged here."""
    try:
        crl = msgspec.convert(received, CRL)
    except msgspec.ValidationError as error:
        raise malformed_list(error) from None
    for entry in crl.entries:
        read_moment("revoked_at", entry.revoked_at)
        if not entry.jti and not entry.bundle_id:
            raise MalformedError("an entry of the revocation list names neither a jti nor a bundle_id")
    return crl


def revocation_list(crl: CRL) -> RevocationList:
    published, next_update = window("published_at", crl.published_at, crl.next_update)
    jtis: dict[str, str] = {}
    bundle_ids: dict[str, str] = {}
    for entry in crl.entries:
        if entry.jti:
            jtis.setdefault(entry.jti, entry.reason.value)
        if entry.bundle_id:
            bundle_ids.setdefault(entry.bundle_id, entry.reason.value)
    return RevocationList(crl.issuer_id, published, next_update, jtis, bundle_ids)


def window(name: str, begin: str, next_update: str) -> tuple[float, float]:
    """Both ends of the time for which a list speaks, in order."""
    begins, ends = read_moment(name, begin), read_moment("next_update", next_update)
    if ends <= begins:
        raise InvalidError(f"next_update of the revocation list does not come after {name}")
    return begins, ends


def malformed_list(error: msgspec.ValidationError) -> MalformedError:
    """Says where the fault is, and repeats nothing of what a stranger wrote there."""
    return MalformedError(f"the revocation list is malformed: {str(error).rpartition(' - at ')[2]}")


def sign_crl(
    key: SigningKey, *, issuer_id: str, published_at: int, next_update: int, entries: Iterable[CRLEntry]
) -> CRL:
    crl = CRL(
        issuer_id=issuer_id,
        published_at=write_moment(published_at),
        next_update=write_moment(next_update),
        entries=tuple(entries),
        signature="",
    )
    return msgspec.structs.replace(crl, signature=sign_members(msgspec.to_builtins(crl), key))
