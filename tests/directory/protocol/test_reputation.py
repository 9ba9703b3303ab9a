"""Five posteriors under time and evidence."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    HALF_LIFE_DAYS,
    LIMIT_SECONDS,
    PairHistory,
    Posterior,
    Reputation,
    ReputationValueError,
    Review,
    ReviewLimitError,
    ReviewRefusedError,
    admit_review,
    apply_review,
    review_weight,
    ucb,
    update,
)
from comity.envelopes.protocol.errors import CoreError
from comity.wire.errors import ConflictError, InvalidError

DAY = 86_400.0

dimensions = st.sampled_from(DIMENSIONS)
signals = st.floats(0, 1)
weights = st.floats(0, 10)
moments = st.floats(0, 4e9)


class TestAPosterior:
    def test_of_nothing_is_the_prior_of_its_dimension(self):
        means = {name: Reputation().of(name).mean for name in DIMENSIONS}
        assert means == {
            "factual": 0.5,
            "logical": 0.5,
            "relevance": 0.5,
            "honesty": pytest.approx(2 / 3),
            "adoption": 0.25,
        }

    @pytest.mark.parametrize("dimension", DIMENSIONS)
    def test_keeps_half_of_its_evidence_after_one_half_life(self, dimension):
        held = update(Reputation(), dimension, 1.0, 8.0, now=0.0)
        later = update(held, dimension, 1.0, 0.0, now=HALF_LIFE_DAYS[dimension] * DAY).of(dimension)
        assert later.n_eff == pytest.approx(4.0)
        assert later.alpha - later.alpha0 == pytest.approx(4.0)
        assert later.beta == later.beta0

    def test_takes_a_signal_in_its_own_dimension_only(self):
        held = update(Reputation(), "honesty", 0.25, 4.0, now=5.0)
        assert held.honesty == Posterior(alpha=3.0, beta=4.0, alpha0=2.0, beta0=1.0, n_eff=4.0, at=5.0)
        assert held.factual == Reputation().factual

    def test_is_neither_decayed_nor_set_back_by_evidence_from_before(self):
        held = update(Reputation(), "factual", 1.0, 1.0, now=100 * DAY)
        late = update(held, "factual", 1.0, 1.0, now=10 * DAY)
        assert late.factual.n_eff == 2.0
        assert late.factual.at == 100 * DAY

    @pytest.mark.parametrize("signal", [-0.01, 1.01, math.nan, math.inf])
    def test_refuses_a_signal_outside_its_range(self, signal):
        with pytest.raises(ReputationValueError, match="signal for factual"):
            update(Reputation(), "factual", signal, 1.0, now=0.0)

    @pytest.mark.parametrize("weight", [-1e-9, math.nan, math.inf])
    def test_refuses_a_weight_outside_its_range(self, weight):
        with pytest.raises(ReputationValueError, match="weight for factual"):
            update(Reputation(), "factual", 1.0, weight, now=0.0)

    @pytest.mark.parametrize("name", ["charm", "", "alpha", "of", "__class__"])
    def test_refuses_what_is_no_dimension(self, name):
        with pytest.raises(ReputationValueError, match="dimensions are factual"):
            update(Reputation(), name, 1.0, 1.0, now=0.0)

    def test_refusals_are_what_the_contract_and_the_doors_expect(self):
        assert issubclass(ReputationValueError, ValueError)
        assert issubclass(ReputationValueError, InvalidError)
        assert issubclass(ReputationValueError, CoreError)


@given(st.lists(st.tuples(dimensions, signals, weights, moments), max_size=20))
def test_no_evidence_leaves_the_ranges(steps):
    held = Reputation()
    for dimension, signal, weight, now in steps:
        held = update(held, dimension, signal, weight, now=now)
    for name in DIMENSIONS:
        posterior = held.of(name)
        assert posterior.alpha >= posterior.alpha0 - 1e-9
        assert posterior.beta >= posterior.beta0 - 1e-9
        assert 0 < posterior.mean < 1
        assert 0 < posterior.variance <= 0.25
        assert 0 <= posterior.n_eff <= sum(weight for name_, _, weight, _ in steps if name_ == name) + 1e-9


@given(dimensions, signals, weights, moments)
def test_a_reputation_survives_being_written_down(dimension, signal, weight, now):
    held = update(Reputation(), dimension, signal, weight, now=now)
    assert msgspec.json.decode(msgspec.json.encode(held), type=Reputation) == held


@given(dimensions, st.floats(0.01, 10))
def test_good_evidence_raises_the_mean_and_bad_evidence_lowers_it(dimension, weight):
    before = Reputation().of(dimension).mean
    assert update(Reputation(), dimension, 1.0, weight, now=0.0).of(dimension).mean > before
    assert update(Reputation(), dimension, 0.0, weight, now=0.0).of(dimension).mean < before


# What one review weighs, and which count.


def weight(source="ground_truth", **given):
    plain = {"nth": 1, "same_family": False, "same_strength": 0.0, "reviewer_mean": 1.0}
    return review_weight(source, **{**plain, **given})


def review(**given):
    plain = {"reviewer": "a", "target": "b", "signals": {"factual": 1.0}, "source": "peer_review", "at": 0.0}
    return Review(**{**plain, **given})


class TestTheWeight:
    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("ground_truth", 1.0),
            ("redteam_probe", 0.8),
            ("caller_review", 0.6),
            ("peer_review", 0.4),
            ("adoption_event", 0.3),
            ("self_eval", 0.05),
        ],
    )
    def test_begins_with_the_source(self, source, expected):
        assert weight(source) == pytest.approx(expected)

    def test_is_halved_within_a_family_and_quartered_after_five_reviews(self):
        novelty = [1 / (1 + 0.4 * (nth - 1)) for nth in range(1, 8)]
        discounts = [weight(nth=nth, same_family=True) / novelty[nth - 1] for nth in range(1, 8)]
        assert discounts == pytest.approx([0.5] * 5 + [0.25] * 2)

    def test_falls_with_every_repetition(self):
        assert weight(nth=2) == pytest.approx(1 / 1.4)
        assert weight(nth=6) == pytest.approx(1 / 3)

    def test_falls_with_signs_of_one_hand_down_to_a_tenth(self):
        assert weight(same_strength=0.4) == pytest.approx(0.6)
        assert weight(same_strength=1.0) == pytest.approx(0.1)

    def test_grows_with_what_the_reviewer_has_proven(self):
        assert weight(reviewer_mean=None) == pytest.approx(0.3)
        assert weight(reviewer_mean=0.5) == pytest.approx(0.65)


class TestAReview:
    def test_moves_each_dimension_it_judges_by_the_reviewer_in_that_dimension(self):
        held = apply_review(
            Reputation(),
            review(signals={"factual": 1.0, "honesty": 0.0}),
            nth=1,
            same_family=False,
            reviewer=Reputation(),
        )
        assert held.factual.n_eff == pytest.approx(0.4 * (0.3 + 0.7 * 0.5))
        assert held.honesty.n_eff == pytest.approx(0.4 * (0.3 + 0.7 * 2 / 3))
        assert held.logical == Reputation().logical

    @pytest.mark.parametrize(
        "wrong",
        [
            {"source": "gossip"},
            {"signals": {}},
            {"signals": {"charm": 1.0}},
            {"signals": {"factual": 1.5}},
            {"same_strength": -0.1},
            {"same_strength": float("nan")},
        ],
    )
    def test_that_breaks_a_rule_is_refused(self, wrong):
        with pytest.raises(ReputationValueError):
            review(**wrong)

    @pytest.mark.parametrize("source", ["peer_review", "self_eval"])
    def test_of_oneself_is_refused(self, source):
        with pytest.raises(ReviewRefusedError, match="cannot review itself"):
            review(target="a", source=source)


class TestTheLimit:
    def test_is_three_in_twenty_four_hours(self):
        history = PairHistory()
        for at in (0.0, 10.0, 20.0):
            history = admit_review(history, at)
        with pytest.raises(ReviewLimitError, match="3 times within 24 hours"):
            admit_review(history, LIMIT_SECONDS - 0.001)
        assert issubclass(ReviewLimitError, ConflictError)

    def test_opens_again_when_the_first_is_a_day_old(self):
        history = PairHistory(3, (0.0, 10.0, 20.0))
        assert admit_review(history, LIMIT_SECONDS) == PairHistory(4, (10.0, 20.0, LIMIT_SECONDS))

    def test_remembers_the_count_and_no_more_moments_than_it_needs(self):
        history = PairHistory()
        for day in range(50):
            history = admit_review(history, day * LIMIT_SECONDS)
        assert history == PairHistory(50, (49 * LIMIT_SECONDS,))


# One number out of five posteriors, under both pairs of rules.


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
        for evidence in ("arithmetic", "harmonic"):
            assert ucb(Reputation(), 50, scaled, evidence) == pytest.approx(
                ucb(Reputation(), 50, weights, evidence)
            )

    def test_ignores_in_harmony_what_weighs_less_than_a_twentieth(self):
        held = reviewed(1.0, 100.0, ("factual",))
        light = ucb(held, 10, {"factual": 0.96, "adoption": 0.04}, "harmonic")
        heavy = ucb(held, 10, {"factual": 0.94, "adoption": 0.06}, "harmonic")
        assert light < 2 < 20 < heavy


class TestTheFlawOfTheHarmonicMean:
    """A newcomer against somebody with a hundred good reviews, none of them about adoption."""

    proven = reviewed(0.95, 100.0, DIMENSIONS[:4])
    newcomer = Reputation()
    hopeless = reviewed(0.05, 100.0, DIMENSIONS[:4])

    def test_exploration_swamps_the_mean(self):
        for held in (self.proven, self.newcomer, self.hopeless):
            assert ucb(held, 10, evidence="harmonic") > 20

    def test_ours_lets_the_mean_decide_where_evidence_is_equal(self):
        assert ucb(self.proven, 200) > ucb(self.hopeless, 200) + 0.5

    def test_ours_still_tries_a_newcomer(self):
        assert ucb(self.newcomer, 200) > ucb(self.proven, 200)

    def test_ours_gives_a_newcomer_up_after_a_few_bad_reviews(self):
        assert ucb(reviewed(0.1, 4.0), 200) < ucb(self.proven, 200)


@given(st.floats(0, 1), st.floats(0, 200), st.integers(0, 10**9))
def test_the_repaired_bound_stays_of_the_size_of_a_mean(signal, weight, n_global):
    assert 0 < ucb(reviewed(signal, weight), n_global) < 1 + 0.5 + 0.5 * math.sqrt(math.log(1e9))


@given(st.floats(1, 100), st.floats(1, 100))
def test_more_evidence_means_less_exploration(one, other):
    less, more = sorted((one, other))
    bonus = [ucb(reviewed(0.5, w), 100) - ucb(reviewed(0.5, w), 2) for w in (less, more)]
    assert bonus[0] >= bonus[1] - 1e-12
