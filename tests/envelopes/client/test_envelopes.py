from datetime import UTC, datetime
from uuid import UUID

import pytest

from comity.envelopes.client.calls import build_envelope
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH
from comity.envelopes.protocol.message import A2AMessage, A2APart
from comity.identity.protocol.keys import SigningKey

ALICE, BOB = (SigningKey.from_seed(bytes([number]) * 32) for number in (1, 2))
HELLO = A2AMessage(parts=[A2APart(text="hello")])


def built(**more):
    return build_envelope(
        from_vid=ALICE.vacant_id, to_vid=BOB.vacant_id, payload=HELLO, signing_key=ALICE, **more
    )


def test_an_envelope_starts_a_chain_now_unless_told_otherwise():
    before = datetime.now(UTC)
    envelope = built()
    assert before <= envelope.timestamp <= datetime.now(UTC)
    assert envelope.sequence_no == 1
    assert envelope.prev_envelope_hash == EMPTY_PREV_HASH
    assert envelope.dialect == "seed"
    assert envelope.payload == HELLO
    assert envelope.verify()


@pytest.mark.parametrize("nothing", [None, ""])
def test_an_envelope_without_a_key_gets_a_random_one(nothing):
    first, second = built(idempotency_key=nothing), built(idempotency_key=nothing)
    assert UUID(first.idempotency_key).version == 4
    assert first.idempotency_key != second.idempotency_key


def test_what_is_given_is_taken():
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    envelope = built(
        sequence_no=5,
        prev_envelope_hash=b"\x01" * 32,
        idempotency_key="mine",
        timestamp=moment,
        dialect="selfeval",
    )
    assert (envelope.sequence_no, envelope.prev_envelope_hash) == (5, b"\x01" * 32)
    assert (envelope.idempotency_key, envelope.timestamp, envelope.dialect) == ("mine", moment, "selfeval")
    assert envelope.verify()
