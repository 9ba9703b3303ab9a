"""Chance that can be repeated: every draw comes from a seed, and every failure tells it.

`seeded(seed)` adds the seed to whatever is raised inside it, so any test runner shows it. The pytest
fixture `randomness` of `comity.testing.fixtures` prints it with the report of a failed test.
"""

import contextlib
import random
import uuid
from collections.abc import Iterator, MutableSequence, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


class Randomness:
    """A source of seeded draws. Equal seeds draw equal things in equal order."""

    def __init__(self, seed: int | str = 0) -> None:
        self.seed = seed
        self._random = random.Random(seed)

    def __repr__(self) -> str:
        return f"Randomness(seed={self.seed!r})"

    def branch(self, name: str) -> "Randomness":
        """An independent source: reading from it does not change this one."""
        return Randomness(f"{self.seed}/{name}")

    def bytes(self, length: int) -> bytes:
        return self._random.randbytes(length)

    def hex(self, length: int) -> str:
        """`length` random bytes as hexadecimal digits."""
        return self.bytes(length).hex()

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.bytes(16), version=4)

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return self._random.randint(low, high)

    def between(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def choice(self, items: Sequence[_Item]) -> _Item:
        return self._random.choice(items)

    def shuffle(self, items: MutableSequence[_Item]) -> None:
        self._random.shuffle(items)


@contextlib.contextmanager
def seeded(seed: int | str) -> Iterator[Randomness]:
    """A source of draws; whatever is raised inside carries the seed."""
    try:
        yield Randomness(seed)
    except BaseException as error:
        error.add_note(f"seed: {seed}")
        raise
