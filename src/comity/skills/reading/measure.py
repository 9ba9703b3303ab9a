"""A text measured once: its sentences, its words, its syllables, and the scores that follow from them.

- Words are those of the text; numbers count as words of one syllable, list numbers and bullets as nothing.
- `characters` are letters and digits, `letters` letters alone, as the two formulas that use them demand.
- A text that is not English, or holds no word, has no scores of those; one in a language that `foreign` knows has the
  score of that language. Scripts without spaces have no words to count.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from comity.skills.reading.foreign import ForeignScore, foreign_of, foreign_score
from comity.skills.reading.formulas import (
    automated_readability_index,
    coleman_liau_index,
    flesch_kincaid_grade,
    flesch_reading_ease,
    smog_grade,
)
from comity.skills.reading.language import Language, language_of
from comity.skills.reading.sentences import Abbreviations, Sentence, sentences
from comity.skills.reading.syllables import syllables
from comity.skills.words.tokens import Token, fold, tokens

_WORD: Final = re.compile(r"[^\W_]+(?:['’\-‐‑.][^\W_]+)*")  # noqa: RUF001 as people type them
_MARKER: Final = re.compile(
    r"^[ \t]*(?:[-*•‣◦·]|\(?\d{1,3}[.)]|[a-z][.)])(?=\s)|(?<=[.!?:;]\s)\d{1,2}[.)](?=\s)", re.MULTILINE
)


class English(Struct, frozen=True):
    """What the data file knows of English."""

    abbreviations: Abbreviations
    syllables: Mapping[str, int]


class Word(Struct, frozen=True):
    start: int
    end: int
    syllables: int


class Scores(Struct, frozen=True):
    flesch_reading_ease: float
    flesch_kincaid_grade: float
    smog_grade: float
    automated_readability_index: float
    coleman_liau_index: float


class Reading(Struct, frozen=True):
    language: Language
    sentences: list[Sentence]
    words: list[Word]
    words_per_sentence: list[int]
    tokens: list[Token]
    scores: Scores | None
    foreign: ForeignScore | None = None


def english(data: Mapping[str, Any]) -> English:
    lists = data["abbreviations"]
    return English(
        Abbreviations(
            frozenset(lists["inside"]), frozenset(lists["sometimes"]), frozenset(lists["before_number"])
        ),
        data["syllables"],
    )


def measure(text: str, known: English) -> Reading:
    folded = tokens(text)
    language = language_of(text, folded)
    pieces = sentences(text, known.abbreviations)
    words = _words(text, known)
    counts = _per_sentence(pieces, words)
    if not words or not pieces:
        return Reading(language, pieces, words, counts, folded, None)
    if language != "other":
        return Reading(language, pieces, words, counts, folded, _scores(text, words, len(pieces)))
    spoken = foreign_of(folded)
    written = [text[word.start : word.end] for word in words]
    foreign = foreign_score(spoken, written, len(pieces)) if spoken is not None else None
    return Reading(language, pieces, words, counts, folded, None, foreign)


def _words(text: str, known: English) -> list[Word]:
    markers = {at for marker in _MARKER.finditer(text) for at in range(marker.start(), marker.end())}
    return [
        Word(match.start(), match.end(), syllables(fold(match[0]), known.syllables))
        for match in _WORD.finditer(text)
        if match.start() not in markers
    ]


def _per_sentence(pieces: list[Sentence], words: list[Word]) -> list[int]:
    counts = [0] * len(pieces)
    at = 0
    for word in words:
        while at < len(pieces) - 1 and word.start >= pieces[at].end:
            at += 1
        if counts:
            counts[at] += 1
    return counts


def _scores(text: str, words: list[Word], count: int) -> Scores:
    spoken = sum(word.syllables for word in words)
    written = [text[word.start : word.end] for word in words]
    characters = sum(character.isalnum() for word in written for character in word)
    letters = sum(character.isalpha() for word in written for character in word)
    return Scores(
        round(flesch_reading_ease(len(words), count, spoken), 1),
        round(flesch_kincaid_grade(len(words), count, spoken), 1),
        round(smog_grade(count, sum(word.syllables >= 3 for word in words)), 1),
        round(automated_readability_index(len(words), count, characters), 1),
        round(coleman_liau_index(len(words), count, letters), 1),
    )
