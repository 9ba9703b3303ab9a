"""A text measured once: its sentences, its words, its syllables, and the scores that follow from them.

- Words are those of the text; numbers count as words of one syllable, list numbers and bullets as nothing.
- `characters` are letters and digits, `letters` letters alone, as the two formulas that use them demand.
- A text that is not English, or holds no word, has no scores of those; one in a language that `foreign` knows has the
  score of that language. A text whose language cannot be told has none.
- Scripts without spaces have no words to count: `spaced` says so, and `words` are then runs of letters.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from comity_skills.reading.foreign import ForeignScore, foreign_of, foreign_score
from comity_skills.reading.formulas import (
    automated_readability_index,
    coleman_liau_index,
    flesch_kincaid_grade,
    flesch_reading_ease,
    smog_grade,
)
from comity_skills.reading.language import Language, is_spaced, language_of
from comity_skills.reading.sentences import ANY, Abbreviations, Sentence, read_abbreviations, sentences
from comity_skills.reading.syllables import syllables
from comity_skills.words.tokens import Token, fold, tokens

_WORD: Final = re.compile(r"[^\W_]+(?:['’\-‐‑.][^\W_]+)*")  # noqa: RUF001 as people type them
_MARKER: Final = re.compile(
    r"^[ \t]*(?:[-*•‣◦·]|\(?\d{1,3}[.)]|[a-z][.)])(?=\s)|(?<=[.!?:;]\s)\d{1,2}[.)](?=\s)", re.MULTILINE
)


class ReadingData(Struct, frozen=True):
    """What the data files know: abbreviations by language, and English words whose syllables the rules miscount."""

    abbreviations: Mapping[str, Abbreviations]
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
    spaced: bool = True


def read_reading_data(english: bytes, abbreviations: bytes) -> ReadingData:
    return ReadingData(read_abbreviations(abbreviations), json.loads(english)["syllables"])


def measure(text: str, known: ReadingData) -> Reading:
    folded = tokens(text)
    language = language_of(text, folded)
    pieces = sentences(text, known.abbreviations[_abbreviating(language, folded)])
    words = _words(text, known)
    counts = _per_sentence(pieces, words)
    scores = foreign = None
    if words and pieces and language == "english":
        scores = _scores(text, words, len(pieces))
    spoken = foreign_of(folded) if language == "other" else None
    if words and pieces and spoken is not None:
        foreign = foreign_score(spoken, [text[word.start : word.end] for word in words], len(pieces))
    return Reading(language, pieces, words, counts, folded, scores, foreign, is_spaced(text))


def _abbreviating(language: Language, words: list[Token]) -> str:
    """Whose abbreviations hold; one small word is enough to guess."""
    return language if language == "english" else foreign_of(words, 1) or ANY


def _words(text: str, known: ReadingData) -> list[Word]:
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
