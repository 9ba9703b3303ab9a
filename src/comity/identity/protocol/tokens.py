"""Whether an identity token is accepted, and who it makes the sender (vcp 2.1, ruling 20).

- `structural` demands the grammar only; a token that nobody vouches for is anonymous for storage and ownership.
  `verified` demands a proof by a configured issuer, so a value token is no identity there. A proven sender has an
  owner in both (ruling 48).
- The order in `verified` is: grammar, issuer, proof, time, and then revocation, which the caller looks
  up by `Verdict.revocable` and adds with `Verdict.after`. Nothing is looked up for what is not proven.
- The other side only ever learns `IDENTITY_INVALID`. Why is for our log: `Verdict.log_line`, which
  holds the beginning of the token's id and nothing of the token. Only that a proven token is revoked, or that its
  state is unknown, is said to the sender (ruling 45).
- A cut tag makes a second token of a first one. Every length that would be accepted is therefore
  looked up when it is about revocation, so that cutting does not bring a revoked token back.

Whose tokens we believe, and by which keys, is for the node's owner to configure; nothing sent to us can.

- An issuer may have several keys, so that keys can be changed while tokens of the old one still run.
  Each has a validity of its own, and so may each subject. Both ends of a validity are inside it.
- A stamp may lie `skew_s` ahead of our clock, because clocks differ; a token may be
  `max_token_age_s` old. Both limits themselves still count as within.
- A tag is whole, 64 digits. For issuers that cut theirs, `minimum_tag` says how short it may be; fewer
  than 32 digits (128 bits) are never enough.
- Secrets do not appear in a `repr`.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct, field

from comity.identity.protocol.keys import KEY_BYTES, SigningKey, signature_bytes, signature_of, verify
from comity.identity.protocol.revocation import CrlSource, Revocable, RevocationStatus, Status
from comity.identity.protocol.uvc import UvcToken, parse_uvc
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import SKEW_SECONDS

# Identity tokens that somebody vouches for (vcp 2.1, forms A and B).

TOKEN_LIMIT: Final = 2048
TAG_LENGTH: Final = 64

SIGNED_PREFIX: Final = "vcp-i:"
STAMPED_PREFIX: Final = "vcp:i:"

_ALGORITHM: Final = "ed25519"
LOG_PREFIX_LENGTH: Final = 8
_SECONDS_LIMIT: Final = 10**12
_FIELD: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SECONDS: Final = re.compile(r"[0-9]{1,12}")
_TAG: Final = re.compile(r"[0-9a-f]{1,64}")


class SignedToken(Struct, frozen=True, kw_only=True):
    """Form A."""

    issuer: str
    kind: str
    subject: str
    signature: str

    @property
    def signed_text(self) -> str:
        return f"{SIGNED_PREFIX}{self.issuer}:{self.kind}:{self.subject}:{_ALGORITHM}"

    def __str__(self) -> str:
        return f"{self.signed_text}:{self.signature}"

    def __repr__(self) -> str:
        return f"<SignedToken {self.issuer}:{self.kind}:{self.subject} {log_prefix(str(self))}>"


class StampedToken(Struct, frozen=True, kw_only=True):
    """Form B. `seconds` stays as it was written, because it is signed."""

    issuer: str
    subject: str
    seconds: str
    tag: str

    @property
    def issued_at(self) -> int:
        return int(self.seconds)

    @property
    def signed_text(self) -> str:
        return f"{STAMPED_PREFIX}{self.issuer}:{self.subject}:{self.seconds}"

    def __str__(self) -> str:
        return f"{self.signed_text}:{self.tag}"

    def __repr__(self) -> str:
        return f"<StampedToken {self.issuer}:{self.subject} {log_prefix(str(self))}>"


def is_issuer_name(text: str) -> bool:
    return _FIELD.fullmatch(text) is not None


def parse_signed(text: str) -> SignedToken | StampedToken:
    """Read a token of form A or B. Raise MalformedError for anything else."""
    if len(text) > TOKEN_LIMIT:
        raise MalformedError(f"an identity token has at most {TOKEN_LIMIT:,} characters")
    fields = text.split(":")
    if text.startswith(SIGNED_PREFIX):
        return _parse_a(fields)
    if text.startswith(STAMPED_PREFIX):
        return _parse_b(fields)
    raise MalformedError(f"a signed identity token begins with {SIGNED_PREFIX} or {STAMPED_PREFIX}")


def issue_a(key: SigningKey, *, issuer: str, kind: str, subject: str) -> str:
    for name, given in (("issuer", issuer), ("kind", kind), ("subject", subject)):
        _check_field(name, given)
    unsigned = SignedToken(issuer=issuer, kind=kind, subject=subject, signature="")
    return f"{unsigned.signed_text}:{signature_of(unsigned.signed_text.encode(), key)}"


def issue_b(secret: bytes, *, issuer: str, subject: str, issued_at: int) -> str:
    _check_field("issuer", issuer)
    _check_field("subject", subject)
    if not 0 <= issued_at < _SECONDS_LIMIT:
        raise InvalidError("the stamp of a token is whole seconds since 1970, at most 12 digits")
    signed = StampedToken(issuer=issuer, subject=subject, seconds=f"{issued_at:d}", tag="").signed_text
    return f"{signed}:{full_tag(secret, signed)}"


def full_tag(secret: bytes, signed_text: str) -> str:
    return hmac.new(secret, signed_text.encode(), hashlib.sha256).hexdigest()


def token_id(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def log_prefix(token: str) -> str:
    """Return what may be written of a token into a log or an address."""
    return token_id(token)[:LOG_PREFIX_LENGTH]


def _parse_a(fields: list[str]) -> SignedToken:
    if len(fields) != 6 or fields[4] != _ALGORITHM or not _SIGNATURE.fullmatch(fields[5]):
        raise MalformedError("a signed token is written as vcp-i:issuer:kind:subject:ed25519:signature")
    _, issuer, kind, subject, _, signature = fields
    if not (_FIELD.fullmatch(issuer) and _FIELD.fullmatch(kind) and _FIELD.fullmatch(subject)):
        raise _bad_field()
    return SignedToken(issuer=issuer, kind=kind, subject=subject, signature=signature)


def _parse_b(fields: list[str]) -> StampedToken:
    if len(fields) != 6 or not _SECONDS.fullmatch(fields[4]) or not _TAG.fullmatch(fields[5]):
        raise MalformedError(
            "a stamped token is written as vcp:i:issuer:subject:seconds:tag, at most 12 digits of seconds and "
            f"{TAG_LENGTH} lower-case hexadecimal digits of tag"
        )
    _, _, issuer, subject, seconds, tag = fields
    if not (_FIELD.fullmatch(issuer) and _FIELD.fullmatch(subject)):
        raise _bad_field()
    return StampedToken(issuer=issuer, subject=subject, seconds=seconds, tag=tag)


def _bad_field() -> MalformedError:
    return MalformedError(
        "issuer, kind and subject of a token are 1 to 128 letters, digits, dots, hyphens and underscores each"
    )


def _check_field(name: str, field: str) -> None:
    if not _FIELD.fullmatch(field):
        raise InvalidError(
            f"the {name} of a token is 1 to 128 letters, digits, dots, hyphens and underscores; change it"
        )


MIN_TAG: Final = 32
MAX_TOKEN_AGE_S: Final = 86_400.0
SKEW_S: Final = SKEW_SECONDS
SECRET_MINIMUM: Final = 16


class Validity(Struct, frozen=True):
    """From `not_before` to `not_after`, in seconds since 1970; None is open."""

    not_before: float | None = None
    not_after: float | None = None

    def too_early(self, now: float) -> bool:
        return self.not_before is not None and now < self.not_before

    def too_late(self, now: float) -> bool:
        return self.not_after is not None and now > self.not_after


ALWAYS: Final = Validity()


class SignatureKey(Struct, frozen=True):
    """The public Ed25519 key of form A."""

    public: bytes
    validity: Validity = ALWAYS

    def __post_init__(self) -> None:
        if len(self.public) != KEY_BYTES:
            raise InvalidError(f"the Ed25519 key of an issuer is {KEY_BYTES} bytes")


class SharedKey(Struct, frozen=True):
    """The HMAC key of form B: everybody who has it can issue."""

    secret: bytes
    validity: Validity = ALWAYS

    def __post_init__(self) -> None:
        if len(self.secret) < SECRET_MINIMUM:
            raise InvalidError(
                f"the HMAC key of an issuer has at least {SECRET_MINIMUM} bytes; use a longer one"
            )

    def __repr__(self) -> str:
        return f"SharedKey(<secret>, {self.validity})"


class Issuer(Struct, frozen=True, kw_only=True):
    """`crl` is the address of the revocation list of the issuer; None: it has none."""

    name: str
    signature_keys: tuple[SignatureKey, ...] = ()
    shared_keys: tuple[SharedKey, ...] = ()
    subjects: Mapping[str, Validity] = field(default_factory=dict)
    minimum_tag: int = TAG_LENGTH
    max_token_age_s: float = MAX_TOKEN_AGE_S
    skew_s: float = SKEW_S
    crl: CrlSource | None = None

    def __post_init__(self) -> None:
        if not MIN_TAG <= self.minimum_tag <= TAG_LENGTH:
            raise InvalidError(
                f"minimum_tag of issuer {self.name} must be {MIN_TAG} to {TAG_LENGTH} hexadecimal digits"
            )
        if not 0 < self.max_token_age_s < float("inf"):
            raise InvalidError(f"max_token_age_s of issuer {self.name} must be a number of seconds above 0")
        if not 0 <= self.skew_s < float("inf"):
            raise InvalidError(f"skew_s of issuer {self.name} must be a number of seconds, 0 or more")

    def subject_validity(self, subject: str) -> Validity:
        return self.subjects.get(subject, ALWAYS)


class IssuerRegistry:
    def __init__(self, issuers: Iterable[Issuer] = ()) -> None:
        self._issuers: dict[str, Issuer] = {}
        for issuer in issuers:
            if issuer.name in self._issuers:
                raise InvalidError(f"issuer {issuer.name} is configured twice; give it all its keys at once")
            self._issuers[issuer.name] = issuer

    def get(self, name: str) -> Issuer | None:
        return self._issuers.get(name)

    def sources(self) -> tuple[CrlSource, ...]:
        """Return where the issuers publish their revocation lists."""
        return tuple(issuer.crl for issuer in self._issuers.values() if issuer.crl is not None)

    def __len__(self) -> int:
        return len(self._issuers)


class IdentityMode(StrEnum):
    STRUCTURAL = "structural"
    VERIFIED = "verified"


class TokenKind(StrEnum):
    UVC = "uvc"
    SIGNED_A = "signed_a"
    SIGNED_B = "signed_b"


class TokenRefusal(StrEnum):
    """For the log; never sent."""

    MALFORMED = "malformed"
    UNKNOWN_ISSUER = "unknown_issuer"
    BAD_SIGNATURE = "bad_signature"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    REVOKED = "revoked"
    LIST_UNAVAILABLE = "list_unavailable"


class TokenVerdict(Struct, frozen=True, kw_only=True):
    """`owner` is whom stored things belong to; None: the sender is anonymous, whatever the token says."""

    revocable: Revocable
    refusal: TokenRefusal | None = None
    kind: TokenKind | None = None
    issuer: str | None = None
    subject: str | None = None
    owner: str | None = None

    @property
    def ok(self) -> bool:
        return self.refusal is None

    @property
    def token_id(self) -> str:
        return self.revocable.jtis[0]

    @property
    def log_line(self) -> str:
        verdict = "accepted" if self.refusal is None else f"refused: {self.refusal}"
        return f"identity {self.token_id[:LOG_PREFIX_LENGTH]} {verdict}"

    def refused(self, refusal: TokenRefusal) -> "TokenVerdict":
        return msgspec.structs.replace(self, refusal=refusal, owner=None)

    def after(self, status: RevocationStatus) -> "TokenVerdict":
        """Return the verdict after the revocation check. An unknown status is refused like a revoked token."""
        if not self.ok or not status.refuses:
            return self
        known = status.status is Status.REVOKED
        return self.refused(TokenRefusal.REVOKED if known else TokenRefusal.LIST_UNAVAILABLE)


def parse_identity(text: str) -> UvcToken | SignedToken | StampedToken:
    """Read a token of any of the three shapes. Raise MalformedError otherwise."""
    if isinstance(text, str) and text.startswith((SIGNED_PREFIX, STAMPED_PREFIX)):
        return parse_signed(text)
    return parse_uvc(text)


def verify_identity(text: str, *, mode: IdentityMode, issuers: IssuerRegistry, now: float) -> TokenVerdict:
    """Check everything but revocation, which needs what others publish."""
    try:
        token = parse_identity(text)
    except MalformedError:
        named = token_id(text) if isinstance(text, str) else token_id("")
        return TokenVerdict(revocable=Revocable((named,)), refusal=TokenRefusal.MALFORMED)
    if isinstance(token, UvcToken):
        verdict = TokenVerdict(revocable=Revocable((token_id(text),)), kind=TokenKind.UVC)
        return verdict if mode == IdentityMode.STRUCTURAL else verdict.refused(TokenRefusal.BAD_SIGNATURE)
    verdict = TokenVerdict(
        revocable=Revocable((token_id(text),), subject_id(token.issuer, token.subject)),
        kind=TokenKind.SIGNED_A if isinstance(token, SignedToken) else TokenKind.SIGNED_B,
        issuer=token.issuer,
        subject=token.subject,
    )
    proven = _proven(token, issuers.get(token.issuer), now, verdict)
    # ruling 48: a token that verifies has an owner in every mode; in this one the others are anonymous
    return verdict if mode == IdentityMode.STRUCTURAL and not proven.ok else proven


def _proven(
    token: SignedToken | StampedToken, issuer: Issuer | None, now: float, verdict: TokenVerdict
) -> TokenVerdict:
    if issuer is None:
        return verdict.refused(TokenRefusal.UNKNOWN_ISSUER)
    if isinstance(token, SignedToken):
        return _verify_signed(token, issuer, now, verdict)
    return _verify_stamped(token, issuer, now, verdict)


def subject_id(issuer: str, subject: str) -> str:
    """Return the name under which all tokens of a subject are revoked at once. Neither part can hold a colon."""
    return f"{issuer}:{subject}"


def _verify_signed(token: SignedToken, issuer: Issuer, now: float, verdict: TokenVerdict) -> TokenVerdict:
    if not issuer.signature_keys:
        return verdict.refused(TokenRefusal.UNKNOWN_ISSUER)
    proof = signature_bytes(token.signature)
    if proof is None:
        return verdict.refused(TokenRefusal.BAD_SIGNATURE)
    signed = token.signed_text.encode()
    fitting = [key.validity for key in issuer.signature_keys if verify(key.public, signed, proof)]
    refusal = _time_refusal(fitting, issuer.subject_validity(token.subject), now)
    if refusal is not None:
        return verdict.refused(refusal)
    return msgspec.structs.replace(verdict, owner=f"{token.issuer}:{token.kind}:{token.subject}")


def _verify_stamped(token: StampedToken, issuer: Issuer, now: float, verdict: TokenVerdict) -> TokenVerdict:
    if not issuer.shared_keys:
        return verdict.refused(TokenRefusal.UNKNOWN_ISSUER)
    if len(token.tag) < issuer.minimum_tag:
        return verdict.refused(TokenRefusal.BAD_SIGNATURE)
    signed = token.signed_text
    fitting: list[Validity] = []
    whole = ""
    for key in issuer.shared_keys:
        tag = full_tag(key.secret, signed)
        if hmac.compare_digest(tag[: len(token.tag)], token.tag):
            fitting.append(key.validity)
            whole = tag
    refusal = _time_refusal(fitting, issuer.subject_validity(token.subject), now)
    if refusal is None:
        refusal = _age_refusal(token.issued_at, issuer, now)
    if refusal is not None:
        return verdict.refused(refusal)
    lengths = range(issuer.minimum_tag, TAG_LENGTH + 1)
    others = (token_id(f"{signed}:{whole[:length]}") for length in lengths if length != len(token.tag))
    return msgspec.structs.replace(
        verdict,
        owner=subject_id(token.issuer, token.subject),
        revocable=Revocable((verdict.token_id, *others), verdict.revocable.bundle_id),
    )


def _time_refusal(fitting: list[Validity], subject: Validity, now: float) -> TokenRefusal | None:
    """`fitting` are the validities of the keys that the proof fits."""
    if not fitting:
        return TokenRefusal.BAD_SIGNATURE
    if all(key.too_late(now) for key in fitting) or subject.too_late(now):
        return TokenRefusal.EXPIRED
    if all(key.too_early(now) or key.too_late(now) for key in fitting) or subject.too_early(now):
        return TokenRefusal.NOT_YET_VALID
    return None


def _age_refusal(issued_at: int, issuer: Issuer, now: float) -> TokenRefusal | None:
    if issued_at - now > issuer.skew_s:
        return TokenRefusal.NOT_YET_VALID
    if now - issued_at > issuer.max_token_age_s:
        return TokenRefusal.EXPIRED
    return None
