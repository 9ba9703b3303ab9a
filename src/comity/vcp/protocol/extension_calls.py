"""Operations of extensions: what each is, how it is called on a VCP connection, and how it refuses (ruling 47).

A refusal is a code, a sentence and the argument at fault. It changes nothing and never repeats a value that was sent.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct, ValidationError, inspect

from comity.vcp.protocol.resource_addresses import StateScope
from comity.wire.errors import InvalidError

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

Audience = Literal["owner", "model"]

_Shape = TypeVar("_Shape")

_PATH: Final = re.compile(r" - at `(?:key in )?\$(.*?)`$", re.DOTALL)
_SENT_WORD: Final = re.compile(r"Invalid enum value .*", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `([^`]+)`, got `[^`]+`")
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_STEP: Final = re.compile(r"\w+(?=[.\[]|$)|\[(?=[^\]]*\])")
_KINDS: Final[Mapping[str, str]] = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "a text",
}
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MAX_PLACE_LENGTH: Final = 128


class ExtensionError(InvalidError):
    """The refusal of an extension; its code and the argument at fault go to the caller."""

    code = "extension"

    def __init__(self, wire_code: Code, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.wire_code: Code = wire_code
        self.field = field
        self.arguments: tuple[str, ...] = ()
        self.fault = message

    @property
    def step(self) -> str:
        return self.wire_code.lower()


def invalid(message: str, field: str | None) -> ExtensionError:
    return ExtensionError("INVALID_ARGUMENT", message, field)


def refused(
    arguments: str | tuple[str, ...], fault: str, *, code: Code = "INVALID_ARGUMENT", field: str | None = None
) -> ExtensionError:
    """Refuse one or several arguments. The message begins with their names; `in_words_of` may give others."""
    names = (arguments,) if isinstance(arguments, str) else arguments
    error = ExtensionError(code, f"{' and '.join(names)} {fault}", field or names[0])
    error.arguments, error.fault = names, fault
    return error


def in_words_of(names: Mapping[str, str], refusal: ExtensionError) -> ExtensionError:
    """Replace the names of arguments in a refusal."""
    if names.keys().isdisjoint(refusal.arguments):
        return refusal
    known = tuple(names.get(argument, argument) for argument in refusal.arguments)
    return refused(known, refusal.fault, code=refusal.wire_code, field=refusal.field)


def limit_exceeded(message: str, field: str | None = None) -> ExtensionError:
    return ExtensionError("LIMIT_EXCEEDED", message, field)


def shaped(value: Any, shape: type[_Shape], field: str = "") -> _Shape:
    """Convert the value to a Struct of that shape. Raises ExtensionError, which names the member at fault."""
    try:
        return msgspec.convert(value, shape)
    except ValidationError as fault:
        raise _shape_error(str(fault), shape, field) from None


def _shape_error(fault: str, shape: Any, field: str) -> ExtensionError:
    found = _PATH.search(fault)
    what, path = (fault[: found.start()], found[1]) if found else (fault, "")
    place = field + path
    if unknown := _UNKNOWN_FIELD.fullmatch(what):
        place, what = f"{place}.{unknown[1]}", "is no argument; leave it out"
    elif missing := _MISSING_FIELD.fullmatch(what):
        place, what = f"{place}.{missing[1]}", "is missing"
    elif _SENT_WORD.match(what):
        what = f"must be one of {', '.join(_words_at(shape, tuple(_STEP.findall(path))))}"
    elif expected := _EXPECTED.fullmatch(what):
        what = f"must be {' or '.join(_KINDS.get(kind, kind) for kind in expected[1].split(' | '))}"
    else:
        what = f"is not as it must be: {what[0].lower()}{what[1:]}"
    place = place.strip(".")[:_MAX_PLACE_LENGTH]
    return refused(place, what) if place else invalid(f"the object of arguments {what}", None)


@lru_cache(256)
def _words_at(shape: Any, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words allowed at a place in a shape. A step is the name of a member, or `[` for an item."""
    kinds = _alternatives(inspect.type_info(shape))
    for step in path:
        kinds = [one for kind in kinds for inner in _inside(kind, step) for one in _alternatives(inner)]
    return tuple(str(word) for kind in kinds if isinstance(kind, inspect.LiteralType) for word in kind.values)


def _alternatives(kind: inspect.Type) -> list[inspect.Type]:
    return list(kind.types) if isinstance(kind, inspect.UnionType) else [kind]


def _inside(kind: inspect.Type, step: str) -> list[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        return [member.type for member in kind.fields if member.encode_name == step]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, inspect.ListType | inspect.VarTupleType) else []


class NoArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ExtensionOperation(Struct, frozen=True):
    """An operation `kind.verb` and its MCP tool (ruling 47).

    `run` takes an `OperationCall` and the arguments; it is None where the part that keeps the state runs the operation.
    `tool_members` are members of the tool's arguments that only name the caller; they may be left out, and must be right
    where they are there. `described` are schemas of arguments that say more than their type does. `codes` are those
    that it may refuse with besides COMMON_CODES.
    """

    name: str
    tool: str
    summary: str
    arguments: type[Any] = NoArguments
    run: Callable[[Any, Any], tuple[Any, Any]] | None = None
    writes: tuple[StateScope, ...] = ()
    calls_nodes: bool = False
    tool_members: tuple[str, ...] = ()
    described: Mapping[str, Any] = {}
    codes: tuple[Code, ...] = ()

    @property
    def extension(self) -> str:
        return f"VCP-X-{self.name.partition('.')[0].capitalize()}"

    @property
    def only_reads(self) -> bool:
        return not self.writes and not self.calls_nodes


COMMON_CODES: Final[tuple[Code, ...]] = ("EXTENSION_INACTIVE", "INVALID_ARGUMENT")


# Extension calls on a VCP connection (ruling 47).


CALL: Final = "vcp-call"
RESULT: Final = "vcp-result"
MAX_CALL_ID_LENGTH: Final = 128
MAX_CALLS_IN_FLIGHT: Final = 16

_encode = msgspec.json.Encoder().encode


class ExtensionCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["vcp-call"]
    id: str
    op: str
    args: dict[str, Any] = {}


class CallError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: Code
    message: str
    field: str | None = None


class CallResult(Struct, frozen=True, kw_only=True):
    """An answer as a client reads it: `result` if it is `ok`, else `error`."""

    id: str | None
    ok: bool
    result: Any = None
    error: CallError | None = None


def is_call(value: Any) -> bool:
    return type(value) is dict and value.get("type") == CALL


def call_id(value: Any) -> str | None:
    """Return the id of a call, even if the rest is wrong; None if there is no id to answer to."""
    id_ = value.get("id") if type(value) is dict else None
    return id_ if type(id_) is str and 0 < len(id_) <= MAX_CALL_ID_LENGTH else None


def read_call(value: Any) -> ExtensionCall:
    """Read a call. Raises ExtensionError."""
    if call_id(value) is None:
        raise invalid(f"id must be a text of 1 to {MAX_CALL_ID_LENGTH} characters", "id")
    return shaped(value, ExtensionCall)


def write_call(id_: str, op: str, args: dict[str, Any]) -> bytes:
    return _encode({"type": CALL, "id": id_, "op": op, "args": args})


def write_result(id_: str, result: Any) -> bytes:
    return _encode({"type": RESULT, "id": id_, "ok": True, "result": result})


def write_refusal(id_: str | None, refusal: ExtensionError) -> bytes:
    error = CallError(code=refusal.wire_code, message=refusal.message, field=refusal.field)
    return _encode({"type": RESULT, "id": id_, "ok": False, "error": error})


def read_result(value: Any) -> CallResult:
    """Read an answer to a call. Raises ExtensionError."""
    if type(value) is not dict or value.get("type") != RESULT:
        raise invalid(f"an answer to a call has the type {RESULT}", "type")
    result = shaped(value, CallResult)
    if result.ok == (result.error is not None):
        raise invalid("an answer is either ok or has an error", "error")
    return result
