"""What is printed on success: JSON for programs, tables on a terminal, plain columns in a pipe.

In a pipe nothing is cut, wrapped or coloured. What a stranger wrote is shown by a terminal and never obeyed.
"""

import contextlib
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from comity.terminal.colour import colour_wanted, paint
from comity.terminal.follow_up import with_flags

Cell = str | tuple[str, str]
"""A text, or a text and its style on a terminal."""

_REST = 40  # what is left for the other columns beside one that is not folded
# controls, half surrogates, line and paragraph ends, and what turns the direction of writing around
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(value: Any) -> None:
    """One line. It leaves at once: somebody may be waiting for it."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def print_answer(value: Any, sentence: str, *, as_json: bool) -> None:
    """What a command did: the value for a program, the sentence for a person."""
    if as_json:
        print_json(value)
    else:
        print_line(sentence)


def print_line(text: str = "") -> None:
    sys.stdout.write(text + "\n")


def print_fields(pairs: Iterable[tuple[str, str]], *, indent: str = "") -> None:
    pairs = list(pairs)
    column = max(len(name) for name, _ in pairs) + 2
    for name, value in pairs:
        label = paint(name, "bold") + " " * (column - len(name))
        print_line(f"{indent}{label}{value}".rstrip())


def print_foreign(text: str) -> None:
    """A stranger's text with its own lines: exact in a pipe, harmless at a terminal."""
    shown = _harmless(text) if sys.stdout.isatty() else text
    sys.stdout.write(_encodable(shown if shown.endswith("\n") else shown + "\n"))


def one_line(foreign: str) -> str:
    """A stranger's text for a table or a field."""
    return _encodable(" ".join(_harmless(foreign).split()))


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def note(text: str) -> None:
    """Something to know besides the answer, which is on stdout."""
    sys.stderr.write(
        f"{paint('note:', 'bold yellow', wanted=colour_wanted(sys.stderr))} {with_flags(text)}\n"
    )


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say at a terminal what is being waited for, and take it back."""
    shown = colour_wanted(sys.stderr)
    if shown:
        room = shutil.get_terminal_size().columns - 1  # what runs on in a second line cannot be taken back
        sys.stderr.write(paint(one_line(what)[:room], "dim", wanted=True))
        sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def print_table(titles: Sequence[str], rows: Sequence[Sequence[Cell]], *, unbroken: str = "") -> None:
    """Columns under titles. Numbers, and what else should stand right, come already padded. The column
    `unbroken`, which people copy from, is not folded while there is room for it.
    """
    if sys.stdout.isatty():
        _print_rich(titles, rows, unbroken)
        return
    plain = [list(titles), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in plain) for column in range(len(titles))]
    for row in plain:
        print_line("  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip())


def _print_rich(titles: Sequence[str], rows: Sequence[Sequence[Cell]], unbroken: str) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    room = shutil.get_terminal_size().columns - _REST
    for column, title in enumerate(titles):
        whole = title == unbroken and all(len(_text(row[column])) <= room for row in rows)
        table.add_column(title, overflow="fold", no_wrap=whole)
    for row in rows:
        table.add_row(
            *(Text(cell) if isinstance(cell, str) else Text(cell[0], style=cell[1]) for cell in row)
        )
    Console(highlight=False).print(table)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _harmless(text: str) -> str:
    return _ACTING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _encodable(text: str) -> str:
    """Whatever stdout is: what it cannot spell is spelled in ASCII."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
