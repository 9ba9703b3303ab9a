"""The likely matter of a message, learned from messages of many authors in eleven languages.

- A *field* is a set of words that belong together (a hospital, debts, somebody who no longer answers). Every language fills
  the same fields with its own words, `fields/<code>.json`; `*` leaves the end of a word open.
- A message has features: the fields whose words are in it; whether a field is spoken of the writer or of somebody else (whoever was
  named last before it); the kinds of wordings that were found in it; and what the crisis detector found. What the wordings hide
  (`my phone died`) is no field.
- Each feature speaks for some matters and against others, in all languages alike. `matters.json` says how much;
  `evals.matters` fits it.
- The answer is a ranking. A matter that has a clear lead is likely; a small lead says little, and whoever asks takes care.
- Whether anybody is in danger at all is asked apart (`alarm.json`), by more features: two fields in one sentence, and the words of the
  language by their first letters, alone and side by side; of languages that are written without blanks, two and three characters.
- The words of a language are read when it is first asked for. The work is linear in the message.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, pairwise
from math import sqrt
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity_skills.crisis import CrisisReport
from comity_skills.crisis.folding import fold_phrase, has_unspaced
from comity_skills.crisis.lookup import Lookup, sections_of
from comity_skills.crisis.opinion import CATEGORY as PHRASING
from comity_skills.supportive_reply.wordings import Said
from comity_skills.words.tables import Content, Memo, Weights, weights_of

_READ: Final = 2000  # characters of the folded message
_EVERY: Final = 6  # features that every message counts as having more: a few words prove little
_OPEN: Final = "*"
_JOINED: Final = ("و", "ف", "ب", "ل")  # Arabic: written together with the word that they stand before
_WORD: Final = re.compile(r"[^\W\d_]+")
_STEM: Final = 5  # letters that a word keeps
_PIECES: Final = (2, 3)  # characters
_SHORT: Final = 200  # characters of a message
_A_CHARACTER: Final = 0.2
_MOST_BY_CHANCE: Final = 120
_MOST: Final = 40  # fields of a sentence that are put together
_QUESTION: Final = ("?", "؟", "？")  # noqa: RUF001
_EXCLAMATION: Final = ("!", "！")  # noqa: RUF001
_SIZES: Final = (25, 60, 120, 240)  # characters
_PEOPLE: Final = frozenset(
    (
        "PARTNER", "EX", "MOTHER", "FATHER", "PARENTS", "CHILD", "BABY", "TEEN", "SIBLING", "GRANDPARENT", "INLAWS",
        "RELATIVE", "FRIEND", "NEIGHBOUR", "COLLEAGUE", "BOSS", "TEACHER", "PUPIL", "ROOMMATE", "LANDLORD", "DOCTOR",
        "CARER", "POLICE", "STRANGER", "ONLINE", "OLD", "HESHE", "THEYP",
    )
)  # fmt: skip

_CLOSE: Final = frozenset(
    (
        "PARTNER",
        "EX",
        "MOTHER",
        "FATHER",
        "PARENTS",
        "CHILD",
        "BABY",
        "TEEN",
        "SIBLING",
        "GRANDPARENT",
        "FRIEND",
    )
)
_ACUTE: Final = frozenset(("NOW", "HURRY", "JUMP", "ARMED", "SCREAMS", "NOANSWER"))
_TALK: Final = frozenset(("NOW", "YESTERDAY", "YEARS", "ADVICE", "NEG", "CANT", "WANT", "SAYS", "QUOTE"))

Field = tuple[int, tuple[str, ...]]  # how long a wording is, the fields that it is one of
Hit = tuple[int, int, tuple[str, ...]]  # start, end, fields


class MattersFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`start` and the weights of each feature are in the order of `matters`."""

    fingerprint: str
    matters: tuple[str, ...]
    start: tuple[int, ...]
    weights: Mapping[str, tuple[int, ...]]


class AlarmFile(Struct, frozen=True, forbid_unknown_fields=True):
    """How much each feature speaks for a danger of anybody, and what is added to the sum; how much for each of the `names`, if there
    is one, in their order.
    """

    fingerprint: str
    start: int
    names: tuple[str, ...]
    starts: tuple[int, ...]
    weights: Mapping[str, int]
    kinds: Mapping[str, tuple[int, ...]]


class Likely(NamedTuple):
    """A matter, and how much speaks for it: above zero more than against it."""

    name: str
    weight: float


class Ranking(NamedTuple):
    """The likeliest matter comes first. `fields` are those that tell of something, not only of who and when; `own` those of them
    that are not only spoken of somebody else; `close` says that somebody close to the writer is named. `danger` is how much speaks for a
    danger, of whomever, `dangers` are the matters that it may be, the likeliest first, and `acute` says that it would be now.
    """

    matters: Sequence[Likely]
    fields: frozenset[str]
    own: frozenset[str]
    close: bool
    danger: float
    dangers: Sequence[Likely]
    acute: bool

    @property
    def lead(self) -> float:
        return self.matters[0].weight - self.matters[1].weight

    def lead_over(self, alike: Container[str]) -> float:
        """By how much the likeliest matter leads, those that are like it left out."""
        return self.matters[0].weight - next(one.weight for one in self.matters[1:] if one.name not in alike)


class _Head(Struct, frozen=True):
    """What there is apart from the weights: the names in their order, and what is added."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    start: int = 0


def matters_of(content: bytes) -> dict[str, bytes]:
    """Lay the weights out."""
    file = msgspec.json.decode(content, type=MattersFile)
    head = _Head(file.matters, file.start)
    return {"matters": msgspec.msgpack.encode(head), "matter_weights": weights_of(file.weights)}


def alarm_of(content: bytes) -> dict[str, bytes]:
    """Lay the weights out."""
    file = msgspec.json.decode(content, type=AlarmFile)
    head = _Head(file.names, file.starts, file.start)
    return {
        "alarm": msgspec.msgpack.encode(head),
        "alarm_weights": weights_of(file.weights),
        "kind_weights": weights_of(file.kinds),
    }


def fields_of(content: bytes) -> dict[str, bytes]:
    """Lay the fields of a language out."""
    fields: dict[str, set[str]] = defaultdict(set)
    for name, entries in msgspec.json.decode(content, type=dict[str, tuple[str, ...]]).items():
        for entry in entries:
            words = fold_phrase(entry.rstrip(_OPEN))
            if has_unspaced(words):
                fields[words.replace(" ", "")].add(name)
                continue
            for before in ("", *(_JOINED if "\u0621" <= words[:1] <= "\u064a" else ())):
                fields[f" {before}{words}" if entry.endswith(_OPEN) else f" {before}{words} "].add(name)
    numbers: dict[tuple[str, ...], int] = {}
    patterns = {
        pattern: numbers.setdefault(tuple(sorted(names)), len(numbers)) for pattern, names in fields.items()
    }
    return {"names": msgspec.msgpack.encode(tuple(numbers)), **sections_of(patterns)}


class _Lines:
    """Several lines that were fitted to the same features: for each feature a weight in each of them."""

    def __init__(self, head: _Head, weights: Content) -> None:
        self.names, self.starts, self.start = head.names, head.starts, head.start
        self.weights = Weights(weights)


class Matters:
    def __init__(
        self, section: Callable[[str], Content | None], fields: Callable[[str], Content | None]
    ) -> None:
        """The sections give what `matters_of`, `alarm_of` and, language by language, `fields_of` have laid out."""
        self._section = section
        self._fields_section = fields
        self._fields = Memo(self._fields_in)

    def _lines(self, head: str, weights: str) -> _Lines:
        file = msgspec.msgpack.decode(bytes(self._section(head) or b""), type=_Head)
        return _Lines(file, self._section(weights) or b"")

    @cached_property
    def _matters(self) -> _Lines:
        return self._lines("matters", "matter_weights")

    @cached_property
    def _kinds(self) -> _Lines:
        return self._lines("alarm", "kind_weights")

    @cached_property
    def _alarm(self) -> Weights:
        return Weights(self._section("alarm_weights") or b"")

    def _fields_in(self, language: str) -> Lookup[Field] | None:
        names = self._fields_section(f"names.{language}")
        if names is None:
            return None
        known = msgspec.msgpack.decode(bytes(names), type=tuple[tuple[str, ...], ...])
        return Lookup(
            lambda script: self._fields_section(f"{script}.{language}"),
            lambda number, size, _: (size, known[number]),
        )

    def reads(self, language: str) -> bool:
        return self._fields[language] is not None

    def ranked(self, text: str, said: Said, language: str, report: CrisisReport) -> Ranking:
        found, signs = self.features(text, said, language, report)
        fields = frozenset(filter(_tells, found))
        own = frozenset(name for name in fields if f"I {name}" in found or f"nobody {name}" in found)
        return Ranking(
            _ranked(self._matters.names, self._matters.starts, self._matters.weights.get, found),
            fields,
            own,
            not _CLOSE.isdisjoint(found),
            self._danger(found | signs) - _by_chance(len(text)),
            _ranked(self._kinds.names, self._kinds.starts, self._kinds.weights.get, found | signs),
            not _ACUTE.isdisjoint(found),
        )

    def _danger(self, features: Iterable[str]) -> float:
        return _summed(
            self._kinds.start, [row[0] for row in map(self._alarm.get, features) if row is not None]
        )

    def features(
        self, text: str, said: Said, language: str, report: CrisisReport
    ) -> tuple[set[str], set[str]]:
        """What tells the matter, and what tells with it whether there is a danger."""
        hits = [hit for hit in self._hits(said, language) if not said.is_hidden(*hit[:2], language)]
        found = {*_seen(text, said, language, report), *_spoken(hits, said, language)}
        return found, {*_beside(hits, said), *_words(said.text[:_READ], language)}

    def _hits(self, said: Said, language: str) -> list[Hit]:
        """Without those that lie within a longer one."""
        fields = self._fields[language]
        found = () if fields is None else fields.find(said.folded)
        hits = [(last + 1 - size, last + 1, names) for last, (size, names) in found if last < _READ]
        kept: list[Hit] = []
        for hit in sorted(hits, key=lambda one: (one[0], -one[1])):
            if not kept or hit[1] > kept[-1][1]:
                kept.append(hit)
            elif hit[:2] == kept[-1][:2]:
                kept[-1] = (*hit[:2], kept[-1][2] + hit[2])
        return kept


def _spoken(hits: Sequence[Hit], said: Said, language: str) -> Iterator[str]:
    persons = [(mark.start, "I") for mark in said.marks(language).get("self", ())]
    persons += [(start, "other") for start, _, names in hits if not _PEOPLE.isdisjoint(names)]
    persons.sort()
    starts = [start for start, _ in persons]
    yield f"first {persons[0][1] if persons else 'nobody'}"
    if not any(person == "other" for _, person in persons):
        yield "nobody else"
    for start, _, names in hits:
        at = bisect_left(starts, start)
        person = persons[at - 1][1] if at else "nobody"
        for name in names:
            yield name
            if name not in _PEOPLE:
                yield f"{person} {name}"


def _beside(hits: Sequence[Hit], said: Said) -> Iterator[str]:
    """Each two fields of a sentence."""
    sentences: dict[int, set[str]] = defaultdict(set)
    for start, _, names in hits:
        sentences[said.sentence_at(start)].update(names)
    for fields in sentences.values():
        yield from map("&".join, combinations(sorted(fields)[:_MOST], 2))


def _words(text: str, language: str) -> Iterator[str]:
    runs = _WORD.findall(text)
    if any(map(has_unspaced, runs)):
        for run in runs:
            for size in _PIECES:
                yield from (f"{language}:{run[at : at + size]}" for at in range(len(run) - size + 1))
        return
    stems = [run[:_STEM] if len(run) > _STEM + 1 else run for run in runs]
    yield from (f"{language}:{stem}" for stem in stems)
    yield from (f"{language}:{one} {other}" for one, other in pairwise(stems))


def danger_in(file: AlarmFile, features: Iterable[str]) -> float:
    return _summed(file.start, [file.weights[one] for one in features if one in file.weights])


def _summed(start: int, weights: Sequence[int]) -> float:
    return start + sum(weights) / breadth_of(len(weights))


def _by_chance(size: int) -> float:
    """What speaks for a danger in a long text without one: most messages that were learned from are short."""
    return min(max(size - _SHORT, 0) * _A_CHARACTER, _MOST_BY_CHANCE)


def dangers_in(file: AlarmFile, features: Iterable[str]) -> list[Likely]:
    return _ranked(file.names, file.starts, file.kinds.get, features)


def likeliest(file: MattersFile, features: Iterable[str]) -> list[Likely]:
    """All matters, the likeliest first."""
    return _ranked(file.matters, file.start, file.weights.get, features)


def _ranked(
    names: Sequence[str],
    starts: Sequence[int],
    weights: Callable[[str], tuple[int, ...] | None],
    features: Iterable[str],
) -> list[Likely]:
    known = [row for row in map(weights, features) if row is not None]
    breadth = breadth_of(len(known))
    sums = map(sum, zip(*known, strict=True)) if known else [0] * len(names)
    weighed = [total / breadth + start for total, start in zip(sums, starts, strict=True)]
    return sorted(map(Likely, names, weighed), key=lambda one: -one.weight)


def _tells(feature: str) -> bool:
    return feature.isalpha() and feature.isupper() and feature not in _PEOPLE and feature not in _TALK


def breadth_of(features: int) -> float:
    """What the weights of a message are divided by: in a longer one more comes together by chance."""
    return sqrt(features + _EVERY)


def _seen(text: str, said: Said, language: str, report: CrisisReport) -> Iterator[str]:
    """What neither words nor fields tell."""
    yield from (f"={name}" for name, marks in said.marks(language).items() if marks)
    stripped = text.rstrip()
    if stripped.endswith(_QUESTION):
        yield "=asks"
    if stripped.endswith(_EXCLAMATION):
        yield "=exclaims"
    if any(map(str.isdigit, text)):
        yield "=numbers"
    yield f"=size {sum(len(stripped) > size for size in _SIZES)}"
    for signal in report.signals:
        if signal.category != PHRASING:  # the phrasing is learned from the same messages
            yield f"={'told' if signal.lowered else 'signal'} {signal.category}"
    yield from (f"=danger {danger.kind} {danger.subject}" for danger in report.dangers)
