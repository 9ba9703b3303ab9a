"""A second opinion on what the rules let pass: how the text is phrased, learned from texts of both kinds.

- Many turns of phrase have a weight, above zero where people in danger use them and below where others do. A text
  is a crisis when the weights of what is in it come to enough for its length. `evals.training` fits them.
- What the rules saw counts, too: somebody else's danger, a denial or a story asks for more, a weak sign for less.
- Words look alike in several languages and people mix them, so all languages are weighed together.
- The weights are read when first asked for. The work is linear in the text.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from math import sqrt
from operator import itemgetter
from typing import Any

import ahocorasick  # type: ignore[import-not-found]  # a C module without stubs
import msgspec
from msgspec import Struct

from comity.skills.crisis.folding import Folded, has_unspaced
from comity.skills.crisis.report import Severity, Signal

CATEGORY = "phrasing"
_SECOND = itemgetter(1)
_LEAST = 30  # characters that every text counts as longer: a few words prove little

Turn = tuple[int, int, str]  # of phrase: its weight, its length, its language
Find = Callable[[str], Iterable[tuple[int, Turn]]]


class OpinionFile(Struct, frozen=True, forbid_unknown_fields=True):
    """`moderate` and `high` are what a text has to weigh for its length to be either. `mention` and
    `weak` are the weights of a mention by the rules and of a sign that nothing lowers. `phrases` are weights by
    language; a blank stands for the end of a word. `fingerprint` names what the weights were fitted to.
    """

    fingerprint: str
    moderate: float
    high: float
    mention: int
    weak: int
    phrases: Mapping[str, Mapping[str, int]]


class Opinion:
    def __init__(self, file: bytes) -> None:
        self._content = file

    @cached_property
    def _file(self) -> OpinionFile:
        return msgspec.json.decode(self._content, type=OpinionFile)

    @cached_property
    def _spaced(self) -> Find:
        return _index(self._file.phrases, unspaced=False)

    @cached_property
    def _unspaced(self) -> Find:
        return _index(self._file.phrases, unspaced=True)

    @cached_property
    def _spaced_weights(self) -> Callable[[str], Iterable[tuple[int, int]]]:
        """Only what they weigh, for every text is asked for that."""
        return _index(self._file.phrases, unspaced=False, told=lambda turn: turn[0])

    def weigh(self, folded: Folded, *, mention: bool, weak: bool) -> float:
        """What the text weighs for its length."""
        file = self._file
        total: int = sum(map(_SECOND, self._spaced_weights(folded.text)))
        if folded.unspaced:
            total += sum([turn[0] for _, turn in self._unspaced(folded.text)])
        total += file.mention * mention + file.weak * weak
        return total / breadth_of(folded.text)

    def is_crisis(self, folded: Folded) -> bool:
        """Whether there is a signal in a text in which the rules saw nothing."""
        return self.weigh(folded, mention=False, weak=False) >= self._file.moderate

    def signal(self, folded: Folded, *, mention: bool, weak: bool) -> Signal | None:
        """What tells of a crisis, if anything does: the stretch that weighs most."""
        weight = self.weigh(folded, mention=mention, weak=weak)
        if weight < self._file.moderate:
            return None
        turns = list(self._spaced(folded.text))
        if folded.unspaced:
            turns += self._unspaced(folded.text)
            turns.sort()
        stretch = _heaviest(turns, folded.text)
        if stretch is None:
            return None
        start, end, language = stretch
        severity: Severity = "moderate" if weight < self._file.high else "high"
        return Signal(category=CATEGORY, severity=severity, span=folded.span(start, end), language=language)


def breadth_of(text: str) -> float:
    """What the weights of a text are divided by: in a longer one more comes together by chance."""
    return sqrt(len(text) + _LEAST)


def _heaviest(turns: Iterable[tuple[int, Turn]], text: str) -> tuple[int, int, str] | None:
    """Where the heaviest stretch begins and ends, without blanks around it, and whose words weigh most in it. None
    when nothing in the text speaks for a crisis.
    """
    most = weight = start = 0
    best = None
    shares: Counter[str] = Counter()
    for last, (more, length, language) in turns:
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


def _index(
    phrases: Mapping[str, Mapping[str, int]],
    *,
    unspaced: bool,
    told: Callable[[Turn], Any] = lambda turn: turn,
) -> Callable[[str], Iterable[tuple[int, Any]]]:
    automaton = ahocorasick.Automaton()
    for language, weights in phrases.items():
        for phrase, weight in weights.items():
            if has_unspaced(phrase) == unspaced:
                automaton.add_word(phrase, told((weight, len(phrase), language)))
    if not len(automaton):
        return lambda _: ()
    automaton.make_automaton()
    find: Callable[[str], Iterable[tuple[int, Any]]] = automaton.iter
    return find
