"""The entries of the lexicon: spellings, what they mean, and the automata that find them in a folded text.

- An entry of a language that is written with blanks stands between blanks. Others are found anywhere.
- A text is first asked for its telling entries. Most texts have none, and everyday entries such as "I" or
  "not", which every text is full of, are never looked for in those.
- Entries with characters that are written without blanks are found in one go, in texts that have some.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct

from comity_skills.crisis.folding import has_unspaced
from comity_skills.crisis.lookup import Find, finder

TALLY_BITS = 32

Meaning = tuple[int, int]  # number of the language, number of the concept in it
Clue = tuple[int, int, int, tuple[int, ...]]
"""What a telling concept may be part of: the number of the language, the place of the rule there, and the sets of
meanings of which one each must be in the text: one set, and more if the rule is longer."""


_Means = tuple[Mapping[int, tuple[int, ...]], tuple[Clue, ...], int, int]
"""The concepts by the number of the language, in order; the clues; the set of meanings, a number with a bit for each of
them that somebody asks for; and the tally: how many concepts per language, each language has `TALLY_BITS`."""
Entry = tuple[int, int, int, Mapping[int, tuple[int, ...]], tuple[Clue, ...], int, int]
"""Minus its length, so that of two that end together the longer one is sorted before the other; the ways from the place
of its last character to where it begins and ends; and what it means. A plain tuple is read fastest."""


class Index(Struct, frozen=True):
    """Entries without characters that are written without blanks, `telling` and `everyday`, and the `unspaced`."""

    telling: Find[Entry]
    everyday: Find[Entry]
    unspaced: Find[Entry]


class Entries:
    def __init__(self) -> None:
        self._meanings: dict[str, tuple[Meaning, ...]] = {}
        self._bits: dict[Meaning, int] = {}
        self._commonness: dict[Meaning, float] = defaultdict(float)

    def add(self, spellings: Iterable[str], meaning: Meaning, *, spaced: bool) -> None:
        meanings, common, alone = self._meanings, self._commonness[meaning], (meaning,)
        for spelling in spellings:
            text = f" {spelling} " if spaced else spelling.replace(" ", "")
            others = meanings.setdefault(text, alone)
            if meaning not in others:
                meanings[text] = others + alone
            common += 2.0 ** -len(spelling) if spaced else 8.0 ** -len(text)
        self._commonness[meaning] = common

    def commonness(self, meaning: Meaning) -> float:
        """How often it is met, roughly: short words are the usual ones."""
        return self._commonness[meaning]

    def bits(self, meanings: Iterable[Meaning]) -> int:
        """The set of these meanings."""
        whole = 0
        for meaning in meanings:
            whole |= self._bits.setdefault(meaning, 1 << len(self._bits))
        return whole

    def words(self) -> set[str]:
        return {word for text in self._meanings if text[0] == " " for word in text.split()}

    def index(self, clues: Mapping[Meaning, Iterable[Clue]]) -> Index:
        telling: dict[str, Entry] = {}
        everyday: dict[str, Entry] = {}
        unspaced: dict[str, Entry] = {}
        meant: dict[tuple[Meaning, ...], _Meant] = {}  # thousands of misspellings mean the same
        for text, meanings in self._meanings.items():
            key = tuple(sorted(meanings)) if len(meanings) > 1 else meanings
            if key not in meant:
                told = tuple(clue for meaning in key for clue in clues.get(meaning, ()))
                tally = sum(1 << TALLY_BITS * language for language, _ in key)
                asked = sum(self._bits.get(meaning, 0) for meaning in key)
                meant[key] = (_by_language(key), told, asked, tally), {}
            means, entries = meant[key]
            blank = int(text[0] == " ")
            if (len(text), blank) not in entries:
                entries[len(text), blank] = (-len(text), 1 - len(text) + blank, 1 - blank, *means)
            kind = unspaced if has_unspaced(text) else telling if means[1] else everyday
            kind[text] = entries[len(text), blank]
        return Index(finder(telling), finder(everyday), finder(unspaced, unspaced=True))


_Meant = tuple[_Means, dict[tuple[int, int], Entry]]


def _by_language(meanings: Iterable[Meaning]) -> Mapping[int, tuple[int, ...]]:
    return {
        language: tuple(concept for _, concept in group)
        for language, group in itertools.groupby(meanings, lambda meaning: meaning[0])
    }
