"""What changing a text has in common, whatever its format: where a fault is, how lines end, how to splice.

A string is quoted so that JSON, TOML and YAML read the same: what one of them would fold, refuse or take for
the end of a line is escaped.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from comity.wire.errors import MalformedError

KeyPath = tuple[str, ...]

DEPTH_LIMIT = 100

_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class TextEdit(NamedTuple):
    """What stands from `start` to `end` becomes `text`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def refuse_at(text: str, index: int, fault: str) -> NoReturn:
    line, column = 1, index + 1
    for line_end in _LINE_END.finditer(text, 0, index):
        line, column = line + 1, index - line_end.end() + 1
    raise MalformedError(f"line {line}, column {column}: {fault}")


def refuse_twice(key: str) -> NoReturn:
    raise MalformedError(f"the key {key!r} is there twice; keep one of them")


def refuse_kind(key: str) -> NoReturn:
    raise MalformedError(f"{key!r} does not hold named entries; correct it by hand")


def refuse_unsafe() -> NoReturn:
    """The changed text does not say what it should: this way of writing is one that we cannot edit."""
    raise MalformedError(
        "it is written in a way that cannot be changed without touching more; add it by hand"
    )


def line_end_of(text: str) -> str:
    found = _LINE_END.search(text)
    return found[0] if found else "\n"


def line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def former_line(text: str, start: int) -> int:
    """Where the line before the one that begins at `start` begins."""
    end = start - (2 if text.endswith("\r\n", 0, start) else 1)
    return line_start(text, max(end, 0))


def next_line(text: str, index: int) -> int:
    """Where the line after this one begins; the end of the text when there is none."""
    found = _LINE_END.search(text, index)
    return found.end() if found else len(text)


def rest_of_line(text: str, index: int) -> str:
    found = _LINE_END.search(text, index)
    return text[index : found.start() if found else len(text)]


def match_end(pattern: re.Pattern[str], text: str, index: int) -> int:
    """Where that which begins here ends; here, if it does not."""
    found = pattern.match(text, index)
    return found.end() if found else index


def indentation(text: str, index: int) -> str:
    """The blanks that the line of this character begins with."""
    start = line_start(text, index)
    line = text[start:index]
    return line[: len(line) - len(line.lstrip(" \t"))]


def quoted(value: str) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


def inline(value: Any) -> str:
    """A value on one line, as JSON; YAML reads it too."""
    match value:
        case str():
            return quoted(value)
        case dict():
            return "{" + ", ".join(f"{quoted(key)}: {inline(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value)


def nested(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value
