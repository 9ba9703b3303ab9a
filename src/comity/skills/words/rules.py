"""Rules that are set off by words: what was found, where, and the mentions that were found and not counted.

A rule stands in a data file: its phrases (see `phrases`), the finding and the advice that it gives. A rule
with `negatable: false` looks for phrases that carry their own negation (`cannot be paused`) and is counted
whatever surrounds it. Other mentions count only where the thing is really there (see `standing`).
A phrase in `ignored` hides the words in it from every rule.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from comity.skills.words.phrases import Phrases
from comity.skills.words.spans import MOST_EVIDENCE, span
from comity.skills.words.standing import Standing, standing
from comity.skills.words.tokens import Token

_LONGEST_QUOTE: Final = 60


class Rule(Struct, frozen=True, kw_only=True):
    id: str
    phrases: tuple[str, ...]
    finding: str
    advice: tuple[str, ...]
    negatable: bool = True
    groups: tuple[str, ...] = ()


class Trigger(Struct, frozen=True):
    rule: Rule
    text: str
    start: int
    end: int
    standing: Standing


class Rules:
    def __init__(self, rules: Iterable[Rule], ignored: Iterable[str] = ()) -> None:
        self.all: Final = tuple(rules)
        entries: list[tuple[str, Rule | None]] = [(phrase, None) for phrase in ignored]
        entries += [(phrase, rule) for rule in self.all for phrase in rule.phrases]
        self._phrases: Final = Phrases(entries)

    def triggers(self, text: str, words: Sequence[Token]) -> list[Trigger]:
        return [
            Trigger(
                found.meaning,
                text[found.start : found.end],
                found.start,
                found.end,
                standing(words, found.first, found.last) if found.meaning.negatable else "present",
            )
            for found in self._phrases.find(words)
        ]


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
