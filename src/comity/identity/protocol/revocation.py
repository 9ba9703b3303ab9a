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

import binascii
import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.identity.protocol.keys import KEY_BYTES, SigningKey, verify
from comity.wire import strict_json
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import SKEW_SECONDS, clock_words

# Signatures of lists and proofs (vcp 5.4).

_PEM_MARK: Final = "-----"
_PEM_BEGIN: Final = "-----BEGIN PUBLIC KEY-----"
_PEM_END: Final = "-----END PUBLIC KEY-----"
# RFC 8410: the frame that makes 32 bytes a public key of Ed25519
_SPKI: Final = bytes.fromhex("302a300506032b6570032100")


class PublicKey(Struct, frozen=True):
    public: bytes

    def fits(self, message: bytes, signature: bytes) -> bool:
        return verify(self.public, message, signature)


class SharedSecret(Struct, frozen=True):
    secret: bytes

    def fits(self, message: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(self.secret, message, hashlib.sha256), signature)

    def __repr__(self) -> str:
        return "SharedSecret(<secret>)"


TrustKey = PublicKey | SharedSecret


def read_trust_key(text: str, *, hmac_fallback: bool = False) -> TrustKey:
    """Return the key that a setting spells; InvalidError when it spells none."""
    text = text.strip()
    if text.startswith(_PEM_MARK):
        return PublicKey(_from_pem(text))
    raw = _base64(text)
    if raw is not None and len(raw) == KEY_BYTES:
        return PublicKey(raw)
    if hmac_fallback and text:
        return SharedSecret(text.encode())
    raise InvalidError(
        "the key of a revocation issuer is an Ed25519 public key, as PEM or as base64 of its 32 bytes; "
        "a shared HMAC secret needs hmac_fallback for that issuer"
    )


def signed_bytes(members: Mapping[str, Any]) -> bytes:
    return ascii_form({name: value for name, value in members.items() if name != "signature"})


def signature_holds(members: Mapping[str, Any], key: TrustKey) -> bool:
    """Return whether the member `signature` is the key's, over all the others."""
    written = members.get("signature")
    signature = _base64(written) if isinstance(written, str) else None
    return signature is not None and key.fits(signed_bytes(members), signature)


def sign_members(members: Mapping[str, Any], key: SigningKey) -> str:
    return b64encode(key.sign(signed_bytes(members))).decode()


def _from_pem(text: str) -> bytes:
    der = None
    if text.startswith(_PEM_BEGIN) and text.endswith(_PEM_END):
        der = _base64("".join(text.removeprefix(_PEM_BEGIN).removesuffix(_PEM_END).split()))
    if der is None or len(der) != len(_SPKI) + KEY_BYTES or not der.startswith(_SPKI):
        raise InvalidError("the PEM is not an Ed25519 public key; only these are used here")
    return der.removeprefix(_SPKI)


def _base64(text: str) -> bytes | None:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)


def read_moment(name: str, text: str) -> float:
    """Read RFC 3339 with an offset as seconds since 1970: a time without an offset is refused. `name` is what the field is
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
    """Return the list that a JSON value spells; MalformedError otherwise. Its signature is not judged here."""
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
    """Return both ends of the time for which a list speaks, in order."""
    begins, ends = read_moment(name, begin), read_moment("next_update", next_update)
    if ends <= begins:
        raise InvalidError(f"next_update of the revocation list does not come after {name}")
    return begins, ends


def malformed_list(error: msgspec.ValidationError) -> MalformedError:
    """Say where the fault is, and repeats nothing of what a stranger wrote there."""
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
    """Read a list. Raise MalformedError or InvalidError if it does not count."""
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
    """Read a list of the other shape. Raise MalformedError or InvalidError."""
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
    """Return what a response of this shape says about one id."""
    try:
        found = read_alternate(received)
    except (MalformedError, InvalidError):
        return AlternateOutcome.UNAVAILABLE
    if found.issuer_id != issuer or not found.is_fresh(now):
        return AlternateOutcome.UNAVAILABLE
    return AlternateOutcome.REVOKED if jti in found.jtis else AlternateOutcome.NOT_REVOKED


# Whether something is revoked: the order in which the sources are asked (vcp 5.4).

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
    """Return the proof that a JSON value spells; MalformedError otherwise. Its signature is not judged here."""
    try:
        return msgspec.convert(received, StapledProof)
    except msgspec.ValidationError:
        raise MalformedError(
            "a stapled proof has a status (good, revoked or unknown), produced_at, this_update, next_update, "
            "responder_id and signature, all of them texts"
        ) from None


class ProofFinding(Struct, frozen=True):
    """What a proof says; `fault` is why it does not count, and then the status is unknown."""

    status: Status
    fault: str = ""


def weigh_proof(received: Any, keys: Iterable[TrustKey], *, now: float) -> ProofFinding:
    """Find what a proof, as it was received, is worth. `keys` are those of its responder that are valid now."""
    try:
        proof = read_proof(received)
        produced = read_moment("produced_at", proof.produced_at)
        begins = read_moment("this_update", proof.this_update)
        ends = read_moment("next_update", proof.next_update)
    except MalformedError as refusal:
        return ProofFinding(Status.UNKNOWN, refusal.message)
    fault = ""
    if not any(signature_holds(received, key) for key in keys):
        fault = "it is not signed with a key that this node has of its responder"
    elif max(produced, begins) > now + SKEW_SECONDS:
        fault = f"it is of {clock_words(max(produced, begins))}, and the clock here says {clock_words(now)}"
    elif now - produced > MAX_PROOF_AGE_S:
        fault = f"it was produced at {clock_words(produced)}, over a day before the clock here, {clock_words(now)}"
    elif now >= ends:
        fault = f"it lasted until {clock_words(ends)}, and the clock here says {clock_words(now)}"
    elif proof.status is Status.UNKNOWN:
        fault = "it says itself that the status is unknown"
    return ProofFinding(Status.UNKNOWN if fault else proof.status, fault)


def proof_status(received: Any, *, responders: Mapping[str, TrustKey], now: float) -> Status:
    """Return what a proof, as it was received, is worth."""
    name = received.get("responder_id") if isinstance(received, Mapping) else None
    key = responders.get(name) if isinstance(name, str) else None
    return weigh_proof(received, () if key is None else (key,), now=now).status


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
    taken, for callers that are already fetching the next one. `stapled` is the proof as it was received.
    """
    if denylist.names(subject):
        return RevocationStatus(Status.REVOKED, Source.DENYLIST, "revoked on this node")
    if stapled is not None:
        proven = proof_status(stapled, responders=responders, now=now)
        if proven is not Status.UNKNOWN:
            return RevocationStatus(proven, Source.STAPLED)
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
