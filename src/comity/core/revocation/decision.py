"""Whether something is revoked: the order in which the sources are asked (vcp 5.4).

| asked | answers when | else |
|---|---|---|
| our own denylist | it names the id | the next |
| the stapled proof | it counts and says good or revoked | the next |
| the issuer's list, by jti and then by bundle id | there is a usable one | the next |
| nothing: the issuer has no address for a list | good | |
| an address that gave no usable list | unknown, from `fail_closed` | |

Unknown counts as revoked wherever safety depends on it: `RevocationStatus.refuses`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from comity.core.revocation.crl import RevocationList
from comity.core.revocation.signature import TrustKey
from comity.core.revocation.stapled import Status, proof_status

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
