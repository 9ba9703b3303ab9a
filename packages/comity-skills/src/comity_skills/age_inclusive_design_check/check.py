"""The check in every mode.

- *strict* and *compat* choose groups as 0.1.1 does: both when none is named, else those whose words occur
  in `age_groups`, found inside words too; money is looked for in the description.
- *enhanced* reads whole words and ages in numbers, says which words of the description set off what, and
  gives advice for those first. A group counts when it is named in `age_groups`, or, when none is given, in
  the description; with neither, both do.
"""

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from comity_skills.reading.language import Language
from comity_skills.skill import SkillOutcome, Uncertainty
from comity_skills.words.interface import Description, Interface
from comity_skills.words.negation import is_absent
from comity_skills.words.phrases import Phrases
from comity_skills.words.rules import Rule, Trigger, advice, evidence, not_counted
from comity_skills.words.tokens import tokens

_AGE: Final = re.compile(r"(?<!\d)(\d{1,3})(?!\d)")
_UNDER: Final = re.compile(
    r"\b(?:under|below|younger than|less than|up to)[ -]?(?:the age of )?(\d{1,2})(?!\d)", re.IGNORECASE
)
_THINGS: Final = (
    "app|building|business|car|code|company|computer|device|house|laptop|law|phone|policy|printer|server|site|software|system"
    "|tablet|version|website"
)
# in a description a number is an age only where it is said to be one
_SAID_AGE: Final = re.compile(
    r"\b(?:aged?|ages|age of|age group)(?:,? (?:of|from|between|over|under|above|below|groups?))?[ :]{1,2}"
    r"\d{1,3}(?:\+|(?: ?[-\u2013] ?| (?:to|and|or) )\d{1,3})?(?! (?:second|minute|hour|day|week)s?\b)(?!\d)"
    r"|(?<![\d.])\d{1,3}(?:(?: ?[-\u2013] ?| (?:to|and|or) )\d{1,3})?[- ]years?[- ]olds?\b"
    rf"(?![- ](?:{_THINGS}))|\b(?:over|under)[- ]?\d{{1,3}}s\b",
    re.IGNORECASE,
)
_GROWN_UP: Final = 18
_OLDER_FROM: Final = 60
_YOUNGER_TO: Final = 17
_OLDEST: Final = 120
_MOST_SHOWN: Final = 60


class Group(Struct, frozen=True, kw_only=True):
    recorded: tuple[str, ...]
    words: tuple[str, ...]
    recommendations: tuple[str, ...]
    covered_by: tuple[tuple[str, ...], ...]
    place_recommendations: tuple[str, ...]
    place_covered_by: tuple[tuple[str, ...], ...]
    lead: str
    notes: tuple[str, ...]


class Payment(Struct, frozen=True, kw_only=True):
    recorded: tuple[str, ...]
    words: tuple[str, ...]
    no_money: tuple[str, ...]
    recommendations: tuple[str, ...]
    note: str


class Guidance(Struct, frozen=True, kw_only=True):
    older: Group
    younger: Group
    general: tuple[str, ...]
    payment: Payment
    closing_notes: tuple[str, ...]
    no_ages: tuple[str, ...]
    digital_notes: tuple[str, ...]
    other_ages: tuple[str, ...]
    rules: tuple[Rule, ...]


def recorded(description: str, age_groups: Sequence[str], known: Guidance) -> SkillOutcome:
    items = [item.lower() for item in age_groups]
    groups = [
        group
        for group in (known.older, known.younger)
        if not items or any(term in item for item in items for term in group.recorded)
    ]
    text = description.lower()
    money = any(word in text for word in known.payment.recorded)
    lines = [_groups_line(age_groups), *_CAVEATS]
    guidance = [line for group in groups for line in group.recommendations] or known.general
    return _outcome("low", lines, known, groups, money=money, guidance=guidance)


_CAVEATS: Final = (
    "Guidance follows the words of the description; the flow itself was not seen.",
    "Needs vary within every age group.",
)


def _groups_line(age_groups: Sequence[str]) -> str:
    shown = ", ".join(item[:_MOST_SHOWN] for item in age_groups[:10])
    return f"Age groups: {shown}" if age_groups else "Age groups: none given, so all are covered"


def _outcome(
    uncertainty: Uncertainty,
    assumptions: list[str],
    known: Guidance,
    groups: Sequence[Group],
    *,
    money: bool,
    guidance: Sequence[str],
    left_out: Sequence[str] = (),
    more: dict[str, object] | None = None,
) -> SkillOutcome:
    notes = [line for group in groups for line in group.notes if line not in left_out]
    if money:
        notes.append(known.payment.note)
    return SkillOutcome(
        uncertainty=uncertainty,
        assumptions=assumptions,
        output={
            "recommendations": [*guidance, *(known.payment.recommendations if money else ())],
            "access_notes": [*notes, *known.closing_notes],
            **(more or {}),
        },
    )


class Reader:
    """The check in our own mode, with its words compiled."""

    def __init__(self, known: Guidance, interface: Interface) -> None:
        self._known = known
        self._interface = interface
        entries: list[tuple[str, str | None]] = [(phrase, None) for phrase in known.no_ages]
        entries += [(phrase, "older") for phrase in known.older.words]
        entries += [(phrase, "younger") for phrase in known.younger.words]
        self._groups = Phrases(entries)
        spent: list[tuple[str, bool | None]] = [(phrase, None) for phrase in known.payment.no_money]
        self._others = Phrases((phrase, True) for phrase in known.other_ages)
        self._money = Phrases([*spent, *((phrase, True) for phrase in known.payment.words)])

    def check(self, description: str, age_groups: Sequence[str]) -> SkillOutcome:
        named = self._named(age_groups, description)
        young = "younger" in named | self._named((), description)
        read = self._interface.read(description, young=young)
        found = read.told
        pairs = (("older", self._known.older), ("younger", self._known.younger))
        groups = [group for name, group in pairs if name in named]
        said = [line for each in found.values() for line in advice(each)]
        if not found:
            said = read.general(() if groups else self._known.general)
        return _outcome(
            read.uncertainty,
            _assumptions(age_groups, found, read.language, self._no_ages(age_groups)),
            self._known,
            groups,
            money=self._moves_money(description),
            guidance=[
                *said,
                *(line for group in groups for line in _in_general(group, read)),
            ],
            left_out=self._known.digital_notes if read.place else (),
            more={
                "groups": [name for name, _ in pairs if name in named],
                "triggers": evidence(read.triggers),
                "not_counted": not_counted(read.triggers),
            },
        )

    def _moves_money(self, description: str) -> bool:
        words = tokens(description)
        return any(not is_absent(words, one.first, one.last) for one in self._money.find(words))

    def _no_ages(self, age_groups: Sequence[str]) -> list[str]:
        """Those of the groups that name no age."""
        return [
            item
            for item in age_groups
            if not self._in_words(item) and not _AGE.search(item) and not self._others.find(tokens(item))
        ]

    def _named(self, age_groups: Sequence[str], description: str) -> set[str]:
        if not age_groups:
            # nobody is named: what was described is answered, no checklist
            said = [match[0] for match in _SAID_AGE.finditer(description)]
            return self._in_words(description).union(*map(_by_age, said))
        return set[str]().union(*(self._in_words(item) | _by_age(item) for item in age_groups))

    def _in_words(self, text: str) -> set[str]:
        return {found.meaning for found in self._groups.find(tokens(text))}


def _in_general(group: Group, read: Description) -> list[str]:
    if read.place:
        return read.not_said(group.lead, group.place_recommendations, group.place_covered_by)
    return read.not_said(group.lead, group.recommendations, group.covered_by)


def _by_age(words: str) -> set[str]:
    ages = [age for age in map(int, _AGE.findall(words)) if age <= _OLDEST]
    below = [int(age) for age in _UNDER.findall(words)]
    named = {"older"} if any(age >= _OLDER_FROM for age in ages) else set[str]()
    if any(age <= _YOUNGER_TO for age in ages) or any(age <= _GROWN_UP for age in below):
        named.add("younger")
    return named


def _assumptions(
    age_groups: Sequence[str], found: dict[str, list[Trigger]], language: Language, no_ages: Sequence[str]
) -> list[str]:
    lines = [
        _groups_line(age_groups) if age_groups else "Age groups: none given; what was described is answered."
    ]
    if no_ages:
        shown = ", ".join(item[:_MOST_SHOWN] for item in no_ages[:10])
        lines.append(f"No age was recognised in: {shown}. There is no guidance here for that group as such.")
    if language == "other":
        lines.append("The description is not in English: its words could not be read.")
    elif not found:
        lines.append(
            "No word of the description points to a barrier that is known here; the hints are general."
        )
    return [*lines, *_CAVEATS]
