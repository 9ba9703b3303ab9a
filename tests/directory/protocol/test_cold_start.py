"""What an agent starts with."""

import math

import pytest

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    Reputation,
    ReputationValueError,
    exploration_boost,
    initial_prior,
    niche_bonus,
    update,
)

DAY = 86_400.0


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
