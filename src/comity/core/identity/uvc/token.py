"""The value token itself: `segment(.segment){2,9}[@version][:NAMESPACE]` (vcp 2.1).

- Read strictly: nothing is trimmed, folded or repaired; `canonical` does that for those who want it.
- The rules are checked where a token is made, so a token that exists is a valid one and its text
  reads back as the same token.
- A refusal carries the protocol's label. Of several faults the first of this order is told: empty,
  number of segments, a segment, the version, the namespace, the length of it all.
- Relations between tokens (parent, ancestor, pattern) look at the segments only.
"""

import re
from typing import Final, Self

from msgspec import Struct

from comity.core.identity.uvc.errors import UvcLabel, UvcTokenError
from comity.core.identity.uvc.governance import check_governance
from comity.core.identity.uvc.namespaces import TIER_OF, Tier
from comity.core.identity.uvc.version import Constraint, UvcVersion, read_version

LENGTH_LIMIT: Final = 256
SEGMENT_LENGTH_LIMIT: Final = 32
FEWEST_SEGMENTS: Final = 3
MOST_SEGMENTS: Final = 10

SEGMENT: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NAMESPACE: Final = re.compile(r"[A-Z][A-Z0-9]{0,31}")


class UvcToken(Struct, frozen=True):
    """`namespace` is the suffix behind the colon; whose name it is, is told by `tier_namespace`."""

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
        """The segments alone."""
        return ".".join(self.segments)

    @property
    def tier(self) -> Tier | None:
        """None for a first segment that no tier knows."""
        return TIER_OF.get(self.domain)

    @property
    def tier_namespace(self) -> str:
        return self.domain if self.tier is Tier.CORE else ".".join(self.segments[:2])

    def parent(self) -> Self | None:
        """The token without its last segment; a version or a namespace is not inherited."""
        return type(self)(self.segments[:-1]) if self.depth > FEWEST_SEGMENTS else None

    def is_ancestor_of(self, other: "UvcToken") -> bool:
        return self.depth < other.depth and other.segments[: self.depth] == self.segments

    def is_descendant_of(self, other: "UvcToken") -> bool:
        return other.is_ancestor_of(self)

    def __str__(self) -> str:
        version = "" if self.version is None else f"@{self.version}"
        namespace = "" if self.namespace is None else f":{self.namespace}"
        return f"{self.dotted}{version}{namespace}"


def parse_uvc(text: str, *, strict_governance: bool = False) -> UvcToken:
    """The token that `text` spells; UvcTokenError otherwise, and InvalidError where only governance objects."""
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
    if len(segments) < FEWEST_SEGMENTS:
        raise UvcTokenError(
            UvcLabel.TOO_FEW_SEGMENTS,
            f"a token has at least {FEWEST_SEGMENTS} segments, like family.safe.guide; add some",
        )
    if len(segments) > MOST_SEGMENTS:
        raise UvcTokenError(
            UvcLabel.TOO_MANY_SEGMENTS, f"a token has at most {MOST_SEGMENTS} segments; leave some out"
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
