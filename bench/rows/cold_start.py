"""How long a person waits for `comity --help`: whole processes, from nothing to exit."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.harness.bars import AtMostSeconds, AtMostTimes
from bench.harness.row import Contender, Row, Setting, UnavailableError, Unit

STARTS_PER_SECOND = 12
PATIENCE_SECONDS = 60.0

EMPTY_APPLICATION = """\
import typer

app = typer.Typer()


@app.command()
def one() -> None:
    "Do one thing."


@app.command()
def two() -> None:
    "Do another."


app()
"""


@contextlib.contextmanager
def open_help(setting: Setting) -> Iterator[Sequence[Contender]]:
    script = Path(sys.executable).with_name("comity")
    if not script.exists():
        raise UnavailableError("the comity command is not installed in this environment")
    empty = setting.folder / "empty.py"
    empty.write_text(EMPTY_APPLICATION, encoding="utf-8")
    starts = max(1, round(setting.seconds * STARTS_PER_SECOND))

    def starting(name: str, *command: str) -> Contender:
        return Contender(name, lambda: median(_seconds(command) for _ in range(starts)))

    yield [
        starting("comity --help", sys.executable, str(script), "--help"),
        starting("empty typer app --help", sys.executable, str(empty), "--help"),
        starting("python -c pass", sys.executable, "-c", "pass"),
    ]


def _seconds(command: Sequence[str]) -> float:
    start = perf_counter()
    ended = subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_SECONDS
    )
    taken = perf_counter() - start
    if ended.returncode:
        last_words = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"it ended with status {ended.returncode}: {' '.join(last_words)}")
    return taken


ROWS = (
    Row(
        name="cold-start",
        title="starting a process that shows its help",
        unit=Unit.TIME,
        open=open_help,
        bars=(AtMostSeconds(0.15), AtMostTimes(1.5, of="empty typer app --help")),
    ),
)
