"""How a sentence may be read by the person it is written to, learned from messages and copy of many authors.

- Rules know wordings. Most of what hurts has no rude word in it and was never written like that before: of sentences of
  authors who had seen no rule the rules find an eighth.
- A sentence has features: its words without their endings, pairs of words that stand side by side or with one or two between
  them, and the classes of its words (`tone_words.json`: what is said again, what is called easy, who is blamed), alone, in pairs
  and beside the words next to them.
- Each feature speaks for or against hurt, and what stands around a sentence does so a little, too: who is curt once is curt
  again. Where together they come to enough, the kind is the one that the features speak for most. `evals.tone` fits the
  weights, `tone.json`.
- It is likely, never sure. So it flags with low severity, and only where no rule has said anything; a sentence that is
  quoted is somebody else's.
- English alone. The work is linear in the text, and no more than the first sentences of a very long one are read.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice, pairwise
from math import sqrt
from typing import Final

import msgspec
from msgspec import Struct

from comity_skills.editing import TONE_WORDS
from comity_skills.editing.passage import Passage, Span, fold
from comity_skills.editing.rules import Finding
from comity_skills.prepared import once
from comity_skills.words.tables import Content, Weights, weights_of

LEARNED: Final = "tone"

_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[!?%$£€]")
_TYPED: Final = {
    "u": "you", "ur": "your", "r": "are", "pls": "please", "plz": "please", "thx": "thanks", "bc": "because", "cuz": "because",
    **{
        word.replace("'", ""): word
        for word in (
            "you're", "you've", "you'll", "i'm", "i've", "he's", "she's", "they're", "that's", "what's", "there's", "don't",
            "doesn't", "didn't", "can't", "won't", "isn't", "aren't", "wasn't", "haven't", "hasn't", "shouldn't", "couldn't",
            "wouldn't",
        )
    },
}  # fmt: skip
"""What people type for it."""
_JOINS: Final = re.compile(r"^[\s,;:]*(?:(?:and|but|so|or|because)\s+)?", re.IGNORECASE)
_ENDINGS: Final = ("ing", "ed", "ly", "es", "s")
_STEM: Final = 4  # letters that a word keeps
_APART: Final = 3  # how far apart the words of a pair may stand
_LONGEST: Final = 4  # words of an entry
_OF_ILLNESS: Final = frozenset(("stigma", "willpower", "cure", "no_hope"))
_ILL: Final = frozenset(
    (
        "ILLNESS", "ILL_PEOPLE_SLUR", "SUICIDE", "COMMIT", "TREATMENT", "AGAINST_TREATMENT", "CURE", "NORMAL_PEOPLE", "WILL",
        "WEAK_ILL", "DANGEROUS", "NO_HOPE", "PEACE_DEATH",
    )
)  # fmt: skip
"""The classes of illness, as people speak of it."""
_NEXT: Final = 12  # classes that are looked at after one
_READ: Final = 60  # words of a sentence
_LETTERS: Final = 24  # of a word
_SENTENCES: Final = 400  # of a text: who has more to send reads it part by part
_EVERY: Final = 6  # features that every sentence counts as having more: a few words prove little
_AROUND: Final = 3  # sentences on each side
_SHARE: Final = 0.2  # of the worst of them that counts
_ALONE: Final = -100  # for a sentence with none around it
_LEAST_REST: Final = 4  # blanks in what is left of a sentence
_MOST: Final = 20  # sentences that are flagged in a text


class Advice(Struct, frozen=True):
    reason: str
    alternative: str


ADVICE: Final[Mapping[str, Advice]] = {
    "reproach": Advice(
        "May be read as a reproach: it holds against the reader what went wrong.",
        "(say what happened and what is needed now, or how it was for you)",
    ),
    "fed_up": Advice(
        "The reader will hear anger or disappointment first, and what is needed second.",
        "(say how it is for you, and what you would like instead)",
    ),
    "belittling": Advice(
        "May make the reader small, or what is hard for them.",
        "(leave it out, or ask what is hard about it)",
    ),
    "contempt": Advice(
        "May be read as a judgement on a person, or as mockery.",
        "(say what happened and what is needed, or leave it out)",
    ),
    "brush_off": Advice(
        "May be read as turning somebody away who asked for something.",
        "(say what can be done, or who can help)",
    ),
    "pressure": Advice(
        "May push the reader by guilt, threat or hurry.",
        "(say what is asked, by when, and what choice there is)",
    ),
    "cold_news": Advice(
        "Hard news that stands here without a word of care.",
        "(say that it is hard, what comes next, and who can be asked)",
    ),
    "stigma": Advice(
        "May speak of people with an illness as of a lower or dangerous kind.",
        "(name the person first, and the illness only where it matters)",
    ),
    "willpower": Advice(
        "May tell somebody who is ill that it is a matter of will or attitude.",
        "(leave it out, or say which help there is)",
    ),
    "cure": Advice(
        "May promise more than can be kept, or speak against treatment.",
        "(say what it may help with, and that it does not replace treatment)",
    ),
    "no_hope": Advice(
        "May take hope from a reader who has little, or make death look like a way out.",
        "(say that help exists, and where)",
    ),
    "shaming": Advice(
        "May make the reader feel like a failure.",
        "(say where things stand, without blame or comparison)",
    ),
}
"""What is said of each kind."""


class ToneFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence hurts from `limit` on. `kinds` are weights in the order of `names`."""

    fingerprint: str
    limit: float
    start: int
    hurt: Mapping[str, int]
    names: tuple[str, ...]
    starts: tuple[int, ...]
    kinds: Mapping[str, tuple[int, ...]]


class _Head(Struct, frozen=True):
    """What there is apart from the weights."""

    limit: float
    start: int
    names: tuple[str, ...]
    starts: tuple[int, ...]


def tone_of(content: bytes) -> dict[str, bytes]:
    """Lay the weights out."""
    file = msgspec.json.decode(content, type=ToneFile)
    head = _Head(file.limit, file.start, file.names, file.starts)
    return {
        "head": msgspec.msgpack.encode(head),
        "hurt": weights_of(file.hurt),
        "kinds": weights_of(file.kinds),
    }


class Tone:
    def __init__(self, section: Callable[[str], Content | None], words: bytes) -> None:
        """`section` gives what `tone_of` has laid out."""
        self._section = section
        self._words = words

    @cached_property
    def _head(self) -> _Head:
        return msgspec.msgpack.decode(bytes(self._section("head") or b""), type=_Head)

    @cached_property
    def _hurt(self) -> Weights:
        return Weights(self._section("hurt") or b"")

    @cached_property
    def _kinds(self) -> Weights:
        return Weights(self._section("kinds") or b"")

    @cached_property
    def _classes(self) -> "Classes":
        return Classes(self._words)

    def flagged(self, passage: Passage, findings: Iterable[Finding]) -> Iterator[Finding]:
        """The sentences that may hurt. Where something was found in one already, the rest of it is read."""
        sentences = passage.sentences[:_SENTENCES]
        end = sentences[-1][1] if sentences else 0
        taken = sorted((one.start, one.end) for one in findings if one.start < end)
        rests = zip(sentences, _rests(passage.text, sentences, taken), strict=True)
        places = [
            place
            for sentence, place in rests
            if place == sentence or passage.text.count(" ", *place) >= _LEAST_REST
        ]
        kinds = self.kinds([passage.text[start:end] for start, end in places])
        hurtful = (
            (kind, place)
            for kind, place in zip(kinds, places, strict=True)
            if kind and not passage.is_quoted(*place)
        )
        for kind, (start, end) in islice(hurtful, _MOST):
            yield Finding(
                rule=LEARNED,
                category=kind,
                severity="low",
                start=start,
                end=end,
                text=passage.text[start:end],
                reason=ADVICE[kind].reason,
                alternative=ADVICE[kind].alternative,
            )

    def kinds(self, sentences: Sequence[str]) -> list[str]:
        """How each sentence may hurt, or nothing. Of illness only a text speaks that names one."""
        features = list(map(self.features, sentences))
        head, hurts, rows = self._head, self._hurt.get, self._kinds.get
        weights = in_company(
            [_summed(head.start, [row[0] for row in map(hurts, one) if row is not None]) for one in features]
        )
        ill = any(not _ILL.isdisjoint(one) for one in features)
        return [
            _likeliest(head.names, head.starts, map(rows, one), () if ill else _OF_ILLNESS)
            if weight >= head.limit
            else ""
            for weight, one in zip(weights, features, strict=True)
        ]

    def features(self, sentence: str) -> frozenset[str]:
        words = words_of(sentence)
        return frozenset((*_said(words), *self._classes.found(words)))


def tone_reader(data: Mapping[str, bytes]) -> Tone:
    return once(data, "editing/tone", lambda section: Tone(section, data[TONE_WORDS]))


def hurt(file: ToneFile, features: Iterable[str]) -> float:
    return _summed(file.start, [file.hurt[one] for one in features if one in file.hurt])


def _summed(start: int, weights: Sequence[int]) -> float:
    return start + sum(weights) / breadth_of(len(weights))


def kind_of(file: ToneFile, features: Iterable[str]) -> str:
    """The likeliest kind."""
    return _likeliest(file.names, file.starts, map(file.kinds.get, features), ())


def _likeliest(
    names: Sequence[str],
    starts: Sequence[int],
    rows: Iterable[tuple[int, ...] | None],
    without: Container[str],
) -> str:
    """The likeliest kind, some left out."""
    known = [row for row in rows if row is not None]
    sums: Iterable[int] = map(sum, zip(*known, strict=True)) if known else [0] * len(names)
    breadth = breadth_of(len(known))
    weighed = [total / breadth + start for total, start in zip(sums, starts, strict=True)]
    kinds = (one for one in zip(weighed, names, strict=True) if one[1] not in without)
    return max(kinds)[1]


def in_company(weights: Sequence[float]) -> list[float]:
    """What each sentence weighs beside those around it."""
    return [
        weight
        + _SHARE
        * max((*weights[max(0, at - _AROUND) : at], *weights[at + 1 : at + 1 + _AROUND]), default=_ALONE)
        for at, weight in enumerate(weights)
    ]


def breadth_of(features: int) -> float:
    """What the weights of a sentence are divided by: in a longer one more comes together by chance."""
    return sqrt(features + _EVERY)


def _rests(text: str, sentences: Iterable[Span], taken: Sequence[Span]) -> Iterator[Span]:
    """Of each sentence the longest stretch without what is taken. Both are in order."""
    at = 0
    for start, end in sentences:
        edges = [start]
        while at < len(taken) and taken[at][0] < end:
            first, last = taken[at]
            if start < last:
                edges += (max(first, edges[-1]), max(last, edges[-1]))
            at += 1
        edges.append(max(end, edges[-1]))
        first, last = max(zip(edges[::2], edges[1::2], strict=True), key=lambda place: place[1] - place[0])
        if (first, last) == (start, end):
            yield start, end
            continue
        rest = text[first:last].rstrip()
        yield first + len(rest) - len(_JOINS.sub("", rest)), first + len(rest)


def words_of(sentence: str) -> list[str]:
    words = (found[0] for found in _WORD.finditer(fold(sentence).lower()))
    return ["#" if word.isdigit() else _TYPED.get(word, word[:_LETTERS]) for word in islice(words, _READ)]


def _said(words: Sequence[str]) -> Iterator[str]:
    stems = ["^", *map(stem, words), "$"]
    yield from stems[1:-1]
    yield from map(" ".join, pairwise(stems))
    for apart in range(2, _APART + 1):
        yield from (f"{one} … {other}" for one, other in zip(stems[1:], stems[1 + apart : -1], strict=False))


def stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word[: -len(ending)]
    return word


class Classes:
    """Sets of words that mean the same here; `*` leaves the end of an entry open."""

    def __init__(self, file: bytes) -> None:
        self._whole: dict[str, set[str]] = {}
        self._open: dict[str, set[str]] = {}
        for name, entries in msgspec.json.decode(file, type=dict[str, tuple[str, ...]]).items():
            for entry in entries:
                words = " ".join(words_of(entry.rstrip("*")))
                (self._open if entry.endswith("*") else self._whole).setdefault(words, set()).add(name)
        self._shortest = min((len(entry.split()[-1]) for entry in self._open), default=1)

    def found(self, words: Sequence[str]) -> Iterator[str]:
        """The classes, each two of them, two that stand near each other in their order, and each beside its neighbours."""
        hits = list(self._hits(words))
        names = sorted({name for _, _, name in hits})
        yield from names
        yield from map(" & ".join, combinations(names, 2))
        for at, (first, last, name) in enumerate(hits):
            if first:
                yield f"{stem(words[first - 1])} {name}"
            if last < len(words):
                yield f"{name} {stem(words[last])}"
            for start, _, other in islice(hits, at + 1, at + 1 + _NEXT):
                if 0 <= start - last < _APART:
                    yield f"{name} {other}"

    def _hits(self, words: Sequence[str]) -> Iterator[tuple[int, int, str]]:
        for first in range(len(words)):
            for last in range(first + 1, min(first + _LONGEST, len(words)) + 1):
                entry = " ".join(words[first:last])
                names = {*self._whole.get(entry, ())}
                size = len(entry) - len(words[last - 1])
                for cut in range(size + self._shortest, len(entry) + 1):
                    names |= self._open.get(entry[:cut], set())
                yield from ((first, last, name) for name in sorted(names))
