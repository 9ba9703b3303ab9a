import hashlib
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.envelopes.protocol.envelope import (
    EMPTY_PREV_HASH,
    LAST_SEQUENCE_NO,
    VacantEnvelope,
    digest,
    from_a2a_jsonrpc,
    recognise,
    reply_is_bound,
    reply_key,
    spoken_in,
    to_a2a_jsonrpc,
)
from comity.envelopes.protocol.errors import EnvelopeFormatError, EnvelopeSignatureError
from comity.envelopes.protocol.message import A2APart, SelfEval
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, CAROL, NOON, envelopes, said, sent

UNSIGNED = VacantEnvelope(
    from_vacant_id=ALICE.vacant_id,
    to_vacant_id=BOB.vacant_id,
    payload=said("hello"),
    sequence_no=1,
    timestamp=NOON,
)


class TestTheSignedBytes:
    @given(envelopes())
    def test_are_the_sorted_json_of_seven_members(self, envelope):
        members = envelope.signing_dict()
        assert sorted(members) == ["from", "idem", "payload", "prev", "seq", "to", "ts"]
        text = json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert envelope.signing_payload() == text.encode()

    @given(envelopes())
    def test_hold_the_self_evaluation_in_one_dialect_only(self, envelope):
        payload = envelope.signing_dict()["payload"]
        assert ("selfEval" in payload) == (envelope.dialect == "selfeval")
        assert {"contextId", "messageId", "parts", "role"} == payload.keys() - {"selfEval"}

    def test_are_named_by_their_blake2b_hash(self):
        expected = hashlib.blake2b(UNSIGNED.signing_payload(), digest_size=32).digest()
        assert UNSIGNED.compute_hash() == digest(UNSIGNED.signing_payload()) == expected

    def test_do_not_hold_the_signature(self):
        signed = UNSIGNED.signed(ALICE)
        assert signed.signature
        assert signed.signing_payload() == UNSIGNED.signing_payload()
        assert signed.compute_hash() == UNSIGNED.compute_hash()

    def test_tell_null_from_an_empty_string(self):
        forms = {
            replace(UNSIGNED, payload=said("x", **{name: value})).signing_payload()
            for name in ("context_id", "message_id")
            for value in (None, "")
        }
        assert len(forms) == 3

    def test_write_whole_shares_as_floats(self):
        judged = said("x", self_eval=SelfEval(factual=1, logical=0, adoption=1e-05))
        form = replace(UNSIGNED, payload=judged, dialect="selfeval").signing_payload()
        assert b'"selfEval":{"adoption":1e-05,"confidence":0.5,"factual":1.0,' in form
        assert b'"logical":0.0' in form

    def test_are_worked_out_anew_for_a_changed_copy(self):
        UNSIGNED.compute_hash()
        changed = replace(UNSIGNED, sequence_no=2)
        assert b'"seq":2' in changed.signing_payload()
        assert changed.compute_hash() != UNSIGNED.compute_hash()

    @pytest.mark.parametrize(
        "broken",
        [
            {"payload": said("\ud800")},
            {"payload": said("x", context_id="\udfff")},
            {"idempotency_key": "\ud800"},
        ],
    )
    def test_do_not_exist_for_half_a_surrogate_pair(self, broken):
        with pytest.raises(EnvelopeFormatError, match="surrogate"):
            replace(UNSIGNED, **broken).signing_payload()


class TestASignature:
    @given(envelopes())
    def test_holds_for_the_sender_and_nobody_else(self, envelope):
        others = {ALICE.vacant_id, BOB.vacant_id, CAROL.vacant_id} - {envelope.from_vacant_id}
        assert envelope.verify()
        assert envelope.verify(envelope.from_vacant_id)
        assert envelope.verify(envelope.from_vacant_id.public)
        assert not any(envelope.verify(other) for other in others)

    @given(envelopes(), st.data())
    def test_covers_every_member(self, envelope, data):
        other = data.draw(envelopes())
        for name in VacantEnvelope.__struct_fields__:
            if name in ("signature", "dialect"):
                continue
            try:
                changed = replace(envelope, **{name: getattr(other, name)})
            except EnvelopeFormatError:
                assert name == "payload"
                continue
            assert changed.verify() == (changed == envelope), name

    @pytest.mark.parametrize(
        "change",
        [
            {"payload": said("hello!")},
            {"payload": said("hello", role="ROLE_AGENT")},
            {"payload": said("hello", "")},
            {"payload": said("hello", context_id="")},
            {"payload": said("hello", message_id="")},
            {"sequence_no": 2},
            {"prev_envelope_hash": bytes(31) + b"\x01"},
            {"to_vacant_id": CAROL.vacant_id},
            {"from_vacant_id": BOB.vacant_id},
            {"idempotency_key": "kez"},
            {"timestamp": NOON + timedelta(microseconds=1)},
            {"dialect": "selfeval"},
        ],
    )
    def test_breaks_with_the_smallest_change(self, change):
        envelope = sent()
        assert envelope.verify()
        assert not replace(envelope, **change).verify()

    @pytest.mark.parametrize("position", range(0, 512, 37))
    def test_breaks_with_any_of_its_own_bits(self, position):
        envelope = sent()
        flipped = bytearray(envelope.signature)
        flipped[position // 8] ^= 1 << position % 8
        assert not replace(envelope, signature=bytes(flipped)).verify()

    @pytest.mark.parametrize("signature", [b"", bytes(63), bytes(64), bytes(65)])
    def test_is_not_there_when_nobody_signed(self, signature):
        assert not replace(UNSIGNED, signature=signature).verify()

    def test_of_a_key_of_small_order_proves_nothing(self):
        everybody = replace(UNSIGNED.from_vacant_id, pubkey_bytes=bytes([1]) + bytes(31))
        forged = replace(UNSIGNED, from_vacant_id=everybody, signature=bytes([1]) + bytes(63))
        assert not forged.verify()

    def test_that_does_not_hold_is_told_with_the_short_name_of_the_sender(self):
        sent().verify_or_raise()
        sent().verify_or_raise(ALICE.vacant_id)
        expected = f"envelope signature did not verify for sender {ALICE.vacant_id.short()}"
        with pytest.raises(EnvelopeSignatureError) as refusal:
            sent().verify_or_raise(BOB.vacant_id)
        assert refusal.value.message == expected


class TestAnEnvelope:
    def test_takes_a_moment_without_an_offset_as_utc(self):
        naive = replace(UNSIGNED, timestamp=NOON.replace(tzinfo=None))
        assert naive == UNSIGNED
        assert naive.signing_dict()["ts"] == "2026-05-06T12:00:00.000007+00:00"

    def test_follows_nothing_and_is_unsigned_unless_told_otherwise(self):
        assert UNSIGNED.prev_envelope_hash == EMPTY_PREV_HASH == bytes(32)
        assert (UNSIGNED.signature, UNSIGNED.idempotency_key, UNSIGNED.dialect) == (b"", "", "seed")

    def test_is_named_by_its_content_and_not_by_its_key(self):
        assert sent(payload=said("one")).idempotency_key == sent(payload=said("two")).idempotency_key
        assert sent(payload=said("one")).compute_hash() != sent(payload=said("two")).compute_hash()
        assert sent(to=BOB).compute_hash() != sent(to=CAROL).compute_hash()

    def test_is_equal_by_what_it_says_and_can_be_a_key(self):
        one, other = sent(), sent()
        one.compute_hash()
        assert one == other
        assert {one: 1}[other] == 1
        assert one != sent(sequence_no=2)

    @pytest.mark.parametrize("number", [0, -1, LAST_SEQUENCE_NO + 1, True, 1.0, "1", None])
    def test_is_numbered_from_one_to_the_last_of_63_bits(self, number):
        assert replace(UNSIGNED, sequence_no=LAST_SEQUENCE_NO).sequence_no == 2**63 - 1
        with pytest.raises(EnvelopeFormatError, match="sequence_no"):
            replace(UNSIGNED, sequence_no=number)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("prev_envelope_hash", bytes(31)),
            ("prev_envelope_hash", bytes(33)),
            ("prev_envelope_hash", "0" * 64),
            ("idempotency_key", None),
            ("signature", "ab"),
            ("from_vacant_id", ALICE.vacant_id.hex()),
            ("to_vacant_id", None),
            ("payload", "hello"),
            ("timestamp", "2026-05-06"),
            ("dialect", "other"),
        ],
    )
    def test_refuses_by_name_what_the_contract_does_not_know(self, name, value):
        with pytest.raises(EnvelopeFormatError, match=name):
            replace(UNSIGNED, **{name: value})

    def test_does_not_carry_a_self_evaluation_that_its_dialect_would_leave_unsigned(self):
        judged = said("x", self_eval=SelfEval())
        assert replace(UNSIGNED, payload=judged, dialect="selfeval").payload is judged
        with pytest.raises(EnvelopeFormatError, match="selfeval"):
            replace(UNSIGNED, payload=judged)

    def test_cannot_be_changed(self):
        with pytest.raises(AttributeError):
            UNSIGNED.sequence_no = 2
        with pytest.raises(AttributeError):
            UNSIGNED.payload.parts[0].text = "other"
        assert UNSIGNED.payload.parts == (A2APart(text="hello"),)


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
