"""Times in lists and proofs: RFC 3339 with an offset. A time without an offset is refused."""

import re
from datetime import UTC, datetime
from typing import Final

from comity.core.errors import MalformedError

_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read_moment(name: str, text: str) -> float:
    """Seconds since 1970. `name` is what the field is called, for the refusal."""
    try:
        moment = datetime.fromisoformat(text) if _MOMENT.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        raise MalformedError(f"{name} must be a moment like 2026-02-28T09:00:00Z")
    return (moment - _EPOCH).total_seconds()


def write_moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
