"""Languages: which tags exist, and in which language a text is written.

A tag is judged by its first part alone, as the ACT rules do: it has to be a registered language. The language
of a text is told by its script, or by the small words of a language; where these do not clearly agree on one
language there is no answer.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

LETTERS = 4_000

_WORD = re.compile(r"[^\W\d_]+")
_KIN = ({"nb", "no", "nn", "da"}, {"id", "ms"}, {"he", "iw"}, {"yi", "ji"}, {"hr", "sr", "bs", "sh"})
_CLEAR_SHARE = 0.2
_CLEAR_LEAD = 1.5
_REPEATED = 3  # a label that recurs on every line is no more telling than one that stands thrice


class Languages(Struct, frozen=True):
    subtags: frozenset[str]
    words: Mapping[str, frozenset[str]]
    scripts: Mapping[str, frozenset[str]]

    def known(self, tag: str) -> bool:
        """Whether the first part of a tag is a language."""
        return primary(tag) in self.subtags

    def speaks(self, text: str) -> frozenset[str]:
        """The languages a text may be in; none when it cannot be told."""
        letters = text[:LETTERS]
        by_script = self._by_script(letters)
        if by_script is not None:
            return by_script
        return self._by_words(letters)

    def _by_script(self, text: str) -> frozenset[str] | None:
        found: Counter[str] = Counter()
        for letter in text:
            if letter.isalpha():
                found[unicodedata.name(letter, "").split(" ")[0]] += 1
        total = sum(found.values())
        if not total:
            return frozenset()
        if found["HIRAGANA"] + found["KATAKANA"] > total * 0.1:
            return self.scripts["HIRAGANA"]
        script, count = found.most_common(1)[0]
        if script == "LATIN":
            return None
        return self.scripts.get(script, frozenset()) if count > total * 0.6 else frozenset()

    def _by_words(self, text: str) -> frozenset[str]:
        counted = Counter(_WORD.findall(text.lower()))
        found = [word for word, times in counted.items() for _ in range(min(times, _REPEATED))]
        if not found:
            return frozenset()
        hits = {language: sum(word in common for word in found) for language, common in self.words.items()}
        ranked = sorted(hits, key=lambda language: -hits[language])
        best = ranked[0]
        rival = next((hits[other] for other in ranked[1:] if not related(best, other)), 0)
        if len({word for word in found if word in self.words[best]}) < 2 or (
            hits[best] < max(len(found) * _CLEAR_SHARE, rival * _CLEAR_LEAD)
        ):
            return frozenset()
        return frozenset(other for other in ranked if other == best or related(best, other))


def primary(tag: str) -> str:
    return tag.strip().lower().replace("_", "-").split("-")[0]


def related(one: str, other: str) -> bool:
    """Whether two languages are too close to be told apart here."""
    return one == other or any(one in kin and other in kin for kin in _KIN)


def read_languages(subtags: bytes, words: bytes) -> Languages:
    registered = json.loads(subtags)
    known = set(registered["two"].split())
    for group in registered["three"].values():
        known.update(group.split())
    profile = json.loads(words)
    return Languages(
        frozenset(known),
        {language: frozenset(text.split()) for language, text in profile["words"].items()},
        {script: frozenset(names) for script, names in profile["scripts"].items()},
    )
