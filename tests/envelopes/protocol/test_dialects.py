import pytest
from hypothesis import given
from msgspec.structs import replace

from comity.envelopes.protocol.envelope import from_a2a_jsonrpc, recognise, spoken_in, to_a2a_jsonrpc
from comity.envelopes.protocol.message import SelfEval
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, envelopes, said, sent

JUDGED = said("sure", self_eval=SelfEval(confidence=0.9))


@given(envelopes())
def test_the_dialect_that_signed_is_recognised_from_the_wire(envelope):
    found = recognise(from_a2a_jsonrpc(to_a2a_jsonrpc(envelope)))
    assert found == envelope
    assert found.compute_hash() == envelope.compute_hash()


@given(envelopes())
def test_a_signature_of_somebody_else_is_recognised_in_no_dialect(envelope):
    forged = replace(envelope, from_vacant_id=BOB.vacant_id).signed(ALICE)
    assert recognise(forged) is None
    assert recognise(forged, ALICE.vacant_id) == forged


def test_a_message_that_shows_a_self_evaluation_is_not_tried_without_it():
    body = to_a2a_jsonrpc(sent())
    body["params"]["message"]["selfEval"] = None
    assert from_a2a_jsonrpc(body).dialect == "selfeval"
    assert recognise(from_a2a_jsonrpc(body)) is None


def test_null_is_a_self_evaluation_too():
    body = to_a2a_jsonrpc(sent(dialect="selfeval"))
    assert "selfEval" not in body["params"]["message"]
    assert from_a2a_jsonrpc(body).dialect == "seed"
    body["params"]["message"]["selfEval"] = None
    assert recognise(from_a2a_jsonrpc(body)) == sent(dialect="selfeval")


@pytest.mark.parametrize("change", [{"factual": 0.4}, {}, None])
def test_a_self_evaluation_is_covered_by_the_signature(change):
    body = to_a2a_jsonrpc(sent(payload=JUDGED, dialect="selfeval"))
    assert recognise(from_a2a_jsonrpc(body)) is not None
    body["params"]["message"]["selfEval"] = change
    assert recognise(from_a2a_jsonrpc(body)) is None
    del body["params"]["message"]["selfEval"]
    assert recognise(from_a2a_jsonrpc(body)) is None


def test_a_reply_says_no_more_than_its_dialect_can_carry():
    assert spoken_in("selfeval", JUDGED) is JUDGED
    assert spoken_in("seed", JUDGED) == said("sure")
    assert spoken_in("seed", said("sure")) == said("sure")
