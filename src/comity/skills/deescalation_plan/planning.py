"""The plan: seven steps (six when it is mild), the notes on risk, and what the words of the situation add.

- The recorded modes keep the recorded counts and their substring alert (actions 2.6). The enhanced mode adds
  steps and notes only for triggers that it names.
- The caller's intensity is followed. What the words speak for stands beside it, and a note says when it is
  higher. Where the caller names none, the enhanced mode follows the words. Only a detected crisis raises the
  intensity by itself, in every mode.
"""

from collections.abc import Sequence
from typing import Any, Final

from comity.skills.crisis import CrisisDetector, CrisisReport
from comity.skills.deescalation_plan.contract import DEFAULT_INTENSITY, INTENSITIES
from comity.skills.deescalation_plan.situation import (
    Situation,
    handoffs,
    trigger_rows,
    understood,
)
from comity.skills.editing.concern import EMERGENCY, NUMBERS
from comity.skills.editing.evidence import crisis_row, uncertainty_of
from comity.skills.editing.passage import read
from comity.skills.editing.rules import CompiledRule
from comity.skills.reading.language import language_of
from comity.skills.skill import Mode, SkillOutcome, Uncertainty
from comity.skills.words.tokens import tokens

_FIRST: Final = (
    "Pause before you answer; lower your voice or slow your typing.",
    "Acknowledge in one sentence what the other person says, without correcting it.",
    "Ask one open question that shows what matters most to them.",
    "Validate the feeling; that is not the same as agreeing with the claim.",
)
_BY_INTENSITY: Final = {
    "low": ("Name a goal that you both share.",),
    "medium": (
        "Offer two options that you can really keep, and let them choose.",
        "Summarise what each side wants and ask whether you got it right.",
    ),
    "high": (
        "Offer a break of a set length and agree on how to go on after it.",
        "Narrow the talk to the one thing that has to be settled now.",
    ),
}
_LAST: Final = "Agree on the next step, who takes it and when, and write it down for both."
_NOTES: Final = {
    "low": ("Keep watching for rising volume, repetition or silence: they come before an escalation.",),
    "medium": ("If voices rise, stop negotiating and go back to acknowledging.",),
    "high": (
        "Do not stay alone with somebody who frightens you; keep a way out open.",
        "Do not touch, corner, threaten or give an ultimatum: force makes it worse.",
        "End the contact when you do not feel safe; it can be taken up again later.",
    ),
}
_RECORDED_ALERT: Final = ("threat", "harm", "legal")
_ALERT: Final = "ALERT: the situation speaks of a threat, of harm or of the law; involve the people responsible for that before you answer."
_CRISIS: Final = f"CRISIS: somebody may be in danger of hurting themselves. Stay with the person and bring in help. {EMERGENCY} {NUMBERS}"
_SAFETY: Final = "First get everybody to safety and call the local emergency number; the other steps wait until nobody is in danger."
_SUPPORT: Final = "Stay with the person in crisis, ask directly how they are, and bring in trained help now."
_BOUNDARY: Final = "Set one boundary calmly: say what you will do if the insults go on, and do it."
_SHORT: Final = "Use short, simple sentences; leave every decision for when the person is sober."
_SUPERVISOR: Final = (
    "Hand over to a supervisor with a summary of what was tried, so that nobody has to start again."
)
_LEGAL: Final = "Do not argue the legal point; note it and pass it to the people responsible for it."

_AT_HOME: Final = (
    "Get to a place where other people are, or behind a door that locks: safety comes before talking.",
    "Call the local emergency number if it is happening now, and say where you are.",
    "Do not negotiate with somebody who hits; calming that person down is not your task.",
    "Tell somebody outside the home, and agree on a word that means: call the police.",
    "Keep papers, money, keys, medicines and a phone where you can take them quickly.",
    "Contact a service for victims of violence, or child protection where a child is hurt: they plan with you.",
)
_ALONE: Final = "Leaving, or saying that you will leave, can be the most dangerous moment: plan it with people who know how."
_OTHER: Final = "DANGER: another person may be in danger now. Call the local emergency number, say where they are, and wait where you are safe."

_UNREAD: Final = "The description is not in English: apart from signs of a crisis its words could not be read, and the plan is general"


def plan(
    description: str,
    *,
    intensity: str | None,
    mode: Mode,
    rules: Sequence[CompiledRule],
    detector: CrisisDetector,
) -> SkillOutcome:
    crisis = detector.detect(description)
    wanted = intensity or DEFAULT_INTENSITY
    if mode == "enhanced":
        situation = understood(read(description), rules, crisis)
        if intensity is None and situation.suggested:
            wanted = max(wanted, situation.suggested, key=INTENSITIES.index)
    used = "high" if crisis.raised else wanted
    assumptions = [
        f"Intensity: {used}" + (" (raised: signs of a crisis)" if used != wanted else ""),
        "The description is one side of the matter; the other side may see it differently",
        "Everybody takes part of their own will; nothing here is meant to be used against somebody",
    ]
    steps = [*_FIRST, *_BY_INTENSITY[used], _LAST]
    notes = list(_NOTES[used])
    if mode != "enhanced":
        lowered = description.lower()
        if any(word in lowered for word in _RECORDED_ALERT):
            notes.append(_ALERT)
        if crisis.raised:  # beside the first note: the count stays that of high
            notes[0] = f"{_CRISIS if crisis.detected else _OTHER} {notes[0]}"
        return SkillOutcome(
            uncertainty="medium", assumptions=assumptions, output={"plan": steps, "risk_notes": notes}
        )
    if language_of(description, tokens(description)) == "other":
        assumptions.append(_UNREAD)
    at_home = _is_at_home(crisis)
    output: dict[str, Any] = {
        "plan": list(_AT_HOME) if at_home else _adapted(steps, situation),
        "risk_notes": [*([_ALONE] if at_home else notes), *_further(situation, used)],
        "intensity": used,
        "suggested_intensity": situation.suggested,
        "triggers": trigger_rows(situation),
        "handoffs": handoffs(situation),
        "crisis": crisis_row(crisis),
    }
    return SkillOutcome(
        uncertainty=_uncertainty(description, situation, used), assumptions=assumptions, output=output
    )


def _is_at_home(crisis: CrisisReport) -> bool:
    """Whether the writer, or a child, is being hurt: then there is nothing to mediate."""
    return any(danger.subject == "self" for danger in crisis.dangers)


def _adapted(steps: list[str], situation: Situation) -> list[str]:
    needed = {handoff["to"] for handoff in handoffs(situation)}
    before = [step for to, step in (("emergency", _SAFETY), ("crisis_support", _SUPPORT)) if to in needed]
    after = [
        step
        for wanted, step in (
            (situation.says("abuse"), _BOUNDARY),
            (situation.says("intoxication"), _SHORT),
            ("legal" in needed, _LEGAL),
            ("supervisor" in needed, _SUPERVISOR),
        )
        if wanted
    ]
    return [*before, *steps[:-1], *after, steps[-1]]


def _further(situation: Situation, used: str) -> list[str]:
    notes = []
    alarming = situation.says("weapon", "violence", "self_harm", "threat", "harm", "legal")
    if alarming:
        words = ", ".join(dict.fromkeys(f'"{one.text.lower()}"' for one in alarming))
        notes.append(
            f"ALERT: {words}. {alarming[0].reason} Involve the people responsible before you answer."
        )
    if situation.crisis.endangered:
        notes.append(_OTHER)
    if situation.crisis.detected:
        notes.append(_CRISIS)
    elif situation.crisis.mention:
        notes.append(f"The description mentions suicide or self-harm. {NUMBERS}")
    if situation.suggested and INTENSITIES.index(situation.suggested) > INTENSITIES.index(used):
        notes.append(f"The words speak for intensity {situation.suggested}; the plan is made for {used}.")
    return notes


def _uncertainty(description: str, situation: Situation, used: str) -> Uncertainty:
    if situation.suggested is None:
        return "high"
    negated = any(one.negated for one in situation.triggers)
    return uncertainty_of(description, doubtful=negated or situation.suggested != used)
