"""The methods that programs written from the document call on envelopes, messages and parts (ruling 41)."""

import pytest

from comity import A2AMessage, A2APart, EnvelopeFormatError
from tests.envelopes.protocol.envelope_samples import NOON, said, sent

MESSAGE = A2AMessage(parts=[A2APart(text="hi")], context_id="c")


def test_a_copy_has_the_other_values_and_is_checked():
    envelope = sent()
    moved = envelope.model_copy(update={"sequence_no": 2})
    assert (moved.sequence_no, moved.payload) == (2, envelope.payload)
    assert not moved.verify()
    assert envelope.model_copy() == envelope
    assert envelope.verify()
    with pytest.raises(EnvelopeFormatError):
        envelope.model_copy(update={"sequence_no": 0})
    assert MESSAGE.model_copy(update={"parts": [A2APart(text="ho")]}).parts[0].text == "ho"
    assert A2APart(text="a").model_copy(update={"text": "b"}) == A2APart(text="b")


def test_a_copy_is_hashed_anew():
    envelope = sent()
    before = envelope.compute_hash()
    assert envelope.model_copy(update={"payload": said("other")}).compute_hash() != before


def test_a_dump_holds_the_fields_by_name():
    envelope = sent(payload=MESSAGE)
    assert envelope.model_dump() == {
        "from_vacant_id": envelope.from_vacant_id,
        "to_vacant_id": envelope.to_vacant_id,
        "payload": {
            "role": "ROLE_USER",
            "parts": [{"type": "text", "text": "hi"}],
            "context_id": "c",
            "message_id": None,
            "self_eval": None,
        },
        "sequence_no": 1,
        "timestamp": NOON,
        "prev_envelope_hash": bytes(32),
        "idempotency_key": "key",
        "signature": envelope.signature,
        "dialect": "seed",
    }


def test_the_canonical_dict_is_what_is_signed():
    assert A2APart(text="hi").canonical_dict() == {"text": "hi", "type": "text"}
    assert MESSAGE.canonical_dict() == {
        "contextId": "c",
        "messageId": None,
        "parts": [{"text": "hi", "type": "text"}],
        "role": "ROLE_USER",
    }
    assert sent(payload=MESSAGE).signing_dict()["payload"] == MESSAGE.canonical_dict()
