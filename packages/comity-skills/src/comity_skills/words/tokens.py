"""The words of a text, folded for comparison, each with its place in the text as it was sent.

- A word is a run of letters, marks and digits, with apostrophes inside it. A hyphen, a slash or an
  underscore parts words, so `drag-and-drop` and `drag and drop` are the same three.
- `text[start:end]` is always the word as written; folding (compatibility forms, case, curly apostrophes)
  happens word by word and moves no place.
- `joined` says that nothing but spaces and hyphens lies between a word and the one before it: only then
  can both belong to one phrase. `clause` counts the commas, brackets and ends of sentences passed so far,
  `sentence` the ends of sentences alone.
"""

import re
from typing import Final
from unicodedata import normalize

from msgspec import Struct

_WORD: Final = re.compile(r"[^\W_]+(?:['’ʼ＇][^\W_]+)*")  # noqa: RUF001 the apostrophes people type
_JOINS: Final = re.compile(r"[\s\-‐‑–/_&'’\"“”*]*")  # noqa: RUF001 dashes and quotes do not end a phrase
_ENDS_SENTENCE: Final = re.compile(r"[!?;。！？؟।]|\.(?:\s|$)|\n\s*\n|\n\s*[-*•]")  # noqa: RUF001
_ENDS_CLAUSE: Final = re.compile(r"[,:()\[\]，、：؛،—]|\s[-–]\s")  # noqa: RUF001
_APOSTROPHES: Final = str.maketrans("’ʼ＇", "'''")  # noqa: RUF001


class Token(Struct, frozen=True):
    word: str
    start: int
    end: int
    joined: bool
    clause: int
    sentence: int


def word_set(words: str) -> frozenset[str]:
    """The words of a space-separated list."""
    return frozenset(words.split())


def fold(word: str) -> str:
    """One word as it is compared."""
    return word.lower() if word.isascii() else normalize("NFKC", word).casefold().translate(_APOSTROPHES)


def tokens(text: str) -> list[Token]:
    found: list[Token] = []
    clause = sentence = last = 0
    for match in _WORD.finditer(text):
        start, end = match.span()
        gap = text[last:start]
        joined = bool(found)
        if gap != " ":  # most gaps are one space, and tell nothing
            if _ENDS_SENTENCE.search(gap):
                sentence += 1
                clause += 1
            elif _ENDS_CLAUSE.search(gap):
                clause += 1
            joined = joined and "\n\n" not in gap and _JOINS.fullmatch(gap) is not None
        found.append(Token(fold(match[0]), start, end, joined, clause, sentence))
        last = end
    return found
