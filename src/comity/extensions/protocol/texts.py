"""Free text, ids and times from other parties (rulings 50b and 17).

- Text is measured in bytes. It is refused or kept whole, never changed.
- All strings are scanned for injected instructions once, where they come in. What was accepted elsewhere and is only
  recounted is not scanned: a reader's threshold must not change what was decided. A refusal names the patterns, never
  the text that matched.
- An id is short, visible and without white space, so that it cannot hold a sentence. An id may look like `ai:seven`,
  which a scan would take for a change of speaker; ids are not scanned.
- A time without an offset is UTC. State holds seconds since 1970; messages hold RFC 3339.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from comity.vcp.protocol.extension_calls import refused
from comity.vcp.protocol.injection import Severity, failed_scan

TEXT_BYTES: Final = 8 * 1024
REASON_BYTES: Final = 1024
ID_CHARACTERS: Final = 256

_IDS: Final = frozenset(("id", "delib_id", "clause_id", "norm_id", "principal_id"))
_MAX_MOMENT_LENGTH: Final = 64
_MAX_PLACE_LENGTH: Final = 128


def refuse_injection(value: Any, threshold: Severity, field: str = "") -> None:
    """Scan every string in a value that is made of objects and lists, keys included. Places are cut short while they are
    built: keys may be long, and many strings may share them.
    """
    waiting = [(field, value)]
    while waiting:
        place, one = waiting.pop()
        if isinstance(one, str):
            _refuse_text(one, threshold, place)
        elif isinstance(one, Mapping):
            for key, member in one.items():
                _refuse_text(str(key), threshold, place)
                if not (key in _IDS and _is_unbroken(member)):
                    waiting.append((f"{place}.{key}".strip(".")[:_MAX_PLACE_LENGTH], member))
        elif isinstance(one, list | tuple):
            waiting.extend(
                (f"{place}[{index}]"[:_MAX_PLACE_LENGTH], member) for index, member in enumerate(one)
            )


def _is_unbroken(text: Any) -> bool:
    return isinstance(text, str) and text.isprintable() and " " not in text


def _refuse_text(text: str, threshold: Severity, field: str) -> None:
    if failed := failed_scan(text, threshold):
        place = field or "the object of arguments"
        raise refused(place, failed)


def read_text(text: str, field: str, *, max_bytes: int = TEXT_BYTES, may_be_empty: bool = False) -> str:
    """Return the text if it has an allowed size."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise refused(field, "holds half a surrogate pair; send whole characters") from None
    if size > max_bytes:
        raise refused(field, f"has more than {max_bytes:,} bytes; shorten it", code="LIMIT_EXCEEDED")
    if not may_be_empty and not text.strip():
        raise refused(field, "must not be empty")
    return text


def read_id(text: str, field: str) -> str:
    if not 0 < len(text) <= ID_CHARACTERS or not _is_unbroken(text):
        raise refused(field, f"must be 1 to {ID_CHARACTERS} visible characters without white space")
    return text


def read_moment(text: str, field: str) -> float:
    """Return seconds since 1970."""
    try:
        moment = datetime.fromisoformat(text) if len(text) <= _MAX_MOMENT_LENGTH else None
    except ValueError:
        moment = None
    if moment is None:
        raise refused(field, "must be a time such as 2026-02-28T21:30:00Z")
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def round_half_up(number: float) -> int:
    return math.floor(number + 0.5)
