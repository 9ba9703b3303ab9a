"""The check in every mode.

- *strict* and *compat* choose areas as 0.1.1 does: every area when no focus is given, else those that a
  focus or the description names, found inside words too (`platform` names `form`).
- *enhanced* reads whole words with their negation, says which of them set off what, and gives advice for
  those first, then, marked as general, for the areas in focus what the description does not speak of. With
  neither, it says that it found nothing to go by. A trade-off is told of what was found.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from comity_skills.skill import SkillOutcome
from comity_skills.words.interface import Description, Interface
from comity_skills.words.phrases import Phrases
from comity_skills.words.rules import Rule, Trigger, advice, evidence, not_counted
from comity_skills.words.tokens import tokens

_MOST_SHOWN: Final = 60


class Area(Struct, frozen=True, kw_only=True):
    id: str
    recorded_focus: tuple[str, ...]
    recorded_words: tuple[str, ...]
    focus: tuple[str, ...]
    guidance: tuple[str, ...]
    covered_by: tuple[tuple[str, ...], ...]
    lead: str
    tradeoff_for: tuple[str, ...]
    tradeoff: str
    place_guidance: tuple[str, ...]
    place_covered_by: tuple[tuple[str, ...], ...]
    place_tradeoff: str


class Guidance(Struct, frozen=True, kw_only=True):
    areas: tuple[Area, ...]
    general: tuple[str, ...]
    closing_tradeoff: str
    place_test: str
    place_closing_tradeoff: str
    rules: tuple[Rule, ...]


def recorded(description: str, focus: Sequence[str], known: Guidance) -> SkillOutcome:
    text = description.lower()
    items = [item.lower() for item in focus]
    chosen = [
        area
        for area in known.areas
        if not items
        or any(term in item for item in items for term in area.recorded_focus)
        or any(word in text for word in area.recorded_words)
    ]
    shown = ", ".join(item[:_MOST_SHOWN] for item in focus[:10])
    return SkillOutcome(
        uncertainty="medium",
        assumptions=[
            f"Focus: {shown}" if focus else "Focus: none given, so all areas are covered",
            "Guidance follows the words of the description; the interface itself was not seen.",
            "Neurodivergent people differ from each other; no guidance holds for all.",
        ],
        output={
            "recommendations": [line for area in chosen for line in area.guidance] or list(known.general),
            "tradeoffs": [*(area.tradeoff for area in chosen), known.closing_tradeoff],
        },
    )


class Reader:
    """The check in our own mode, with its words compiled."""

    def __init__(self, known: Guidance, interface: Interface) -> None:
        self._known = known
        self._interface = interface
        self._focus = Phrases((phrase, area.id) for area in known.areas for phrase in area.focus)

    def check(self, description: str, focus: Sequence[str]) -> SkillOutcome:
        read = self._interface.read(description)
        found = read.told
        wanted, unknown = self._wanted(focus)
        touched = {group for each in found.values() for group in each[0].rule.groups}
        # a checklist is for those who ask for an area; the others get what their description is about
        areas = [area for area in self._known.areas if area.id in wanted]
        said = [line for each in found.values() for line in advice(each)]
        if not found:
            said = read.general(() if areas else self._known.general)
            said += [self._known.place_test] if read.place else []
        guidance = [line for area in areas for line in _in_general(area, read)]
        touching = [area for area in self._known.areas if found.keys() & set(area.tradeoff_for)]
        closing = self._known.place_closing_tradeoff if read.place else self._known.closing_tradeoff
        return SkillOutcome(
            uncertainty=read.uncertainty,
            assumptions=_assumptions(found, read, unknown),
            output={
                "recommendations": [*said, *guidance],
                "tradeoffs": [
                    *filter(
                        None, (area.place_tradeoff if read.place else area.tradeoff for area in touching)
                    ),
                    closing,
                ],
                "areas": [name for name in self._names() if name in wanted | touched],
                "triggers": evidence(read.triggers),
                "not_counted": not_counted(read.triggers),
            },
        )

    def _names(self) -> list[str]:
        return [*(area.id for area in self._known.areas), "language"]

    def _wanted(self, focus: Sequence[str]) -> tuple[set[str], list[str]]:
        wanted: set[str] = set()
        unknown = []
        for item in focus:
            named = {found.meaning for found in self._focus.find(tokens(item))}
            wanted |= named
            if not named:
                unknown.append(item)
        return wanted, unknown


def _in_general(area: Area, read: Description) -> list[str]:
    if read.place:
        return read.not_said(area.lead, area.place_guidance, area.place_covered_by)
    return read.not_said(area.lead, area.guidance, area.covered_by)


def _assumptions(found: dict[str, list[Trigger]], read: Description, unknown: Sequence[str]) -> list[str]:
    seen = "the place or process itself" if read.place else "the interface itself"
    lines = [f"Guidance follows the words of the description; {seen} was not seen."]
    if read.language == "other":
        lines.append("The description is not in English: its words could not be read.")
    elif not found:
        lines.append(
            "No word of the description points to a barrier that is known here; the hints are general."
        )
    if unknown:
        shown = ", ".join(item[:_MOST_SHOWN] for item in unknown[:10])
        lines.append(f"There is no guidance here for this focus: {shown}.")
    lines.append("Neurodivergent people differ from each other; no guidance holds for all.")
    return lines
