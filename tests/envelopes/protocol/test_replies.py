from hypothesis import given

from comity.envelopes.protocol.envelope import reply_is_bound, reply_key
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, envelopes, sent


def test_a_reply_names_the_hash_of_its_request():
    assert reply_key(sent()) == f"re:{sent().compute_hash().hex()}"


@given(envelopes(), envelopes())
def test_a_reply_is_bound_to_its_request_and_to_no_other(request_, other):
    reply = sent(BOB, ALICE, idempotency_key=reply_key(request_))
    assert reply_is_bound(reply, request_) is True
    assert reply_is_bound(reply, other) is (other.signing_payload() == request_.signing_payload())


def test_a_reply_that_names_no_request_leaves_it_open():
    for key in ("", "a-random-key", "RE:" + sent().compute_hash().hex(), sent().compute_hash().hex()):
        assert reply_is_bound(sent(BOB, ALICE, idempotency_key=key), sent()) is None


def test_a_reply_that_names_nonsense_is_not_bound():
    for key in ("re:", "re:00", reply_key(sent()).upper().replace("RE:", "re:"), reply_key(sent()) + "0"):
        assert reply_is_bound(sent(BOB, ALICE, idempotency_key=key), sent()) is False
