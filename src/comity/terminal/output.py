"""What is printed on success: JSON for programs, tables on a terminal, plain columns in a pipe.

In a pipe nothing is cut, wrapped or coloured. Control characters in foreign text are escaped at a terminal.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

import typer

from comity.wire.errors import ComityError, ConfigError

# A little colour, without a library, only for a terminal that wants it.


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def colour_wanted(stream: TextIO | None = None) -> bool:
    stream = stream or sys.stdout
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, style: str, *, wanted: bool | None = None) -> str:
    """Return the text in one or more styles ("bold cyan"), or as it is. By default standard output decides."""
    if not text or not (colour_wanted() if wanted is None else wanted):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


# Commands to type next: each gets the flags of this command line that lead to the same node.


_WITHOUT_FOLDER = re.compile(r"comity (--|COMMAND\b|version\b|demo\b|actions\b|relay\b|restore\b)")
_WITHOUT_CONFIG = re.compile(r"comity (un)?install\b")
_COMMAND = re.compile(r"`(comity [^`]*)`")


class Given:
    """The flags of this command line that lead to its node, for commands that are to be typed next."""

    data = ""
    config = ""

    @classmethod
    def forget(cls) -> None:
        """Clear the flags before the next command line in the same program."""
        cls.data = cls.config = ""


def follow_up(command: str) -> str:
    """Return a command to type next, with the flags of this one that lead to the same node."""
    if _WITHOUT_FOLDER.match(command) or " --data" in command or " --help" in command:
        return command
    return command + Given.data + ("" if _WITHOUT_CONFIG.match(command) else Given.config)


def with_flags(message: str) -> str:
    """Add the flags to each command that a message names in backquotes."""
    return _COMMAND.sub(lambda found: f"`{follow_up(found[1])}`", message)


# What a person or a program sees when something went wrong: one sentence on stderr and an exit code.


DEBUG_VARIABLE = "COMITY_DEBUG"
FAILED = 1
UNUSABLE = 2
WAITS = 3
"""It waits for somebody else. What was given is stored, and the same command goes on."""
INTERRUPTED = 130


def report(failure: Exception, *, as_json: bool) -> int:
    code, message, exit_code = _described(failure)
    if os.environ.get(DEBUG_VARIABLE) and not isinstance(failure, typer.TyperException | typer.Abort):
        traceback.print_exception(failure)
    say(code, message, as_json=as_json)
    _drop_stdout()
    return exit_code


def finish(exit_code: int) -> int:
    """Flush what was printed before success is reported."""
    if exit_code == INTERRUPTED:
        sys.stderr.write("stopped\n")
    sys.stdout.flush()
    return exit_code


def say(code: str, message: str, *, as_json: bool) -> None:
    """Print a failure. Commands in the message get the flags that lead to the same node."""
    message = with_flags(message)
    if as_json:
        line = json.dumps({"error": {"code": code, "message": message}}, separators=(",", ":"))
    else:
        line = f"{paint('error:', 'bold red', wanted=colour_wanted(sys.stderr))} {message}"
    sys.stderr.write(line + "\n")


def _described(failure: Exception) -> tuple[str, str, int]:
    match failure:
        case ConfigError():
            return failure.code, failure.message, UNUSABLE
        case ComityError():
            # a refusal by an extension has a code of its own beside that of its class
            return getattr(failure, "wire_code", failure.code).lower(), failure.message, FAILED
        case typer.TyperException():
            return "usage", _sentence(failure), UNUSABLE
        case typer.Abort():
            return "aborted", "stopped before anything was done", FAILED
        case FileNotFoundError(filename=str() as name):
            return "system", f"there is no file or folder {name}; check the path", FAILED
        case OSError(filename=None):
            return "system", f"{failure.strerror or failure}; nothing more was done", FAILED
        case OSError():
            return "system", f"{failure.filename}: {failure.strerror or failure}", FAILED
        case _:
            kind = type(failure)
            text = (
                "" if kind.__module__.startswith("apsw") else str(failure)
            )  # the database names its internals
            what = f"{kind.__name__}: {text}".strip(": ")
            remedy = f"run it again with {DEBUG_VARIABLE}=1 to see where, and report it"
            return "internal", f"unexpected error ({' '.join(what.split())}); {remedy}", FAILED


def _sentence(refusal: typer.TyperException) -> str:
    """Return the words of the library, and where to read on."""
    context = getattr(refusal, "ctx", None)
    path = context.command_path if context is not None else "comity"
    words = " ".join(refusal.format_message().split()).rstrip(".")
    said = f"{words[:1].lower()}{words[1:]}"
    return said if said.endswith("?") else f"{said}; `{path} --help` shows how to use it"


def _drop_stdout() -> None:
    """Replace an unwritable stdout, which would cause a traceback at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


Cell = str | tuple[str, str]
"""A text, or a text and its style on a terminal."""

_REST = 40  # what is left for the other columns beside one that is not folded
# controls, half surrogates, line and paragraph ends, and characters that change the direction of writing
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def print_json(value: Any) -> None:
    """Print one line of JSON and flush it."""
    sys.stdout.write(json.dumps(value, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def print_answer(value: Any, sentence: str, *, as_json: bool) -> None:
    """Print what a command did: the value for a program, the sentence for a person."""
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
    """Print foreign text with its own lines: exact in a pipe, escaped at a terminal."""
    shown = _harmless(text) if sys.stdout.isatty() else text
    sys.stdout.write(_encodable(shown if shown.endswith("\n") else shown + "\n"))


def one_line(foreign: str) -> str:
    """Return foreign text for a table or a field."""
    return _encodable(" ".join(_harmless(foreign).split()))


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def note(text: str) -> None:
    """Print a note on stderr, beside the answer on stdout."""
    sys.stderr.write(
        f"{paint('note:', 'bold yellow', wanted=colour_wanted(sys.stderr))} {with_flags(text)}\n"
    )


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show at a terminal what the block waits for, and remove it at the end."""
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
    """Print columns under titles. The caller pads numbers. The column `unbroken`, which people copy from, is not folded
    while there is room for it.
    """
    if sys.stdout.isatty():
        _print_rich(titles, rows, unbroken)
        return
    plain = [list(titles), *([_text(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in plain) for column in range(len(titles))]
    for row in plain:
        print_line("  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip())


def _print_rich(titles: Sequence[str], rows: Sequence[Sequence[Cell]], unbroken: str) -> None:
    from rich import box, console, table, text  # noqa: PLC0415 - `comity --help` loads this module and no tables

    shown = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    room = shutil.get_terminal_size().columns - _REST
    for column, title in enumerate(titles):
        whole = title == unbroken and all(len(_text(row[column])) <= room for row in rows)
        shown.add_column(title, overflow="fold", no_wrap=whole)
    for row in rows:
        cells = ((cell, "") if isinstance(cell, str) else cell for cell in row)
        shown.add_row(*(text.Text(words, style=style) for words, style in cells))
    console.Console(highlight=False).print(shown)


def _text(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell[0]


def _harmless(text: str) -> str:
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _encodable(text: str) -> str:
    """Escape what the encoding of stdout cannot spell."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
