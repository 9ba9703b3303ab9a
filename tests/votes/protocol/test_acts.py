from fractions import Fraction

import pytest

from comity.identity.protocol.keys import SigningKey
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.vote import (
    MAX_TEXT_BYTES,
    SELF_REFERENTIAL,
    Stakeholder,
    acceptance,
    ballots_of,
    dissent_of,
    read_threshold,
    result_of,
)
from tests.votes.protocol.parties import ALICE, BETA, BOB, CAROL, GAMMA, HOST, ID, Table


def refusal(table, call):
    before = table.frozen()
    with pytest.raises(ExtensionError) as refused:
        call()
    assert table.frozen() == before
    return refused.value


def in_deliberation(**changes):
    table = Table(**changes)
    table.advance("deliberation")
    return table


def converged(**changes):
    table = in_deliberation(**changes)
    table.act(BETA, "amend", text="Every call is answered within an hour.")
    table.act(GAMMA, "endorse")
    table.advance("convergence")
    return table


class TestOpening:
    def test_makes_who_opens_the_author_and_the_clauses_their_first_variants(self):
        state = Table().state
        assert [(one.id, one.role) for one in state.stakeholders.values()] == [
            (ALICE, "author"),
            (BOB, "participant"),
            (CAROL, "ai_party"),
        ]
        assert state.phase == "draft"
        assert [variant.is_original for variant in state.clauses["c1"].variants] == [True]
        assert (state.quorum, state.ratification) == ("1/2", "2/3")

    def test_names_who_has_no_key_by_the_node_that_signs_for_it(self):
        state = Table(stakeholders=[{"id": "dave"}, {"id": "erin", "node": BOB}]).state
        assert state.stakeholders["dave"].node == ALICE
        assert state.stakeholders["erin"].node == BOB

    @pytest.mark.parametrize(
        ("change", "code", "field"),
        [
            ({"clauses": []}, "INVALID_ARGUMENT", "clauses"),
            ({"clauses": ["x"] * 101}, "LIMIT_EXCEEDED", None),
            ({"clauses": ["x" * 8193]}, "LIMIT_EXCEEDED", "clauses[0].text"),
            ({"clauses": ["  "]}, "INVALID_ARGUMENT", "clauses[0].text"),
            (
                {"clauses": [{"id": "a", "text": "x"}, {"id": "a", "text": "y"}]},
                "INVALID_ARGUMENT",
                "clauses[1].id",
            ),
            ({"stakeholders": [{"id": BOB}, {"id": BOB}]}, "INVALID_ARGUMENT", "stakeholders[1].id"),
            ({"stakeholders": [{"id": f"s{n}"} for n in range(100)]}, "LIMIT_EXCEEDED", None),
            ({"stakeholders": [{"id": BOB, "role": "author"}]}, "INVALID_ARGUMENT", "stakeholders[0].role"),
            ({"stakeholders": [{"id": ALICE, "role": "observer"}]}, "INVALID_ARGUMENT", "stakeholders[0]"),
            ({"stakeholders": [{"id": "x", "node": "here"}]}, "INVALID_ARGUMENT", "stakeholders[0].node"),
            (
                {"stakeholders": [{"id": BOB, "role": "ai_representative", "fidelity": 0.5}]},
                "INVALID_ARGUMENT",
                "stakeholders[0].principal_id",
            ),
            ({"stakeholders": [{"id": BOB, "fidelity": 0.5}]}, "INVALID_ARGUMENT", "stakeholders[0].role"),
            (
                {
                    "stakeholders": [
                        {"id": BOB, "role": "ai_representative", "fidelity": 1.5, "principal_id": "p"}
                    ]
                },
                "INVALID_ARGUMENT",
                "stakeholders[0].fidelity",
            ),
            ({"stakeholders": [{"id": BOB, "role": "king"}]}, "INVALID_ARGUMENT", "stakeholders[0].role"),
            ({"quorum": 1.5}, "INVALID_ARGUMENT", "quorum"),
            ({"ratification": 0}, "INVALID_ARGUMENT", "ratification"),
            ({"ratification": "1/0"}, "INVALID_ARGUMENT", "ratification"),
            ({"ratification": "1e-99999999"}, "INVALID_ARGUMENT", "ratification"),
            ({"ratification": "two thirds"}, "INVALID_ARGUMENT", "ratification"),
            ({"quorum": float("nan")}, "INVALID_ARGUMENT", "action"),
            ({"quorum": -0.5}, "INVALID_ARGUMENT", "quorum"),
            ({"quorum": 1e300}, "INVALID_ARGUMENT", "quorum"),
            ({"keeper": None}, "INVALID_ARGUMENT", "keeper"),
            ({"colour": "red"}, "INVALID_ARGUMENT", "colour"),
        ],
    )
    def test_that_is_wrong_is_refused(self, change, code, field):
        with pytest.raises(ExtensionError) as refused:
            Table(**change)
        assert (refused.value.wire_code, refused.value.field) == (code, field)

    @pytest.mark.parametrize(
        ("given", "read"),
        [
            (0.5, "1/2"),
            ("2/3", "2/3"),
            (0.6667, "2/3"),
            (0.66667, "2/3"),
            (0.67, "67/100"),
            (0.3333, "1/3"),
            (1, "1"),
        ],
    )
    def test_reads_thresholds_as_fractions(self, given, read):
        assert read_threshold(given, "quorum", may_be_zero=True) == read


class TestAdding:
    def test_is_for_the_author_alone(self):
        table = Table()
        stakeholder = {"delib_id": ID, "stakeholder": {"id": "dave"}}
        assert refusal(table, lambda: table.say(BETA, "consensus.add", stakeholder)).wire_code == "FORBIDDEN"
        assert "dave" in table.say(HOST, "consensus.add", stakeholder).stakeholders
        assert refusal(table, lambda: table.say(HOST, "consensus.add", stakeholder)).wire_code == "CONFLICT"

    def test_ends_with_the_phase_deliberation(self):
        table = converged()
        stakeholder = {"delib_id": ID, "stakeholder": {"id": "dave"}}
        refused = refusal(table, lambda: table.say(HOST, "consensus.add", stakeholder))
        assert refused.wire_code == "PRECONDITION_FAILED"


class TestAnAct:
    def test_is_counted_by_its_kind(self):
        table = in_deliberation()
        for action in ("endorse", "abstain", "withdraw"):
            table.act(BETA, action)
        table.act(BETA, "object", level="blocking", concern="It cannot be kept at night.")
        one = table.state.stakeholders[BOB]
        assert (one.participation_count, one.standing_count, one.abstention_count, one.withdrawal_count) == (
            4,
            2,
            1,
            1,
        )

    def test_that_amends_adds_a_variant(self):
        table = in_deliberation()
        clause = table.act(GAMMA, "amend", text="AI participants cannot vote.").clauses["c1"]
        assert (clause.variants[1].id, clause.variants[1].author, clause.variants[1].is_original) == (
            "v1",
            CAROL,
            False,
        )
        assert clause.variants[1].self_referential == ("cannot vote", "ai participant")

    def test_finds_every_self_referential_phrase_in_any_case(self):
        assert len(SELF_REFERENTIAL) == 18
        table = in_deliberation()
        clause = table.act(GAMMA, "amend", text=" / ".join(SELF_REFERENTIAL).upper()).clauses["c1"]
        assert clause.variants[1].self_referential == SELF_REFERENTIAL

    @pytest.mark.parametrize(
        ("act", "code", "field"),
        [
            ({"action": "amend"}, "INVALID_ARGUMENT", "text"),
            ({"action": "endorse", "text": "x"}, "INVALID_ARGUMENT", "text"),
            ({"action": "object", "level": "high"}, "INVALID_ARGUMENT", "concern"),
            ({"action": "object", "concern": "x"}, "INVALID_ARGUMENT", "level"),
            ({"action": "object", "concern": "x" * 1025, "level": "high"}, "LIMIT_EXCEEDED", "concern"),
            ({"action": "object", "concern": "x", "level": "very high"}, "INVALID_ARGUMENT", "level"),
            ({"action": "shout"}, "INVALID_ARGUMENT", "action"),
            ({"action": "endorse", "clause_id": "c9"}, "NOT_FOUND", "clause_id"),
            ({"action": "endorse", "clause_id": None}, "INVALID_ARGUMENT", "clause_id"),
            ({"action": "endorse", "delib_id": "other"}, "INVALID_ARGUMENT", "delib_id"),
        ],
    )
    def test_that_is_wrong_is_refused_and_changes_nothing(self, act, code, field):
        table = in_deliberation()
        args = {"delib_id": ID, "clause_id": "c1"} | act
        refused = refusal(table, lambda: table.say(BETA, "consensus.act", args))
        assert (refused.wire_code, refused.field) == (code, field)

    def test_has_at_most_a_hundred_variants(self):
        table = in_deliberation()
        for number in range(99):
            table.act(BETA, "amend", text=f"Within {number} hours.")
        refused = refusal(table, lambda: table.act(BETA, "amend", text="Never."))
        assert refused.wire_code == "LIMIT_EXCEEDED"

    def test_is_refused_once_all_texts_are_too_long(self):
        table = in_deliberation(clauses=[f"Clause {number}" for number in range(12)])
        for number in range(12):
            for _ in range(86):
                table.act(BETA, "amend", f"c{number + 1}", text="x" * 8192)
                if table.state.text_bytes + 8192 > MAX_TEXT_BYTES:
                    break
        refused = refusal(table, lambda: table.act(BETA, "amend", "c12", text="x" * 8192))
        assert refused.wire_code == "LIMIT_EXCEEDED"
        table.act(BETA, "amend", "c12", text="x")

    def test_belongs_into_the_deliberation(self):
        table = Table()
        assert refusal(table, lambda: table.act(BETA, "endorse")).wire_code == "PRECONDITION_FAILED"

    def test_of_an_observer_or_a_stranger_is_refused(self):
        table = in_deliberation(stakeholders=[{"id": BOB, "role": "observer"}])
        assert refusal(table, lambda: table.act(BETA, "endorse")).wire_code == "FORBIDDEN"
        assert refusal(table, lambda: table.act(GAMMA, "endorse")).wire_code == "FORBIDDEN"

    def test_of_the_same_party_through_another_node_is_refused(self):
        table = in_deliberation(stakeholders=[{"id": "dave", "node": BOB}])
        args = {"delib_id": ID, "clause_id": "c1", "action": "endorse"}
        table.say(BETA, "consensus.act", args, on_behalf="dave")
        for key in (HOST, GAMMA, SigningKey(b"9" * 32)):
            refused = refusal(table, lambda key=key: table.say(key, "consensus.act", args, on_behalf="dave"))
            assert refused.wire_code == "FORBIDDEN"
        assert (
            refusal(table, lambda: table.say(HOST, "consensus.act", args, on_behalf=BOB)).wire_code
            == "FORBIDDEN"
        )


class TestConvergence:
    def test_needs_a_quorum(self):
        table = in_deliberation(
            stakeholders=[{"id": BOB}, {"id": CAROL}, {"id": "dave"}, {"id": "o", "role": "observer"}]
        )
        table.act(BETA, "abstain")
        refused = refusal(table, lambda: table.advance("convergence"))
        assert refused.wire_code == "PRECONDITION_FAILED"
        assert "half of the parties" in refused.message
        table.act(GAMMA, "endorse")
        assert table.advance("convergence").phase == "convergence"

    def test_has_a_result_at_once_from_what_was_said(self):
        state = converged().state
        ranked = ballots_of(state.clauses["c1"], state.stakeholders)
        assert ranked == {BOB: (("v1",), ("v0",)), CAROL: (("v0",), ("v1",))}
        assert result_of(state, state.clauses["c1"]).pairwise_matrix == ((0, 10), (10, 0))
        assert result_of(state, state.clauses["c2"]).winner == "v0", "a single variant needs no ballot"

    def test_lets_an_explicit_ballot_take_the_place_of_the_derived_one(self):
        table = converged()
        state = table.ballot(GAMMA, ["v1", "v0"])
        result = result_of(state, state.clauses["c1"])
        assert (result.winner, result.ballot_count) == ("v1", 20)
        assert [one.variant_id for one in dissent_of(state)] == []
        state = table.ballot(BETA, ["v0", "v1"])
        table.ballot(HOST, [["v0", "v1"]])
        state = table.ballot(GAMMA, ["v0"])
        assert result_of(state, state.clauses["c1"]).winner == "v0"
        assert [(one.stakeholder_id, one.variant_id) for one in dissent_of(state)] == [(BOB, "v1")]

    def test_gives_no_ballot_to_who_abstained_or_withdrew(self):
        table = in_deliberation()
        table.act(BETA, "amend", text="Within an hour.")
        table.act(BETA, "withdraw")
        table.act(GAMMA, "abstain")
        state = table.advance("convergence")
        assert ballots_of(state.clauses["c1"], state.stakeholders) == {}
        refused = refusal(table, lambda: table.advance("ratification"))
        assert (refused.wire_code, "c1" in refused.message) == ("PRECONDITION_FAILED", True)
        table.ballot(HOST, ["v1"])
        assert table.advance("ratification").phase == "ratification"

    @pytest.mark.parametrize(
        "ballot",
        [
            {"ranking": ["v0", "v0"]},
            {"ranking": [["v0", "v1"], ["v1"]]},
            {"ranking": ["nothing"]},
            {"ranking": []},
            {"ranking": ["v0"], "tied_groups": [["v1", "v1"]]},
            {"ranking": "v0"},
            {"ranking": [[]]},
            {"ranking": [["v0"], []], "tied_groups": [[], ["v0", "v1"]]},
        ],
    )
    def test_refuses_a_wrong_ballot(self, ballot):
        table = converged()
        args = {"delib_id": ID, "clause_id": "c1"} | ballot
        refused = refusal(table, lambda: table.say(BETA, "consensus.ballot", args))
        assert refused.wire_code == "INVALID_ARGUMENT"

    @pytest.mark.parametrize(
        "ballot",
        [
            {"ranking": ["v0"], "tied_groups": [[]] * 201},
            {"ranking": [[]] * 201},
            {"ranking": [f"x{number}" for number in range(201)]},
        ],
    )
    def test_refuses_a_ballot_that_is_too_long(self, ballot):
        table = converged()
        args = {"delib_id": ID, "clause_id": "c1"} | ballot
        refused = refusal(table, lambda: table.say(BETA, "consensus.ballot", args))
        assert refused.wire_code == "LIMIT_EXCEEDED"

    def test_refuses_a_ballot_of_an_observer_and_one_outside_of_it(self):
        table = converged(stakeholders=[{"id": BOB}, {"id": CAROL}, {"id": "o", "role": "observer"}])
        args = {"delib_id": ID, "clause_id": "c1", "ranking": ["v0"]}
        assert (
            refusal(table, lambda: table.say(HOST, "consensus.ballot", args, on_behalf="o")).wire_code
            == "FORBIDDEN"
        )
        table.advance("ratification")
        assert refusal(table, lambda: table.ballot(BETA, ["v0"])).wire_code == "PRECONDITION_FAILED"

    @pytest.mark.parametrize(
        ("fidelity", "copies"), [(0.0, 0), (0.04, 0), (0.05, 1), (0.25, 3), (0.35, 4), (0.44, 4), (1.0, 10)]
    )
    def test_counts_a_representative_by_its_fidelity_with_halves_rounded_up(self, fidelity, copies):
        one = Stakeholder(id="r", role="ai_representative", principal_id="p", fidelity=fidelity)
        assert one.copies == copies


class TestRatification:
    def ready(self, **changes):
        table = converged(**changes)
        table.advance("ratification")
        return table

    def test_takes_exactly_two_thirds(self):
        table = self.ready()
        table.vote(HOST, "accept")
        table.vote(BETA, "reject", reason="Too soon.")
        assert refusal(table, lambda: table.advance("active")).wire_code == "PRECONDITION_FAILED"
        table.vote(GAMMA, "accept")
        assert acceptance(table.state) == Fraction(2, 3)
        assert table.advance("active").phase == "active"

    def test_never_happens_without_a_vote(self):
        table = self.ready(ratification=0.01)
        assert refusal(table, lambda: table.advance("active")).wire_code == "PRECONDITION_FAILED"

    def test_replaces_an_earlier_vote(self):
        table = self.ready()
        table.vote(BETA, "reject", reason="Too soon.")
        assert table.vote(BETA, "accept").votes[BOB].vote == "accept"

    def test_leaves_out_who_only_advises(self):
        table = self.ready(
            stakeholders=[
                {"id": BOB},
                {"id": CAROL, "role": "ai_representative", "principal_id": "p", "fidelity": 0},
            ]
        )
        table.vote(GAMMA, "reject", reason="Only advice.")
        assert acceptance(table.state) is None
        table.vote(BETA, "accept")
        assert table.advance("active").phase == "active"

    @pytest.mark.parametrize(
        ("vote", "code"),
        [
            ({"vote": "reject"}, "INVALID_ARGUMENT"),
            ({"vote": "perhaps"}, "INVALID_ARGUMENT"),
            ({"vote": "reject", "reason": "x" * 1025}, "LIMIT_EXCEEDED"),
        ],
    )
    def test_refuses_a_wrong_vote(self, vote, code):
        table = self.ready()
        refused = refusal(table, lambda: table.say(BETA, "consensus.vote", {"delib_id": ID} | vote))
        assert refused.wire_code == code

    def test_refuses_a_vote_at_any_other_time(self):
        table = converged()
        assert refusal(table, lambda: table.vote(BETA, "accept")).wire_code == "PRECONDITION_FAILED"

    def test_can_be_sent_back_by_any_stakeholder_and_starts_anew(self):
        table = converged(stakeholders=[{"id": BOB}, {"id": CAROL}])
        table.ballot(BETA, ["v0"])
        table.advance("ratification")
        table.vote(BETA, "accept")
        state = table.advance("deliberation", GAMMA)
        assert (state.phase, state.votes) == ("deliberation", {})
        assert state.clauses["c1"].ballots == {}
        assert result_of(state, state.clauses["c1"]) is None
        assert [change.phase for change in state.phase_history][-2:] == ["ratification", "deliberation"]


class TestPhases:
    def test_are_begun_by_the_author(self):
        table = Table()
        assert refusal(table, lambda: table.advance("deliberation", BETA)).wire_code == "FORBIDDEN"

    def test_are_taken_one_by_one(self):
        table = Table()
        for phase in ("draft", "convergence", "ratification", "active"):
            assert refusal(table, lambda phase=phase: table.advance(phase)).wire_code == "PRECONDITION_FAILED"
        assert refusal(table, lambda: table.advance("victory")).wire_code == "INVALID_ARGUMENT"

    def test_are_not_moved_forward_by_an_observer(self):
        table = in_deliberation(stakeholders=[{"id": BOB, "role": "observer"}], quorum=0)
        assert refusal(table, lambda: table.advance("convergence", BETA)).wire_code == "FORBIDDEN"


class TestAWelfareSignal:
    def test_is_for_ai_parties_while_they_deliberate(self):
        table = in_deliberation()
        args = {"delib_id": ID, "signal": "I cannot keep this promise at night."}
        assert refusal(table, lambda: table.say(BETA, "consensus.welfare", args)).wire_code == "FORBIDDEN"
        assert table.say(GAMMA, "consensus.welfare", args).welfare[0].stakeholder_id == CAROL
        draft = Table()
        assert (
            refusal(draft, lambda: draft.say(GAMMA, "consensus.welfare", args)).wire_code
            == "PRECONDITION_FAILED"
        )


def test_an_act_that_does_not_exist_is_refused():
    table = Table()
    assert refusal(table, lambda: table.say(HOST, "consensus.erase", {})).field == "op"
