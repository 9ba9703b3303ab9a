"""Members of a JSON object whose kind msgspec cannot tell: ids and bytes in hex. A fault names the member."""

from functools import lru_cache
from typing import Any, TypeVar

from msgspec import ValidationError, convert

from comity.core.envelope.errors import EnvelopeFormatError
from comity.core.identity.keys import KEY_BYTES, VacantId

_Shape = TypeVar("_Shape")

_LONGEST_FAULT = 300


@lru_cache(4096)  # whoever calls once calls again
def vacant_id(text: str, member: str) -> VacantId:
    return VacantId(hex_bytes(text, member, KEY_BYTES))


def hex_bytes(text: str, member: str, length: int | None = None) -> bytes:
    """The bytes that `text` spells, of any number when no length is given."""
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
    """The value as a Struct of that shape."""
    try:
        return convert(value, shape)
    except ValidationError as error:
        raise EnvelopeFormatError(f"invalid {what}: {short_fault(error)}") from None


def short_fault(error: ValidationError) -> str:
    """What msgspec found, and where; cut, for a fault may quote what a stranger sent."""
    fault = str(error)
    if len(fault) <= _LONGEST_FAULT:
        return fault
    return f"{fault[: _LONGEST_FAULT // 2]}…{fault[-_LONGEST_FAULT // 2 :]}"
