"""What one review weighs, and which count."""

import pytest

from comity.directory.protocol.reputation import (
    LIMIT_SECONDS,
    PairHistory,
    Reputation,
    ReputationValueError,
    Review,
    ReviewLimitError,
    ReviewRefusedError,
    admit_review,
    apply_review,
    review_weight,
)
from comity.wire.errors import ConflictError


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
