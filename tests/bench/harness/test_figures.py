"""Medians, spreads and the direction of ratios."""

import pytest

from bench.harness.figures import Figures, Samples, number

RATES = Figures(
    (Samples("ours", (100.0, 300.0, 200.0)), Samples("base", (50.0, 100.0, 400.0))), less_is_better=False
)
TIMES = Figures((Samples("ours", (1.0, 2.0, 4.0)), Samples("base", (2.0, 2.0, 2.0))), less_is_better=True)


def test_the_median_of_the_samples_counts_and_the_spread_is_from_lowest_to_highest():
    samples = Samples("x", (5.0, 1.0, 9.0, 2.0))

    assert (samples.median, samples.low, samples.high) == (3.5, 1.0, 9.0)


def test_for_rates_a_ratio_is_ours_over_the_baseline_round_by_round():
    assert RATES.ratio("base").values == (2.0, 3.0, 0.5)
    assert RATES.ratio("base").median == 2.0


def test_for_times_a_ratio_is_the_baseline_over_ours_so_that_bigger_is_better():
    assert TIMES.ratio("base").values == (2.0, 1.0, 0.5)


def test_the_first_contender_is_ours_and_the_rest_are_baselines():
    assert RATES.ours.name == "ours"
    assert [samples.name for samples in RATES.baselines] == ["base"]


def test_an_unknown_contender_is_named():
    with pytest.raises(LookupError, match="'nobody'"):
        RATES.of("nobody")


@pytest.mark.parametrize(
    ("value", "told"),
    [(1234567.8, "1,234,568"), (99.95, "100.0"), (12.34, "12.3"), (1.234, "1.23"), (0.05, "0.05")],
)
def test_numbers_are_told_with_the_digits_that_matter(value, told):
    assert number(value) == told
