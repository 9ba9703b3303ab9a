"""The recorded envelopes of the reference, byte for byte, in both dialects and both directions."""

from datetime import datetime

import pytest

from comity.envelopes.protocol.chain import PairKey, ReplayState, check_chain
from comity.envelopes.protocol.envelope import (
    A2A_VACANT_METADATA_KEY,
    DIALECTS,
    EMPTY_PREV_HASH,
    digest,
    from_a2a_jsonrpc,
    recognise,
    signed_envelope,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.errors import ReplayDetectedError
from comity.envelopes.protocol.message import A2AMessage, A2APart, SelfEval, utc_iso
from comity.testing.vectors import format_runner, known_keys
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.known_answers import of, sections


def rebuilt(case):
    """The envelope made from the recorded input alone."""
    given = case["input"]
    known_keys(
        given,
        *("from", "to", "sequence_no", "timestamp", "role", "texts", "context_id", "message_id"),
        *("idempotency_key", "prev_envelope_hash_hex", "self_eval"),
    )
    judged = given.get("self_eval")
    sender = case.keys[given["from"]]
    return signed_envelope(
        from_vid=sender.vacant_id,
        to_vid=case.keys[given["to"]].vacant_id,
        payload=A2AMessage(
            role=given["role"],
            parts=[A2APart(text=text) for text in given["texts"]],
            context_id=given["context_id"],
            message_id=given["message_id"],
            self_eval=None if judged is None else SelfEval(**judged),
        ),
        sequence_no=given["sequence_no"],
        prev_envelope_hash=bytes.fromhex(given["prev_envelope_hash_hex"]),
        idempotency_key=given["idempotency_key"],
        timestamp=datetime.fromisoformat(given["timestamp"]),
        signing_key=sender,
        dialect=case.more["dialect"],
    )


@format_runner("envelope", "vectors", cases=sections, takes=of("envelope"))
def test_vector_envelope_is_signed_and_carried_byte_for_byte(case):
    known_keys(
        case,
        *("id", "input", "timestamp_canonical", "signing_payload_utf8", "signing_payload_hex"),
        *("hash_hex", "signature_hex", "jsonrpc"),
    )
    envelope = rebuilt(case)
    assert utc_iso(envelope.timestamp) == case["timestamp_canonical"]
    assert envelope.signing_payload().decode() == case["signing_payload_utf8"]
    assert envelope.signing_payload().hex() == case["signing_payload_hex"]
    assert envelope.compute_hash().hex() == case["hash_hex"]
    assert envelope.signature.hex() == case["signature_hex"]
    assert dumps(to_a2a_jsonrpc(envelope)) == dumps(case["jsonrpc"])


@format_runner("envelope", "vectors", cases=sections, takes=of("envelope"))
def test_vector_envelope_is_read_and_recognised_in_its_dialect(case):
    received = from_a2a_jsonrpc(loads(dumps(case["jsonrpc"]), unique_keys=True))
    found = recognise(received)
    assert found == rebuilt(case)
    assert found.dialect == case.more["dialect"]
    assert found.compute_hash().hex() == case["hash_hex"]
    assert to_a2a_jsonrpc(found) == case["jsonrpc"]


@format_runner("envelope", "vectors", cases=sections, takes=of("chain"))
def test_vector_envelope_chain_is_accepted_once_and_in_order(case):
    known_keys(case, "from", "to", "envelopes", "final_tip_hex")
    links = [recognise(from_a2a_jsonrpc(recorded["jsonrpc"])) for recorded in case["envelopes"]]
    pair = PairKey(*(case.keys[case[end]].vacant_id for end in ("from", "to")))
    state = ReplayState()
    for link in links:
        assert PairKey.from_envelope(link) == pair
        state = check_chain(state, link)
        with pytest.raises(ReplayDetectedError):
            check_chain(state, link)
    assert state == ReplayState(len(links), bytes.fromhex(case["final_tip_hex"]))


@format_runner("envelope", "vectors", cases=sections, takes=of("dialects", "dialect", "constants", "keys"))
def test_vector_envelope_sections_hold_what_is_understood(case):
    if case.section == "dialects":
        known_keys(case, *DIALECTS)
    elif case.section == "dialect":
        assert not case["unknown"]
    elif case.section == "keys":
        assert len(case.keys) == len(case["cases"])
    else:
        known_keys(case, "empty_prev_hash_hex", "metadata_key", "blake2b_empty_hex")
        assert EMPTY_PREV_HASH.hex() == case["empty_prev_hash_hex"]
        assert case["metadata_key"] == A2A_VACANT_METADATA_KEY
        assert digest(b"").hex() == case["blake2b_empty_hex"]
