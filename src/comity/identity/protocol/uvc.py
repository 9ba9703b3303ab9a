"""UVC value tokens: `segment(.segment){2,9}[@version][:NAMESPACE]`, such as `family.safe.guide@1.2.0:SEC` (vcp 2.1, form U).

- Read strictly: nothing is trimmed, folded or repaired; `canonicalise` does that for those who want it.
- The rules are checked where a token is made, so a token that exists is a valid one and its text
  reads back as the same token.
- A refusal carries the protocol's label. Of several faults the first of this order is named: empty,
  number of segments, a segment, the version, the namespace, the length of it all.
- Relations between tokens (parent, ancestor, pattern) look at the segments only.
- The tier of the first segment decides how much of a token is its namespace: core names belong to everybody and are one
  segment long; elsewhere the second segment says whose they are (`company.acme`).
- A version `1.2.0` is that one and no other, `^1.2.0` a compatible one, `~1.2.0` an approximate one; `latest` and `canary`
  are looked up. Leading zeros are read and never written.
- The canonical form is made in the protocol's order: NFKC, lower case, no white space around or inside, no dots in a row or at
  an end, plain version numbers, prerelease in lower case. The namespace is set aside before the lower case; it is not repaired:
  `:sec` stays wrong. The text need not be a valid token. Applying it twice changes nothing.
- In a pattern `*` stands for one segment, `**` for any number of them, none included. The work is bounded by the number of
  segments on both sides.
- Addresses are written with dots, and read with dots or slashes, and under `vcp://` as well.
"""

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct

from comity.wire.errors import InvalidError, MalformedError


class UvcLabel(StrEnum):
    EMPTY_TOKEN = "empty_token"  # noqa: S105 - a label
    TOO_FEW_SEGMENTS = "too_few_segments"
    TOO_MANY_SEGMENTS = "too_many_segments"
    INVALID_SEGMENT = "invalid_segment"
    SEGMENT_TOO_LONG = "segment_too_long"
    INVALID_VERSION = "invalid_version"
    INVALID_NAMESPACE = "invalid_namespace"
    TOKEN_TOO_LONG = "token_too_long"  # noqa: S105 - a label


class UvcTokenError(MalformedError):
    code = "uvc_token"

    def __init__(self, label: UvcLabel, message: str) -> None:
        super().__init__(message)
        self.label = label


class UvcTier(StrEnum):
    CORE = "core"
    ORGANISATION = "org"
    COMMUNITY = "community"
    PERSONAL = "personal"


FIRST_SEGMENTS: Final = {
    UvcTier.CORE: (
        *("family", "work", "secure", "creative", "reality"),
        *("education", "health", "finance", "legal"),
    ),
    UvcTier.ORGANISATION: ("company", "school", "ngo", "org"),
    UvcTier.COMMUNITY: ("religion", "culture", "community"),
    UvcTier.PERSONAL: ("user",),
}

TIER_OF: Final = {segment: tier for tier, segments in FIRST_SEGMENTS.items() for segment in segments}

RESERVED_WORDS: Final = frozenset(
    {
        *("system", "admin", "root", "null", "undefined", "true", "false", "none", "void", "default"),
        *("api", "internal", "private", "public", "test", "debug", "staging", "production"),
        *("vcp", "uvc", "csm", "bundle", "manifest", "creed", "official", "verified", "authentic", "real"),
    }
)


GOVERNED_LENGTH: Final = 128
GOVERNED_SEGMENTS: Final = 8


def check_governance(written: str, segments: Sequence[str]) -> None:
    """Raise InvalidError for a well-formed token that governance would not register."""
    if len(written) > GOVERNED_LENGTH:
        raise InvalidError(f"a governed token has at most {GOVERNED_LENGTH} characters; shorten it")
    if len(segments) > GOVERNED_SEGMENTS:
        raise InvalidError(f"a governed token has at most {GOVERNED_SEGMENTS} segments; leave some out")
    for segment in segments:
        if segment.endswith("-") or "--" in segment:
            raise InvalidError(f"segment {segment} ends with a hyphen or has two in a row; remove them")
        if segment in RESERVED_WORDS:
            raise InvalidError(f"{segment} is a reserved word; choose another segment")
    if segments[0] not in TIER_OF:
        raise InvalidError(f"{segments[0]} is not a known first segment; use one of {', '.join(TIER_OF)}")


ALIASES: Final = ("latest", "canary")

_NUMBER_LIMIT: Final = 99_999
_VERSION: Final = re.compile(r"([\^~]?)([0-9]{1,5})\.([0-9]{1,5})\.([0-9]{1,5})(?:-([0-9A-Za-z.-]+))?")
_PRERELEASE: Final = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*")


class Constraint(StrEnum):
    NONE = "none"
    EXACT = "exact"
    COMPATIBLE = "compatible"
    APPROXIMATE = "approximate"
    ALIAS = "alias"


_SIGNS: Final = {Constraint.EXACT: "", Constraint.COMPATIBLE: "^", Constraint.APPROXIMATE: "~"}
_CONSTRAINTS: Final = {sign: constraint for constraint, sign in _SIGNS.items()}


class NumberedVersion(Struct, frozen=True):
    major: int
    minor: int
    patch: int
    prerelease: str | None = None
    constraint: Constraint = Constraint.EXACT

    def __post_init__(self) -> None:
        if (
            not all(0 <= number <= _NUMBER_LIMIT for number in (self.major, self.minor, self.patch))
            or (self.prerelease is not None and not _PRERELEASE.fullmatch(self.prerelease))
            or self.constraint not in _SIGNS
        ):
            raise _invalid()

    def __str__(self) -> str:
        written = f"{_SIGNS[self.constraint]}{self.major}.{self.minor}.{self.patch}"
        return written if self.prerelease is None else f"{written}-{self.prerelease}"


class AliasVersion(Struct, frozen=True):
    alias: str

    def __post_init__(self) -> None:
        if self.alias not in ALIASES:
            raise _invalid()

    @property
    def constraint(self) -> Constraint:
        return Constraint.ALIAS

    def __str__(self) -> str:
        return self.alias


UvcVersion = NumberedVersion | AliasVersion


def read_version(text: str) -> UvcVersion:
    if text in ALIASES:
        return AliasVersion(text)
    found = _VERSION.fullmatch(text)
    if found is None:
        raise _invalid()
    sign, major, minor, patch, prerelease = found.groups()
    return NumberedVersion(int(major), int(minor), int(patch), prerelease, _CONSTRAINTS[sign])


def _invalid() -> UvcTokenError:
    return UvcTokenError(
        UvcLabel.INVALID_VERSION,
        "a version is written as 1.2.0, ^1.2.0, ~1.2.0, latest or canary, numbers with at most 5 digits",
    )


LENGTH_LIMIT: Final = 256
SEGMENT_LENGTH_LIMIT: Final = 32
MIN_SEGMENTS: Final = 3
MAX_SEGMENTS: Final = 10

SEGMENT: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAMESPACE: Final = re.compile(r"[A-Z][A-Z0-9]{0,31}")


class UvcToken(Struct, frozen=True):
    """`namespace` is the suffix behind the colon; `tier_namespace` says whose name it is."""

    segments: tuple[str, ...]
    version: UvcVersion | None = None
    namespace: str | None = None

    def __post_init__(self) -> None:
        _check_segments(self.segments)
        if self.namespace is not None and not _NAMESPACE.fullmatch(self.namespace):
            raise UvcTokenError(
                UvcLabel.INVALID_NAMESPACE,
                "a namespace is 1 to 32 upper-case letters and digits, a letter first, like :SEC",
            )
        _check_length(str(self))

    @property
    def domain(self) -> str:
        return self.segments[0]

    @property
    def path(self) -> tuple[str, ...]:
        return self.segments[1:-2]

    @property
    def approach(self) -> str:
        return self.segments[-2]

    @property
    def role(self) -> str:
        return self.segments[-1]

    @property
    def depth(self) -> int:
        return len(self.segments)

    @property
    def constraint(self) -> Constraint:
        return Constraint.NONE if self.version is None else self.version.constraint

    @property
    def dotted(self) -> str:
        """Return the segments alone."""
        return ".".join(self.segments)

    @property
    def tier(self) -> UvcTier | None:
        """Return the tier; None for a first segment that no tier knows."""
        return TIER_OF.get(self.domain)

    @property
    def tier_namespace(self) -> str:
        return self.domain if self.tier is UvcTier.CORE else ".".join(self.segments[:2])

    def parent(self) -> Self | None:
        """Return the token without its last segment; a version or a namespace is not inherited."""
        return type(self)(self.segments[:-1]) if self.depth > MIN_SEGMENTS else None

    def is_ancestor_of(self, other: "UvcToken") -> bool:
        return self.depth < other.depth and other.segments[: self.depth] == self.segments

    def is_descendant_of(self, other: "UvcToken") -> bool:
        return other.is_ancestor_of(self)

    def __str__(self) -> str:
        version = "" if self.version is None else f"@{self.version}"
        namespace = "" if self.namespace is None else f":{self.namespace}"
        return f"{self.dotted}{version}{namespace}"


def parse_uvc(text: str, *, strict_governance: bool = False) -> UvcToken:
    """Return the token that `text` spells; UvcTokenError otherwise, and InvalidError where only governance objects."""
    if not isinstance(text, str) or not text.strip():
        raise UvcTokenError(
            UvcLabel.EMPTY_TOKEN, "the token is empty; write at least three segments, like family.safe.guide"
        )
    named, colon, namespace = text.partition(":")
    dotted, at, version = named.partition("@")
    segments = tuple(dotted.split("."))
    _check_segments(segments)
    token = UvcToken(segments, read_version(version) if at else None, namespace if colon else None)
    _check_length(text)
    if strict_governance:
        check_governance(text, segments)
    return token


def _check_length(text: str) -> None:
    if len(text) > LENGTH_LIMIT:
        raise UvcTokenError(
            UvcLabel.TOKEN_TOO_LONG, f"a token has at most {LENGTH_LIMIT} characters; shorten it"
        )


def _check_segments(segments: tuple[str, ...]) -> None:
    if len(segments) < MIN_SEGMENTS:
        raise UvcTokenError(
            UvcLabel.TOO_FEW_SEGMENTS,
            f"a token has at least {MIN_SEGMENTS} segments, like family.safe.guide; add some",
        )
    if len(segments) > MAX_SEGMENTS:
        raise UvcTokenError(
            UvcLabel.TOO_MANY_SEGMENTS, f"a token has at most {MAX_SEGMENTS} segments; leave some out"
        )
    for segment in segments:
        if len(segment) > SEGMENT_LENGTH_LIMIT:
            raise UvcTokenError(
                UvcLabel.SEGMENT_TOO_LONG,
                f"a segment has at most {SEGMENT_LENGTH_LIMIT} characters; shorten it",
            )
        if not SEGMENT.fullmatch(segment):
            raise UvcTokenError(
                UvcLabel.INVALID_SEGMENT,
                "a segment is lower-case letters, digits and hyphens, and begins with a letter",
            )


INPUT_LIMIT: Final = 1024

_DOTS: Final = re.compile(r"\.{2,}")


def canonicalise(text: str) -> str:
    if len(text) > INPUT_LIMIT:
        raise UvcTokenError(
            UvcLabel.TOKEN_TOO_LONG, f"only texts of up to {INPUT_LIMIT:,} characters are canonicalised"
        )
    named, colon, namespace = unicodedata.normalize("NFKC", text).partition(":")
    named = "".join(named.lower().split())
    named = _DOTS.sub(".", named).strip(".")
    dotted, at, version = named.partition("@")
    if at:
        named = f"{dotted}@{_plain_version(version)}"
    canonical = f"{named}{colon}{''.join(namespace.split())}"
    if not canonical.isascii():
        raise UvcTokenError(
            UvcLabel.INVALID_SEGMENT, "a token is written in ASCII letters, digits, hyphens and dots"
        )
    return canonical


def same_token(one: str, other: str) -> bool:
    """Return whether two spellings name the same token."""
    return canonicalise(one) == canonicalise(other)


def hash_form(text: str) -> str:
    return f"sha256:{hashlib.sha256(canonicalise(text).encode()).hexdigest()}"


def _plain_version(text: str) -> str:
    try:
        return str(read_version(text))
    except UvcTokenError:
        return text


REGISTRY: Final = "creed.space"

_REGISTRY: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?(?::[0-9]{1,5})?")
_URI: Final = re.compile(r"(?:creed|vcp)://([^/]+)/([^@:]*)(.*)", re.IGNORECASE)
_URI_LIMIT: Final = LENGTH_LIMIT + 300


class UvcUri(Struct, frozen=True):
    token: UvcToken
    registry: str = REGISTRY

    def __post_init__(self) -> None:
        if not _REGISTRY.fullmatch(self.registry):
            raise InvalidError(f"the registry of a token is a lower-case host name, like {REGISTRY}")

    def __str__(self) -> str:
        return f"creed://{self.registry}/{self.token}"


def parse_uri(text: str) -> UvcUri:
    """Read the address of a token. Raise MalformedError or InvalidError for anything else."""
    found = _URI.fullmatch(text) if len(text) <= _URI_LIMIT else None
    if found is None:
        raise MalformedError(f"the address of a token is written as creed://{REGISTRY}/family.safe.guide")
    registry, dotted, rest = found.groups()
    return UvcUri(parse_uvc(dotted.replace("/", ".") + rest), registry.lower())


ONE: Final = "*"
ANY: Final = "**"


def matches(pattern: str, token: UvcToken) -> bool:
    """Return whether a token fits a pattern. Raise MalformedError if `pattern` is none."""
    reached = {0}
    end = token.depth
    for part in _parts(pattern):
        if part == ANY:
            reached = set(range(min(reached), end + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < end and part in (ONE, token.segments[at])}
    return end in reached


def _parts(pattern: str) -> list[str]:
    parts = pattern.split(".")
    if len(pattern) > LENGTH_LIMIT or not all(
        part in (ONE, ANY) or SEGMENT.fullmatch(part) for part in parts
    ):
        raise MalformedError(
            f"a pattern is segments, * and ** with dots between them, at most {LENGTH_LIMIT} characters, "
            "like company.*.legal.**"
        )
    return parts
