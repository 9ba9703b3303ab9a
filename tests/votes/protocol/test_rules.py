"""Rules 2: who must act, when a phase ends, and what is decided (ruling 67)."""

import json

import pytest

from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol import log, rules
from comity.votes.protocol.operations import is_superseded_by, progress_of
from comity.votes.protocol.provenance import provenance_of, verify_record, write_record
from comity.votes.protocol.rules import deadline_text, missing, needed
from comity.votes.protocol.vote import Vote, participation_rate, result_of
from tests.votes.protocol.parties import ALICE, BETA, BOB, CAROL, GAMMA, HOST, ID, NOW, Table, ratified

WEEK = 7 * 86_400
OTHERS = [{"id": BOB}, {"id": CAROL}]
ALL = (HOST, BETA, GAMMA)


class NewTable(Table):
    def __init__(self, **changes):
        super().__init__(**{"rules": 2, "stakeholders": OTHERS, "clauses": ["Within a day."]} | changes)

    def close(self, key=HOST, phase=None, **more):
        return self.say(key, "consensus.close", {"delib_id": ID, "phase": phase or self.state.phase} | more)

    def pass_deadline(self, late=0.0):
        self.now = self.state.deadline - 1 + late  # the next act is a second later

    def all_act(self, *actions):
        for key, action in zip(ALL, actions or ("endorse",) * 3, strict=False):
            more = {"text": f"Text {self.now}."} if action == "amend" else {}
            self.act(key, action, **more)


def begun(**changes):
    table = NewTable(**changes)
    table.advance("deliberation")
    return table


def in_ratification(**changes):
    table = begun(**changes)
    table.all_act()
    table.advance("convergence")
    table.advance("ratification")
    return table


def asked(**changes):
    return NewTable(form="question", clauses=["Shall we?"], ratification="1/2", **changes)


def refusal(table, call):
    before = table.frozen()
    with pytest.raises(ExtensionError) as refused:
        call()
    assert table.frozen() == before
    return refused.value


class TestOpening:
    @pytest.mark.parametrize(
        ("change", "code", "field"),
        [
            ({"ratification": "1/3"}, "INVALID_ARGUMENT", "ratification"),
            ({"ratification": 1.5}, "INVALID_ARGUMENT", "ratification"),
            ({"quorum": 0}, "INVALID_ARGUMENT", "quorum"),
            ({"quorum": 0.4}, "INVALID_ARGUMENT", "quorum"),
            ({"phase_seconds": 0}, "INVALID_ARGUMENT", "phase_seconds"),
            ({"phase_seconds": -WEEK}, "INVALID_ARGUMENT", "phase_seconds"),
            ({"phase_seconds": 10**12}, "INVALID_ARGUMENT", "phase_seconds"),
            ({"phase_seconds": "soon"}, "INVALID_ARGUMENT", "phase_seconds"),
            ({"form": "riddle"}, "INVALID_ARGUMENT", "form"),
            ({"rules": 3}, "INVALID_ARGUMENT", "rules"),
            ({"supersedes": "a b"}, "INVALID_ARGUMENT", "supersedes"),
            ({"keeper": None}, "INVALID_ARGUMENT", "keeper"),
            ({"stakeholders": [{"id": BOB}] * 2}, "INVALID_ARGUMENT", "stakeholders[1].id"),
            ({"stakeholders": [{"id": f"s{n}"} for n in range(10_000)]}, "LIMIT_EXCEEDED", None),
            ({"form": "question", "clauses": ["A?", "B?"]}, "INVALID_ARGUMENT", "clauses"),
        ],
    )
    def test_that_is_wrong_is_refused_with_a_sentence(self, change, code, field):
        with pytest.raises(ExtensionError) as refused:
            NewTable(**change)
        assert (refused.value.wire_code, refused.value.field) == (code, field)
        assert len(refused.value.message) < 200

    def test_without_rules_is_counted_by_the_older_ones(self):
        assert (Table().state.rules, NewTable().state.rules) == (1, 2)

    def test_at_the_end_of_time_has_a_deadline_all_the_same(self):
        table = NewTable()
        entry = log.propose(
            None, ID, log.OPEN, table.entries[0].action.args | {"form": "question"}, HOST, 253_402_300_000.0
        )
        assert deadline_text(log.admit(None, entry, HOST, 253_402_300_000.0)[0].vote).startswith("9999-12-31")


class TestAPhase:
    def test_begins_with_a_deadline_of_seven_days(self):
        table = begun()
        assert table.state.deadline == table.now + WEEK
        assert begun(phase_seconds=3600).state.phase_seconds == 3600

    def test_does_not_end_by_the_word_of_one_party(self):
        table = begun()
        table.act(HOST, "endorse")
        table.act(BETA, "endorse")
        for key in (HOST, BETA, GAMMA):
            refused = refusal(table, lambda key=key: table.advance("convergence", key))
            assert refused.wire_code == "PRECONDITION_FAILED"
            assert CAROL[:12] in refused.message
            assert deadline_text(table.state) in refused.message

    def test_can_be_ended_once_every_party_has_acted_on_each_clause(self):
        table = begun(clauses=["A.", "B."])
        table.all_act()
        assert missing(table.state) == (ALICE, BOB, CAROL)
        for key in ALL:
            table.act(key, "abstain", "c2")
        assert table.advance("convergence", BETA).phase == "convergence"

    def test_waits_for_nobody_whose_vote_does_not_count(self):
        advising = {"id": CAROL, "role": "ai_representative", "principal_id": "p", "fidelity": 0}
        table = begun(stakeholders=[{"id": BOB}, advising, {"id": "o", "role": "observer"}])
        table.act(HOST, "endorse")
        table.act(BETA, "endorse")
        assert table.advance("convergence").phase == "convergence"

    def test_of_ranking_waits_for_a_ballot_on_each_clause_with_several_variants(self):
        table = begun(clauses=["A.", "B."])
        table.act(HOST, "amend", text="Another A.")
        table.act(HOST, "endorse", "c2")
        for key in (BETA, GAMMA):
            table.act(key, "endorse")
            table.act(key, "endorse", "c2")
        table.advance("convergence")
        for key in (HOST, BETA):
            table.ballot(key, ["v1", "v0"])
        assert CAROL[:12] in refusal(table, lambda: table.advance("ratification")).message
        table.ballot(GAMMA, ["v0"])
        assert table.advance("ratification").phase == "ratification"

    def test_fixes_who_decides_before_anybody_acts(self):
        table = NewTable()
        puppet = {"delib_id": ID, "stakeholder": {"id": "puppet"}}
        assert "puppet" in table.say(HOST, "consensus.add", puppet).stakeholders
        table.advance("deliberation")
        another = {"delib_id": ID, "stakeholder": {"id": "another"}}
        refused = refusal(table, lambda: table.say(HOST, "consensus.add", another))
        assert refused.wire_code == "PRECONDITION_FAILED"

    def test_refuses_what_was_signed_after_its_deadline(self):
        table = in_ratification()
        table.pass_deadline(late=1)
        refused = refusal(table, lambda: table.vote(GAMMA, "accept"))
        assert (refused.wire_code, "signed after it" in refused.message) == ("PRECONDITION_FAILED", True)
        table.pass_deadline()
        assert table.vote(GAMMA, "accept").votes.keys() == {CAROL}

    def test_takes_what_was_signed_in_time_and_comes_late(self):
        table = in_ratification()
        signed = table.state.deadline - 5
        args = {"delib_id": ID, "vote": "accept"}
        entry = log.propose(table.head, ID, "consensus.vote", args, GAMMA, signed)
        head, _ = log.admit(table.head, entry, HOST, signed + 3600)
        assert head.vote.votes.keys() == {CAROL}

    def test_is_not_begun_with_a_time_of_long_ago(self):
        """Else a party alone would shorten the next phase."""
        table = begun()
        table.all_act()
        args = {"delib_id": ID, "to": "convergence"}
        entry = log.propose(table.head, ID, "consensus.advance", args, BETA, table.now - 301)
        with pytest.raises(
            ExtensionError, match=r"more than five minutes behind the clock of the host"
        ) as fault:
            log.admit(table.head, entry, HOST, table.now)
        assert fault.value.field == "time"

    def test_hears_a_party_only_so_often_that_others_find_room(self, monkeypatch):
        monkeypatch.setattr(rules, "MAX_ACTS", 24)
        table = in_ratification()
        for _ in range(24):
            table.vote(BETA, "accept")
        assert refusal(table, lambda: table.vote(BETA, "accept")).wire_code == "LIMIT_EXCEEDED"
        table.vote(HOST, "accept")
        assert table.vote(GAMMA, "accept").phase == "active"


class TestAClose:
    def test_is_for_the_host_alone_and_not_before_the_deadline(self):
        table = begun()
        table.all_act("endorse", "endorse")
        assert refusal(table, table.close).field == "time"
        table.pass_deadline()
        for key in (BETA, GAMMA):
            assert refusal(table, lambda key=key: table.close(key)).wire_code == "FORBIDDEN"
        named = {"delib_id": ID, "phase": "deliberation"}
        assert (
            refusal(table, lambda: table.say(HOST, "consensus.close", named, "dave")).wire_code == "FORBIDDEN"
        )
        assert table.close().phase == "convergence"

    @pytest.mark.parametrize("phase", ["convergence", "ratification"])
    def test_ends_the_phase_that_it_names_and_no_other(self, phase):
        table = begun()
        table.pass_deadline()
        assert refusal(table, lambda: table.close(phase=phase)).field == "phase"

    def test_has_nothing_to_end_in_a_draft_or_by_older_rules(self):
        older = NewTable(rules=1)
        older.advance("deliberation")
        for table in (NewTable(), older):
            refused = refusal(table, lambda table=table: table.close(phase="deliberation"))
            assert refused.wire_code == "PRECONDITION_FAILED"

    def test_leaves_the_text_as_it_was_if_less_than_half_have_acted(self):
        table = begun()
        table.act(BETA, "amend", text="We pay all.")
        table.pass_deadline()
        state = table.close()
        assert (state.phase, state.outcome, state.deadline) == ("closed", "failed", None)
        assert result_of(state, state.clauses["c1"]) is None

    def test_goes_on_with_half_of_the_parties_and_says_so(self):
        table = begun(stakeholders=[*OTHERS, {"id": "dave", "node": ALICE}])
        table.act(HOST, "endorse")
        table.act(BETA, "amend", text="Within an hour.")
        table.pass_deadline()
        table.close()
        table.ballot(HOST, ["v1", "v0"])
        table.ballot(BETA, ["v1", "v0"])
        table.pass_deadline()
        assert table.close().phase == "ratification"
        table.vote(HOST, "accept")
        table.vote(BETA, "accept")
        table.pass_deadline()
        state = table.close()
        assert (state.phase, state.outcome) == ("closed", "rejected"), "2 of 4 are no majority"
        found = verify_record(write_record(table.entries, table.head), table.now)
        assert found.ok
        assert any("2 of 4 parties did not vote" in finding for finding in found.findings)
        assert sum("closed by the host at its deadline" in finding for finding in found.findings) == 3

    def test_fails_when_nobody_ranked(self):
        table = begun()
        table.all_act("amend", "abstain", "abstain")
        table.advance("convergence")
        table.pass_deadline()
        assert table.close().outcome == "failed"

    def test_before_the_deadline_by_the_readers_clock_is_refused(self):
        table = in_ratification()
        table.vote(HOST, "accept")
        table.vote(BETA, "accept")
        before = log.LogHead(vote=table.state, tip=table.head.tip)
        table.pass_deadline()
        table.close()
        deadline = before.vote.deadline
        with pytest.raises(log.EarlyCloseError, match="closed the phase ratification before its deadline"):
            log.follow(before, table.entries[-1], deadline - 301)
        assert log.follow(before, table.entries[-1], deadline - 300) == table.head
        record = write_record(table.entries, table.head)
        early = verify_record(record, deadline - 301)
        assert (early.ok, early.bad_entry) == (False, len(table.entries))
        assert verify_record(record, deadline).ok


class TestRatification:
    @pytest.mark.parametrize(
        ("ratification", "parties", "accepting"),
        [
            ("1/2", 1, 1),
            ("1/2", 2, 2),
            ("1/2", 3, 2),
            ("1/2", 4, 3),
            ("2/3", 3, 2),
            ("2/3", 4, 3),
            (0.6667, 6, 4),
            (1, 5, 5),
        ],
    )
    def test_needs_its_share_of_all_parties_and_more_than_half(self, ratification, parties, accepting):
        others = [{"id": f"s{number}"} for number in range(parties - 1)]
        assert needed(NewTable(stakeholders=others, ratification=ratification).state) == accepting

    def test_ends_by_itself_with_the_last_vote(self):
        table = in_ratification()
        table.vote(HOST, "accept")
        assert table.vote(BETA, "reject", reason="Too soon.").phase == "ratification"
        assert "it ends by itself" in refusal(table, lambda: table.advance("active")).message
        state = table.vote(GAMMA, "accept")
        assert (state.phase, state.outcome) == ("active", "accepted")
        assert provenance_of(state).consensus_strength == pytest.approx(2 / 3)

    def test_counts_abstention_as_taking_part_and_not_as_yes(self):
        table = in_ratification()
        table.vote(HOST, "accept")
        table.vote(BETA, "abstain")
        state = table.vote(GAMMA, "abstain")
        assert (state.phase, state.outcome) == ("closed", "rejected")
        assert participation_rate(state) == 1

    def test_of_the_older_rules_knows_no_abstention(self):
        table = Table()
        table.advance("deliberation")
        for key in ALL:
            table.act(key, "endorse")
            table.act(key, "endorse", "c2")
        table.advance("convergence")
        table.advance("ratification")
        assert refusal(table, lambda: table.vote(BETA, "abstain")).field == "vote"

    def test_is_over_for_good(self):
        table = in_ratification()
        for key in ALL:
            table.vote(key, "accept")
        for call in (
            lambda: table.vote(BETA, "reject", reason="No."),
            lambda: table.advance("deliberation", BETA),
            lambda: table.advance("active"),
            lambda: table.close(phase="ratification"),
        ):
            assert refusal(table, call).wire_code == "PRECONDITION_FAILED"

    def test_is_not_left_for_the_deliberation_by_an_observer(self):
        table = in_ratification(stakeholders=[*OTHERS, {"id": "o", "role": "observer"}])
        back = {"delib_id": ID, "to": "deliberation"}
        refused = refusal(table, lambda: table.say(HOST, "consensus.advance", back, "o"))
        assert refused.wire_code == "FORBIDDEN"

    def test_is_left_for_the_deliberation_by_each_party_once_and_begins_anew(self):
        table = in_ratification()
        table.vote(HOST, "accept")
        state = table.advance("deliberation", GAMMA)
        assert (state.votes, state.acted_on, state.returned) == ({}, {}, (CAROL,))
        assert "not acted" in refusal(table, lambda: table.advance("convergence", BETA)).message
        table.all_act()
        table.advance("convergence")
        table.advance("ratification")
        assert "once" in refusal(table, lambda: table.advance("deliberation", GAMMA)).message
        assert table.advance("deliberation", BETA).returned == (CAROL, BOB)


class TestAQuestion:
    def test_begins_with_the_ratification_and_its_log_says_so(self):
        table = asked()
        state = table.state
        assert [change.phase for change in state.phase_history] == ["ratification"]
        assert [variant.text for variant in state.clauses["c1"].variants] == ["Shall we?", "no"]
        assert (
            json.loads(json.dumps(log.write_entry(table.entries[0])))["action"]["args"]["form"] == "question"
        )

    def test_is_answered_by_the_last_vote(self):
        table = asked()
        table.vote(HOST, "accept")
        table.vote(BETA, "reject")
        state = table.vote(GAMMA, "accept")
        assert (state.phase, state.outcome) == ("active", "accepted")
        assert [one.text for one in provenance_of(state).clause_records] == ["Shall we?"]
        assert provenance_of(state).dissent_preserved == ()
        assert verify_record(write_record(table.entries, table.head), table.now).ok

    def test_is_not_answered_yes_by_half(self):
        table = asked(stakeholders=[{"id": BOB}])
        table.vote(HOST, "accept")
        assert table.vote(BETA, "reject").outcome == "rejected"

    def test_has_the_winner_that_was_decided_whatever_ballots_would_weigh(self):
        light = {"role": "ai_representative", "principal_id": "p", "fidelity": 0.1}
        table = asked(stakeholders=[{"id": BOB, **light}, {"id": CAROL, **light}])
        table.vote(BETA, "accept")
        table.vote(GAMMA, "accept")
        state = table.vote(HOST, "reject")
        assert (state.phase, result_of(state, state.clauses["c1"]).winner) == ("active", "v0")

    def test_is_not_deliberated(self):
        table = asked()
        assert "not deliberated" in refusal(table, lambda: table.advance("deliberation")).message
        assert refusal(table, lambda: table.act(BETA, "amend", text="x")).wire_code == "PRECONDITION_FAILED"
        assert refusal(table, lambda: table.ballot(BETA, ["v1"])).wire_code == "PRECONDITION_FAILED"

    def test_reports_how_far_it_is(self):
        table = asked()
        table.vote(BETA, "abstain")
        progress = progress_of(table.state)
        assert (progress.missing, progress.eligible, progress.abstain, progress.needed) == (
            (ALICE, CAROL),
            3,
            1,
            2,
        )
        assert progress.deadline == deadline_text(table.state)
        assert progress_of(Table().state) is None


class TestReplacing:
    def decided(self, delib_id, **changes):
        table = asked(**changes)
        for key in ALL:
            if key.vacant_id.hex() in table.state.stakeholders:
                table.vote(key, "accept")
        return Vote(
            **{name: getattr(table.state, name) for name in Vote.__struct_fields__} | {"id": delib_id}
        )

    def test_needs_a_new_vote_in_force_that_names_it_and_asked_all_its_parties(self):
        old = self.decided("old")
        assert is_superseded_by(old, self.decided("new", supersedes="old"))
        assert not is_superseded_by(old, self.decided("new"))
        assert not is_superseded_by(old, self.decided("new", supersedes="old", stakeholders=[{"id": BOB}]))
        assert not is_superseded_by(old, asked(supersedes="old").state)


class TestAnOlderLog:
    def test_keeps_its_result_and_says_by_which_rules(self):
        table = ratified()
        found = verify_record(write_record(table.entries, table.head), NOW)
        assert (found.ok, found.head.vote.phase, found.head.vote.rules) == (True, "active", 1)
        assert "a minority could decide" in found.findings[0]
        assert "rules" not in json.loads(write_record(table.entries, table.head))["provenance"]
