"""`wcagaaa_check` of 0.1.1: five things to look at first on any page. It reads no page, and says so."""

from collections.abc import Mapping
from typing import Any, Final

from comity.skills.accessibility_audit.criteria import Level
from comity.skills.skill import SkillOutcome

_ITEMS: Final = (
    (
        "high",
        "Repeated navigation may have to be passed with the tab key on every page (2.4.1).",
        "Begin the page with a link that leads to the main content.",
    ),
    (
        "high",
        "Text may not reach the enhanced contrast of 7 to 1 (1.4.6).",
        "Measure every pair of text and background colours and darken or lighten one of them.",
    ),
    (
        "medium",
        "Form fields may lack a label that programs can find (1.3.1, 4.1.2).",
        "Connect a label element to every field.",
    ),
    (
        "medium",
        "Images may lack a text alternative (1.1.1).",
        'Describe what each image tells in its alt attribute; write alt="" for decoration.',
    ),
    (
        "low",
        "Links may open new tabs without saying so (3.2.5).",
        "Say in the text of the link that it opens a new tab, or let it open in place.",
    ),
)


def first_look(given: Mapping[str, Any], level: Level) -> SkillOutcome:
    context = given.get("context")
    told = isinstance(context, str) and bool(context.strip())
    return SkillOutcome(
        uncertainty="medium",
        assumptions=(
            "Target: as given; it was neither fetched nor read",
            f"Compliance level: WCAG 2.2 {level}",
            "Context: as given; it does not change the list" if told else "No additional context provided",
            "Automation finds about 40 % of the barriers; people have to look for the rest",
        ),
        output={
            "summary": f"Five things to look at first for WCAG 2.2 {level}. This list is the same for every target.",
            "findings": [{"severity": one, "issue": issue, "fix": fix} for one, issue, fix in _ITEMS],
            "next_step": "Call accessibility_audit with the page itself to have it checked.",
        },
    )
