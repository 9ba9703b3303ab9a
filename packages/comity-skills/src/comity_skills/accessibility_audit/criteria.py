"""The success criteria of WCAG 2.2, from `criteria.json`: 31 at level A, 24 at AA, 31 at AAA.

A level holds those below it. The order is by principle, then by id as text: 1.4.10 stands before 1.4.2.
"""

import json
from collections.abc import Sequence
from typing import Final, Literal, get_args

from msgspec import Struct

Level = Literal["A", "AA", "AAA"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
PRINCIPLES: Final = ("perceivable", "operable", "understandable", "robust")


class Criterion(Struct, frozen=True):
    """`automatable` says yes, partial or no, in general; what was checked on a page is told with the page."""

    id: str
    title: str
    level: Level
    principle: str
    automatable: str
    requirement: str
    implementation: str


def read_criteria(content: bytes) -> tuple[Criterion, ...]:
    found = [Criterion(**entry) for entry in json.loads(content)["criteria"]]
    return tuple(sorted(found, key=lambda one: (PRINCIPLES.index(one.principle), one.id)))


def up_to(criteria: Sequence[Criterion], level: Level) -> list[Criterion]:
    held = LEVELS[: LEVELS.index(level) + 1]
    return [one for one in criteria if one.level in held]
