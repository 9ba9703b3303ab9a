"""Elections: known answers, a plain count beside ours, and what the method promises."""

import itertools

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from comity.testing.vectors import format_runner, known_keys
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.schulze import count, read_groups
from comity.votes.protocol.vote import Clause, Stakeholder, Variant, Vote, result_of

NAMES = tuple("ABCDEFG")


@st.composite
def ballots_of(draw, names, *, with_ties=True):
    order = draw(st.permutations(names))
    if not with_ties:
        return tuple((name,) for name in order)
    order = order[: draw(st.integers(0, len(order)))]
    cuts = sorted(draw(st.sets(st.integers(0, len(order)))) | {0, len(order)})
    return tuple(tuple(order[one:other]) for one, other in itertools.pairwise(cuts))


@st.composite
def elections(draw, *, with_ties=True):
    names = NAMES[: draw(st.integers(1, len(NAMES)))]
    return names, draw(st.lists(ballots_of(names, with_ties=with_ties), min_size=1, max_size=20))


def plainly(names, ballots):
    """The textbook's own loops."""
    size = range(len(names))
    d = [[0] * len(names) for _ in names]
    for ballot in ballots:
        rank = {name: place for place, group in enumerate(ballot) for name in group}
        for i, j in itertools.product(size, size):
            d[i][j] += rank.get(names[i], len(names)) < rank.get(names[j], len(names))
    p = [[d[i][j] if d[i][j] > d[j][i] else 0 for j in size] for i in size]
    for k, i, j in itertools.product(size, size, size):
        if len({i, j, k}) == 3:
            p[i][j] = max(p[i][j], min(p[i][k], p[k][j]))
    return d, p


def judge(expected, candidates, ballots):
    known_keys(expected, *RESULT_KEYS, "pairwise_breakdown", "error", "valid")
    if "error" in expected or expected.get("valid") is False:
        with pytest.raises(ExtensionError):
            count(candidates, [read_groups(*ballot) for ballot in ballots])
        return
    members = msgspec.to_builtins(count(candidates, [read_groups(*ballot) for ballot in ballots]))
    for key in expected.keys() & set(RESULT_KEYS):
        assert msgspec.json.decode(msgspec.json.encode(members[key])) == expected[key], key


RESULT_KEYS = (
    "winner",
    "ranking",
    "pairwise_matrix",
    "strongest_paths",
    "candidates",
    "ballot_count",
    "has_condorcet_winner",
    "ties",
)


@format_runner("vcp", "schulze_own")
def test_vector_vcp_schulze_counts_as_recorded(case):
    known_keys(case, "id", "candidates", "ballots", "expected")
    judge(case["expected"], case["candidates"], [(ballot, ()) for ballot in case["ballots"]])


@format_runner("vcp", "consensus_voting")
def test_vector_vcp_consensus_votes_are_counted_as_recorded(case):
    known_keys(case, "id", "description", "input", "expected")
    expected = case["expected"]
    if not case["input"]:
        known_keys(expected, "required_fields", "optional_fields", "fields")
        assert set(expected.get("fields", ())) <= set(RESULT_KEYS)
        assert set(expected.get("required_fields", ())) <= {"voter_id", "rankings"}
        return
    known_keys(case["input"], "candidates", "ballots")
    ballots = []
    for ballot in case["input"]["ballots"]:
        known_keys(ballot, "voter_id", "rankings", "ranking", "tied_groups", "timestamp")
        ballots.append((ballot.get("rankings") or ballot.get("ranking", []), ballot.get("tied_groups", ())))
    judge(expected, case["input"]["candidates"], ballots)


# The election of 45 voters that every text on the method shows.
FORTY_FIVE = {"ACBED": 5, "ADECB": 5, "BEDAC": 8, "CABED": 3, "CAEBD": 7, "CBADE": 2, "DCEBA": 7, "EBADC": 8}


def test_the_well_known_election_of_45_voters_gives_e_a_c_b_d():
    ballots = [tuple((name,) for name in order) for order in FORTY_FIVE]
    result = count("ABCDE", ballots, FORTY_FIVE.values())
    assert "".join(one.candidate for one in result.ranking) == "EACBD"
    assert result.ballot_count == 45
    assert not result.has_condorcet_winner
    assert result == count(
        "ABCDE",
        [ballot for ballot, times in zip(ballots, FORTY_FIVE.values(), strict=True) for _ in range(times)],
    )


class TestACount:
    @given(elections())
    def test_is_the_textbooks(self, election):
        names, ballots = election
        result = count(names, ballots)
        d, p = plainly(names, ballots)
        assert [list(row) for row in result.pairwise_matrix] == d
        assert [list(row) for row in result.strongest_paths] == p

    def test_is_the_textbooks_for_more_candidates_than_a_narrow_lane_holds(self):
        names = [f"c{index}" for index in range(130)]
        ballots = [tuple((name,) for name in names[shift:] + names[:shift]) for shift in (0, 40, 100)]
        result = count(names, ballots)
        assert [list(row) for row in result.pairwise_matrix] == plainly(names, ballots)[0]

    @given(elections(), st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order_of_ballots(self, election, random):
        names, ballots = election
        shuffled = list(ballots)
        random.shuffle(shuffled)
        assert count(names, shuffled) == count(names, ballots)

    @given(elections(with_ties=False), st.permutations(NAMES))
    def test_does_not_depend_on_what_candidates_are_called(self, election, others):
        names, ballots = election
        called = dict(zip(names, others, strict=False))
        renamed = [tuple(tuple(called[name] for name in group) for group in ballot) for ballot in ballots]
        result, same = count(names, ballots), count([called[name] for name in names], renamed)
        assert [called[one.candidate] for one in result.ranking] == [one.candidate for one in same.ranking]

    @given(elections())
    def test_elects_whoever_beats_everybody(self, election):
        names, ballots = election
        result = count(names, ballots)
        d = result.pairwise_matrix
        best = [i for i in range(len(names)) if all(d[i][j] > d[j][i] for j in range(len(names)) if j != i)]
        assert result.has_condorcet_winner == bool(best)
        if best:
            assert result.winner == names[best[0]]

    @given(elections(with_ties=False), st.data())
    def test_does_not_change_when_a_clone_stands(self, election, data):
        names, ballots = election
        result = count(names, ballots)
        assume(not result.ties and len(names) > 1)
        cloned = data.draw(st.sampled_from(names))
        doubled = [
            tuple(
                group
                for (name,) in ballot
                for group in (
                    (((name,), ("clone",)) if first else (("clone",), (name,)))
                    if name == cloned
                    else ((name,),)
                )
            )
            for ballot, first in zip(
                ballots,
                data.draw(st.lists(st.booleans(), min_size=len(ballots), max_size=len(ballots))),
                strict=True,
            )
        ]
        after = count((*names, "clone"), doubled)
        assume(not [pair for pair in after.ties if set(pair) != {cloned, "clone"}])
        winner = cloned if after.winner == "clone" else after.winner
        assert winner == result.winner

    def test_without_ballots_has_no_winner(self):
        result = count("AB", [])
        assert (result.winner, result.ranking, result.ties, result.ballot_count) == (None, (), (), 0)
        assert count("AB", [(("A",),)], [0]).winner is None

    def test_of_one_candidate_elects_it(self):
        result = count("A", [(("A",),)])
        assert (result.winner, result.has_condorcet_winner) == ("A", True)

    def test_overlooks_who_does_not_stand(self):
        alone = count("AB", [(("A",), ("B",))])
        assert count("AB", [(("X",), ("Y",), ("Z",), ("A",), ("V", "W"), ("B",))]) == alone

    def test_refuses_a_ballot_that_names_somebody_twice(self):
        for ballot in [(("A",), ("A",)), (("A", "A"),), (("B",), ("A", "B"))]:
            with pytest.raises(ExtensionError) as refused:
                count("AB", [ballot])
            assert refused.value.wire_code == "INVALID_ARGUMENT"

    def test_counts_a_ballot_as_often_as_it_has_copies(self):
        ballots = [(("A",), ("B",)), (("B",), ("A",))]
        assert count("AB", ballots, [3, 10]).pairwise_matrix == ((0, 3), (10, 0))


class TestABallot:
    @pytest.mark.parametrize(
        ("ranking", "tied", "groups"),
        [
            (["A", "B"], [], (("A",), ("B",))),
            ([["A"], ["B", "C"]], [], (("A",), ("B", "C"))),
            (["A", "B", "C", "D"], [["B", "C"]], (("A",), ("B", "C"), ("D",))),
            (["A", "B", "C", "D"], [["C", "B"], ["D", "A"]], None),
            (["A", "B", "C", "D"], [["A", "B"], ["C", "D"]], (("A", "B"), ("C", "D"))),
            (["A"], [["B", "C"]], (("A",), ("B", "C"))),
            (["A", "B", "C"], [["A", "C"]], None),
            (["A", "B", "C"], [["A", "B"], ["B", "C"]], None),
            (["A", "B"], [["B", "C"]], None),
            (["A", "X", "B"], [["A", "Z", "B"]], None),
            (["A", "A"], [], None),
            ([["A", "B"], ["B"]], [], None),
            (["A"], [["B", "B"]], None),
            ([], [], ()),
        ],
    )
    def test_is_read_in_both_shapes(self, ranking, tied, groups):
        if groups is None:
            with pytest.raises(ExtensionError) as refused:
                read_groups(ranking, tied)
            assert refused.value.wire_code == "INVALID_ARGUMENT"
        else:
            assert read_groups(ranking, tied) == groups


@given(elections(), st.randoms(use_true_random=False))
def test_the_result_of_a_clause_does_not_depend_on_the_names_of_its_voters(election, random):
    names, ballots = election
    variants = tuple(Variant(id=name, text=name, author="ann") for name in names)

    def result(voters):
        clause = Clause(id="c1", variants=variants, ballots=dict(zip(voters, ballots, strict=True)))
        return result_of(
            Vote(
                id="d",
                title="t",
                host="k",
                author="ann",
                phase="convergence",
                quorum="1/2",
                ratification="2/3",
                created_at=0.0,
                stakeholders={name: Stakeholder(id=name, role="participant") for name in sorted(voters)},
                clauses={"c1": clause},
            ),
            clause,
        )

    voters = [f"voter {number}" for number in range(len(ballots))]
    renamed = [f"{random.random()} {number}" for number in range(len(ballots))]
    assert result(voters) == result(renamed)
