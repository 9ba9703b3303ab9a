"""Which of the languages in Latin letters that are read a text is in, by its letters.

Every three letters in a row, with the blanks between words, speak for some languages and against others. `latin.json` says how
much; `evals.languages` works it out. A few words are enough for most texts, and the beginning of a long one says it all.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import msgspec
from msgspec import Struct

from comity_skills.words.tables import Content, Weights, weights_of

_LOOKED_AT: Final = 400  # characters
_WORD: Final = re.compile(r"[^\W\d_]+")


class LatinFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The weights of each three letters are those of the languages, in their order."""

    languages: tuple[str, ...]
    weights: Mapping[str, tuple[int, ...]]


def latin_of(content: bytes) -> dict[str, bytes]:
    """Lay the weights out."""
    file = msgspec.json.decode(content, type=LatinFile)
    return {"languages": msgspec.msgpack.encode(file.languages), "weights": weights_of(file.weights)}


class Latin:
    def __init__(self, section: Callable[[str], Content | None]) -> None:
        """`section` gives what `latin_of` has laid out."""
        self._section = section

    @cached_property
    def _languages(self) -> tuple[str, ...]:
        return msgspec.msgpack.decode(bytes(self._section("languages") or b""), type=tuple[str, ...])

    @cached_property
    def _weights(self) -> Weights:
        return Weights(self._section("weights") or b"")

    def weights(self, text: str) -> dict[str, int]:
        """How much the letters speak for each language."""
        found = [row for row in map(self._weights.get, threes(text)) if row is not None]
        sums = map(sum, zip(*found, strict=True)) if found else [0] * len(self._languages)
        return dict(zip(self._languages, sums, strict=True))


def threes(text: str) -> list[str]:
    words = _WORD.findall(unicodedata.normalize("NFC", text[:_LOOKED_AT]).lower())
    spaced = f" {' '.join(words)} "
    return [spaced[at : at + 3] for at in range(len(spaced) - 2)]
