"""From the bytes that an issuer's address gave to a list that may be asked, or a refusal.

- A list counts when it is of the issuer that was configured for the address, is fresh, and is signed with
  that issuer's key. A signature that we have no key for is no signature.
- The unsigned shape counts only over HTTPS, from a configured issuer, and only when the owner of the
  node allowed it for that issuer (ruling 18). The signed shape without a signature never counts.
"""

from typing import Any

from msgspec import Struct

from comity.core.errors import InvalidError, MalformedError
from comity.core.revocation.alternate import read_alternate
from comity.core.revocation.crl import RevocationList, read_crl, revocation_list
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
