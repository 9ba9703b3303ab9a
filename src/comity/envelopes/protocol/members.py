"""Members of a JSON object whose kind msgspec cannot tell: ids and bytes in hex, and moments. A fault names the member.

Moments are as the contract signs them (envelope 1.1): UTC, `+00:00`, six digits of fraction or none. A moment without
an offset is taken as UTC. On the wire any ISO 8601 form is read; only one is written.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import orjson
from msgspec import ValidationError, convert

from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.identity.protocol.keys import KEY_BYTES, VacantId

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
    """What `utc` returned, as `isoformat` writes it, at a third of the cost."""
    return orjson.dumps(moment)[1:-1].decode()


def read_time(text: object) -> datetime:
    """The moment that `text` spells, in UTC."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise EnvelopeFormatError("timestamp must be an ISO 8601 string like 2026-01-31T08:15:00+00:00")
    return utc(moment)
