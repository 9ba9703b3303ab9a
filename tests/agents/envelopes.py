"""Requests as an agent is given them."""

from datetime import UTC, datetime

from comity.envelopes.protocol.envelope import VacantEnvelope, signed_envelope
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey

ALICE = SigningKey.from_seed(b"\x01" * 32)
BOB = SigningKey.from_seed(b"\x02" * 32)


def request(*texts: str) -> VacantEnvelope:
    """From Alice to Bob."""
    return signed_envelope(
        from_vid=ALICE.vacant_id,
        to_vid=BOB.vacant_id,
        payload=A2AMessage(parts=tuple(A2APart(text=text) for text in texts)),
        sequence_no=1,
        prev_envelope_hash=bytes(32),
        idempotency_key="k",
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        signing_key=ALICE,
    )


def said(message: A2AMessage) -> str:
    assert message.role == "ROLE_AGENT"
    (part,) = message.parts
    return part.text
