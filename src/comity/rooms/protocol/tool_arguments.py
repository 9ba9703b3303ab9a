"""How the arguments of the `vdo_*` tools are read: leniently where the contract is lenient, refused in its own words.

A refusal is a `VdoToolError`; whether it counts as a `validation_error` or a `tool_error` is decided by its text, as
the contract has it (peers 1.1). The table of the tools says which argument is read how.
"""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.rooms.protocol.loose_values import read_boolean, read_integer, sanitize_id, trim
from comity.wire.errors import InvalidError

Json = dict[str, Any]
Read = Callable[[Json, str], Any]

_VALIDATION: Final = (
    "required",
    "unsupported fields",
    "must be an object",
    "invalid",
    "unknown session_id",
    "unknown transfer_id",
    "ambiguous target",
    "unknown tool",
    "disabled by tool profile",
)
_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")


class VdoToolError(InvalidError):
    """A `vdo_*` tool refuses, in the words of the contract where it has some."""

    code = "vdo_tool"


def fault_type(message: str) -> str:
    words = message.lower()
    return "validation_error" if any(word in words for word in _VALIDATION) else "tool_error"


class Argument(Struct, frozen=True):
    """`read` None: the tool does not use it, or reads it with another one. `profile`: only there it exists."""

    schema: Json
    read: Read | None
    required: bool = False
    profile: str | None = None


def as_given(arguments: Json, name: str) -> Any:
    return arguments.get(name)


def or_unset(arguments: Json, name: str) -> Any:
    return arguments.get(name, UNSET)


def required_value(arguments: Json, name: str) -> Any:
    """Read any JSON, null included; only the key has to be there."""
    if name not in arguments:
        raise VdoToolError(f"{name} is required")
    return arguments[name]


def required_text(arguments: Json, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not trim(value):
        raise VdoToolError(f"{name} is required")
    return trim(value)


def optional_text(arguments: Json, name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise VdoToolError(f"invalid {name}: it must be a string")
    return trim(value) or None


def identifier(arguments: Json, name: str) -> str | None:
    return sanitize_id(arguments.get(name))


def target(arguments: Json, _name: str = "target") -> Any:
    """Read a text, an object or None. A uuid is a target as well."""
    named, uuid = arguments.get("target"), arguments.get("uuid")
    if named is not None and uuid is not None:
        raise VdoToolError("provide target or uuid, not both")
    if named is not None and not isinstance(named, str | dict):
        raise VdoToolError("invalid target: it must be a string or an object")
    if uuid is not None and not isinstance(uuid, str):
        raise VdoToolError("invalid uuid: it must be a string")
    return named or uuid or None


def one_peer(arguments: Json, _name: str = "target") -> Any:
    found = target(arguments)
    if found is None:
        raise VdoToolError("target is required: the stream id or uuid of one peer")
    return found


def flag(*, default: bool = False) -> Read:
    def read(arguments: Json, name: str) -> bool:
        value = read_boolean(arguments.get(name))
        return default if value is None else value

    return read


def number(default: int | None, highest: int, *, lowest: int = 1, floor: int = 0) -> Read:
    """Read a number; one that is missing or below `lowest` is the default. The result lies between `floor` and `highest`."""

    def read(arguments: Json, name: str) -> int | None:
        value = read_integer(arguments.get(name))
        return default if value is None or value < lowest else min(max(value, floor), highest)

    return read


def choice(default: str, *others: str, refusal: str) -> Read:
    def read(arguments: Json, name: str) -> str:
        chosen = arguments.get(name) or default
        if chosen not in (default, *others):
            raise VdoToolError(refusal.format(str(chosen)[:60]))
        return str(chosen)

    return read


def expected_clock(arguments: Json, name: str) -> int:
    expected = arguments.get(name)
    if type(expected) is not int or expected < 0:
        raise VdoToolError("expected_clock is required: the clock of the entry that you saw, or 0 for none")
    return expected


def file_bytes(arguments: Json, name: str) -> bytes:
    """Read base64 as leniently as the reference: other characters are skipped."""
    text = arguments.get(name)
    if not isinstance(text, str):
        raise VdoToolError(f"{name} is required")
    letters = _BASE64.sub("", text.replace("-", "+").replace("_", "/").partition("=")[0])
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    try:
        data = base64.b64decode(letters + "=" * (-len(letters) % 4))
    except (ValueError, binascii.Error):
        data = b""
    if not data:
        raise VdoToolError(f"{name} decoded to empty payload")
    return data
