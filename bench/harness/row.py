"""What a row is made of: a workload of ours and the baselines it is measured beside.

- A contender takes its *turn* again and again: bounded work that returns one figure, either a rate
  (per second, more is better) or a time (seconds, less is better); a row holds one kind only.
- The first contender of a row is ours, the others are baselines.
- A row is opened once, around all its turns: what is prepared there is not measured.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path

from msgspec import Struct

from bench.harness.bars import Bar


class Unit(Enum):
    """Work that never waits is counted by processor time: what others do on the machine stays out of it."""

    RATE = "per second"
    PROCESSOR_RATE = "per second of processor time"
    TIME = "seconds"


class Setting(Struct, frozen=True, kw_only=True):
    """`folder` is empty, on a disk, and goes away with the row; `seconds` is how long a turn should last."""

    folder: Path
    seconds: float


class Contender(Struct, frozen=True):
    name: str
    turn: Callable[[], float]


Open = Callable[[Setting], AbstractContextManager[Sequence[Contender]]]


class Row(Struct, frozen=True, kw_only=True):
    name: str
    title: str
    unit: Unit
    open: Open
    bars: tuple[Bar, ...] = ()


class UnavailableError(Exception):
    """Raised while a row opens: it cannot be measured here, and why."""
