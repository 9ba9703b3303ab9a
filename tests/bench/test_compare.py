"""Two trees side by side: what is told of their turns, and what a tree that breaks says."""

import json
import subprocess
import sys

import pytest

from bench.__main__ import main
from bench.compare import LEAST, MOST_PAIRS, PAIRS, compared, interval_of
from tests.places import ROOT


class Side:
    def __init__(self, figures, order=None, name=""):
        self.figures = figures
        self.turns = 0
        self.order = order if order is not None else []
        self.name = name

    def turn(self):
        self.order.append(self.name)
        figure = self.figures[self.turns % len(self.figures)]
        self.turns += 1
        return figure


def test_turns_are_taken_in_pairs_whose_order_is_turned_around():
    order = []
    compared(Side([1.0], order, "a"), Side([1.0], order, "b"), less_is_better=False)
    assert "".join(order[2:10]) == "baabbaab"
    assert len(order) == 2 * (PAIRS + 1)


@pytest.mark.parametrize(("less_is_better", "ratio"), [(False, 0.5), (True, 2.0)])
def test_a_ratio_says_how_fast_this_tree_is(less_is_better, ratio):
    found = compared(Side([10.0]), Side([20.0]), less_is_better=less_is_better)
    assert (found.median, found.low, found.high, found.pairs) == (ratio, ratio, ratio, PAIRS)
    assert (found.verdict == "fine") == (ratio >= LEAST)


def test_noise_is_met_with_more_pairs_up_to_a_bound():
    scattered = [0.4 + 0.008 * (turn * 53 % MOST_PAIRS) for turn in range(MOST_PAIRS + 1)]
    found = compared(Side(scattered), Side([1.0]), less_is_better=False)
    assert found.pairs == MOST_PAIRS
    assert "UNDECIDED" in found.verdict


def test_noise_that_lies_on_the_good_side_altogether_is_fine():
    found = compared(Side([2.0, 3.0, 4.0, 2.5]), Side([1.0]), less_is_better=False)
    assert not found.narrow
    assert found.verdict == "fine"


@pytest.mark.parametrize(("count", "cut"), [(9, 1), (15, 3), (21, 6), (45, 16), (4, 0)])
def test_the_interval_holds_the_true_median_nine_times_in_ten(count, cut):
    """The ranks are those of the sign test, as its tables have them."""
    found = interval_of([float(n) for n in range(1, count + 1)])
    assert (found.low, found.high) == (1.0 + cut, count - cut)


def test_a_folder_that_is_no_tree_is_told(tmp_path, capsys):
    assert main(["--against", str(tmp_path), "--json", str(tmp_path / "b.json")]) == 2
    assert "no tree with a .venv" in capsys.readouterr().err


def turns(*arguments, lines):
    return [
        json.loads(line)
        for line in subprocess.run(
            [sys.executable, ROOT / "bench" / "turns.py", *map(str, arguments)],
            cwd=ROOT,
            input="\n" * lines,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout.splitlines()
    ]


def test_a_tree_takes_as_many_turns_as_it_is_asked_for(tmp_path):
    ready, *figures = turns("canonical", 0.01, tmp_path, "-", lines=2)
    assert "ready" in ready
    assert [figure["figure"] > 0 for figure in figures] == [True, True]


def test_a_row_that_a_tree_does_not_have_yet_is_taken_from_the_file(tmp_path):
    file = tmp_path / "rows.py"
    file.write_text(
        "import contextlib\n"
        "from bench.harness.row import Contender, Row, Unit\n"
        "def opened(setting):\n"
        "    return contextlib.nullcontext([Contender('ours', lambda: 7.0)])\n"
        "ROWS = (Row(name='brand-new', title='', unit=Unit.RATE, open=opened),)\n"
    )
    ready, figure = turns("brand-new", 0.01, tmp_path, file, lines=1)
    assert (ready, figure) == ({"ready": "ours"}, {"figure": 7.0})
    (told,) = turns("no-such-row", 0.01, tmp_path, file, lines=1)
    assert "no-such-row" in told["error"]
