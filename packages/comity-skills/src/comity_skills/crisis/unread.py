"""Whether a text is in a language that the detector does not read.

The script tells first. Languages in a script that is read are told by their small words: several different ones, and
more than twice as many as of the languages that are read; or all words of a short message. A few letters prove nothing.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import cached_property
from string import ascii_letters

import msgspec
from msgspec import Struct

from comity_skills.crisis.folding import Folded

_LEAST = 20  # letters
_WORDS = 4  # different small words
_SHORT = range(3, 8)  # different words of a short message that has to consist of small words
_LOOKED_AT = 2000  # characters
_BEGINNING = 100  # characters, of which nearly always enough are letters
_FOREIGN = re.compile(
    "[\u0370-\u03ff\u0400-\u052f\u0530-\u05ff\u0700-\u08ff\u0980-\u0fff\u1000-\u10ff\u1200-\u139f\u1780-\u18af]"
)
_WORD = re.compile(r"[^\W\d_]+")
_LETTERS_ALONE = bytes([code if chr(code) in ascii_letters else 32 for code in range(256)]).lower()


class UnreadFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The small words of languages that are not read, and of all that are."""

    written: str
    languages: Mapping[str, frozenset[str]]
    read: frozenset[str]


class Unread:
    def __init__(self, file: bytes) -> None:
        self._content = file

    @cached_property
    def _file(self) -> UnreadFile:
        return msgspec.json.decode(self._content, type=UnreadFile)

    def __call__(self, text: str, folded: Folded | None = None) -> bool:
        """Who has it `folded` already spares most texts a closer look."""
        start = text[:_LOOKED_AT]
        if start.isascii():
            said = _words(start) if folded is None else folded.said
            if len(self._small.intersection(said)) < _SHORT.start:
                return False  # as most messages are; nothing else need be looked at
        words = set(_words(start))
        known = self._small & words
        if _has_few_letters(start):
            short = len(words) in _SHORT and known == words
            return short and any(words <= small for small in self._unread.values())
        foreign = len(_FOREIGN.findall(start))
        if foreign and foreign * 2 > _letters(start):
            return True
        if len(known) < _WORDS:
            return False
        read = len(words & self._file.read)
        return any(
            len(known & small) >= _WORDS and len(known & self._unread[language]) > 2 * read
            for language, small in self._file.languages.items()
        )

    @cached_property
    def _small(self) -> frozenset[str]:
        return frozenset().union(*self._file.languages.values())

    @cached_property
    def _unread(self) -> Mapping[str, frozenset[str]]:
        """The small words that no language shares which is read."""
        return {language: small - self._file.read for language, small in self._file.languages.items()}


def _words(text: str) -> list[str]:
    if text.isascii():  # the same in a third of the time
        return text.encode().translate(_LETTERS_ALONE).decode().split()
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


def _has_few_letters(text: str) -> bool:
    if len(text) > _BEGINNING and _letters(text[:_BEGINNING]) >= _LEAST:
        return False
    return _letters(text) < _LEAST


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text))
