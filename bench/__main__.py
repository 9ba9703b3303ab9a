"""`python -m bench [ROW…]`: measure, print a table, write JSON. `--against TREE` compares with another tree instead.

A bar that is not met is printed loudly; it fails the command only with `--strict`. A row that
breaks always fails it.
"""

import argparse
import contextlib
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from bench import compare
from bench.harness import machine, report
from bench.harness.measure import Measured, Missed, Progress, measure
from bench.harness.row import Row
from bench.rows import ROWS

BUILD = Path(__file__).resolve().parents[1] / "build"
ROUNDS, QUICK_ROUNDS = 5, 2
SECONDS, QUICK_SECONDS = 0.4, 0.05


def main(arguments: Sequence[str] | None = None, rows: Sequence[Row] = ROWS) -> int:
    asked = _parser().parse_args(arguments)
    if asked.list:
        for row in rows:
            print(f"{row.name:24} {row.title}")
        return 0
    try:
        chosen = _choose(asked.rows or (compare.SERVER_ROWS if asked.against else ()), rows)
        _prepare(asked.json)
    except (LookupError, OSError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 2
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else ROUNDS)
    seconds = QUICK_SECONDS if asked.quick else SECONDS
    if asked.against:
        with _data_folder() as data:
            return compare.main(asked.against, chosen, seconds=seconds, data=data)
    load_before = machine.load()
    try:
        with _data_folder() as data, _progress() as progress:
            results = [
                measure(row, rounds=rounds, seconds=seconds, data=data, progress=progress) for row in chosen
            ]
            facts = machine.describe(data, load_before=load_before)
    except KeyboardInterrupt:
        print("bench: stopped, nothing was written", file=sys.stderr)
        return 130
    _tell(results, facts)
    asked.json.write_bytes(report.as_json(results, facts, rounds=rounds, seconds=seconds))
    broken = any(isinstance(result, Missed) and result.fault is not None for result in results)
    return int(broken or (asked.strict and bool(report.bars_not_met(results))))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure each workload beside its baseline.", allow_abbrev=False
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to measure, as --list names them; all")
    parser.add_argument("--rounds", type=_count, metavar="N", help=f"rounds that count (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="short turns, few rounds: does it run at all?")
    parser.add_argument(
        "--json", type=Path, metavar="PATH", default=BUILD / "bench.json", help="default build/bench.json"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="TREE",
        help="compare with another tree, which has a .venv of its own: the rows of servers, or those named",
    )
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a bar is not met")
    parser.add_argument("--list", action="store_true", help="name the rows and stop")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 1000):
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 1000")
    return int(text)


def _choose(names: Sequence[str], rows: Sequence[Row]) -> list[Row]:
    known = {row.name: row for row in rows}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean {close[0]}?" if close else "--list names them all"
            raise LookupError(f"no row is named {name!r}; {remedy}")
    return [row for row in rows if not names or row.name in names]


def _prepare(path: Path) -> None:
    """Find out before minutes of measuring that their result cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.open("ab").close()


@contextlib.contextmanager
def _data_folder() -> Iterator[Path]:
    data = BUILD / "bench-data"
    data.mkdir(parents=True, exist_ok=True)
    try:
        yield data
    finally:
        with contextlib.suppress(OSError):  # another run is using it
            data.rmdir()


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """One moving line on a terminal; elsewhere a line per row. Never on stdout."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("") as line:
            yield lambda row, doing: line.update(f"[bold]{row}[/bold]  {doing}")
        return
    told: set[str] = set()

    def tell_once(row: str, _doing: str) -> None:
        if row not in told:
            told.add(row)
            print(f"measuring {row}", file=sys.stderr, flush=True)

    yield tell_once


def _tell(results: Sequence[Measured | Missed], facts: machine.Machine) -> None:
    console = Console()
    if console.is_terminal:
        report.print_table(console, results, facts)
    else:
        print(report.as_plain_text(results, facts))


if __name__ == "__main__":
    sys.exit(main())
