"""Parties, hosts and clocks that do anything: a minority puts nothing into force, and nobody who acts in time is left out."""

import contextlib
from fractions import Fraction

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log, rules
from comity.votes.protocol.provenance import verify_record, write_record
from comity.wire.machine import SKEW_SECONDS
from tests.votes.protocol.parties import HOST, ID, NOW, opening

KEYS = [HOST, *(SigningKey(bytes([number]) * 32) for number in range(2, 6))]
PHASE = 3600
PHASES = ["deliberation", "convergence", "ratification", "active"]

some_key = st.integers(0, len(KEYS) - 1)
votes = st.sampled_from(["accept", "accept", "reject", "abstain"])


class Voting(RuleBasedStateMachine):
    """`only_a_minority`: half of the parties or fewer act, and no others. The clock of the host may be wrong; it may be
    that of a cheat, who takes `host_ahead` as he likes. Readers have the right time.
    """

    only_a_minority = False

    @initialize(
        size=st.integers(2, 5),
        actors=st.permutations(range(5)),
        threshold=st.sampled_from(["1/2", "2/3", "1"]),
        form=st.sampled_from(["text", "text", "question"]),
        host_ahead=st.sampled_from([0, 0, -PHASE, 200, PHASE, 100 * PHASE]),
    )
    def open(self, size, actors, threshold, form, host_ahead):
        self.keys = KEYS[:size]
        most = size // 2 if self.only_a_minority else size
        self.actors = [number for number in actors if number < size][:most]
        self.threshold = Fraction(threshold)
        self.now, self.host_ahead = NOW, host_ahead
        self.head = self.reader = None
        self.entries, self.said = [], {}
        args = opening(
            clauses=["We pay half."],
            stakeholders=[{"id": key.vacant_id.hex()} for key in self.keys[1:]],
            rules=2,
            form=form,
            ratification=threshold,
            phase_seconds=PHASE,
        )
        assert self._say(HOST, log.OPEN, args, time=self.now + host_ahead)

    def _actor(self, number):
        return self.keys[self.actors[number % len(self.actors)]]

    def _say(self, key, op, args, *, time=None):
        """Sign at `time`, which anybody may write as he likes, and give it to the host."""
        at = self.now if time is None else time
        host_now = self.now + self.host_ahead
        entry = log.propose(self.head, ID, op, args, key, at)
        before = self.head
        try:
            self.head, stored = log.admit(self.head, entry, HOST, host_now)
        except ExtensionError:
            return False
        self._note(before, key, op, args)
        self.entries.append(stored)
        if len(self.entries) - 1 == getattr(self, "read", 0):  # the reader has not refused an earlier one
            with contextlib.suppress(log.EarlyCloseError):
                self.reader = log.follow(self.reader, stored, self.now)
                self.read = len(self.entries)
        return True

    def _note(self, before, key, op, args):
        """Keep our own account of the votes of this round, and of how phases end."""
        if op == "consensus.vote":
            self.said[key.vacant_id.hex()] = args["vote"]
        if before is None or len(self.head.vote.phase_history) == len(before.vote.phase_history):
            return
        old, new = before.vote, self.head.vote
        if op == "consensus.close":
            assert self.now + self.host_ahead >= old.deadline, "closed before the deadline"
        elif (old.phase, new.phase) not in {("draft", "deliberation"), ("ratification", "deliberation")}:
            missing = {*old.eligible} - {*old.acted_on} - {*self.said}
            assert not (missing if old.phase != "convergence" else set()), "a phase ended without a party"
        if new.phase == "deliberation":
            self.said = {}

    @rule(number=some_key, action=st.sampled_from(["endorse", "amend", "abstain", "withdraw"]))
    def act(self, number, action):
        more = {"text": f"Text {len(self.entries)}."} if action == "amend" else {}
        self._say(self._actor(number), "consensus.act", {"delib_id": ID, "action": action} | more)

    @rule(number=some_key, best=st.sampled_from(["v0", "v1"]))
    def rank(self, number, best):
        self._say(self._actor(number), "consensus.ballot", {"delib_id": ID, "ranking": [best]})

    @rule(
        number=some_key,
        to=st.sampled_from(["deliberation", *PHASES]),
        back=st.sampled_from([0, 0, PHASE, -9e9]),
    )
    def advance(self, number, to, back):
        args = {"delib_id": ID, "to": to}
        self._say(self._actor(number), "consensus.advance", args, time=max(self.now - back, 0))

    @rule(number=some_key, vote=votes, back=st.sampled_from([0, 0, 0, 2 * PHASE]))
    def vote(self, number, vote, back):
        before = self.head.vote
        key, time = self._actor(number), self.now - back
        args = {"delib_id": ID, "vote": vote, "reason": "Because."}
        taken = self._say(key, "consensus.vote", args, time=time)
        in_time = before.phase == "ratification" and time <= before.deadline
        from_the_future = time > self.now + self.host_ahead + SKEW_SECONDS
        assert taken == (in_time and not from_the_future), "who acts in time is heard, and nobody else"

    @rule(seconds=st.sampled_from([1, 400, PHASE, 3 * PHASE]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def close(self):
        """The host closes whenever it likes, with the time of its clock."""
        args = {"delib_id": ID, "phase": self.head.vote.phase}
        self._say(HOST, "consensus.close", args, time=self.now + self.host_ahead)

    @rule(number=some_key)
    def close_as_another(self, number):
        key = self._actor(number)
        if key is not HOST:
            args = {"delib_id": ID, "phase": self.head.vote.phase}
            assert not self._say(key, "consensus.close", args, time=self.now + 10 * PHASE)

    @rule()
    def all_who_act_go_on(self):
        """Without it the later phases would hardly be seen."""
        step = {"draft": "deliberation", "deliberation": "convergence", "convergence": "ratification"}
        for number in range(len(self.actors)):
            self.act(number, "endorse")
        self.rank(0, "v0")
        if self.head.vote.phase in step:
            self.advance(0, step[self.head.vote.phase], 0)

    @invariant()
    def only_enough_parties_put_it_into_force(self):
        for head in (self.head, self.reader):
            if head is not None and head.vote.phase == "active":
                accepting = sum(vote == "accept" for vote in self.said.values())
                assert 2 * accepting > len(self.keys)
                assert Fraction(accepting, len(self.keys)) >= self.threshold
                assert not self.only_a_minority

    @invariant()
    def nobody_sends_it_back_again_and_again(self):
        back = (
            [one for one in self.head.vote.phase_history[1:] if one.phase == "deliberation"]
            if self.head
            else []
        )
        assert len(back) <= 1 + len(self.keys)

    def teardown(self):
        if getattr(self, "head", None) is not None:
            found = verify_record(write_record(self.entries, self.head))
            assert found.ok, found.reason
            assert found.head == self.head


class AMinority(Voting):
    only_a_minority = True


STEPS = settings(max_examples=60, stateful_step_count=25, deadline=None)
Voting.TestCase.settings = AMinority.TestCase.settings = STEPS
TestVoting = Voting.TestCase
TestAMinority = AMinority.TestCase


@pytest.mark.parametrize(
    ("weakened", "weak", "found"),
    [
        ("needed", lambda _: 1, r"assert \(2 \* 1\) > "),
        ("need_time", lambda *_: None, "who acts in time is heard, and nobody else"),
        ("refuse_step", lambda *_: None, "state.advance"),
    ],
)
def test_the_machine_finds_a_rule_that_was_weakened(monkeypatch, weakened, weak, found):
    monkeypatch.setattr(rules, weakened, weak)
    search = settings(
        STEPS,
        max_examples=400,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
    )
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(Voting, settings=search)
