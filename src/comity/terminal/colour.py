"""A little colour, without a library: only for a terminal, and only for those who want it."""

import os
import sys
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def colour_wanted(stream: TextIO | None = None) -> bool:
    stream = stream or sys.stdout
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def paint(text: str, style: str, *, wanted: bool | None = None) -> str:
    """The text in one or more styles ("bold cyan"), or as it is. Where `wanted` is not given, standard output decides."""
    if not text or not (colour_wanted() if wanted is None else wanted):
        return text
    return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"
