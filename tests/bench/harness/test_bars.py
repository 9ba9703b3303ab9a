"""Bars: met, not met, not applicable; and why."""

import pytest

from bench.harness.bars import AtLeast, AtMostSeconds, AtMostTimes, Verdict, WhereBelow, judge
from bench.harness.figures import Figures, Samples


def rates(ours, base, disk=1.0):
    return Figures(
        (Samples("ours", (ours,)), Samples("base", (base,)), Samples("disk", (disk,))), less_is_better=False
    )


def times(ours, base):
    return Figures((Samples("ours", (ours,)), Samples("base", (base,))), less_is_better=True)


@pytest.mark.parametrize(
    ("ours", "verdict"), [(8.0, Verdict.MET), (80.0, Verdict.MET), (7.9, Verdict.NOT_MET)]
)
def test_a_rate_must_be_at_least_so_many_times_its_baseline(ours, verdict):
    judgement = judge(AtLeast(8, of="base"), rates(ours, 1.0))

    assert judgement.verdict is verdict
    assert judgement.against == "base"
    assert judgement.bar == "≥ 8x base"


def test_the_judgement_says_what_was_measured():
    assert judge(AtLeast(8, of="base"), rates(20.0, 10.0)).reason == "2.00x"


@pytest.mark.parametrize(
    ("disk", "verdict"),
    [(4999.0, Verdict.NOT_MET), (5000.0, Verdict.NOT_APPLICABLE), (9000.0, Verdict.NOT_APPLICABLE)],
)
def test_a_bar_with_a_condition_is_judged_only_where_the_machine_meets_it(disk, verdict):
    bar = AtLeast(8, of="base", where=WhereBelow("disk", 5000))

    assert judge(bar, rates(2.0, 1.0, disk)).verdict is verdict


def test_a_bar_that_does_not_apply_says_why_and_what_was_measured_all_the_same():
    bar = AtLeast(8, of="base", where=WhereBelow("disk", 5000))

    reason = judge(bar, rates(9.0, 1.0, 6000.0)).reason

    assert "disk does 6,000/s here" in reason
    assert "9.00x" in reason


@pytest.mark.parametrize(
    ("ours", "verdict"), [(1.0, Verdict.MET), (3.0, Verdict.MET), (3.1, Verdict.NOT_MET)]
)
def test_a_time_may_be_at_most_so_many_times_its_baseline(ours, verdict):
    judgement = judge(AtMostTimes(1.5, of="base"), times(ours, 2.0))

    assert judgement.verdict is verdict
    assert judgement.reason == f"{ours / 2:.2f}x"


@pytest.mark.parametrize(("ours", "verdict"), [(0.15, Verdict.MET), (0.151, Verdict.NOT_MET)])
def test_a_time_of_ours_may_be_limited_alone(ours, verdict):
    judgement = judge(AtMostSeconds(0.15), times(ours, 1.0))

    assert judgement.verdict is verdict
    assert judgement.against is None


def test_a_bar_is_judged_on_the_median_of_the_rounds_and_not_on_the_best():
    figures = Figures(
        (Samples("ours", (1.0, 1.0, 100.0)), Samples("base", (1.0, 1.0, 1.0))), less_is_better=False
    )

    assert judge(AtLeast(8, of="base"), figures).verdict is Verdict.NOT_MET
