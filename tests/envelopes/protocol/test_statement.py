import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.envelopes.protocol.chain import PairKey, ReplayState, TipStatement, resynchronised
from comity.envelopes.protocol.envelope import LAST_SEQUENCE_NO
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
)
from comity.identity.protocol.keys import verify
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.envelope_samples import ALICE, BOB, CAROL, NOON, after, hashes, moments, sent
from tests.wire.json_values import values

PAIR = PairKey(ALICE.vacant_id, BOB.vacant_id)
STATE = ReplayState(7, b"\x07" * 32)


def stated(state=STATE, pair=PAIR, key=BOB, now=NOON):
    return TipStatement.of(pair, state, now=now).signed(key)


class TestAStatement:
    @given(st.integers(0, LAST_SEQUENCE_NO), hashes, moments)
    def test_comes_back_from_json_as_it_was_and_still_holds(self, number, tip, now):
        statement = stated(ReplayState(number, tip), now=now)
        received = TipStatement.from_json(loads(dumps(statement.to_json()), unique_keys=True))
        assert received == statement
        assert received.verify()
        assert received.state() == ReplayState(number, tip)

    def test_is_written_in_six_members(self):
        statement = stated()
        assert statement.to_json() == {
            "from_vacant_id": ALICE.vacant_id.hex(),
            "to_vacant_id": BOB.vacant_id.hex(),
            "sequence_no": 7,
            "chain_tip": "07" * 32,
            "timestamp": "2026-05-06T12:00:00.000007+00:00",
            "signature": statement.signature.hex(),
        }

    @pytest.mark.parametrize("key", [ALICE, CAROL])
    def test_is_the_receivers_word_and_nobody_elses(self, key):
        assert stated().verify()
        assert not stated(key=key).verify()

    @pytest.mark.parametrize(
        "change",
        [
            {"from_vacant_id": CAROL.vacant_id},
            {"to_vacant_id": CAROL.vacant_id},
            {"sequence_no": 8},
            {"chain_tip": bytes(32)},
            {"timestamp": NOON.replace(year=2027)},
            {"signature": b""},
        ],
    )
    def test_is_signed_as_a_whole(self, change):
        assert not replace(stated(), **change).verify()

    def test_is_nobodys_word_until_it_is_signed(self):
        unsigned = TipStatement.of(PAIR, STATE, now=NOON)
        assert unsigned.signature == b""
        assert not unsigned.verify()

    def test_is_signed_under_a_heading_that_no_envelope_has(self):
        payload = stated().signing_payload()
        assert payload.startswith(b"comity chain tip 1\n{")
        assert not verify(BOB.vacant_id.public, payload.partition(b"\n")[2], stated().signature)
        assert sent().signing_payload().startswith(b"{")

    @pytest.mark.parametrize("number", [-1, LAST_SEQUENCE_NO + 1, True, 1.0, "1", None])
    @pytest.mark.parametrize("tip", [STATE.chain_tip])
    def test_has_a_number_of_63_bits(self, number, tip):
        with pytest.raises(EnvelopeFormatError, match="sequence_no"):
            stated(ReplayState(number, tip))

    @pytest.mark.parametrize("tip", [b"", bytes(31), bytes(33), "00" * 32])
    def test_has_a_tip_of_32_bytes(self, tip):
        with pytest.raises(EnvelopeFormatError, match="chain_tip"):
            stated(ReplayState(1, tip))

    @given(st.sampled_from(sorted(stated().to_json())), values() | st.sampled_from(["", "zz", "00 00"]))
    def test_that_was_tampered_with_is_malformed_or_does_not_hold(self, name, value):
        tampered = copy.deepcopy(stated().to_json()) | {name: value}
        try:
            received = TipStatement.from_json(tampered)
        except EnvelopeFormatError:
            return
        assert received == stated() or not received.verify()

    @given(values())
    def test_is_not_read_from_any_other_json(self, value):
        with pytest.raises(EnvelopeFormatError, match="invalid statement"):
            TipStatement.from_json(value)


class TestASenderThatLostItsPlace:
    def test_goes_on_where_the_receiver_stands(self):
        first = sent()
        state = ReplayState(1, first.compute_hash())
        assert resynchronised(PAIR, ReplayState(), stated(state)) == state
        assert after(first).prev_envelope_hash == state.chain_tip

    def test_stays_where_both_agree(self):
        assert resynchronised(PAIR, STATE, stated()) == STATE

    def test_does_not_go_back(self):
        with pytest.raises(ReplayDetectedError, match="goes back to 6, and 7 was accepted"):
            resynchronised(PAIR, STATE, stated(ReplayState(6, b"\x06" * 32)))

    def test_does_not_change_its_past(self):
        with pytest.raises(ChainForkError, match="another envelope as number 7"):
            resynchronised(PAIR, STATE, stated(ReplayState(7, b"\x08" * 32)))

    def test_does_not_believe_a_stranger(self):
        with pytest.raises(EnvelopeSignatureError, match="not signed"):
            resynchronised(PAIR, ReplayState(), stated(key=CAROL))

    @pytest.mark.parametrize(
        "pair", [PairKey(BOB.vacant_id, ALICE.vacant_id), PairKey(ALICE.vacant_id, CAROL.vacant_id)]
    )
    def test_does_not_believe_what_is_said_about_another_pair(self, pair):
        for key in (ALICE, BOB, CAROL):
            with pytest.raises(EnvelopeFormatError, match="another pair"):
                resynchronised(PAIR, ReplayState(), stated(pair=pair, key=key))
