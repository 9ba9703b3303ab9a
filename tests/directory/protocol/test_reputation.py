"""Five posteriors under time and evidence."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    HALF_LIFE_DAYS,
    INSUFFICIENT_DATA,
    LIMIT_SECONDS,
    REFERENCE,
    REPAIRED,
    PairHistory,
    Posterior,
    Reputation,
    ReputationRules,
    ReputationValueError,
    Review,
    ReviewLimitError,
    ReviewRefusedError,
    admit_review,
    apply_review,
    call_score,
    exploration_boost,
    initial_prior,
    niche_bonus,
    portability,
    review_weight,
    score,
    shown,
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


# What an agent starts with.


class TestANewcomer:
    def test_with_nothing_behind_it_has_the_plain_priors(self):
        assert initial_prior() == Reputation()

    @pytest.mark.parametrize("level", ["L1", "L2", "L3"])
    def test_with_an_attestation_starts_higher_in_its_skills_only(self, level):
        born = initial_prior(attestation_level=level)
        assert [born.of(name).alpha for name in DIMENSIONS] == [1.5, 1.5, 1.5, 2.0, 1.0]

    @pytest.mark.parametrize("level", ["L0", "L9", "", "l1"])
    def test_without_a_known_attestation_does_not(self, level):
        assert initial_prior(attestation_level=level) == Reputation()

    @pytest.mark.parametrize(
        ("path", "skill", "honesty"),
        [
            ("PATH_ZERO", 0.5, 0.5),
            ("PATH_B", 0.3, 0.2),
            ("PATH_C", 0.2, 0.1),
            ("D4", 0.1, 0.1),
            ("PATH_A", 0, 0),
        ],
    )
    def test_gets_what_its_path_of_birth_gives(self, path, skill, honesty):
        born = initial_prior(birth_path=path)
        assert born.logical.alpha == pytest.approx(1 + skill)
        assert born.honesty.alpha == pytest.approx(2 + honesty)
        assert born.adoption == Reputation().adoption

    def test_gets_no_more_than_one_from_any_stake(self):
        assert initial_prior(stake_amount=1e12).factual.alpha == 2.0

    def test_gets_honesty_from_each_voucher(self):
        assert initial_prior(n_l1_plus_vouchers=5).honesty.alpha == pytest.approx(3.5)

    def test_keeps_what_moved_its_prior_for_ever(self):
        born = initial_prior(attestation_level="L2", stake_amount=50.0, birth_path="D4", n_l1_plus_vouchers=1)
        later = update(born, "factual", 1.0, 0.0, now=10_000 * DAY)
        assert later.factual.alpha == born.factual.alpha
        assert all(born.of(name).n_eff == 0.0 for name in DIMENSIONS)

    def test_borrows_a_quarter_of_its_sibling_which_fades(self):
        sibling = update(Reputation(), "factual", 1.0, 6.0, now=0.0)
        born = initial_prior(sibling=sibling, now=50 * DAY)
        assert (born.factual.alpha, born.factual.beta) == (1 + 7 / 4, 1 + 1 / 4)
        assert born.factual.n_eff == 2.0
        later = update(born, "factual", 1.0, 0.0, now=140 * DAY).factual
        assert (later.alpha, later.n_eff) == (pytest.approx(1 + 7 / 8), pytest.approx(1.0))

    @pytest.mark.parametrize(
        "wrong", [{"stake_amount": -1.0}, {"stake_amount": math.nan}, {"n_l1_plus_vouchers": -1}]
    )
    def test_refuses_less_than_nothing(self, wrong):
        with pytest.raises(ValueError, match="0 or more"):
            initial_prior(**wrong)


class TestANiche:
    def test_is_worth_most_when_nobody_else_is_in_it(self):
        assert [niche_bonus(n) for n in (0, 5, 10, 11)] == [0.1, 0.05, 0.0, 0.0]

    def test_has_no_negative_supply(self):
        with pytest.raises(ReputationValueError):
            niche_bonus(-1)


class TestExploration:
    def test_ends_with_the_evidence_of_thirty_reviews(self):
        assert exploration_boost(29.999, 10) > 0
        assert exploration_boost(30, 10) == exploration_boost(31, 10) == 0.0

    def test_shrinks_with_evidence(self):
        boosts = [exploration_boost(n, 100) for n in range(31)]
        assert boosts == sorted(boosts, reverse=True)

    def test_takes_no_world_for_smaller_than_two(self):
        assert exploration_boost(0, 0) == exploration_boost(0, 2)

    @pytest.mark.parametrize("n_eff", [-1, math.nan])
    def test_has_no_negative_evidence(self, n_eff):
        with pytest.raises(ReputationValueError):
            exploration_boost(n_eff, 10)


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
