"""Patterns over value tokens: `*` stands for one segment, `**` for any number of them, none included.

A pattern is compared with the segments of a token; version and namespace do not matter. The work is
bounded by the number of segments on both sides, whatever the pattern.
"""

from typing import Final

from comity.core.errors import MalformedError
from comity.core.identity.uvc.token import LENGTH_LIMIT, SEGMENT, UvcToken

ONE: Final = "*"
ANY: Final = "**"


def matches(pattern: str, token: UvcToken) -> bool:
    """Raises MalformedError when `pattern` is none."""
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
