"""A second opinion on what the rules let pass: how the text is phrased, learned from texts of both kinds.

- Many turns of phrase have a weight, above zero where people in danger use them and below where others do. A
  passage, a few sentences long, is a crisis when the weights of what is in it come to enough for its length. A text
  is as dangerous as its most dangerous passage: nothing adds up over pages. `evals.training` fits the weights.
- A longer text has many passages, and chance has many tries: there what stands around a passage has to speak for a
  crisis, too (`around`). It counts for more than the passage: who is in danger sounds so before and after saying it.
- What a text that only repeats itself says counts once.
- In a long text the everyday words of the rules (a farewell, a thing at hand, no way out), and what is said of nobody (how
  to speak of suicide), are no crisis where the phrasing is calm.
- In a text of one passage, what the rules saw counts, too: somebody else's danger, a denial or a story asks for more,
  a weak sign for less.
- In a text of several passages half of what makes a crisis is no finding, but close to one: whoever answers then asks, and
  does not say that all is well. In a short text it says nothing: every twentieth everyday sentence has as much.
- Words look alike in several languages and people mix them, so all languages are weighed together.
- The weights are read when first asked for. The work is linear in the text.
"""

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from math import sqrt

import msgspec
from msgspec import Struct

from comity_skills.crisis.folding import Folded, said_once
from comity_skills.crisis.lookup import Lookup, sections_of
from comity_skills.crisis.report import Severity, Signal
from comity_skills.words.tables import Content

CATEGORY = "phrasing"
_LEAST = 30  # characters that every text counts as longer: a few words prove little

_PASSAGE = 160  # characters, and fewer where one says more
_UNSPACED_PASSAGE = 60
CLOSE = 0.5  # of the weight that a crisis takes
CONTEXT = 2.0  # how much a passage with what stands around it counts beside the passage alone
AROUND = 2  # passages on each side that stand around one
_END = re.compile("[.!?;\n\u0964]")
_PAUSE = re.compile(" , ")

Place = tuple[int, int]  # where a passage begins and ends
Turn = tuple[int, str, int]  # of phrase: its weight, its language, its length


class OpinionFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`moderate` and `high` are what a passage has to weigh for its length to be either. Where it is not the whole text,
    it has to weigh `around` together with what stands around it; below `calm` such a text is calm. `mention` and `weak`
    are the weights of a mention by the rules and of a sign that nothing lowers. `phrases` are weights by language; a
    blank stands for the end of a word. Texts of several passages have weights of their own, `long_phrases`; where there are
    none, the same. `fingerprint` names what the weights were fitted to.
    """

    fingerprint: str
    moderate: float
    around: float
    calm: float
    high: float
    mention: int
    weak: int
    phrases: Mapping[str, Mapping[str, int]]
    long_phrases: Mapping[str, Mapping[str, int]] = {}


class _Limits(Struct, frozen=True):
    moderate: float
    around: float
    calm: float
    high: float
    mention: int
    weak: int
    apart: bool
    """Whether texts of several passages have weights of their own."""
    weights: tuple[tuple[int, str], ...]
    long_weights: tuple[tuple[int, str], ...]
    """Those that there are, with their languages; the patterns have their numbers."""


def opinion_of(content: bytes) -> dict[str, bytes]:
    """Lay the weights out."""
    file = msgspec.json.decode(content, type=OpinionFile)
    weights, phrases = _numbered(file.phrases)
    long_weights, long_phrases = _numbered(file.long_phrases)
    limits = _Limits(
        moderate=file.moderate,
        around=file.around,
        calm=file.calm,
        high=file.high,
        mention=file.mention,
        weak=file.weak,
        apart=bool(file.long_phrases),
        weights=weights,
        long_weights=long_weights,
    )
    return {
        "limits": msgspec.msgpack.encode(limits),
        **{f"phrases.{script}": part for script, part in sections_of(phrases).items()},
        **{f"long_phrases.{script}": part for script, part in sections_of(long_phrases).items()},
    }


def _numbered(
    phrases: Mapping[str, Mapping[str, int]],
) -> tuple[tuple[tuple[int, str], ...], dict[str, int]]:
    told = {phrase: (weight, language) for language, own in phrases.items() for phrase, weight in own.items()}
    numbers: dict[tuple[int, str], int] = {}
    patterns = {phrase: numbers.setdefault(one, len(numbers)) for phrase, one in told.items()}
    return tuple(numbers), patterns


class Opinion:
    def __init__(self, section: Callable[[str], Content | None]) -> None:
        """`section` gives what `opinion_of` has laid out."""
        self._section = section

    @classmethod
    def of(cls, content: bytes) -> "Opinion":
        """One that lies in memory."""
        return cls(opinion_of(content).get)

    @cached_property
    def _file(self) -> _Limits:
        return msgspec.msgpack.decode(bytes(self._section("limits") or b""), type=_Limits)

    def _turns_in(self, name: str, weights: Sequence[tuple[int, str]]) -> Lookup[Turn]:
        return Lookup(
            lambda script: self._section(f"{name}.{script}"), lambda number, size, _: (*weights[number], size)
        )

    @cached_property
    def _turns(self) -> Lookup[Turn]:
        return self._turns_in("phrases", self._file.weights)

    @cached_property
    def _long_turns(self) -> Lookup[Turn]:
        return self._turns_in("long_phrases", self._file.long_weights) if self._file.apart else self._turns

    def is_crisis(self, folded: Folded) -> bool:
        """Whether there is a signal in a text in which the rules saw nothing."""
        folded = said_once(folded)
        size = len(folded.text)
        if size <= (_UNSPACED_PASSAGE if folded.unspaced else _PASSAGE):  # one passage, as in most messages
            total = sum([turn[0] for _, turn in self._turns.in_any_order(folded)])
            return total / breadth_of(size) >= self._file.moderate
        return self._weigh(folded, mention=False, weak=False)[0] >= 1

    def is_calm(self, folded: Folded) -> bool:
        """Whether nothing in a long text is phrased as people in danger do."""
        places = passages(folded.text, unspaced=folded.unspaced)
        return len(places) > 1 and self._heaviest_passage(folded, places)[0] < self._file.calm

    def signal(self, folded: Folded, *, mention: bool, weak: bool) -> Signal | None:
        """What tells of a crisis, if anything does: the stretch that weighs most, in the passage that does. Its severity is
        `none` where a long text only comes close to a crisis.
        """
        folded = said_once(folded)
        share, weight, (first, last) = self._weigh(folded, mention=mention, weak=weak)
        if share < (CLOSE if is_long(folded) else 1):
            return None
        turns = (self._long_turns if is_long(folded) else self._turns).find(folded)
        if folded.unspaced:
            turns = sorted(turns)
        stretch = _heaviest((turn for turn in turns if first <= turn[0] < last), folded.text)
        if stretch is None:
            return None
        start, end, language = stretch
        severity: Severity = "none" if share < 1 else "moderate" if weight < self._file.high else "high"
        return Signal(category=CATEGORY, severity=severity, span=folded.span(start, end), language=language)

    def _weigh(self, folded: Folded, *, mention: bool, weak: bool) -> tuple[float, float, Place]:
        """Of the heaviest passage: which share of a crisis it makes, what it weighs for its length, and where it is."""
        file = self._file
        text = folded.text
        size = len(text)
        places = passages(text, unspaced=folded.unspaced)
        if len(places) == 1:
            total = sum([turn[0] for _, turn in self._turns.in_any_order(folded)])
            weight = (total + file.mention * mention + file.weak * weak) / breadth_of(size)
            return weight / file.moderate, weight, (0, size)
        wider, alone, place = self._heaviest_passage(folded, places)
        return wider / file.around, alone, place

    def _heaviest_passage(self, folded: Folded, places: Iterable[Place]) -> tuple[float, float, Place]:
        """Of the passage that weighs most together with what stands around it: that weight, its own, and where it is."""
        hits = self._long_turns.find(folded)
        ends = [last for last, _ in hits]
        sums = list(itertools.accumulate([turn[0] for _, turn in hits], initial=0))

        def weigh(place: Place) -> float:
            first, last = place
            return (sums[bisect_left(ends, last)] - sums[bisect_left(ends, first)]) / breadth_of(last - first)

        def weighed(place: Place) -> tuple[float, float, Place]:
            alone = weigh(place)
            around = weigh(surroundings(place, folded.text, unspaced=folded.unspaced))
            return alone + CONTEXT * around, alone, place

        return max(map(weighed, places))


def is_long(folded: Folded) -> bool:
    """Whether it has several passages."""
    return len(folded.text) > _size(unspaced=folded.unspaced)


def surroundings(place: Place, text: str, *, unspaced: bool) -> Place:
    """A passage with what stands around it on each side."""
    reach = AROUND * _size(unspaced=unspaced)
    return max(0, place[0] - reach), min(len(text), place[1] + reach)


def _size(*, unspaced: bool) -> int:
    return _UNSPACED_PASSAGE if unspaced else _PASSAGE


def passages(text: str, *, unspaced: bool) -> list[Place]:
    """The passages of a folded text: each begins with a sentence and goes on as long as whole sentences fit. A very long
    sentence is cut at its pauses, or anywhere.
    """
    size = _size(unspaced=unspaced)
    if len(text) <= size:
        return [(0, len(text))]
    edges = _edges(text, size)
    places: list[Place] = []
    last = 1
    for first in range(len(edges) - 1):
        last = max(last, first + 1)
        while last + 1 < len(edges) and edges[last + 1] - edges[first] <= size:
            last += 1
        places.append((edges[first], edges[last]))
        if last == len(edges) - 1:
            break
    return places


def _edges(text: str, size: int) -> list[int]:
    """Where a passage may begin or end."""
    edges = [0]
    for end in (*(stop.end() for stop in _END.finditer(text)), len(text)):
        if end - edges[-1] > size:
            edges += [pause.end() for pause in _PAUSE.finditer(text, edges[-1], end)]
        while end - edges[-1] > 2 * size:
            edges.append(edges[-1] + size)
        if end > edges[-1]:
            edges.append(end)
    return edges


def breadth_of(length: int) -> float:
    """What the weights of a passage are divided by: in a longer one more comes together by chance."""
    return sqrt(length + _LEAST)


def _heaviest(turns: Iterable[tuple[int, Turn]], text: str) -> tuple[int, int, str] | None:
    """Where the heaviest stretch begins and ends, without blanks around it, and whose words weigh most in it. None
    when nothing in the text speaks for a crisis.
    """
    most = weight = start = 0
    best = None
    shares: Counter[str] = Counter()
    for last, (more, language, length) in turns:
        if weight <= 0:
            weight, start = 0, last + 1 - length
            shares.clear()
        weight += more
        shares[language] += more
        if weight > most:
            most = weight
            best = start, last + 1, max(shares, key=shares.__getitem__)
    if best is None:
        return None
    start, end, language = best
    return start + (text[start] == " "), end - (text[end - 1] == " "), language
