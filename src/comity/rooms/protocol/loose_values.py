"""How the reference reads loose values: `parseInt`, `trim`, words for true and false, identifiers (peers 1.3).

Nothing here raises: what cannot be read is None, and the caller has a default or a sentence for it.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

_SPACE: Final = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_LEADING_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,400}")
_STREAM_ID: Final = re.compile(r"[A-Za-z0-9_]{1,64}")
_NOT_A_WORD: Final = re.compile(r"[^A-Za-z0-9_]+")
MAX_SAME_NAME: Final = 999
_TRUE: Final = frozenset(("true", "1", "yes", "y", "on"))
_FALSE: Final = frozenset(("false", "0", "no", "n", "off"))


def trim(text: str) -> str:
    return text.strip(_SPACE)


def read_integer(value: Any) -> int | None:
    """Read like `parseInt`: the leading digits of a text, a number without its fraction. A boolean is no number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    if isinstance(value, str):
        digits = _LEADING_INTEGER.match(trim(value))
        return None if digits is None else int(digits[0])
    return None


def read_boolean(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | str):
        word = trim(str(value)).lower()
        return True if word in _TRUE else False if word in _FALSE else None
    return None


def read_text(value: Any) -> str | None:
    """Return a text as it is; a number as JavaScript writes it where that is certain; else None."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return str(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return str(int(value))
    return None


def is_stream_id(text: str) -> bool:
    """Return whether others may have this name in a room: it has nothing that a terminal, a page or a model could obey."""
    return _STREAM_ID.fullmatch(text) is not None


def printable(text: str) -> str:
    """Return words of a peer without what is not shown or turns the text around."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def sanitize_id(value: Any) -> str | None:
    """Return a room or stream id: each run of other characters than ASCII words is `_`; None when nothing is left."""
    text = read_text(value)
    if text is None:
        return None
    return _NOT_A_WORD.sub("_", trim(text)).strip("_") or None


def safe_name(name: str | None) -> str:
    """Return a name for a file that a peer named: its last part, without what leads elsewhere or hides it."""
    last = re.split(r"[/\\]", name or "")[-1]
    kept = "".join(one if one.isprintable() and one not in ':*?"<>|' else "_" for one in last)
    return kept.strip(" .")[:200] or "file"


def free_names(name: str) -> Iterator[str]:
    yield name
    stem, dot, ending = name.rpartition(".")
    for number in range(2, MAX_SAME_NAME + 1):
        yield f"{stem} ({number}){dot}{ending}" if stem else f"{name} ({number})"
