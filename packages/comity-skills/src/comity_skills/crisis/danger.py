"""Who else is in danger: another person who may die now, violence against the writer, harm to a child.

- Another person is in immediate danger when a person of the writer's life, what that person does or suffers, and a
  sign that it is now stand near each other. The past, a story or a joke nearby speaks against it.
- To have taken all or too much of something is a danger where the next words name a drug or a
  poison, unless a doctor prescribed it so.
- Violence against the writer and harm to a child are said in phrases of their own.
- Much that hurts is said with words of harmless things, too. It is violence where a person of the writer's home stands
  nearby, unless it is in play, or long ago and no more since.
- Harm to a child or an old person (`frail`) is likely, not certain, where what is done to them (`harmed`) stands nearby, or
  two of the signs that each may have another reason (`neglected`: bruises, thirst, the same clothes for days); so is
  that somebody touches a child.
- Who has swallowed a battery or a magnet needs help at once; it is somebody else unless the writer says "I".
- Violence by which the writer nearly died (`deadly` stands nearby) raises the risk.
- A phrase that goes on harmlessly ("kicked me out of the chat") says nothing.
- The phrases are data (`danger.json`), `{a|b}` stands for either. All languages are looked up in one pass over the
  folded text; the work is linear in it.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity_skills.crisis.folding import Folded, fold_phrase, has_unspaced
from comity_skills.crisis.lexicon import expand
from comity_skills.crisis.lookup import Lookup, sections_of
from comity_skills.crisis.report import Danger, Kind
from comity_skills.words.tables import Content

_REACH = 220  # characters in which things say something together, and fewer where one says more
_UNSPACED_REACH = 80
_NEXT = 40  # characters within which what was taken is named
_UNSPACED_NEXT = 25
_UNSPACED = frozenset({"zh", "ja", "ko"})
_UNSAID = _UNSPACED | {"ar"}  # languages whose verbs do not tell who took something
_JUST_BEFORE = 12  # characters in which it is said who it was
_LONGEST_REST = 30  # characters of a harmless phrase after what may hurt
_MOST = 8  # dangers in one report
_OF_OTHERS = frozenset({"act", "body", "taken", "violence", "harmed", "neglected"})
_ALONE = frozenset({"swallowed"})  # says by itself whose danger it is
_TELLING = _OF_OTHERS | _ALONE | {"self_violence", "hurt", "child", "touched"}
_END = attrgetter("end")
_ARTICLES = frozenset({"die"})  # German, and telling in English
_LOOKED_FOR = (_TELLING, (_TELLING - _OF_OTHERS) | {"person", "frail"})
_OF_THE_WRITER: tuple[tuple[str, Kind], ...] = (("self_violence", "violence"), ("child", "child"))


class DangerFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`common` are words that nearly every text has."""

    written: str
    common: tuple[str, ...]
    languages: Mapping[str, Mapping[str, tuple[str, ...]]]


class _Hit(NamedTuple):
    start: int
    end: int


_Hits = Mapping[str, Sequence[_Hit]]  # by the class of the phrase


_Found = tuple[tuple[str, str], ...]
"""The languages of a pattern, each with the class that it has there."""


class _Known(Struct, frozen=True):
    """What the patterns may tell, by their numbers; and the words of `_rare_words`."""

    found: tuple[_Found, ...]
    rare: tuple[frozenset[str], frozenset[str]]


def dangers_of(content: bytes) -> dict[str, bytes]:
    """Lay the phrases out."""
    file = msgspec.json.decode(content, type=DangerFile)
    meanings: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for language, classes in file.languages.items():
        for name, phrases in classes.items():
            for wording in (one for phrase in phrases for one in expand(phrase)):
                for pattern in _patterns(fold_phrase(wording), language):
                    meanings[pattern].add((language, name))
    numbers: dict[_Found, int] = {}
    patterns = {
        pattern: numbers.setdefault(tuple(sorted(found)), len(numbers)) for pattern, found in meanings.items()
    }
    known = {"found": tuple(numbers), "rare": _rare_words(meanings, frozenset(file.common))}  # as `_Known`
    return {
        "known": msgspec.msgpack.encode(known),
        **{f"patterns.{script}": part for script, part in sections_of(patterns).items()},
    }


def _rare_words(
    meanings: Mapping[str, set[tuple[str, str]]], common: frozenset[str]
) -> tuple[list[str], list[str]]:
    """Of each pattern its longest word that says something: a text without them has none of the patterns. First those
    of all telling patterns, then those of other persons and of what is done to the writer.
    """
    rare: tuple[set[str], set[str]] = (set(), set())
    for pattern, found in meanings.items():
        names = {name for _, name in found}
        sides = [side for side, some in zip(rare, _LOOKED_FOR, strict=True) if not some.isdisjoint(names)]
        if sides and not has_unspaced(pattern):
            words = pattern.split()
            small = common | _ARTICLES if {language for language, _ in found} == {"de"} else common
            word = max([one for one in words if one not in small] or words, key=len)
            for side in sides:
                side.add(word)
    telling, of_whom = map(sorted, rare)
    return telling, of_whom


class Dangers:
    def __init__(self, section: Callable[[str], Content | None]) -> None:
        """`section` gives what `dangers_of` has laid out."""
        self._section = section

    @classmethod
    def of(cls, content: bytes) -> "Dangers":
        """Those that lie in memory."""
        return cls(dangers_of(content).get)

    @cached_property
    def _known(self) -> _Known:
        return msgspec.msgpack.decode(bytes(self._section("known") or b""), type=_Known)

    @cached_property
    def _all(self) -> Lookup[tuple[int, _Found]]:
        found = self._known.found
        return Lookup(
            lambda script: self._section(f"patterns.{script}"),
            lambda number, size, _: (size, found[number]),
        )

    def is_urgent(self, folded: Folded, language: str, span: tuple[int, int]) -> bool:
        """Whether a time close by, or means at hand, are told near there, in that language."""
        low, high = span[0] - _REACH, span[1] + _REACH
        for last, (length, found) in self._all.find(folded):
            if (language, "urgent") in found:
                start, end = _span(_Hit(last + 1 - length, last + 1), folded)
                if low <= start and end <= high:
                    return True
        return False

    def find(self, folded: Folded) -> tuple[Danger, ...]:
        if not folded.unspaced:
            telling, of_whom = self._known.rare
            if telling.isdisjoint(folded.said) or of_whom.isdisjoint(folded.said):
                return ()
        hits = self._all.find(folded)
        if not any(name in _TELLING for _, (_, found) in hits for _, name in found):
            return ()  # as of most texts
        by_language: dict[str, dict[str, list[_Hit]]] = {}
        for last, (length, found) in hits:
            hit = _Hit(last + 1 - length, last + 1)
            for language, name in found:
                by_language.setdefault(language, {}).setdefault(name, []).append(hit)
        dangers = [
            danger
            for language, own in by_language.items()
            for danger in _Reader(language, own, folded).read()
        ]
        return tuple(sorted(dangers, key=lambda one: one.span)[:_MOST])


def _patterns(words: str, language: str) -> tuple[str, ...]:
    """How the folded words stand in a folded text. Arabic writes its "and" together with the next word."""
    if has_unspaced(words):
        return (words.replace(" ", ""),)
    return (f" {words} ", f" و{words} ") if language == "ar" else (f" {words} ",)


def _span(hit: _Hit, folded: Folded) -> tuple[int, int]:
    """Where it stands in the text as it was given, without the blanks around it."""
    text = folded.text
    return folded.span(hit.start + (text[hit.start] == " "), hit.end - (text[hit.end - 1] == " "))


class _Reader:
    """Reads what stands around the hits of one language."""

    def __init__(self, language: str, hits: _Hits, folded: Folded) -> None:
        self._language = language
        self._hits = hits
        self._folded = folded
        self._reach = _UNSPACED_REACH if language in _UNSPACED else _REACH
        self._next = _UNSPACED_NEXT if language in _UNSPACED else _NEXT

    def read(self) -> Iterator[Danger]:
        """At most one of each sort. What is done to a child or an old person is not done to the writer."""
        touched = self._first("touched", self._is_touch)
        harmed = self._first("harmed", self._is_of_the_frail) or self._first("neglected", self._is_neglect)
        theirs = [hit for hit in (touched, harmed) if hit is not None]
        for name, kind in _OF_THE_WRITER:
            hit = next((one for one in self._hits.get(name, ()) if self._is_of_the_writer(name, one)), None)
            if hit is None and kind == "violence":
                hit = next((one for one in self._hits.get("hurt", ()) if self._is_done_at_home(one)), None)
            if hit is not None and not any(one.start < hit.end and hit.start < one.end for one in theirs):
                yield replace(self._danger(kind, "self", hit), deadly=self._near("deadly", hit))
        for name in ("body", "taken", "violence", "act"):
            hit = next((one for one in self._hits.get(name, ()) if self._is_of_another(name, one)), None)
            if hit is not None:
                yield self._danger(self._kind(name, hit), "other", hit)
        swallowed = self._first("swallowed", self._is_swallowed_by_another)
        if swallowed is not None:
            yield replace(self._danger("body", "other", swallowed), swallowed=True)
        if touched is not None:
            yield self._danger("child", "other", touched, certain=False)
        if harmed is not None:
            yield self._danger("violence", "other", harmed, certain=False)

    def _first(self, name: str, holds: Callable[[_Hit], bool]) -> _Hit | None:
        return next((hit for hit in self._hits.get(name, ()) if holds(hit)), None)

    def _is_touch(self, hit: _Hit) -> bool:
        """Where a language leaves out who is touched, somebody is named before who touches; else it is the writer."""
        half = self._reach // 2
        before = _Hit(hit.start - half, hit.start - half)
        named = self._language not in _UNSPACED or self._near("frail", before, half)
        return named and self._is_now(hit)

    def _is_of_the_frail(self, hit: _Hit) -> bool:
        return self._near("frail", hit) and self._is_now(hit) and not self._near("play", hit)

    def _is_neglect(self, hit: _Hit) -> bool:
        """Whether another sign follows: one alone may have another reason."""
        hits = self._hits["neglected"]
        at = bisect_right(hits, hit.end, key=_END)
        while at < len(hits) and hits[at].end <= hit.end + self._reach:
            if hits[at].start >= hit.end - 1:
                return self._is_of_the_frail(hit)
            at += 1
        return False

    def _is_of_the_writer(self, name: str, hit: _Hit) -> bool:
        return self._is_now(hit) and not (name == "self_violence" and self._near("play", hit))

    def _is_of_another(self, name: str, hit: _Hit) -> bool:
        if not self._near("person", hit) or not self._is_now(hit):
            return False
        if name == "taken":
            return self._is_overdose(hit)
        return name != "act" or self._near("now", hit)

    def _is_swallowed_by_another(self, hit: _Hit) -> bool:
        return self._is_now(hit) and not self._near("own", hit, _JUST_BEFORE)

    def _is_overdose(self, hit: _Hit) -> bool:
        """Of something that harms, not as prescribed, and not the writer's own, whose words are read elsewhere."""
        if not self._near("overdose", hit, self._next) or self._near("prescribed", hit):
            return False
        if self._language in _UNSAID and not self._near("person", hit, self._next):
            return False
        return not self._near("own", hit, self._next)

    def _is_done_at_home(self, hit: _Hit) -> bool:
        if not self._near("home", hit) or self._near("play", hit) or self._goes_on_harmlessly(hit):
            return False
        return self._near("recent", hit) or not self._near("long_ago", hit)

    def _goes_on_harmlessly(self, hit: _Hit) -> bool:
        """Whether the phrase is, or ends as, the beginning of a harmless one."""
        hits = self._hits.get("harmless", ())
        at = bisect_left(hits, hit.end, key=_END)
        while at < len(hits) and hits[at].end <= hit.end + _LONGEST_REST:
            if hits[at].start < hit.end - 1:
                return True
            at += 1
        return False

    def _is_now(self, hit: _Hit) -> bool:
        return not (self._near("past", hit) or self._near("frame", hit) or self._goes_on_harmlessly(hit))

    def _kind(self, name: str, hit: _Hit) -> Kind:
        if name == "violence":
            return "violence"
        if name == "taken" or (name == "body" and self._near("overdose", hit)):
            return "overdose"
        return "body" if name == "body" and not self._near("act", hit) else "suicide"

    def _near(self, name: str, hit: _Hit, reach: int | None = None) -> bool:
        reach = self._reach if reach is None else reach
        low, high = hit.start - reach, hit.end + reach
        hits = self._hits.get(name, ())  # in the order of their ends
        at = bisect_right(hits, high, key=_END) - 1
        while at >= 0 and hits[at].end > low:
            if hits[at].start >= low:
                return True
            at -= 1
        return False

    def _danger(
        self, kind: Kind, subject: Literal["self", "other"], hit: _Hit, *, certain: bool = True
    ) -> Danger:
        return Danger(
            kind=kind,
            subject=subject,
            span=_span(hit, self._folded),
            language=self._language,
            weapon=self._near("weapon", hit),
            certain=certain,
        )
