"""Five posteriors under time and evidence."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.directory.protocol.reputation import (
    DIMENSIONS,
    HALF_LIFE_DAYS,
    Posterior,
    Reputation,
    ReputationValueError,
    update,
)
from comity.envelopes.protocol.errors import CoreError
from comity.wire.errors import InvalidError

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
