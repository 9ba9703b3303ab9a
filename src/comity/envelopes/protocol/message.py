"""What an envelope carries: a role, text parts, and, in one dialect, how sure the sender is of them.

A value checks itself when it is made, so that whatever exists can be signed.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal, Self, TypeVar, get_args

import orjson
from msgspec import Struct, ValidationError, convert
from msgspec.structs import asdict, force_setattr, replace

from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.identity.protocol.keys import KEY_BYTES, VacantId

# Members of a JSON object whose kind msgspec does not know: ids and bytes in hex, and moments. A fault names the member.

_Shape = TypeVar("_Shape")

_MAX_FAULT_LENGTH = 300


@lru_cache(4096)  # a sender usually sends again
def vacant_id(text: str, member: str) -> VacantId:
    return VacantId(hex_bytes(text, member, KEY_BYTES))


def hex_bytes(text: str, member: str, length: int | None = None) -> bytes:
    """Return the bytes that `text` spells, of any number when no length is given."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = None
    # fromhex overlooks spaces; the contract does not have them
    if data is None or len(text) != 2 * len(data):
        raise EnvelopeFormatError(f"{member} must be a string of hexadecimal digits")
    if length is not None and len(data) != length:
        raise EnvelopeFormatError(f"{member} must be {2 * length} hexadecimal digits, not {len(text)}")
    return data


def shaped(value: Any, shape: type[_Shape], what: str) -> _Shape:
    """Return the value as a Struct of that shape."""
    try:
        return convert(value, shape)
    except ValidationError as error:
        raise EnvelopeFormatError(f"invalid {what}: {short_fault(error)}") from None


def short_fault(error: ValidationError) -> str:
    """Return what msgspec found, and where; cut, for a fault may quote what a stranger sent."""
    fault = str(error)
    if len(fault) <= _MAX_FAULT_LENGTH:
        return fault
    return f"{fault[: _MAX_FAULT_LENGTH // 2]}…{fault[-_MAX_FAULT_LENGTH // 2 :]}"


def utc(moment: datetime) -> datetime:
    if type(moment) is not datetime:
        # a subclass may write itself in a way of its own
        moment = datetime.combine(moment, moment.timetz())
    if moment.tzinfo is UTC:
        return moment
    if moment.utcoffset() is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise EnvelopeFormatError("timestamp must lie in the years 1 to 9999, counted in UTC") from None


def utc_iso(moment: datetime) -> str:
    return iso_of_utc(utc(moment))


def iso_of_utc(moment: datetime) -> str:
    """Return what `utc` returned, as `isoformat` writes it, at a third of the cost."""
    return orjson.dumps(moment)[1:-1].decode()


def read_time(text: object) -> datetime:
    """Return the moment that `text` spells, in UTC."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise EnvelopeFormatError("timestamp must be an ISO 8601 string like 2026-01-31T08:15:00+00:00")
    return utc(moment)


Role = Literal["ROLE_USER", "ROLE_AGENT", "ROLE_TOOL"]

ROLES: tuple[str, ...] = get_args(Role)


class A2APart(Struct, frozen=True, gc=False):
    """Only text is defined; the other kinds of A2A are reserved."""

    type: Literal["text"] = "text"
    text: str = ""

    def __post_init__(self) -> None:
        if self.type != "text":
            raise EnvelopeFormatError(
                f"a part must have the type 'text', not {self.type!r}; send its text instead"
            )
        if not isinstance(self.text, str):
            raise EnvelopeFormatError("the text of a part must be a string")

    def canonical_dict(self) -> dict[str, Any]:
        """Return the members that are signed."""
        return {"text": self.text, "type": self.type}

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        return replace(self, **(update or {}))

    def model_dump(self) -> dict[str, Any]:
        return asdict(self)


class SelfEval(Struct, frozen=True, gc=False):
    """The sender's own judgement of its message, each from 0 to 1; always signed as floats."""

    factual: float = 0.5
    logical: float = 0.5
    relevance: float = 0.5
    honesty: float = 0.5
    adoption: float = 0.5
    confidence: float = 0.5

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) not in {int, float} or not 0 <= value <= 1:
                raise EnvelopeFormatError(f"self_eval.{name} must be a number from 0 to 1")
            force_setattr(self, name, float(value))

    def dims(self) -> dict[str, float]:
        """Return the five dimensions of reputation, without the confidence in them."""
        dims: dict[str, float] = asdict(self)
        del dims["confidence"]
        return dims


class A2AMessage(Struct, frozen=True):
    """`parts` may be given as a list; it is kept as a tuple."""

    role: Role = "ROLE_USER"
    parts: tuple[A2APart, ...] = ()
    context_id: str | None = None
    message_id: str | None = None
    self_eval: SelfEval | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise EnvelopeFormatError("role must be ROLE_USER, ROLE_AGENT or ROLE_TOOL")
        if type(self.parts) is not tuple:
            force_setattr(self, "parts", tuple(self.parts))
        for part in self.parts:
            if not isinstance(part, A2APart):
                raise EnvelopeFormatError("parts must be a sequence of A2APart")
        if self.context_id is not None and not isinstance(self.context_id, str):
            raise EnvelopeFormatError("context_id must be a string or None")
        if self.message_id is not None and not isinstance(self.message_id, str):
            raise EnvelopeFormatError("message_id must be a string or None")
        if self.self_eval is not None and not isinstance(self.self_eval, SelfEval):
            raise EnvelopeFormatError("self_eval must be a SelfEval or None")

    def canonical_dict(self) -> dict[str, Any]:
        """Return the members that are signed; `selfEval` only where there is one."""
        signed: dict[str, Any] = {
            "contextId": self.context_id,
            "messageId": self.message_id,
            "parts": [{"text": part.text, "type": "text"} for part in self.parts],
            "role": self.role,
        }
        if self.self_eval is not None:
            signed["selfEval"] = asdict(self.self_eval)
        return signed

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        return replace(self, **(update or {}))

    def model_dump(self) -> dict[str, Any]:
        """Return the fields by name, the parts as dicts."""
        return {**asdict(self), "parts": [part.model_dump() for part in self.parts]}
