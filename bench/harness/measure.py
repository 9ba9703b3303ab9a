"""Running a row: round after round, everybody's turn in each, the order turned around every time.

A contender therefore sees the same load as its neighbours, and none always runs in the wake of the
same other. The first round warms up and does not count. A row that cannot be measured here, or
that breaks, is told as such; the rows after it are measured all the same.
"""

import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from time import perf_counter, thread_time

from msgspec import Struct

from bench.harness.bars import Judgement, judge
from bench.harness.figures import Figures, Samples
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit

Progress = Callable[[str, str], None]
"""Is told the row and what is happening in it."""


class Measured(Struct, frozen=True):
    row: Row
    figures: Figures
    judgements: tuple[Judgement, ...]


class Missed(Struct, frozen=True):
    """A row without figures. `fault` is the kind of error when it broke, None when it was left out."""

    row: Row
    reason: str
    fault: str | None


def measure(
    row: Row, *, rounds: int, seconds: float, data: Path, progress: Progress = lambda _row, _doing: None
) -> Measured | Missed:
    """Run one row in a folder of its own under `data`, which is removed again."""
    progress(row.name, "getting ready")
    data.mkdir(parents=True, exist_ok=True)
    try:
        with (
            tempfile.TemporaryDirectory(prefix=f"{row.name}-", dir=data) as folder,
            row.open(Setting(folder=Path(folder), seconds=seconds)) as contenders,
        ):
            figures = _take_turns(row, contenders, rounds, progress)
        return Measured(row, figures, tuple(judge(bar, figures) for bar in row.bars))
    except UnavailableError as reason:
        return Missed(row, str(reason), fault=None)
    except Exception as fault:  # noqa: BLE001 - whatever breaks in one row must not hide the others
        return Missed(row, str(fault), fault=type(fault).__name__)


def _take_turns(row: Row, contenders: Sequence[Contender], rounds: int, progress: Progress) -> Figures:
    names = [contender.name for contender in contenders]
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"row {row.name} needs at least two contenders with names of their own: {names}")
    taken: dict[str, list[float]] = {name: [] for name in names}
    for round_number, contender in _order(contenders, rounds):
        doing = f"round {round_number} of {rounds}" if round_number else "warming up"
        progress(row.name, f"{doing}: {contender.name}")
        gc.collect()  # nobody pays for what the one before left behind
        figure = contender.turn()
        if figure <= 0:
            raise ValueError(f"{contender.name} returned {figure}; a turn returns a rate or a time above 0")
        if round_number:
            taken[contender.name].append(figure)
    return Figures(
        tuple(Samples(name, tuple(values)) for name, values in taken.items()),
        less_is_better=row.unit is Unit.TIME,
    )


def _order(contenders: Sequence[Contender], rounds: int) -> Iterator[tuple[int, Contender]]:
    """Round 0 is the one that warms up."""
    for round_number in range(rounds + 1):
        turned = contenders if round_number % 2 else reversed(contenders)
        yield from zip(repeat(round_number), turned)


def per_second(
    work: Callable[[], object], seconds: float, *, each: int = 1, timer: Callable[[], float] = perf_counter
) -> float:
    """How often `work` is done in a second, where one call does it `each` times.

    The clock is looked at rarely, so that quick work is not measured by the clock's own cost.
    """
    calls, batch = 0, 1
    start = timer()
    while True:
        for _ in repeat(None, batch):
            work()
        calls += batch
        elapsed = timer() - start
        if elapsed >= seconds:
            return calls * each / elapsed
        left = int(calls * (seconds - elapsed) / elapsed) if elapsed > 0 else calls
        batch = max(1, min(2 * batch, left))


def repeating(name: str, work: Callable[[], object], seconds: float, *, each: int = 1) -> Contender:
    """A contender whose turn is to do `work` as often as it can."""
    return Contender(name, lambda: per_second(work, seconds, each=each))


def computing(name: str, work: Callable[[], object], seconds: float, *, each: int = 1) -> Contender:
    """The same for work that never waits, in a row of that unit. Steady figures need shorter turns."""
    return Contender(name, lambda: per_second(work, seconds / 2, each=each, timer=thread_time))
