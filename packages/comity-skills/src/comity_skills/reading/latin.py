"""Which of the languages in Latin letters that are read a text is in, by its letters.

Every three letters in a row, with the blanks between words, speak for some languages and against others. `latin.json` says how
much; `evals.languages` works it out. A few words are enough for most texts, and the beginning of a long one says it all.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Struct

_LOOKED_AT: Final = 400  # characters
_WORD: Final = re.compile(r"[^\W\d_]+")


class LatinFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of each three letters are those of the languages, in their order."""

    languages: tuple[str, ...]
    weights: Mapping[str, tuple[int, ...]]


class Latin:
    def __init__(self, file: bytes) -> None:
        self._content = file

    @cached_property
    def _file(self) -> LatinFile:
        return msgspec.json.decode(self._content, type=LatinFile)

    def weights(self, text: str) -> dict[str, int]:
        """How much the letters speak for each language."""
        weights = self._file.weights
        found = [weights[three] for three in threes(text) if three in weights]
        sums = map(sum, zip(*found, strict=True)) if found else [0] * len(self._file.languages)
        return dict(zip(self._file.languages, sums, strict=True))


def threes(text: str) -> list[str]:
    words = _WORD.findall(unicodedata.normalize("NFC", text[:_LOOKED_AT]).lower())
    spaced = f" {' '.join(words)} "
    return [spaced[at : at + 3] for at in range(len(spaced) - 2)]
