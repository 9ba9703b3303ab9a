"""The likely matter of a message, learned from messages of many authors in eleven languages.

- A *field* is a set of words that belong together (a hospital, debts, somebody who no longer answers). Every language fills
  the same fields with its own words, `fields/<code>.json`; `*` leaves the end of a word open.
- A message has features: the fields whose words are in it; whether a field is spoken of the writer or of somebody else (whoever was
  named last before it); the kinds of wordings that were found in it; and what the crisis detector found. What the wordings hide
  (`my phone died`) is no field.
- Each feature speaks for some matters and against others, in all languages alike. `matters.json` says how much;
  `evals.matters` fits it.
- The answer is a ranking. A matter that has a clear lead is likely; a small lead says little, and whoever asks takes care.
- The words of a language are read when it is first asked for. The work is linear in the message.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import sqrt
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity.skills.crisis import CrisisReport
from comity.skills.crisis.folding import fold_phrase, has_unspaced
from comity.skills.crisis.lookup import Find, finder
from comity.skills.crisis.opinion import CATEGORY as PHRASING
from comity.skills.supportive_reply.wordings import Said

_READ: Final = 2000  # characters of the folded message
_EVERY: Final = 6  # features that every message counts as having more: a few words prove little
_OPEN: Final = "*"
_JOINED: Final = ("و", "ف", "ب", "ل")  # Arabic: written together with the word that they stand before
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
_TALK: Final = frozenset(("NOW", "YESTERDAY", "YEARS", "ADVICE", "NEG", "CANT", "WANT", "SAYS", "QUOTE"))

Hit = tuple[int, int, tuple[str, ...]]  # start, end, fields


class MattersFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`start` and the weights of each feature are in the order of `matters`."""

    fingerprint: str
    matters: tuple[str, ...]
    start: tuple[int, ...]
    weights: Mapping[str, tuple[int, ...]]


class Likely(NamedTuple):
    """A matter, and how much speaks for it: above zero more than against it."""

    name: str
    weight: float


class Ranking(NamedTuple):
    """The likeliest matter comes first. `fields` are those that tell of something, not only of who and when; `own` those of them
    that are not only spoken of somebody else; `close` says that somebody close to the writer is named.
    """

    matters: Sequence[Likely]
    fields: frozenset[str]
    own: frozenset[str]
    close: bool

    @property
    def lead(self) -> float:
        return self.matters[0].weight - self.matters[1].weight

    def lead_over(self, alike: Container[str]) -> float:
        """By how much the likeliest matter leads, those that are like it left out."""
        return self.matters[0].weight - next(one.weight for one in self.matters[1:] if one.name not in alike)


class Matters:
    def __init__(self, file: bytes, fields: Mapping[str, bytes]) -> None:
        self._content = file
        self._fields = fields
        self._finders: dict[str, Find[tuple[int, tuple[str, ...]]]] = {}

    @cached_property
    def _file(self) -> MattersFile:
        return msgspec.json.decode(self._content, type=MattersFile)

    def reads(self, language: str) -> bool:
        return language in self._fields

    def ranked(self, text: str, said: Said, language: str, report: CrisisReport) -> Ranking:
        found = self.features(text, said, language, report)
        fields = frozenset(filter(_tells, found))
        own = frozenset(name for name in fields if f"I {name}" in found or f"nobody {name}" in found)
        return Ranking(likeliest(self._file, found), fields, own, not _CLOSE.isdisjoint(found))

    def features(self, text: str, said: Said, language: str, report: CrisisReport) -> set[str]:
        return {*_seen(text, said, language, report), *self._spoken(said, language)}

    def _spoken(self, said: Said, language: str) -> Iterator[str]:
        hits = [
            hit for hit in self._hits(said.text[:_READ], language) if not said.is_hidden(*hit[:2], language)
        ]
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

    def _hits(self, text: str, language: str) -> list[Hit]:
        """Without those that lie within a longer one."""
        if language not in self._finders:
            self._finders[language] = _finder_of(self._fields[language])
        hits = [(last + 1 - size, last + 1, names) for last, (size, names) in self._finders[language](text)]
        kept: list[Hit] = []
        for hit in sorted(hits, key=lambda one: (one[0], -one[1])):
            if not kept or hit[1] > kept[-1][1]:
                kept.append(hit)
            elif hit[:2] == kept[-1][:2]:
                kept[-1] = (*hit[:2], kept[-1][2] + hit[2])
        return kept


def likeliest(file: MattersFile, features: Iterable[str]) -> list[Likely]:
    """All matters, the likeliest first."""
    known = [file.weights[one] for one in features if one in file.weights]
    breadth = breadth_of(len(known))
    sums = map(sum, zip(*known, strict=True)) if known else [0] * len(file.matters)
    weighed = [total / breadth + start for total, start in zip(sums, file.start, strict=True)]
    return sorted(map(Likely, file.matters, weighed), key=lambda one: -one.weight)


def _tells(feature: str) -> bool:
    return feature.isalpha() and feature.isupper() and feature not in _PEOPLE and feature not in _TALK


def breadth_of(features: int) -> float:
    """What the weights of a message are divided by: in a longer one more comes together by chance."""
    return sqrt(features + _EVERY)


def _finder_of(file: bytes) -> Find[tuple[int, tuple[str, ...]]]:
    fields: dict[str, set[str]] = defaultdict(set)
    for name, entries in msgspec.json.decode(file, type=dict[str, tuple[str, ...]]).items():
        for entry in entries:
            words = fold_phrase(entry.rstrip(_OPEN))
            if has_unspaced(words):
                fields[words.replace(" ", "")].add(name)
                continue
            for before in ("", *(_JOINED if "\u0621" <= words[:1] <= "\u064a" else ())):
                fields[f" {before}{words}" if entry.endswith(_OPEN) else f" {before}{words} "].add(name)
    return finder({pattern: (len(pattern), tuple(sorted(names))) for pattern, names in fields.items()})


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
