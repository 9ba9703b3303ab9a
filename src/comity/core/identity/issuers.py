"""Whose tokens we believe, and by which keys. A node's owner configures this; nothing sent to us can.

- An issuer may have several keys, so that keys can be changed while tokens of the old one still run.
  Each has a validity of its own, and so may each subject. Both ends of a validity are inside it.
- A stamp may lie `skew_s` ahead of our clock, because clocks differ; a token may be
  `max_token_age_s` old. Both limits themselves still count as within.
- A tag is whole, 64 digits. For issuers that cut theirs, `minimum_tag` says how short it may be; fewer
  than 32 digits (128 bits) are never enough.
- Secrets do not appear in a `repr`.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from comity.core.errors import InvalidError
from comity.core.identity.keys import KEY_BYTES
from comity.core.identity.signed_token import TAG_LENGTH
from comity.core.revocation.reading import CrlSource

SHORTEST_TAG: Final = 32
MAX_TOKEN_AGE_S: Final = 86_400.0
SKEW_S: Final = 60.0
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
    """The HMAC key of form B: whoever has it can issue."""

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
    """`crl` is where the issuer tells what it has revoked; None: nowhere."""

    name: str
    signature_keys: tuple[SignatureKey, ...] = ()
    shared_keys: tuple[SharedKey, ...] = ()
    subjects: Mapping[str, Validity] = field(default_factory=dict)
    minimum_tag: int = TAG_LENGTH
    max_token_age_s: float = MAX_TOKEN_AGE_S
    skew_s: float = SKEW_S
    crl: CrlSource | None = None

    def __post_init__(self) -> None:
        if not SHORTEST_TAG <= self.minimum_tag <= TAG_LENGTH:
            raise InvalidError(
                f"minimum_tag of issuer {self.name} must be {SHORTEST_TAG} to {TAG_LENGTH} hexadecimal digits"
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

    def __len__(self) -> int:
        return len(self._issuers)
