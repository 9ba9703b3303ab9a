"""The entries of the lexicon: spellings, what they mean, and the automata that find them in a folded text.

- An entry of a language that is written with blanks stands between blanks. Others are found anywhere.
- A text is first asked for its telling entries. Most texts have none, and everyday entries such as "I" or
  "not", which every text is full of, are never looked for in those.
- Entries with characters that are written without blanks are found in one go, in texts that have some.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from comity_skills.crisis.folding import has_unspaced
from comity_skills.crisis.lookup import Lookup, sections_of
from comity_skills.words.tables import Content, Records, records_of

TALLY_BITS = 32

Meaning = tuple[int, int]  # number of the language, number of the concept in it
Clue = tuple[int, int, int, tuple[int, ...]]
"""What a telling concept may be part of: the number of the language, the place of the rule there, and the sets of
meanings of which one each must be in the text: one set, and more if the rule is longer."""

Entry = tuple[int, int, int, Mapping[int, tuple[int, ...]], tuple[Clue, ...], int, int]
"""Minus its length, so that of two that end together the longer one is sorted before the other; the ways from the place
of its last character to where it begins and ends; the concepts by the number of the language, in order; the clues; the set
of meanings, a number with a bit for each of them that somebody asks for; and the tally: how many concepts per language, each
language has `TALLY_BITS`. A plain tuple is read fastest."""


class _Row(msgspec.Struct, frozen=True, array_like=True):
    """What spellings mean, as it is stored: sets are the places of their bits."""

    concepts: dict[int, tuple[int, ...]]
    clues: tuple[tuple[int, int, tuple[tuple[int, ...], ...]], ...]
    asked: tuple[int, ...]


class Index(NamedTuple):
    """Entries without characters that are written without blanks, `telling` and `everyday`, and the `unspaced`."""

    telling: Lookup[Entry]
    everyday: Lookup[Entry]
    unspaced: Lookup[Entry]


def index_in(section: Callable[[str], Content | None]) -> Index:
    """The index as it was laid out, read section by section (`telling.latin`)."""
    content = section("meanings")
    records: Records[_Row] = Records(content or records_of(()), _Row)

    def told(number: int, size: int, blank: bool) -> Entry:
        row = records[number]
        clues = tuple((language, place, *_needs(needs)) for language, place, needs in row.clues)
        tally = sum(len(concepts) << TALLY_BITS * language for language, concepts in row.concepts.items())
        return (-size, 1 - size + blank, 1 - blank, row.concepts, clues, as_set(row.asked), tally)

    def lookup(name: str) -> Lookup[Entry]:
        return Lookup(lambda script: section(f"{name}.{script}"), told)

    return Index(*map(lookup, Index._fields))


def _needs(needs: Sequence[Sequence[int]]) -> tuple[int, tuple[int, ...]]:
    first, *more = map(as_set, needs)
    return first, tuple(more)


def as_set(places: Iterable[int]) -> int:
    """A set as a number with these bits."""
    whole = 0
    for place in places:
        whole |= 1 << place
    return whole


def places_in(whole: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(bin(whole)[:1:-1]) if bit == "1")


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

    def index(self, clues: Mapping[Meaning, Iterable[Clue]]) -> dict[str, bytes]:
        """The index, laid out as `index_in` reads it."""
        kinds: dict[str, dict[str, int]] = {name: {} for name in Index._fields}
        rows: list[_Row] = []
        meant: dict[tuple[Meaning, ...], int] = {}  # thousands of misspellings mean the same
        for text, meanings in self._meanings.items():
            key = tuple(sorted(meanings)) if len(meanings) > 1 else meanings
            if key not in meant:
                told = tuple(
                    (language, place, tuple(map(places_in, (need, *more))))
                    for meaning in key
                    for language, place, need, more in clues.get(meaning, ())
                )
                asked = places_in(sum(self._bits.get(meaning, 0) for meaning in key))
                meant[key] = len(rows)
                rows.append(_Row(_by_language(key), told, asked))
            number = meant[key]
            kind = "unspaced" if has_unspaced(text) else "telling" if rows[number].clues else "everyday"
            kinds[kind][text] = number
        sections = {"meanings": records_of(rows)}
        for name, patterns in kinds.items():
            sections |= {f"{name}.{script}": part for script, part in sections_of(patterns).items()}
        return sections


def _by_language(meanings: Iterable[Meaning]) -> dict[int, tuple[int, ...]]:
    return {
        language: tuple(concept for _, concept in group)
        for language, group in itertools.groupby(meanings, lambda meaning: meaning[0])
    }
