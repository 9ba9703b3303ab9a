"""One number out of five posteriors, under both pairs of rules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    INSUFFICIENT_DATA,
    REFERENCE,
    REPAIRED,
    Reputation,
    ReputationRules,
    ReputationValueError,
    call_score,
    portability,
    score,
    shown,
    ucb,
    update,
)


def reviewed(signal, weight, dimensions=DIMENSIONS):
    held = Reputation()
    for dimension in dimensions:
        held = update(held, dimension, signal, weight, now=0.0)
    return held


class TestTheBound:
    def test_is_mean_deviation_and_exploration(self):
        expected = 1 / 2 + math.sqrt(1 / 12) + 0.5 * math.sqrt(math.log(100) / 1)
        assert ucb(Reputation(), 100, {"factual": 3}) == pytest.approx(expected)

    def test_leaves_out_weights_of_what_is_no_dimension(self):
        assert ucb(Reputation(), 9, {"factual": 1, "charm": 99}) == ucb(Reputation(), 9, {"factual": 1})

    def test_counts_all_alike_when_no_weight_is_left(self):
        assert ucb(Reputation(), 9, {"charm": 1, "factual": 0}) == ucb(Reputation(), 9)

    def test_takes_no_world_for_smaller_than_two(self):
        assert ucb(Reputation(), 0) == ucb(Reputation(), 1) == ucb(Reputation(), 2) < ucb(Reputation(), 3)

    @pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf])
    def test_refuses_a_weight_outside_its_range(self, weight):
        with pytest.raises(ReputationValueError, match="weight of logical"):
            ucb(Reputation(), 9, {"logical": weight})

    @given(
        st.dictionaries(st.sampled_from(DIMENSIONS), st.floats(1e-3, 1e3), min_size=1), st.floats(1e-3, 1e3)
    )
    def test_does_not_care_for_the_scale_of_the_weights(self, weights, factor):
        scaled = {name: weight * factor for name, weight in weights.items()}
        for rules in (REPAIRED, REFERENCE):
            assert ucb(Reputation(), 50, scaled, rules) == pytest.approx(
                ucb(Reputation(), 50, weights, rules)
            )

    def test_ignores_in_harmony_what_weighs_less_than_a_twentieth(self):
        held = reviewed(1.0, 100.0, ("factual",))
        rules = ReputationRules(exploration="harmonic")
        light = ucb(held, 10, {"factual": 0.96, "adoption": 0.04}, rules)
        heavy = ucb(held, 10, {"factual": 0.94, "adoption": 0.06}, rules)
        assert light < 2 < 20 < heavy


class TestTheTwoFlaws:
    """A newcomer against somebody with a hundred good reviews, none of them about adoption."""

    proven = reviewed(0.95, 100.0, DIMENSIONS[:4])
    newcomer = Reputation()
    hopeless = reviewed(0.05, 100.0, DIMENSIONS[:4])

    def test_the_reference_lets_exploration_swamp_the_mean(self):
        for held in (self.proven, self.newcomer, self.hopeless):
            assert ucb(held, 10, rules=REFERENCE) > 20

    def test_the_repaired_bound_lets_the_mean_decide_where_evidence_is_equal(self):
        assert score(self.proven, DIMENSIONS, 200) > score(self.hopeless, DIMENSIONS, 200) + 0.5

    def test_the_repaired_bound_still_tries_a_newcomer(self):
        assert score(self.newcomer, DIMENSIONS, 200) > score(self.proven, DIMENSIONS, 200)

    def test_the_repaired_bound_gives_a_newcomer_up_after_a_few_bad_reviews(self):
        tried = reviewed(0.1, 4.0)
        assert score(tried, DIMENSIONS, 200) < score(self.proven, DIMENSIONS, 200)

    def test_the_mean_knows_no_doubt(self):
        lucky = reviewed(1.0, 3.0, ("factual",))
        assert score(lucky, ("factual",), 10, REFERENCE) == lucky.factual.mean

    def test_each_flaw_can_be_had_alone(self):
        mean_only = ReputationRules(score="mean")
        assert score(self.proven, DIMENSIONS, 10, mean_only) == score(self.proven, DIMENSIONS, 10, REFERENCE)
        harmonic_only = ReputationRules(exploration="harmonic")
        assert score(self.proven, DIMENSIONS, 10, harmonic_only) > 20

    def test_the_repaired_pair_is_the_default(self):
        assert ReputationRules() == REPAIRED == ReputationRules(score="ucb", exploration="arithmetic")

    @pytest.mark.parametrize("rules", [REPAIRED, REFERENCE])
    def test_asking_for_no_dimension_at_all_has_an_answer(self, rules):
        assert math.isfinite(score(self.proven, (), 10, rules))


@given(st.floats(0, 1), st.floats(0, 200), st.integers(0, 10**9))
def test_the_repaired_bound_stays_of_the_size_of_a_mean(signal, weight, n_global):
    assert 0 < ucb(reviewed(signal, weight), n_global) < 1 + 0.5 + 0.5 * math.sqrt(math.log(1e9))


@given(st.floats(1, 100), st.floats(1, 100))
def test_more_evidence_means_less_exploration(one, other):
    less, more = sorted((one, other))
    bonus = [ucb(reviewed(0.5, w), 100) - ucb(reviewed(0.5, w), 2) for w in (less, more)]
    assert bonus[0] >= bonus[1] - 1e-12


class TestTheScoreOfACall:
    def test_adds_stake_attestation_and_portability(self):
        bound = ucb(Reputation(), 10)
        whole = call_score(
            Reputation(), 10, stake_amount=100.0, attestation_level="L2", portability_bonus=0.03
        )
        assert whole == pytest.approx(bound + 0.1 * math.log(2) + 0.10 + 0.03)

    def test_adds_nothing_for_an_unknown_level(self):
        assert call_score(Reputation(), 10, attestation_level="L7") == ucb(Reputation(), 10)

    @pytest.mark.parametrize("wrong", [{"stake_amount": -1.0}, {"portability_bonus": -0.1}])
    def test_refuses_less_than_nothing(self, wrong):
        with pytest.raises(ValueError, match="0 or more"):
            call_score(Reputation(), 10, **wrong)


class TestPortability:
    def test_is_full_from_four_substrates_on(self):
        rates = dict.fromkeys("abcdefgh", 1.0)
        assert portability("abcd", rates) == portability("abcdefgh", rates) == pytest.approx(0.1)

    def test_counts_a_substrate_once(self):
        assert portability(["a", "a", "a"], {"a": 1.0}) == portability(["a"], {"a": 1.0})

    def test_takes_a_missing_rate_for_failure(self):
        assert portability(["a"], {}) == 0.0


class TestWhatIsShown:
    def test_is_a_label_while_one_dimension_has_too_little(self):
        assert shown(reviewed(1.0, 50.0, DIMENSIONS[:4]), 0.8) == INSUFFICIENT_DATA
        assert shown(reviewed(1.0, 9.99), 0.8) == "INSUFFICIENT_DATA"

    def test_is_the_number_when_there_is_enough_of_each(self):
        assert shown(reviewed(1.0, 10.0), 0.8) == 0.8
