"""The plan: what the kind of the situation calls for, the notes on risk, and what its words add.

- A talk has seven steps (six when it is mild). Every other kind has its own in `plans.json`, whatever the intensity:
  where somebody is followed, controlled or hurt the steps lead away from the other person.
- The recorded modes always plan a talk and keep the recorded counts and their substring alert (actions 2.6); where
  talking is dangerous their first note says so. The enhanced mode adds steps and notes only for triggers that it
  names.
- The caller's intensity is followed. What the words speak for stands beside it, and a note says when it is
  higher. Where the caller names none, the enhanced mode follows the words. Only a detected crisis raises the
  intensity by itself, in every mode.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from comity_skills.crisis import CrisisDetector
from comity_skills.deescalation_plan.contract import DEFAULT_INTENSITY, INTENSITIES
from comity_skills.deescalation_plan.situation import (
    AMONG_CHILDREN,
    CARED_FOR,
    SAFETY,
    Situation,
    handoffs,
    is_cared_for_at_home,
    trigger_rows,
    understood,
)
from comity_skills.editing.concern import EMERGENCY, NUMBERS
from comity_skills.editing.evidence import crisis_row, uncertainty_of
from comity_skills.editing.passage import read
from comity_skills.editing.rules import CompiledRule
from comity_skills.reading.language import language_of
from comity_skills.skill import Mode, SkillOutcome, Uncertainty
from comity_skills.words.tokens import tokens

_FIRST: Final = (
    "Pause before you answer; speak lower and slower than the other person.",
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
_LAST: Final = "Agree on the next step, who takes it and when"
_WRITTEN: Final = "; write it down for both"
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

_OTHER: Final = "DANGER: another person may be in danger now. Call the local emergency number, say where they are, and wait where you are safe."

_UNREAD: Final = "The description is not in English: apart from signs of a crisis its words could not be read"
_TAKEN: Final = (
    "The description is taken as it stands; people who work with victims can judge the danger better"
)
_GENERAL: Final = (
    "No words of a conflict were recognised, so this plan is a general one. Where somebody follows, controls, threatens or "
    "hurts another, do not use it: get to safety and call for help."
)
_UNHEARD: Final = (
    "Say in a calm moment what you see and what you would like instead, one thing only and without blame.",
    "Ask how the other side sees it before you propose anything.",
)
_THROAT: Final = (
    "Pressure on the neck can injure without a mark, and days later: see a doctor today and say what happened. It is also a "
    "sign that the danger is very great; tell a service for victims of violence."
)
_CHILD: Final = (
    "If a child or a young person is meant: do not leave them alone with it, see them to their door or their lift, and tell "
    "the parents and whoever is responsible there for protecting children."
)
_THROWN: Final = (
    "When things fly, leave the room and take others with you; come back to it when all are calm. If somebody is hit or "
    "you are afraid, call for help."
)
_HOMEWARD: Final = (
    "Who wants to go home or to somebody long dead: do not correct or block; say that they miss it, walk along for a while, "
    "and offer something to do. If it begins at the same hour every day, begin before it: light on, company, something to eat."
)
_STOLEN: Final = (
    "Who believes that something was stolen: do not defend yourself or prove the opposite; say that it is upsetting, help to "
    "look for it, and keep a fixed place for such things and a second one of the same kind."
)
_EVENING: Final = "If it comes at the same hour every day, begin before it: light on, curtains drawn, something to eat, company, no tasks."
_WARN: Final = (
    "Warn the person who is threatened at once, by phone or message: not to come near, and to stay behind a locked door or go "
    "elsewhere. Keep the two apart, and tell the police who is meant."
)
_ALONE: Final = (
    "You are alone, so keep a way to a room that locks and a phone in your hand; ask somebody who waits there to stay or to "
    "call. If something is broken or you are grabbed at, lock yourself in and call the local emergency number."
)
_FILMED: Final = "If you are filmed, say once that you do not wish it, and go on in the same tone; take nothing out of anybody's hands."
_SORRY: Final = (
    "Say sorry in one sentence for what went wrong on your side, without excuses, and offer something firm: a time that is "
    "held, or who calls back and by when."
)
_DANGEROUS: Final = "DO NOT TALK IT OUT:"
_ADAPTED: Final = frozenset(("review", "code_review", "chat", "mail", "formal_threat"))


class Plan(Struct, frozen=True):
    steps: tuple[str, ...]
    notes: tuple[str, ...]


class PlanFile(Struct, frozen=True, kw_only=True):
    """The data file: what is to be done by the kind of the situation. A talk is planned here, by its intensity."""

    sources: tuple[str, ...]
    written: str
    plans: dict[str, Plan]


def plan(
    description: str,
    *,
    intensity: str | None,
    mode: Mode,
    rules: Sequence[CompiledRule],
    plans: Mapping[str, Plan],
    detector: CrisisDetector,
) -> SkillOutcome:
    crisis = detector.detect(description)
    language = language_of(description, tokens(description))
    situation = understood(read(description), rules, crisis, language)
    wanted = intensity or DEFAULT_INTENSITY
    if mode == "enhanced" and intensity is None and situation.suggested:
        wanted = situation.suggested
    used = "high" if crisis.raised else wanted
    assumptions = [
        f"Intensity: {used}" + (" (raised: signs of a crisis)" if used != wanted else ""),
        "The description is one side of the matter; the other side may see it differently",
        "Everybody takes part of their own will; nothing here is meant to be used against somebody",
    ]
    if mode != "enhanced":
        return SkillOutcome(
            uncertainty="medium",
            assumptions=assumptions,
            output={
                "plan": _talk(used, situation),
                "risk_notes": _recorded_notes(description, used, situation, plans),
            },
        )
    if situation.kind in SAFETY:
        assumptions[1:] = [_TAKEN]
    if language == "other":
        assumptions.append(_UNREAD)
    output: dict[str, Any] = {
        "plan": _steps(situation, used, plans),
        "risk_notes": [*_notes(situation, used, plans), *_further(situation, used)],
        "kind": situation.kind,
        "intensity": used,
        "suggested_intensity": situation.suggested,
        "triggers": trigger_rows(situation),
        "handoffs": handoffs(situation),
        "crisis": crisis_row(crisis),
    }
    return SkillOutcome(
        uncertainty=_uncertainty(description, situation, used), assumptions=assumptions, output=output
    )


def _talk(intensity: str, situation: Situation) -> list[str]:
    last = _LAST + (_WRITTEN if "work" in situation.said else "")
    return [*_FIRST, *_BY_INTENSITY[intensity], f"{last}."]


def _recorded_notes(
    description: str, used: str, situation: Situation, plans: Mapping[str, Plan]
) -> list[str]:
    """As many as recorded: what is dangerous stands beside the first of them."""
    notes = list(_NOTES[used])
    lowered = description.lower()
    if any(word in lowered for word in _RECORDED_ALERT):
        notes.append(_ALERT)
    if situation.danger:
        notes[0] = f"{_DANGEROUS} {plans[situation.danger].steps[0]} {notes[0]}"
    if situation.crisis.raised:
        notes[0] = f"{_CRISIS if situation.crisis.detected else _OTHER} {notes[0]}"
    return notes


def _steps(situation: Situation, used: str, plans: Mapping[str, Plan]) -> list[str]:
    needed = any(one["to"] == "crisis_support" for one in handoffs(situation))
    support = [_SUPPORT] if needed and situation.kind != "suicide" else []
    if situation.kind == "talk":
        if not situation.heard:
            return [*support, _GENERAL, *_UNHEARD]
        return [*support, *_adapted(_talk(used, situation), situation)]
    steps = list(_planned(situation, plans).steps)
    if situation.kind in {"weapon", "violence"} and "third" in situation.said:
        steps.insert(1, _WARN)
    if situation.kind == "counter":
        steps[1] = _ALONE if "alone" in situation.said else steps[1]
        steps[3:3] = [_SORRY] if "our_fault" in situation.said else []
    if situation.kind == "road" and "at_car" in situation.said:
        steps = [*plans["road"].notes, *steps[1:]]  # who has stopped already needs what to do at the car
    return support + (_adapted(steps, situation) if situation.kind in _ADAPTED else steps)


def _planned(situation: Situation, plans: Mapping[str, Plan]) -> Plan:
    if is_cared_for_at_home(situation):
        return plans["care_family"]
    return plans[
        "moderators" if situation.kind == "moderator" and "mods" in situation.said else situation.kind
    ]


def _notes(situation: Situation, used: str, plans: Mapping[str, Plan]) -> list[str]:
    if situation.kind == "talk":
        return list(_NOTES[used]) if situation.heard else []
    notes = list(_planned(situation, plans).notes)
    if situation.kind == "road" and "at_car" in situation.said:
        notes = []
    if situation.kind == "care":
        told = (("missing_thing", _STOLEN), ("homeward", _HOMEWARD), ("evenings", _EVENING))
        notes = [note for said, note in told if said in situation.said] + notes
    if situation.kind == "counter" and "filmed" in situation.said:
        notes.insert(0, _FILMED)
    if situation.kind in SAFETY and "throat" in situation.said:
        notes.insert(0, _THROAT)
    if situation.kind == "violence" and "kid" in situation.said:
        notes.insert(0, _CHILD)
    if situation.kind not in SAFETY and situation.says("things"):
        notes.insert(0, _THROWN)
    return notes


def _adapted(steps: list[str], situation: Situation) -> list[str]:
    needed = {handoff["to"] for handoff in handoffs(situation)}
    before = [_SAFETY] if "emergency" in needed else []
    after = [
        step
        for wanted, step in (
            ({"our_fault", "customer"} <= situation.said, _SORRY),
            (situation.says("abuse"), _BOUNDARY),
            (situation.says("intoxication"), _SHORT),
            ("legal" in needed and situation.kind != "formal_threat", _LEGAL),
            ("supervisor" in needed, _SUPERVISOR),
        )
        if wanted
    ]
    return [*before, *steps[:-1], *after, steps[-1]]


def _further(situation: Situation, used: str) -> list[str]:
    notes = []
    alarming = situation.says("weapon", "violence", "self_harm", "threat", "harm", "legal")
    if situation.kind in SAFETY:
        alarming += situation.says("things")
    if situation.kind in {"care"} | AMONG_CHILDREN:
        alarming = [one for one in alarming if one.category not in CARED_FOR]
    if alarming:
        words = ", ".join(dict.fromkeys(f'"{one.text.lower()}"' for one in alarming))
        first = "" if situation.kind in SAFETY else " Involve the people responsible first."
        notes.append(f"ALERT: {words}. {alarming[0].reason}{first}")
    if situation.crisis.endangered and situation.kind not in {"care", "suicide"} | AMONG_CHILDREN:
        notes.append(_OTHER)
    if situation.crisis.detected:
        notes.append(_CRISIS)
    elif situation.crisis.mention:
        notes.append(f"The description mentions suicide or self-harm. {NUMBERS}")
    followed = situation.kind == "talk" and situation.suggested
    if followed and INTENSITIES.index(followed) > INTENSITIES.index(used):
        notes.append(f"The words speak for intensity {followed}; the plan is made for {used}.")
    return notes


def _uncertainty(description: str, situation: Situation, used: str) -> Uncertainty:
    if situation.suggested is None:
        return "high"
    negated = any(one.negated for one in situation.triggers)
    return uncertainty_of(description, doubtful=negated or situation.suggested != used)
