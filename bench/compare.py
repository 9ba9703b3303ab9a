"""`python -m bench --against TREE [ROW…]`: this tree and another one, side by side.

Each tree runs its own code in its own `.venv`; both have a row open at the same time, and take their turns in pairs,
the order turned around every time. A ratio says how fast this tree is in terms of the other. Its median is told with
an interval that holds the true one nine times in ten, whatever the noise is like (from the order of the ratios alone);
pairs are added until that interval is within 5 % of the median, or there are `MOST_PAIRS`. A row that the other tree
does not have yet is measured there, too, as long as what it imports is there.
"""

import contextlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from msgspec import Struct

from bench.harness.row import Row, Unit

HERE = Path(__file__).resolve().parents[1]
SERVER_ROWS = (
    "http-healthz",
    "http-ping",
    "envelope-round-trip",
    "envelope-serving",
    "vcp-websocket",
    "mcp-http-16",
    "mcp-stdio-one",
    "chain-advance",
)
PAIRS, MORE_PAIRS, MOST_PAIRS = 9, 6, 147
LEAST = 0.95
NARROW = 0.05
COVERAGE = 0.9
STOP_SECONDS = 30.0
FINE = "fine"


class Interval(Struct, frozen=True):
    median: float
    low: float
    high: float
    pairs: int

    @property
    def narrow(self) -> bool:
        return max(self.high / self.median, self.median / self.low) <= 1 + NARROW

    @property
    def verdict(self) -> str:
        """A wide interval decides nothing, unless all of it lies on the good side."""
        if self.median < LEAST:
            return f"SLOWER than {LEAST:g}x"
        if self.narrow or self.low >= LEAST:
            return FINE
        return f"UNDECIDED: not within {NARROW:.0%} after {self.pairs} pairs"


class Side(Protocol):
    def turn(self) -> float: ...


class BrokenError(Exception):
    """A tree could not take its turn; says why."""


def main(other: Path, rows: Sequence[Row], *, seconds: float, data: Path) -> int:
    other = other.resolve()
    if not _python(other).exists() or not (other / "bench" / "rows").is_dir():
        print(
            f"bench: {other} is no tree with a .venv of its own; run `make test` there first", file=sys.stderr
        )
        return 2
    worst = 0
    print(f"{'row':24} {'this tree is':>12}   90 % interval   pairs")
    for row in rows:
        try:
            with _both(row, other, seconds, data) as (ours, theirs):
                found = compared(ours, theirs, less_is_better=row.unit is Unit.TIME)
        except BrokenError as reason:
            print(f"{row.name:24} BROKEN: {reason}", flush=True)
            worst = 1
            continue
        told = (
            f"{found.median:11.3f}x   {found.low:.3f} .. {found.high:.3f}  {found.pairs:6}   {found.verdict}"
        )
        print(f"{row.name:24} {told}", flush=True)
        worst = max(worst, int(found.verdict != FINE))
    return worst


def compared(ours: Side, theirs: Side, *, less_is_better: bool) -> Interval:
    """Pairs of turns until the ratio is known well enough. The first pair warms up and does not count."""
    ours.turn()
    theirs.turn()
    ratios: list[float] = []
    wanted = PAIRS
    while True:
        while len(ratios) < wanted:
            if len(ratios) % 2:
                mine, other = ours.turn(), theirs.turn()
            else:
                other, mine = theirs.turn(), ours.turn()
            ratios.append(other / mine if less_is_better else mine / other)
        found = interval_of(ratios)
        if found.narrow or wanted >= MOST_PAIRS:
            return found
        wanted = min(MOST_PAIRS, wanted + MORE_PAIRS)


def interval_of(ratios: Sequence[float]) -> Interval:
    """The median, and the narrowest pair of ranks around it that holds the true one at least that often."""
    ordered, count = sorted(ratios), len(ratios)
    outside, cut = 0.0, 0
    for rank in range(count // 2):
        outside += 2 * comb(count, rank) / 2**count
        if outside > 1 - COVERAGE:
            break
        cut = rank
    return Interval(median(ordered), ordered[cut], ordered[count - 1 - cut], count)


@contextlib.contextmanager
def _both(row: Row, other: Path, seconds: float, data: Path) -> Iterator[tuple[Side, Side]]:
    data.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        sides = []
        for tree in (HERE, other):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{row.name}-", dir=data))
            sides.append(stack.enter_context(_opened(tree, row, seconds, Path(folder))))
        yield sides[0], sides[1]


class _Tree:
    def __init__(self, ask: Callable[[bytes], dict[str, Any]]) -> None:
        self._ask = ask

    def turn(self) -> float:
        return float(self._ask(b"\n")["figure"])


@contextlib.contextmanager
def _opened(tree: Path, row: Row, seconds: float, folder: Path) -> Iterator[Side]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("COMITY_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    script, file = HERE / "bench" / "turns.py", _file_of(row)
    command = [str(_python(tree)), str(script), row.name, str(seconds), str(folder), file]
    with subprocess.Popen(
        command, cwd=tree, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(line: bytes) -> dict[str, Any]:
            with contextlib.suppress(BrokenPipeError):  # it has said why
                stdin.write(line)
                stdin.flush()
            try:
                told: dict[str, Any] = json.loads(stdout.readline())
            except ValueError:
                raise BrokenError(f"{tree.name} ended without a word; its last lines are above") from None
            if "error" in told:
                raise BrokenError(f"{tree.name}: {told['error']}")
            return told

        try:
            ask(b"")
            yield _Tree(ask)
        finally:
            with contextlib.suppress(BrokenPipeError):
                stdin.close()  # ends it, and with it the servers that it started
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.terminate()


def _file_of(row: Row) -> str:
    """Where the row is written."""
    opens = row.open.func if isinstance(row.open, partial) else row.open
    return inspect.getfile(inspect.unwrap(opens))


def _python(tree: Path) -> Path:
    return tree / ".venv" / "bin" / "python"
