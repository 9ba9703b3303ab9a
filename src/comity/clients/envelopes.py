"""New envelopes, with the time and the random idempotency key, which the core gets as arguments."""

from datetime import UTC, datetime
from uuid import uuid4

from comity.core.envelope.envelope import EMPTY_PREV_HASH, Dialect, VacantEnvelope, signed_envelope
from comity.core.envelope.message import A2AMessage
from comity.core.identity.keys import AnySigningKey, VacantId


def build_envelope(
    *,
    from_vid: VacantId,
    to_vid: VacantId,
    payload: A2AMessage,
    sequence_no: int = 1,
    prev_envelope_hash: bytes = EMPTY_PREV_HASH,
    idempotency_key: str | None = None,
    timestamp: datetime | None = None,
    signing_key: AnySigningKey,
    dialect: Dialect = "seed",
) -> VacantEnvelope:
    """A signed envelope; made now, and under a random key, unless told otherwise."""
    return signed_envelope(
        from_vid=from_vid,
        to_vid=to_vid,
        payload=payload,
        sequence_no=sequence_no,
        prev_envelope_hash=prev_envelope_hash,
        idempotency_key=idempotency_key or str(uuid4()),
        timestamp=timestamp or datetime.now(UTC),
        signing_key=signing_key,
        dialect=dialect,
    )
