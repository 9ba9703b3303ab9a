"""Moments as the contract signs them (envelope 1.1): UTC, `+00:00`, six digits of fraction or none.

A moment without an offset is taken as UTC. On the wire any ISO 8601 form is read; only one is written.
"""

from datetime import UTC, datetime

import orjson

from comity.core.envelope.errors import EnvelopeFormatError


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
    """As `isoformat` writes it, at a third of the cost."""
    return orjson.dumps(utc(moment))[1:-1].decode()


def read(text: object) -> datetime:
    """The moment that `text` spells, in UTC."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        moment = None
    if moment is None:
        raise EnvelopeFormatError("timestamp must be an ISO 8601 string like 2026-01-31T08:15:00+00:00")
    return utc(moment)
