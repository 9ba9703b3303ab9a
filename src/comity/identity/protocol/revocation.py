"""Revocation lists: what an issuer says no longer counts, signed and with a date (vcp 5.4).

`CRL` is the list as it was sent, with times as the texts that were signed. `RevocationList` is the form for lookups: both
shapes of a list are converted to it, and it finds an id in one step.

`read_list` makes a list that may be asked of the bytes that an issuer's address gave, or refuses them:

- A list counts when it is of the issuer that was configured for the address, is fresh, and is signed with
  that issuer's key. A signature that we have no key for is no signature.
- There is another shape of a list (vcp 5.4): `issuer`, `updated_at`, `next_update`, `revoked`. It usually has no
  signature. Then it counts only over HTTPS, from a configured issuer, and only when the owner of the node allowed it
  for that issuer (ruling 18). The first shape without a signature never counts.
- If anything in a list is wrong, the whole list is refused: half a list would let through what its other half revokes.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.identity.protocol.keys import SigningKey
from comity.identity.protocol.signature import TrustKey, sign_members, signature_holds
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError

_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def read_moment(name: str, text: str) -> float:
    """Seconds since 1970, of RFC 3339 with an offset: a time without an offset is refused. `name` is what the field is
    called, for the refusal.
    """
    try:
        moment = datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        raise MalformedError(f"{name} must be a moment like 2026-02-28T09:00:00Z")
    return moment.timestamp()


def write_moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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


_DEPTH = 16


class CrlSource(Struct, frozen=True, kw_only=True):
    """Where an issuer publishes its list and how the list is recognised as the issuer's."""

    issuer_id: str
    uri: str
    key: TrustKey | None = None
    accept_unsigned: bool = False

    def __post_init__(self) -> None:
        if self.key is None and not self.accept_unsigned:
            raise InvalidError(
                f"no list of {self.issuer_id} could ever count; configure its key, or allow its unsigned lists"
            )
        if self.accept_unsigned and not self.is_https:
            raise InvalidError(
                f"unsigned lists of {self.issuer_id} are taken over HTTPS only; use an https:// address"
            )

    @property
    def is_https(self) -> bool:
        return self.uri[:8].lower() == "https://"


def read_list(body: bytes, source: CrlSource, *, now: float) -> RevocationList:
    """Raises MalformedError or InvalidError when it does not count."""
    received = strict_json.loads(body, depth=_DEPTH, unique_keys=True)
    if not isinstance(received, dict):
        raise MalformedError("a revocation list is a JSON object")
    if "revoked" in received and "entries" not in received:
        found = read_alternate(received)
        signed = "signature" in received
    else:
        found = revocation_list(read_crl(received))
        signed = True
    if found.issuer_id != source.issuer_id:
        raise InvalidError(f"the list is not of {source.issuer_id}")
    if signed or not source.accept_unsigned:
        _check_signature(received, source)
    if not found.is_fresh(now):
        raise InvalidError(f"the list of {source.issuer_id} is out of date")
    return found


def _check_signature(received: dict[str, Any], source: CrlSource) -> None:
    if source.key is None:
        raise InvalidError(f"the list is signed and no key of {source.issuer_id} is configured")
    if not signature_holds(received, source.key):
        raise InvalidError(f"the list does not carry a signature of {source.issuer_id}")


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
