"""Parties that do anything at any time: whatever the host accepts, everybody recounts to the same state."""

import itertools

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log
from comity.votes.protocol.provenance import verify_record, write_record
from comity.votes.protocol.vote import PHASES, acceptance, result_of
from tests.votes.protocol.parties import BETA, BOB, CAROL, GAMMA, HOST, ID, NOW, opening

STRANGER = SigningKey(b"s" * 32)
VOICES = [
    (HOST, None),
    (BETA, None),
    (GAMMA, None),
    (BETA, "dave"),
    (GAMMA, "dave"),
    (HOST, "olga"),
    (STRANGER, None),
]
TAKING_PART = {HOST.vacant_id.hex(), BOB, CAROL, "dave"}
STEPS = {*itertools.pairwise(PHASES), ("ratification", "deliberation")}

voices = st.sampled_from(VOICES)
clauses = st.sampled_from(["c1", "c2", "c9"])


class Deliberating(RuleBasedStateMachine):
    @initialize(quorum=st.sampled_from([0, 0.5, "2/3"]), ratification=st.sampled_from([0.01, 0.5, 0.6667, 1]))
    def open(self, quorum, ratification):
        stakeholders = [
            {"id": BOB},
            {"id": CAROL, "role": "ai_representative", "principal_id": "p", "fidelity": 0.25},
            {"id": "dave", "node": BOB, "role": "ai_party"},
            {"id": "olga", "role": "observer"},
        ]
        args = opening(stakeholders=stakeholders, quorum=quorum, ratification=ratification)
        entry = log.propose(None, ID, "consensus.open", args, HOST, NOW)
        self.head, stored = log.admit(None, entry, HOST, NOW)
        self.followed = log.follow(None, stored)
        self.entries = [stored]

    def _say(self, voice, op, **args):
        key, on_behalf = voice
        before = msgspec.json.encode(self.head)
        entry = log.propose(self.head, ID, op, {"delib_id": ID} | args, key, NOW, on_behalf=on_behalf)
        try:
            head, stored = log.admit(self.head, entry, HOST, NOW)
        except ExtensionError:
            assert msgspec.json.encode(self.head) == before
            return None
        earlier, self.head = self.head.vote, head
        self.entries.append(stored)
        self.followed = log.follow(self.followed, stored)
        return earlier, head.vote

    @rule(voice=voices, clause_id=clauses, action=st.sampled_from(["endorse", "abstain", "withdraw"]))
    def act(self, voice, clause_id, action):
        if self._say(voice, "consensus.act", clause_id=clause_id, action=action):
            assert self.head.vote.phase == "deliberation"

    @rule(voice=voices, clause_id=clauses, text=st.sampled_from(["Within a day.", "Quorum first.", ""]))
    def amend(self, voice, clause_id, text):
        self._say(voice, "consensus.act", clause_id=clause_id, action="amend", text=text)

    @rule(
        voice=voices,
        clause_id=clauses,
        ranking=st.lists(st.sampled_from(["v0", "v1", "v2", "x"]), max_size=4),
    )
    def rank(self, voice, clause_id, ranking):
        if self._say(voice, "consensus.ballot", clause_id=clause_id, ranking=ranking):
            assert self.head.vote.phase == "convergence"
            assert len(set(ranking)) == len(ranking)

    @rule(voice=voices, to=st.sampled_from(PHASES))
    def advance(self, voice, to):
        moved = self._say(voice, "consensus.advance", to=to)
        if moved:
            before, after = moved
            assert (before.phase, after.phase) in STEPS
            if after.phase == "active":
                assert acceptance(after) is not None
                assert all(result_of(after, clause).winner for clause in after.clauses.values())
            if (before.phase, after.phase) == ("ratification", "deliberation"):
                assert after.votes == {}

    @rule(voice=voices, vote=st.sampled_from(["accept", "reject"]), reason=st.sampled_from([None, "no"]))
    def vote(self, voice, vote, reason):
        if self._say(voice, "consensus.vote", vote=vote, reason=reason):
            assert self.head.vote.phase == "ratification"

    @rule()
    def go_the_shortest_way(self):
        """Without it the later phases would hardly be seen."""
        self._say((HOST, None), "consensus.advance", to="deliberation")
        for voice in VOICES[:4]:
            self._say(voice, "consensus.act", clause_id="c1", action="endorse")
        self._say((HOST, None), "consensus.advance", to="convergence")
        self._say((HOST, None), "consensus.ballot", clause_id="c1", ranking=["v0"])
        self._say((HOST, None), "consensus.ballot", clause_id="c2", ranking=["v0"])
        self._say((HOST, None), "consensus.advance", to="ratification")

    @invariant()
    def everybody_comes_to_the_same_state(self):
        assert self.followed == self.head

    @invariant()
    def only_who_takes_part_was_heard(self):
        state = self.head.vote
        assert state.votes.keys() <= TAKING_PART
        for clause in state.clauses.values():
            assert clause.ballots.keys() | clause.positions.keys() <= TAKING_PART

    def teardown(self):
        if hasattr(self, "entries"):
            found = verify_record(write_record(self.entries, self.head))
            assert found.ok, found.reason
            assert found.head == self.head


Deliberating.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestDeliberating = Deliberating.TestCase
