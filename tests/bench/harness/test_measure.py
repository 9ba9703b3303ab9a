"""Rounds: their order, what counts, and what happens to a row that cannot be measured."""

import contextlib

import pytest

from bench.harness.bars import AtLeast, Verdict
from bench.harness.measure import Measured, Missed, computing, measure, per_second, repeating
from bench.harness.row import Contender, Row, UnavailableError, Unit
from tests.bench.harness.rows import Diary, fake_row


def measured(row, tmp_path, rounds=3):
    result = measure(row, rounds=rounds, seconds=0.01, data=tmp_path / "data")
    assert isinstance(result, Measured), result
    return result


def missed(row, tmp_path):
    result = measure(row, rounds=1, seconds=0.01, data=tmp_path / "data")
    assert isinstance(result, Missed)
    return result


def opening(*contenders):
    return Row(
        name="odd", title="odd", unit=Unit.RATE, open=lambda _setting: contextlib.nullcontext(contenders)
    )


def test_every_round_gives_everybody_a_turn_and_turns_the_order_around(tmp_path):
    diary = Diary()

    measured(fake_row(diary, [1.0], [1.0], [1.0]), tmp_path, rounds=3)

    assert "".join(diary.turns) == "cba" + "abc" + "cba" + "abc"


def test_the_first_round_warms_up_and_does_not_count(tmp_path):
    row = fake_row(Diary(), [1000.0, 1.0, 2.0, 3.0], [1000.0, 4.0, 5.0, 6.0])

    figures = measured(row, tmp_path).figures

    assert figures.of("a").values == (1.0, 2.0, 3.0)
    assert figures.of("b").values == (4.0, 5.0, 6.0)


@pytest.mark.parametrize(("unit", "ratio"), [(Unit.RATE, 2.0), (Unit.PROCESSOR_RATE, 2.0), (Unit.TIME, 0.5)])
def test_the_unit_of_the_row_decides_what_better_means(tmp_path, unit, ratio):
    row = fake_row(Diary(), [4.0], [2.0], unit=unit)

    assert measured(row, tmp_path).figures.ratio("b").median == ratio


def test_bars_are_judged(tmp_path):
    row = fake_row(Diary(), [4.0], [2.0], bars=(AtLeast(2, of="b"), AtLeast(3, of="b")))

    verdicts = [judgement.verdict for judgement in measured(row, tmp_path).judgements]

    assert verdicts == [Verdict.MET, Verdict.NOT_MET]


def test_a_row_has_a_folder_of_its_own_which_goes_away_with_it(tmp_path):
    diary = Diary()

    measured(fake_row(diary, [1.0], [1.0]), tmp_path)

    assert diary.folder.parent == tmp_path / "data"
    assert not diary.folder.exists()
    assert diary.closed


def test_a_row_that_breaks_is_closed_told_and_leaves_no_folder(tmp_path):
    diary = Diary()

    result = missed(fake_row(diary, [1.0], [-1.0]), tmp_path)

    assert result.fault == "ValueError"
    assert "above 0" in result.reason
    assert diary.closed
    assert not diary.folder.exists()


def test_a_row_that_cannot_be_measured_here_says_why_and_is_not_broken(tmp_path):
    @contextlib.contextmanager
    def opened(_setting):
        raise UnavailableError("no disk")
        yield

    result = missed(Row(name="x", title="x", unit=Unit.RATE, open=opened), tmp_path)

    assert (result.reason, result.fault) == ("no disk", None)


@pytest.mark.parametrize("names", ["", "a", "aa", "aba"])
def test_a_row_needs_a_baseline_and_names_that_differ(tmp_path, names):
    assert missed(opening(*(Contender(name, lambda: 1.0) for name in names)), tmp_path).fault == "ValueError"


def test_a_bar_that_names_nobody_breaks_its_row(tmp_path):
    row = fake_row(Diary(), [1.0], [1.0], bars=(AtLeast(2, of="nobody"),))

    assert missed(row, tmp_path).fault == "LookupError"


def test_progress_names_the_row_the_round_and_the_contender(tmp_path):
    heard = []
    row = fake_row(Diary(), [1.0], [1.0])

    measure(row, rounds=1, seconds=0.01, data=tmp_path, progress=lambda *told: heard.append(told))

    assert heard == [
        ("fake", "getting ready"),
        ("fake", "warming up: b"),
        ("fake", "warming up: a"),
        ("fake", "round 1 of 1: a"),
        ("fake", "round 1 of 1: b"),
    ]


class Stopwatch:
    """Time passes when work is done, and only then."""

    def __init__(self, seconds_each):
        self.now, self.done, self.looks = 0.0, 0, 0
        self._seconds_each = seconds_each

    def work(self):
        self.done += 1
        self.now += self._seconds_each

    def __call__(self):
        self.looks += 1
        return self.now


@pytest.mark.parametrize("seconds_each", [1e-6, 0.3, 5.0])
def test_a_rate_is_the_work_done_over_the_time_it_took(seconds_each):
    watch = Stopwatch(seconds_each)

    rate = per_second(watch.work, 1.0, timer=watch)

    assert rate == pytest.approx(1 / seconds_each)
    assert 1.0 <= watch.now < 1.0 + 2 * seconds_each + 0.01


def test_quick_work_is_not_measured_by_the_cost_of_the_clock():
    watch = Stopwatch(1e-6)

    per_second(watch.work, 1.0, timer=watch)

    assert watch.looks < watch.done / 1000


def test_work_goes_on_while_the_clock_does_not_move():
    times = iter([0.0, 0.0, 0.0, 2.0])

    assert per_second(lambda: None, 1.0, timer=lambda: next(times)) == (1 + 1 + 2) / 2.0


def test_one_call_may_stand_for_many():
    watch = Stopwatch(0.5)

    assert per_second(watch.work, 1.0, each=10, timer=watch) == pytest.approx(20)


@pytest.mark.parametrize("made_of", [repeating, computing])
def test_a_contender_can_be_made_of_work_to_repeat(made_of):
    done = []

    contender = made_of("adds", lambda: done.append(1), 0.001, each=3)

    assert contender.name == "adds"
    assert contender.turn() > 0
    assert done


def test_computing_is_counted_by_processor_time(monkeypatch):
    watch = Stopwatch(0.25)
    monkeypatch.setattr("bench.harness.measure.thread_time", watch)

    assert computing("adds", watch.work, 2.0).turn() == pytest.approx(4)
    assert watch.looks > 0
