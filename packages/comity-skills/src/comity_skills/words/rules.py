"""Rules that are set off by words: what was found, where, and the mentions that were found and not counted.

A rule stands in a data file: its phrases (see `phrases`), the finding and the advice that it gives. A rule
with `negatable: false` looks for phrases that carry their own negation (`cannot be paused`) and is counted
whatever surrounds it. Other mentions count only where the thing is really there (see `standing`).
A phrase in `ignored` hides the words in it from every rule.

Advice may be made of points. A point is left out where the description says that it is met (`saves automatically`);
a rule without a point left has nothing to say, and its mentions stand as `met`. A rule with `least` counts a mention
with a number in it only from that number on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from comity_skills.words.negation import is_absent
from comity_skills.words.phrases import NUMBER_WORDS, Found, Phrases, is_number
from comity_skills.words.spans import MOST_EVIDENCE, span
from comity_skills.words.standing import ChainPositions, standing
from comity_skills.words.tokens import Token

_LONGEST_QUOTE: Final = 60


class Point(Struct, frozen=True, kw_only=True):
    """One thing to do, and the names of the measures with which it is done."""

    say: str
    met: tuple[str, ...] = ()


class Measure(Struct, frozen=True, kw_only=True):
    """What a description says when something is taken care of, unless it also says one of `unless`."""

    phrases: tuple[str, ...]
    unless: tuple[str, ...] = ()


class Rule(Struct, frozen=True, kw_only=True):
    id: str
    phrases: tuple[str, ...]
    finding: str
    advice: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    negatable: bool = True
    groups: tuple[str, ...] = ()
    least: int = 0


class Trigger(Struct, frozen=True):
    rule: Rule
    text: str
    start: int
    end: int
    standing: ChainPositions


class Rules:
    def __init__(
        self,
        rules: Iterable[Rule],
        ignored: Iterable[str] = (),
        measures: Mapping[str, Measure] | None = None,
    ) -> None:
        self.all: Final = tuple(rules)
        entries: list[tuple[str, Rule | None]] = [(phrase, None) for phrase in ignored]
        entries += [(phrase, rule) for rule in self.all for phrase in rule.phrases]
        self._phrases: Final = Phrases(entries)
        known = (measures or {}).items()
        self._met: Final = Phrases((phrase, name) for name, one in known for phrase in one.phrases)
        self._unmet: Final = Phrases((phrase, name) for name, one in known for phrase in one.unless)

    def triggers(self, text: str, words: Sequence[Token]) -> list[Trigger]:
        met = self._stated(self._met, words) - self._stated(self._unmet, words)
        return [
            _trigger(found, text, words, met)
            for found in self._phrases.find(words)
            if _number(found, words) >= found.meaning.least
        ]

    @staticmethod
    def _stated(phrases: Phrases[str], words: Sequence[Token]) -> set[str]:
        return {
            found.meaning for found in phrases.find(words) if not is_absent(words, found.first, found.last)
        }


def _trigger(found: Found[Rule], text: str, words: Sequence[Token], met: set[str]) -> Trigger:
    rule = found.meaning
    stands = standing(words, found.first, found.last) if rule.negatable else "present"
    if rule.points:
        left = [point.say for point in rule.points if met.isdisjoint(point.met)]
        rule = structs.replace(rule, advice=(_sentence(left),))
        if not left and stands == "present":
            stands = "met"
    return Trigger(rule, text[found.start : found.end], found.start, found.end, stands)


def _sentence(points: Sequence[str]) -> str:
    *others, last = points or [""]
    joined = f"{', '.join(others)}, and {last}" if others else last
    return f"{joined[:1].upper()}{joined[1:]}."


def _number(found: Found[Rule], words: Sequence[Token]) -> int:
    """The first number in a mention; one that has none is as good as any."""
    said = [token.word for token in words[found.first : found.last + 1] if is_number(token.word)]
    if not said or not found.meaning.least:
        return found.meaning.least
    return NUMBER_WORDS.get(said[0]) or int(said[0][:9])


def counted(triggers: Iterable[Trigger]) -> dict[str, list[Trigger]]:
    """Those that count, by rule, in the order in which the rules first appear in the text."""
    by_rule: dict[str, list[Trigger]] = {}
    for trigger in triggers:
        if trigger.standing == "present":
            by_rule.setdefault(trigger.rule.id, []).append(trigger)
    return by_rule


def evidence(triggers: Iterable[Trigger]) -> list[dict[str, Any]]:
    found = [
        span(each.rule.id, each.text, each.start, each.end) for each in triggers if each.standing == "present"
    ]
    return found[:MOST_EVIDENCE]


def not_counted(triggers: Iterable[Trigger]) -> list[dict[str, Any]]:
    found = [
        {**span(each.rule.id, each.text, each.start, each.end), "why": each.standing}
        for each in triggers
        if each.standing != "present"
    ]
    return found[:MOST_EVIDENCE]


def quoted(triggers: Iterable[Trigger], most: int = 5) -> str:
    """The words that set off a rule, each once, for a sentence."""
    words = list(
        dict.fromkeys(" ".join(trigger.text.casefold().split())[:_LONGEST_QUOTE] for trigger in triggers)
    )
    listed = ", ".join(f'"{word}"' for word in words[:most])
    return listed if len(words) <= most else f"{listed} and {len(words) - most} more"


def advice(found: Sequence[Trigger]) -> list[str]:
    """What a rule recommends, and the words that set it off."""
    rule = found[0].rule
    first, *rest = rule.advice
    return [f"{rule.finding} ({quoted(found)}): {first}", *rest]
