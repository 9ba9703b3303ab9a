"""Identity tokens that somebody vouches for (vcp 2.1, forms A and B).

| form | written | proof |
|---|---|---|
| A, signed | `vcp-i:<issuer>:<kind>:<subject>:ed25519:<signature>` | Ed25519, base64url without padding |
| B, stamped | `vcp:i:<issuer>:<subject>:<seconds>:<tag>` | HMAC-SHA256, lower-case hexadecimal |

- What is signed is the text before the last colon.
- Reading is grammar only: any signature and any tag of the right characters is read. Whether it is a
  proof is decided in `verification`.
- A token is a credential. These structs do not show the proof in their `repr`; whoever logs uses
  `log_prefix`, the beginning of the token's id. The id is the SHA-256 of the token.
"""

import hashlib
import hmac
import re
from typing import Final

from msgspec import Struct

from comity.identity.protocol.keys import SigningKey, signature_of
from comity.wire.errors import InvalidError, MalformedError

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
    """Raises MalformedError for anything that is neither form."""
    if len(text) > TOKEN_LIMIT:
        raise MalformedError(f"an identity token has at most {TOKEN_LIMIT:,} characters")
    fields = text.split(":")
    if text.startswith(SIGNED_PREFIX):
        return _parse_a(fields)
    if text.startswith(STAMPED_PREFIX):
        return _parse_b(fields)
    raise MalformedError(f"a signed identity token begins with {SIGNED_PREFIX} or {STAMPED_PREFIX}")


def issue_a(key: SigningKey, *, issuer: str, kind: str, subject: str) -> str:
    for name, field in (("issuer", issuer), ("kind", kind), ("subject", subject)):
        _check_field(name, field)
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
    """What may be written of a token into a log or an address."""
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
