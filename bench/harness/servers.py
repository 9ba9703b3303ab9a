"""Servers in processes of their own, ready when they say so and gone when the row is.

A server says where it listens in the first line of its standard output: a JSON object with `url`.
Settings of ours in the environment stay out of it.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

READY_SECONDS = 30.0
STOP_SECONDS = 15.0


@contextlib.contextmanager
def serving(command: Sequence[str], said: Path) -> Iterator[str]:
    """The server's address, for as long as the context is open; `said` takes what it says on stderr."""
    with serving_with(command, said) as told:
        yield str(told["url"])


@contextlib.contextmanager
def serving_with(command: Sequence[str], said: Path) -> Iterator[dict[str, str]]:
    """As `serving`, with all that the first line tells, and the `pid`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMITY_")}
    with (
        said.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
        ) as process,
    ):
        try:
            yield _told(process, said) | {"pid": str(process.pid)}
        finally:
            _stop(process)


def _told(process: subprocess.Popen[bytes], said: Path) -> dict[str, str]:
    """A server that stays silent is ended, which ends the wait for its line."""
    assert process.stdout is not None
    impatience = threading.Timer(READY_SECONDS, process.kill)
    impatience.start()
    try:
        line = process.stdout.readline()
    finally:
        impatience.cancel()
    try:
        told = {name: str(value) for name, value in json.loads(line).items()}
        told["url"]  # the one thing that has to be there
        return told  # noqa: TRY300 - it is what was tried
    except (ValueError, KeyError, TypeError, AttributeError):
        last_words = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"the server did not get ready; its last words: {' '.join(last_words)}") from None


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
