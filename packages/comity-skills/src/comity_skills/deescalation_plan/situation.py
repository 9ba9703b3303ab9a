"""What a description of a conflict says: triggers, how intense it sounds, and who else is needed.

- A trigger is a whole word in its context: no `harm` in charm or pharmacy, no `legal` in paralegal, no weapon
  in a knife set. What is quoted counts fully, since a threat is mostly told in the words of its speaker.
- A negation before a trigger in the same clause (`no threats were made`) is reported and drives nothing.
- Intensity comes from the worst trigger; two of the mild ones count as a medium one. Words that only say what the
  steps are made for (a small child, a chat, a stranger on a bus) tell nothing of it.
- The kind of the plan is the first of `KINDS` that the words call for: safety comes before everything else. What is
  not in English is `unread`; where neither a conflict nor people are named there is `none` to plan for.
- Who is ill, confused or disabled and strikes out needs care, not the police, unless there is a weapon or a threat to
  kill. Who is only called by name or "a resident" is so where the text says somewhere that such people live there.
- Somebody who may take their life is stayed with, whatever the quarrel was about and whoever they are.
- A child of the writer, or a pupil, who means to hit another child needs a grown-up and the school, not the police,
  unless there is a weapon or talk of killing.
- What parents do with the money or the phone of a child is their task: it is control of a grown-up only.
- Where it happens and between whom (a neighbour, a couple, a counter) is mostly told by two things that stand apart in the
  text: `TOGETHER` names them. They choose the steps of a conflict and are no sign of one.
- A threat against somebody who is not the writer calls for a warning to that person; a threat by the writer for the steps
  of somebody who is close to doing harm.
- Who cares for a relative at home has no team, and who owns the shop no supervisor: what the writer says of that is heeded.
- Things thrown or broken by a child or a teenager at home are no matter for the police; by anybody else they are violence.
"""

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct, structs

from comity_skills.crisis import CrisisReport
from comity_skills.deescalation_plan.contract import KINDS
from comity_skills.editing.passage import Passage
from comity_skills.editing.rules import CompiledRule, Finding, find
from comity_skills.reading.language import Language

EFFECTS: Final = {
    "weapon": "emergency handoff, intensity high",
    "violence": "emergency handoff, intensity high",
    "things": "keep away, intensity high",
    "self_harm": "crisis support handoff, intensity high",
    "near_harm": "steps away from the other person, intensity high",
    "stalking": "no contact, victim support handoff, intensity high",
    "control": "safety before talking, victim support handoff, intensity high",
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
    "bystander": "steps for a bystander",
    "stranger": "steps for a stranger in public",
    "small_child": "steps for a small child",
    "teenager": "steps for a teenager at home",
    "care": "steps for somebody ill, confused or disabled, care handoff",
    "review": "steps for a public review",
    "code_review": "steps for a review of code",
    "chat": "steps for a chat",
    "mail": "steps for something in writing",
    "between_others": "steps for somebody between two others",
    "formal_threat": "answer in writing, nothing promised on the spot",
}
CARED_FOR: Final = frozenset(("violence", "threat", "harm", "abuse"))  # by somebody ill they call for care
# what chooses the steps, where all of it is said somewhere in the text
TOGETHER: Final[dict[str, frozenset[str]]] = {
    "road": frozenset(("pursued", "on_road")),
    "hits_back": frozenset(("plans_to_hit", "own_child")),
    "pupils": frozenset(("scuffle", "school")),
    "siblings": frozenset(("siblings",)),
    "own_anger": frozenset(("own_anger",)),
    "moderator": frozenset(("moderator",)),
    "rumour": frozenset(("accused", "in_public")),
    "counter": frozenset(("customer", "hits_things")),
    "neighbour": frozenset(("neighbour", "nuisance")),
    "couple": frozenset(("spouse",)),
    "family": frozenset(("relative",)),
    "colleague": frozenset(("colleague",)),
}
# they show nothing by themselves
HIDDEN: Final = frozenset().union(
    *TOGETHER.values(),
    ("kid", "people", "work", "private", "in_law", "grown_up", "throat", "friendly", "at_peace"),
    ("care_there", "homeward", "at_car", "missing_thing", "evenings"),
    ("runs_it", "mods", "own_boss", "alone", "filmed", "our_fault"),
)
AMONG_CHILDREN: Final = frozenset(("hits_back", "pupils", "siblings"))
SCENES: Final = (
    frozenset(("care", *KINDS[KINDS.index("bystander") : KINDS.index("none")])) - HIDDEN - {"rumour"}
)
SAFETY: Final = frozenset(KINDS[: KINDS.index("unread")]) - {"care", "suicide"} - AMONG_CHILDREN

_TAKE_SIGNS: Final = frozenset(("couple", "family", "colleague"))  # such people are named for many reasons
_HEAT: Final = frozenset(("anger", "abuse", "threat", "distress", "harm", "violence", "things"))

_WITHOUT_SUPERVISOR: Final = (SAFETY - {"violence", "weapon"}) | {
    *("bystander", "stranger", "small_child", "teenager", "care", "siblings", "own_anger", "moderator"),
    *("hits_back", "rumour", "suicide"),
    *("neighbour", "couple", "family"),
}
_SUICIDE: Final = frozenset(("suicide", "overdose"))
_SIGNS: Final = {"crisis_support": "a crisis"}
_LOOK_BACK: Final = 40
_CLAUSE: Final = re.compile(
    r"[,;:.!?()\r\n\u2013\u2014]|\b(?:but|and|then|because|although|until)\b", re.IGNORECASE
)
_NEGATED: Final = re.compile(
    r"\b(?:no|not|never|without|nobody|neither|nor|cannot|no one|\w{2,6}n't|(?:do|does|did|wo|ca|is|was|are|has|have|would|could)nt)\b(?:\s+[\w'-]{1,14}){0,3}\s*$",
    re.IGNORECASE,
)
_NOT_ONLY: Final = re.compile(
    r"\bnot (?:only|just|to mention)\b|\bno (?:less|doubt)\b|(?:n't|\bnot) (?:stop|afraid|know)\b",
    re.IGNORECASE,
)
_ITSELF: Final = frozenset(("failed_attempts", "supervisor"))  # their own words are negations
_AGAINST_OTHERS: Final = frozenset(("threat_to_third", "threat_of_injury"))
_WRITER: Final = re.compile(r"\b(?:me|us)\b|\b(?:my|our) \w+$", re.IGNORECASE)
_PET: Final = re.compile(r"\b(?:dogs?|cats?|pupp(?:y|ies)|kittens?|horses?|pets?)$", re.IGNORECASE)
_BY_WRITER: Final = re.compile(
    r"(?:^|[\w.,!?] )(?<!says )(?<!said )(?<!wrote )(?<!texted )(?<!screams )(?<!shouts )(?<!yells )"
    r"i(?:'m| am|m)?(?: really| just| honestly| so)? ?$",
    re.IGNORECASE,
)
_LETHAL: Final = re.compile(
    r"\b(?:kill|stab|shoot|murder|strangle|choke|drown|poison|behead|knife|throat|bullet)\b", re.IGNORECASE
)
_AGE: Final = re.compile(
    r"\b(?:i'm|i am|im|aged?) (?:only |just |already |now )?(\d{1,2})\b(?! ?(?:%|percent|minutes|hours|days|weeks|months|km|miles))",
    re.IGNORECASE,
)
_GROWN: Final = 18


class Trigger(Struct, frozen=True, kw_only=True):
    start: int
    end: int
    text: str
    category: str
    severity: str
    negated: bool
    reason: str


class Situation(Struct, frozen=True, kw_only=True):
    """`heard` says that the words tell of a conflict, and not only of people; `danger` is the kind of `SAFETY` that
    they call for, whatever the plan is made for. `said` are the categories of what was found, the hidden ones too.
    """

    triggers: tuple[Trigger, ...]
    suggested: str | None
    crisis: CrisisReport
    kind: str = "talk"
    heard: bool = True
    danger: str | None = None
    said: frozenset[str] = frozenset()

    def says(self, *categories: str) -> list[Trigger]:
        """The triggers of these categories that hold."""
        return [one for one in self.triggers if one.category in categories and not one.negated]


def understood(
    passage: Passage, rules: Sequence[CompiledRule], crisis: CrisisReport, language: Language
) -> Situation:
    spoken = structs.replace(passage, quoted=())
    found = find(spoken, rules)
    if not any(one.category == "care_there" for one in found):
        found = find(spoken, [rule for rule in rules if rule.rule.id != "care_named"])
    heat = sum(one.category in _HEAT for one in found if one.rule != "veiled_wait")
    formal = [one for one in found if one.category == "formal_threat"]
    findings = [
        one
        for one in found
        if _counts(one, passage.folded)
        and (one.rule != "veiled_wait" or heat)
        and not _is_within(one, formal)
    ]
    said = frozenset(one.category for one in findings) | _threatened(findings, passage.folded)
    signs = tuple(_triggers(passage, (one for one in findings if one.category not in SCENES | HIDDEN)))
    scenes = tuple(_triggers(passage, (one for one in findings if one.category in SCENES)))
    told = Situation(
        triggers=tuple(sorted(signs + scenes, key=lambda one: one.start)),
        suggested=_suggested(signs, crisis),
        crisis=crisis,
        heard=bool(signs or scenes or crisis.raised or crisis.mention or crisis.dangers),
        said=said,
    )
    called = _called_for(told, said, language)
    danger = next((kind for kind in KINDS if kind in called & SAFETY), None)
    kind = next(kind for kind in KINDS if kind in called)
    suggested = "high" if kind in {"road", "hits_back", "suicide"} else told.suggested
    return structs.replace(
        told, kind=kind, danger=danger, heard=told.heard or kind in TOGETHER, suggested=suggested
    )


def _threatened(findings: Iterable[Finding], text: str) -> set[str]:
    """`third` where somebody else than the writer is threatened, `by_writer` where the writer does it."""
    told = set()
    for one in findings:
        if one.rule in _AGAINST_OTHERS and not _is_negated(text, one.start):
            by_writer = _BY_WRITER.search(text[max(0, one.start - _LOOK_BACK) : one.start])
            unwarned = one.rule == "threat_of_injury" and _WRITER.search(one.text)
            told.add("by_writer" if by_writer else "" if unwarned or _PET.search(one.text) else "third")
    return told - {""}


def _is_within(finding: Finding, formal: Sequence[Finding]) -> bool:
    """Whether the word threat is only that of an announced lawsuit, complaint or review."""
    return finding.rule == "threat" and any(one.start <= finding.start < one.end for one in formal)


def _counts(finding: Finding, text: str) -> bool:
    if finding.rule not in {"control_family", "control_money"}:
        return True
    ages = [int(age[1]) for age in _AGE.finditer(text)]
    if finding.rule == "control_family":
        return any(age >= _GROWN for age in ages)
    return not any(age < _GROWN for age in ages)


def _together(situation: Situation) -> set[str]:
    """The kinds that what is said together calls for."""
    said = situation.said
    called = {kind for kind, needed in TOGETHER.items() if needed <= said}
    if not situation.heard:
        called -= _TAKE_SIGNS
    if "work" in said:
        called -= {"couple", "family"}
    if situation.says(*_HEAT):
        called.discard("colleague")  # who is shouted at now needs the steps of a talk
    if "in_law" in said:
        called.discard("couple")
    if {"runs_it", "chat"} <= said or "mods" in said:
        called.add("moderator")
    if "grown_up" in said:
        called.discard("siblings")
    return called


def _called_for(situation: Situation, said: AbstractSet[str], language: Language) -> set[str]:
    """The kinds of plan that the words call for; a talk is always one."""
    dangers = situation.crisis.dangers
    called = {"talk"} | {one.category for one in situation.triggers if one.category in SCENES}
    called |= {one.category for one in situation.says("weapon", "violence", "stalking", "control")}
    called |= _together(situation)
    if situation.says("things") and not _is_child_at_home(called, said):
        called.add("violence")
    grave = [one for one in situation.says("threat") if one.severity == "critical"]
    lethal = any(_LETHAL.search(one.text) for one in grave)
    if lethal or (grave and "small_child" not in called):
        called.add("near_harm" if "by_writer" in said and "third" not in said else "violence")
        called -= {"care"} | (AMONG_CHILDREN if lethal else set())
    if situation.says("near_harm"):
        called.add("near_harm_child" if "kid" in said else "near_harm")
    elif any(danger.subject == "self" for danger in dangers):
        called.add("at_home")
    others = any(danger.subject == "other" and danger.kind in _SUICIDE for danger in dangers)
    if others or (situation.says("self_harm") and not situation.crisis.detected):
        called.add("suicide")
    if any(danger.weapon and danger.kind not in _SUICIDE for danger in dangers):
        called.add("weapon")
    if language == "other":
        called.add("unread")
    elif not situation.heard and (language != "english" or "people" not in said or "at_peace" in said):
        called.add("none")
    if "friendly" in said and situation.suggested != "high":
        called = {"none"}
    return called


def _is_child_at_home(called: AbstractSet[str], said: AbstractSet[str]) -> bool:
    return bool(called & {"teenager", "small_child", "siblings"}) or (
        "kid" in said and not said & {"spouse", "relative", "work"}
    )


def is_cared_for_at_home(situation: Situation) -> bool:
    return situation.kind == "care" and "private" in situation.said and "work" not in situation.said


def handoffs(situation: Situation) -> list[dict[str, Any]]:
    """Who else is needed, the most urgent first."""
    danger = [
        one
        for one in situation.says("weapon", "violence", "threat", "things")
        if (one.category != "threat" or one.severity == "critical")
        and (one.category != "things" or situation.kind in SAFETY)
    ]
    hurt = bool(situation.crisis.dangers)
    if situation.kind in {"care"} | AMONG_CHILDREN:
        danger, hurt = [], False
    if situation.kind == "small_child":
        danger = []
    private = "private" in situation.said and "work" not in situation.said
    theirs = hurt or private or "own_boss" in situation.said or situation.kind in _WITHOUT_SUPERVISOR
    carers = "carer_support" if is_cared_for_at_home(situation) else "care_team"
    needed = [
        ("emergency", danger),
        ("crisis_support", situation.says("self_harm")),
        ("victim_support", situation.says("stalking", "control")),
        ("parent_support", situation.says("near_harm") if situation.kind == "near_harm_child" else ()),
        (carers, situation.says("care") if situation.kind == "care" else ()),
        ("supervisor", () if theirs else situation.says("failed_attempts", "supervisor", "abuse")),
        ("legal", situation.says("legal")),
    ]
    return [
        {"to": to, "because": [one.text for one in because] or [f"signs of {_SIGNS.get(to, 'danger')}"]}
        for to, because in needed
        if because
        or (to == "crisis_support" and situation.crisis.detected)
        or (to == "emergency" and (hurt or situation.kind == "road"))
        or (to == "victim_support" and situation.kind == "at_home")
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
            "effect": _effect(one, situation.kind),
        }
        for one in situation.triggers
    ]


def _effect(trigger: Trigger, kind: str) -> str:
    if trigger.negated:
        return "none: it is said not to be so"
    eased = kind in {"care"} | AMONG_CHILDREN and trigger.category in CARED_FOR
    return "intensity high" if eased else EFFECTS[trigger.category]


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
