"""What an extension answers when it refuses (ruling 47): a code, a sentence, and the argument at fault.

A refusal changes nothing. It never repeats a value that was sent.
"""

import re
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import ValidationError

from comity.core.errors import InvalidError

Code = Literal[
    "EXTENSION_INACTIVE",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "FORBIDDEN",
    "CONFLICT",
    "PRECONDITION_FAILED",
    "LIMIT_EXCEEDED",
    "STALE",
    "BAD_SIGNATURE",
    "ALREADY_USED",
]

_Shape = TypeVar("_Shape")

_PATH: Final = re.compile(r" - at `(?:key in )?\$(.*?)`$", re.DOTALL)
_SENT_WORD: Final = re.compile(r"Invalid enum value .*", re.DOTALL)
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_LONGEST_PLACE: Final = 128


class ExtensionError(InvalidError):
    """An extension refuses a call; its own code and the argument at fault go to the caller."""

    code = "extension"

    def __init__(self, wire_code: Code, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.wire_code: Code = wire_code
        self.field = field

    @property
    def step(self) -> str:
        return self.wire_code.lower()


def invalid(message: str, field: str | None) -> ExtensionError:
    return ExtensionError("INVALID_ARGUMENT", message, field)


def shaped(value: Any, shape: type[_Shape], field: str = "") -> _Shape:
    """The value as a Struct of that shape. Raises ExtensionError, which names the member at fault."""
    try:
        return msgspec.convert(value, shape)
    except ValidationError as fault:
        raise _told(str(fault), field) from None


def _told(fault: str, field: str) -> ExtensionError:
    found = _PATH.search(fault)
    what = fault[: found.start()] if found else fault
    unknown = _UNKNOWN_FIELD.fullmatch(what)
    place = field + (found[1] if found else "")
    if unknown:
        place, what = f"{place}.{unknown[1]}", "is no argument; leave it out"
    elif _SENT_WORD.match(what):
        what = "is none of the words that are allowed here"
    else:
        what = f"is not as it must be: {what[0].lower()}{what[1:]}"
    place = place.strip(".")[:_LONGEST_PLACE]
    return invalid(f"{place or 'the object of arguments'} {what}", place or None)
