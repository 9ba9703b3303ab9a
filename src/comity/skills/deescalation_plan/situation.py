"""What a description of a conflict says: triggers, how intense it sounds, and who else is needed.

- A trigger is a whole word in its context: no `harm` in charm or pharmacy, no `legal` in paralegal, no weapon
  in a knife set. What is quoted counts fully, since a threat is mostly told in the words of its speaker.
- A negation before a trigger in the same clause (`no threats were made`) is reported and drives nothing.
- Intensity comes from the worst trigger; two of the mild ones count as a medium one.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from comity.skills.crisis import CrisisReport
from comity.skills.editing.passage import Passage
from comity.skills.editing.rules import CompiledRule, Finding, find

EFFECTS: Final = {
    "weapon": "emergency handoff, intensity high",
    "violence": "emergency handoff, intensity high",
    "self_harm": "crisis support handoff, intensity high",
    "threat": "alert note, intensity high",
    "harm": "alert note, intensity high",
    "abuse": "boundary step, intensity high",
    "intoxication": "short sentences, intensity high",
    "legal": "alert note, legal handoff",
    "ultimatum": "two real options, intensity medium",
    "failed_attempts": "supervisor handoff",
    "supervisor": "supervisor handoff",
    "anger": "intensity medium",
    "distress": "intensity medium",
    "frustration": "intensity low",
}

_LOOK_BACK: Final = 40
_CLAUSE: Final = re.compile(
    r"[,;:.!?()\r\n\u2013\u2014]|\b(?:but|and|then|because|although|until)\b", re.IGNORECASE
)
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|without|nobody|neither|nor|cannot|no one|\w{2,6}n't)\b(?:\s+[\w'-]{1,14}){0,3}\s*$",
    re.IGNORECASE,
)
_NOT_ONLY: Final = re.compile(
    r"\bnot (?:only|just|to mention)\b|\bno (?:less|doubt)\b|\bnot (?:stop|afraid)", re.IGNORECASE
)
_ITSELF: Final = frozenset(("failed_attempts", "supervisor"))  # their own words are negations


class Trigger(Struct, frozen=True, kw_only=True):
    start: int
    end: int
    text: str
    category: str
    severity: str
    negated: bool
    reason: str


class Situation(Struct, frozen=True, kw_only=True):
    triggers: tuple[Trigger, ...]
    suggested: str | None
    crisis: CrisisReport

    def says(self, *categories: str) -> list[Trigger]:
        """The triggers of these categories that hold."""
        return [one for one in self.triggers if one.category in categories and not one.negated]


def understood(passage: Passage, rules: Sequence[CompiledRule], crisis: CrisisReport) -> Situation:
    spoken = structs.replace(passage, quoted=())
    triggers = tuple(_triggers(passage, find(spoken, rules)))
    return Situation(triggers=triggers, suggested=_suggested(triggers, crisis), crisis=crisis)


def handoffs(situation: Situation) -> list[dict[str, Any]]:
    """Who else is needed, the most urgent first."""
    danger = [
        one
        for one in situation.says("weapon", "violence", "threat")
        if one.category != "threat" or one.severity == "critical"
    ]
    hurt = bool(situation.crisis.dangers)
    needed = [
        ("emergency", danger),
        ("crisis_support", situation.says("self_harm")),
        ("supervisor", () if hurt else situation.says("failed_attempts", "supervisor", "abuse")),
        ("legal", situation.says("legal")),
    ]
    return [
        {"to": to, "because": [one.text for one in because] or ["signs of a crisis"]}
        for to, because in needed
        if because or (to == "crisis_support" and situation.crisis.detected) or (to == "emergency" and hurt)
    ]


def trigger_rows(situation: Situation) -> list[dict[str, Any]]:
    return [
        {
            "start": one.start,
            "end": one.end,
            "text": one.text,
            "category": one.category,
            "severity": one.severity,
            "negated": one.negated,
            "effect": "none: it is said not to be so" if one.negated else EFFECTS[one.category],
        }
        for one in situation.triggers
    ]


def _triggers(passage: Passage, findings: Iterable[Finding]) -> Iterable[Trigger]:
    done = -1
    for finding in findings:
        if finding.start < done:
            continue
        done = finding.end
        yield Trigger(
            start=finding.start,
            end=finding.end,
            text=finding.text,
            category=finding.category,
            severity=finding.severity,
            negated=finding.category not in _ITSELF and _is_negated(passage.folded, finding.start),
            reason=finding.reason,
        )


def _is_negated(text: str, start: int) -> bool:
    before = _CLAUSE.split(text[max(0, start - _LOOK_BACK) : start])[-1]
    return bool(_NEGATED.search(before)) and not _NOT_ONLY.search(before)


def _suggested(triggers: Sequence[Trigger], crisis: CrisisReport) -> str | None:
    if crisis.raised or crisis.dangers:
        return "high"
    held = [one.severity for one in triggers if not one.negated]
    if "critical" in held or "high" in held:
        return "high"
    if "medium" in held or held.count("low") > 1:
        return "medium"
    return "low" if held or triggers else None
