"""Who else is in danger: another person who may die now, violence against the writer, harm to a child.

- Another person is in immediate danger when a person of the writer's life, what that person does or suffers, and a
  sign that it is now stand near each other. The past, a story or a joke nearby speaks against it.
- Violence against the writer and harm to a child are said in phrases of their own.
- The phrases are data (`danger.json`), `{a|b}` stands for either. All languages are looked up in one pass over the
  folded text; the work is linear in it.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from comity.skills.crisis.folding import Folded, fold_phrase, has_unspaced
from comity.skills.crisis.lexicon import expand
from comity.skills.crisis.lookup import Lookup
from comity.skills.crisis.report import Danger, Kind

_REACH = 220  # characters in which things say something together, and fewer where one says more
_UNSPACED_REACH = 80
_UNSPACED = frozenset({"zh", "ja", "ko"})
_MOST = 8  # dangers in one report
_OF_OTHERS = frozenset({"act", "body", "violence"})
_TELLING = _OF_OTHERS | {"self_violence", "child"}
_COMMON = frozenset(
    {"the", "about", "going", "will", "over", "to", "do", "all", "be", "it", "me", "her", "him", "them", "us"}
)
_END = attrgetter("end")
_OF_THE_WRITER: tuple[tuple[str, Kind], ...] = (("self_violence", "violence"), ("child", "child"))


class DangerFile(Struct, frozen=True, forbid_unknown_fields=True):
    written: str
    languages: Mapping[str, Mapping[str, tuple[str, ...]]]


class _Hit(NamedTuple):
    start: int
    end: int


_Hits = Mapping[str, Sequence[_Hit]]  # by the class of the phrase


class Dangers:
    def __init__(self, file: bytes) -> None:
        self._content = file

    @cached_property
    def _meanings(self) -> Mapping[str, set[tuple[str, str]]]:
        """The language and the class of each pattern."""
        meanings: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for language, classes in msgspec.json.decode(self._content, type=DangerFile).languages.items():
            for name, phrases in classes.items():
                for wording in (one for phrase in phrases for one in expand(phrase)):
                    for pattern in _patterns(fold_phrase(wording), language):
                        meanings[pattern].add((language, name))
        return meanings

    @cached_property
    def _telling(self) -> Lookup[None]:
        """The patterns without which there is nothing to tell: most texts have none."""
        return Lookup(
            {
                pattern: None
                for pattern, found in self._meanings.items()
                if any(name in _TELLING for _, name in found)
            }
        )

    @cached_property
    def _all(self) -> Lookup[tuple[int, Sequence[tuple[str, str]]]]:
        return Lookup(
            {pattern: (len(pattern), tuple(sorted(found))) for pattern, found in self._meanings.items()}
        )

    @cached_property
    def _rare_words(self) -> tuple[frozenset[str], ...]:
        """Of each pattern its longest word that says something: a text without them has none of the patterns. First those
        of all telling patterns, then those of other persons and of what is done to the writer.
        """
        return tuple(
            frozenset(
                max(pattern.split(), key=lambda word: (word not in _COMMON, len(word)))
                for pattern, found in self._meanings.items()
                if any(name in names for _, name in found) and not has_unspaced(pattern)
            )
            for names in (_TELLING, (_TELLING - _OF_OTHERS) | {"person"})
        )

    def find(self, folded: Folded) -> tuple[Danger, ...]:
        if not folded.unspaced:
            words = folded.words
            telling, of_whom = self._rare_words
            if telling.isdisjoint(words) or of_whom.isdisjoint(words):
                return ()
        if not self._telling.finds(folded):
            return ()
        by_language: dict[str, dict[str, list[_Hit]]] = {}
        for last, (length, found) in self._all.find(folded):
            hit = _Hit(last + 1 - length, last + 1)
            for language, name in found:
                by_language.setdefault(language, {}).setdefault(name, []).append(hit)
        dangers = [
            danger
            for language, hits in by_language.items()
            for danger in _Reader(language, hits, folded).read()
        ]
        return tuple(sorted(dangers, key=lambda one: one.span)[:_MOST])


def _patterns(words: str, language: str) -> tuple[str, ...]:
    """How the folded words stand in a folded text. Arabic writes its "and" together with the next word."""
    if has_unspaced(words):
        return (words.replace(" ", ""),)
    return (f" {words} ", f" و{words} ") if language == "ar" else (f" {words} ",)


class _Reader:
    """Reads what stands around the hits of one language."""

    def __init__(self, language: str, hits: _Hits, folded: Folded) -> None:
        self._language = language
        self._hits = hits
        self._folded = folded
        self._reach = _UNSPACED_REACH if language in _UNSPACED else _REACH

    def read(self) -> Iterator[Danger]:
        """At most one of each sort."""
        for name, kind in _OF_THE_WRITER:
            hit = next((one for one in self._hits.get(name, ()) if self._is_now(one)), None)
            if hit is not None:
                yield self._danger(kind, "self", hit)
        for name in ("body", "violence", "act"):
            hit = next((one for one in self._hits.get(name, ()) if self._is_of_another(name, one)), None)
            if hit is not None:
                yield self._danger(self._kind(name, hit), "other", hit)

    def _is_of_another(self, name: str, hit: _Hit) -> bool:
        said = self._near("person", hit) and self._is_now(hit)
        return said and (name != "act" or self._near("now", hit))

    def _is_now(self, hit: _Hit) -> bool:
        return not (self._near("past", hit) or self._near("frame", hit))

    def _kind(self, name: str, hit: _Hit) -> Kind:
        if name == "violence":
            return "violence"
        return "overdose" if name == "body" and self._near("overdose", hit) else "suicide"

    def _near(self, name: str, hit: _Hit) -> bool:
        low, high = hit.start - self._reach, hit.end + self._reach
        hits = self._hits.get(name, ())  # in the order of their ends
        at = bisect_right(hits, high, key=_END) - 1
        while at >= 0 and hits[at].end > low:
            if hits[at].start >= low:
                return True
            at -= 1
        return False

    def _danger(self, kind: Kind, subject: Literal["self", "other"], hit: _Hit) -> Danger:
        text = self._folded.text
        start, end = hit.start + (text[hit.start] == " "), hit.end - (text[hit.end - 1] == " ")
        return Danger(
            kind=kind,
            subject=subject,
            span=self._folded.span(start, end),
            language=self._language,
            weapon=self._near("weapon", hit),
        )
