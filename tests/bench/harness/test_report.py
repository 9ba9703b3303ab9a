"""The table and the JSON."""

import io
import json

import pytest
from rich.console import Console

from bench.harness import report
from bench.harness.bars import AtLeast, AtMostSeconds, WhereBelow
from bench.harness.machine import Machine
from bench.harness.measure import Missed, measure
from bench.harness.row import Unit
from tests.bench.harness.rows import Diary, fake_row

MACHINE = Machine(
    cores=2,
    system="Linux",
    processor="x86_64",
    python="3.11.7",
    sqlite="3.54.1",
    file_system="ext4",
    load_before=0.5,
    load_after=None,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")

    def result(*figures, **named):
        return measure(fake_row(Diary(), *figures, **named), rounds=2, seconds=0.01, data=data)

    rates = result(
        [1.0, 2000.0, 4000.0],
        [1.0, 1000.0, 1000.0],
        name="rates",
        bars=(
            AtLeast(2, of="b"),
            AtLeast(4, of="b"),
            AtLeast(9, of="b", where=WhereBelow("b", 10)),
        ),
    )
    times = result([1.0, 0.2], [1.0, 0.1], name="times", unit=Unit.TIME, bars=(AtMostSeconds(0.15),))
    left_out = Missed(rates.row, "no disk", fault=None)
    broken = Missed(rates.row, "cannot open /home/somebody/x.db", fault="OSError")
    return [rates, times, left_out, broken]


@pytest.fixture(scope="module")
def text(results):
    return report.as_plain_text(results, MACHINE)


def line_of(text, row, contender):
    block = text[text.index(f"{row}:") :].splitlines()
    return next(line for line in block if line.startswith(f"  {contender} "))


def test_a_line_tells_median_spread_and_how_fast_ours_is(text):
    assert line_of(text, "rates", "a").split() == ["a", "3,000", "2,000", "..", "4,000"]
    assert line_of(text, "rates", "b").split()[1:8] == [
        "1,000",
        "1,000",
        "..",
        "1,000",
        "3.00x",
        "(2.00",
        "..",
    ]


def test_times_are_told_in_milliseconds(text):
    assert "200 ms" in line_of(text, "times", "a")
    assert "0.50x" in line_of(text, "times", "b")


def test_a_bar_stands_on_the_line_of_its_baseline_and_one_of_ours_alone_on_ours(text):
    assert "≥ 2x b: met (3.00x)" in line_of(text, "rates", "b")
    assert "≥ 4x b: NOT MET (3.00x)" in line_of(text, "rates", "b")
    assert "≤ 0.15 s: NOT MET (0.2 s)" in line_of(text, "times", "a")


def test_bars_not_met_are_repeated_at_the_end(text):
    assert text.splitlines()[-3:] == [
        "bars: 1 met, 2 not met, 1 not applicable here",
        "NOT MET  rates: ≥ 4x b, measured 3.00x",
        "NOT MET  times: ≤ 0.15 s, measured 0.2 s",
    ]


def test_rows_without_figures_say_why(text):
    assert "left out" in text
    assert "no disk" in text
    assert "BROKEN by OSError" in text


def test_plain_text_has_no_control_sequences_and_the_terminal_has_the_same_words(results, text):
    terminal = io.StringIO()
    report.print_table(Console(file=terminal, force_terminal=True, width=400), results, MACHINE)

    assert "\x1b" not in text
    assert "\x1b[" in terminal.getvalue()
    for words in ("≥ 4x b: NOT MET (3.00x)", "2,000 .. 4,000", "3.00x (2.00 .. 4.00)", "left out"):
        assert words in terminal.getvalue()


def test_the_json_holds_every_sample_ratio_and_verdict(results):
    told = json.loads(report.as_json(results, MACHINE, rounds=2, seconds=0.01))

    assert set(told) == {"format", "machine", "rounds", "seconds_per_turn", "rows"}
    assert told["machine"]["load_after"] is None
    rates, times, left_out, broken = told["rows"]
    assert rates["name"] == "rates"
    assert rates["unit"] == "per second"
    assert rates["contenders"][0] == {
        "name": "a",
        "median": 3000.0,
        "low": 2000.0,
        "high": 4000.0,
        "samples": [2000.0, 4000.0],
    }
    assert [(ratio["name"], ratio["median"]) for ratio in rates["ratios"]] == [("b", 3.0)]
    assert [bar["verdict"] for bar in rates["bars"]] == ["met", "not_met", "not_applicable"]
    assert times["unit"] == "seconds"
    assert left_out["left_out"] == "no disk"
    assert broken["broken"] == "OSError"


def test_the_json_names_no_path_even_when_a_row_broke(results):
    assert b"/home" not in report.as_json(results, MACHINE, rounds=2, seconds=0.01)
