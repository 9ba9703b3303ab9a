"""From the bytes that an issuer's address gave to a list that may be asked, or a refusal.

- A list counts when it is of the issuer that was configured for the address, is fresh, and is signed with
  that issuer's key. A signature that we have no key for is no signature.
- There is another shape of a list (vcp 5.4): `issuer`, `updated_at`, `next_update`, `revoked`. It usually has no
  signature. Then it counts only over HTTPS, from a configured issuer, and only when the owner of the node allowed it
  for that issuer (ruling 18). The first shape without a signature never counts.
- If anything in a list is wrong, the whole list is refused: half a list would let through what its other half revokes.
"""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from comity.core.errors import InvalidError, MalformedError
from comity.core.revocation.crl import RevocationList, malformed_list, read_crl, revocation_list, window
from comity.core.revocation.moment import read_moment
from comity.core.revocation.signature import TrustKey, signature_holds
from comity.core.wire import strict_json

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
