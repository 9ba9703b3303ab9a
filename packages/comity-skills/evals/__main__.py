"""`python -m evals [TABLE…] [--json]`: measure and print. What cannot be measured here says why."""

import argparse
import sys
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from evals.table import Table, shown
from evals.tables import TABLES


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    unknown = [name for name in asked.tables if name not in TABLES]
    if unknown:
        print(f"evals: no table {', '.join(unknown)}; there are {', '.join(TABLES)}", file=sys.stderr)
        return 2
    found = [table for name, make in TABLES.items() if name in (asked.tables or TABLES) for table in make()]
    if asked.json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=1).decode())
    else:
        console = Console(width=None if sys.stdout.isatty() else 120)
        for table in found:
            _tell(console, table)
    return 0


def _tell(console: Console, table: Table) -> None:
    if table.columns:
        grid = Grid(title=table.title, title_justify="left")
        for at, column in enumerate(table.columns):
            grid.add_column(column, justify="right" if at else "left")
        for row in table.rows:
            grid.add_row(*map(shown, row))
        console.print(grid)
    else:
        console.print(table.title, style="italic")
    for note in table.notes:
        console.print(note, markup=False, highlight=False)
    console.print()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals", description="How well the skills do.")
    parser.add_argument(
        "tables", nargs="*", metavar="TABLE", help=f"one of: {', '.join(TABLES)}; all by default"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
