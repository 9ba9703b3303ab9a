"""A table that fills itself, for short strings that come again and again: the words of a language.

Long ones are not kept, and when there are too many all are forgotten: no input fills the memory.
"""

from collections.abc import Callable

_MOST = 8192
_LONGEST = 24  # letters, and half as many where a letter says more


class Kept(dict[str, str]):
    """`make` says what belongs to a string that is not there."""

    def __init__(self, make: Callable[[str], str]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> str:
        value = self._make(key)
        if len(key) <= (_LONGEST if key.isascii() else _LONGEST // 2):
            if len(self) >= _MOST:
                self.clear()
            self[key] = value
        return value
