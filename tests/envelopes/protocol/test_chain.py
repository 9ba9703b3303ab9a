import copy
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from comity.envelopes.protocol.chain import (
    PairKey,
    ReplayState,
    TipStatement,
    check_chain,
    check_freshness,
    check_stamped_after,
    resynchronised,
)
from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH, LAST_SEQUENCE_NO
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
    StaleEnvelopeError,
)
from comity.identity.protocol.keys import verify
from comity.wire.strict_json import dumps, loads
from tests.envelopes.protocol.envelope_samples import (
    ALICE,
    BOB,
    CAROL,
    NOON,
    after,
    hashes,
    moments,
    said,
    sent,
)
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


FRESH = ReplayState()


def chain(length, **more):
    links = []
    for number in range(length):
        links.append(after(links[-1] if links else None, payload=said(f"link {number}"), **more))
    return links


def advance(envelopes, state=FRESH):
    for envelope in envelopes:
        state = check_chain(state, envelope)
    return state


def refusal(state, envelope):
    with pytest.raises((ReplayDetectedError, ChainForkError)) as refused:
        check_chain(state, envelope)
    return type(refused.value), refused.value.message


class TestAPair:
    def test_that_never_spoke_stands_at_nought_and_zeros(self):
        assert ReplayState(0, bytes(32)) == FRESH

    def test_is_directed(self):
        there, back = PairKey.from_envelope(sent(ALICE, BOB)), PairKey.from_envelope(sent(BOB, ALICE))
        assert there == PairKey(ALICE.vacant_id, BOB.vacant_id)
        assert there != back
        assert len({there, back, PairKey.from_envelope(sent(ALICE, BOB, sequence_no=9))}) == 2

    @given(st.integers(2, 8))
    def test_accepts_any_clean_chain(self, length):
        links = chain(length)
        assert advance(links) == ReplayState(length, links[-1].compute_hash())

    def test_accepts_a_chain_in_either_dialect_by_its_own_hashes(self):
        assert advance(chain(3, dialect="selfeval")).last_sequence_no == 3

    def test_goes_on_from_wherever_it_was_put(self):
        links = chain(5)
        assert advance(links[3:], ReplayState(3, links[2].compute_hash())) == advance(links)


class TestTheRefusals:
    def test_of_a_replay(self):
        links = chain(3)
        state = advance(links)
        for link in links:
            assert refusal(state, link) == (
                ReplayDetectedError,
                f"replay/out-of-order envelope: seq {link.sequence_no} <= last_seen 3",
            )

    def test_of_a_gap(self):
        links = chain(4)
        assert refusal(advance(links[:1]), links[3]) == (
            ReplayDetectedError,
            "non-monotonic sequence_no: expected 2, got 4",
        )

    def test_of_a_later_one_as_the_first(self):
        assert refusal(FRESH, chain(2)[1]) == (
            ReplayDetectedError,
            "non-monotonic sequence_no: expected 1, got 2",
        )

    def test_of_a_fork(self):
        links = chain(2)
        forked = after(sent(payload=said("another first")))
        expected, got = links[0].compute_hash().hex(), forked.prev_envelope_hash.hex()
        assert refusal(advance(links[:1]), forked) == (
            ChainForkError,
            f"prev_envelope_hash mismatch: expected {expected}, got {got}",
        )

    def test_of_a_first_one_that_follows_something(self):
        kind, message = refusal(FRESH, sent(prev=b"\xab" * 32))
        assert kind is ChainForkError
        assert message == f"prev_envelope_hash mismatch: expected {'0' * 64}, got {'ab' * 32}"

    def test_look_at_the_number_before_the_hash(self):
        state = advance(chain(2))
        assert refusal(state, sent(sequence_no=2, prev=b"x" * 32))[0] is ReplayDetectedError
        assert refusal(state, sent(sequence_no=9, prev=b"x" * 32))[0] is ReplayDetectedError
        assert refusal(state, sent(sequence_no=3, prev=b"x" * 32))[0] is ChainForkError

    @given(st.integers(3, 8), st.data())
    def test_meet_every_swap(self, length, data):
        links = chain(length)
        first = data.draw(st.integers(0, length - 2))
        second = data.draw(st.integers(first + 1, length - 1))
        links[first], links[second] = links[second], links[first]
        state = advance(links[:first])
        assert refusal(state, links[first])[0] is ReplayDetectedError

    @given(st.integers(1, 6), hashes)
    def test_meet_every_injected_hash(self, length, prev):
        state = advance(chain(length))
        assume(prev != state.chain_tip)
        injected = sent(sequence_no=length + 1, prev=prev)
        assert refusal(state, injected)[0] is ChainForkError


class ATraffic(RuleBasedStateMachine):
    """A receiver that is sent the next link of a chain, and everything that is not the next link."""

    def __init__(self):
        super().__init__()
        self.accepted = []
        self.state = FRESH

    @property
    def last(self):
        return self.accepted[-1] if self.accepted else None

    @rule(text=st.text(max_size=3), dialect=st.sampled_from(["seed", "selfeval"]))
    def the_next_one(self, text, dialect):
        envelope = after(self.last, payload=said(text), dialect=dialect)
        self.state = check_chain(self.state, envelope)
        self.accepted.append(envelope)

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def an_old_one(self, data):
        old = data.draw(st.sampled_from(self.accepted))
        assert refusal(self.state, old)[0] is ReplayDetectedError

    @precondition(lambda self: self.accepted)
    @rule(data=st.data())
    def another_one_under_an_old_number(self, data):
        old = data.draw(st.sampled_from(self.accepted))
        other = sent(sequence_no=old.sequence_no, prev=old.prev_envelope_hash, payload=said("other"))
        assert refusal(self.state, other)[0] is ReplayDetectedError

    @rule(gap=st.integers(1, 5))
    def one_from_beyond_a_gap(self, gap):
        number = len(self.accepted) + 1 + gap
        ahead = sent(sequence_no=number, prev=self.state.chain_tip)
        assert refusal(self.state, ahead)[0] is ReplayDetectedError

    @rule(prev=hashes)
    def a_fork(self, prev):
        assume(prev != self.state.chain_tip)
        forked = sent(sequence_no=len(self.accepted) + 1, prev=prev)
        assert refusal(self.state, forked)[0] is ChainForkError

    @invariant()
    def it_stands_on_the_last_accepted(self):
        tip = self.last.compute_hash() if self.last else EMPTY_PREV_HASH
        assert self.state == ReplayState(len(self.accepted), tip)


TestATraffic = ATraffic.TestCase


class TestAFreshnessWindow:
    @pytest.mark.parametrize("seconds", [0, 300, -300])
    def test_lets_pass_what_is_inside(self, seconds):
        check_freshness(sent(), now=NOON + timedelta(seconds=seconds), window=300)

    @pytest.mark.parametrize(("seconds", "shown"), [(301, "301 s behind"), (-86_401, "86,401 s ahead of")])
    def test_refuses_what_is_outside_and_names_the_skew(self, seconds, shown):
        with pytest.raises(
            StaleEnvelopeError, match=rf"{shown} this node's clock \(.*\), beyond the window of 300 s"
        ):
            check_freshness(sent(), now=NOON + timedelta(seconds=seconds), window=300)


def test_after_a_restore_only_what_was_signed_later_counts():
    check_stamped_after(sent(), NOON - timedelta(microseconds=1))
    for moment in (NOON, NOON + timedelta(seconds=1)):
        with pytest.raises(StaleEnvelopeError, match="when this node was restored from a backup"):
            check_stamped_after(sent(), moment)
