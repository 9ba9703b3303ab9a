"""The stricter rules for tokens that are to be registered, not only read (vcp 2.1)."""

from collections.abc import Sequence
from typing import Final

from comity.core.errors import InvalidError
from comity.core.identity.uvc.namespaces import RESERVED_WORDS, TIER_OF

LENGTH_LIMIT: Final = 128
SEGMENT_LIMIT: Final = 8


def check_governance(written: str, segments: Sequence[str]) -> None:
    """Raises InvalidError for a well-formed token that governance would not register."""
    if len(written) > LENGTH_LIMIT:
        raise InvalidError(f"a governed token has at most {LENGTH_LIMIT} characters; shorten it")
    if len(segments) > SEGMENT_LIMIT:
        raise InvalidError(f"a governed token has at most {SEGMENT_LIMIT} segments; leave some out")
    for segment in segments:
        if segment.endswith("-") or "--" in segment:
            raise InvalidError(f"segment {segment} ends with a hyphen or has two in a row; remove them")
        if segment in RESERVED_WORDS:
            raise InvalidError(f"{segment} is a reserved word; choose another segment")
    if segments[0] not in TIER_OF:
        raise InvalidError(f"{segments[0]} is not a known first segment; use one of {', '.join(TIER_OF)}")
