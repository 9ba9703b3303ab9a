"""`wcagaaa_check` of 0.1.1: five things to look at first, by level. It reads no page, and says so.

Each list has two items of high, two of medium and one of low severity, as recorded, and names no criterion above
its level.
"""

from collections.abc import Mapping
from typing import Any, Final

from comity_skills.accessibility_audit.criteria import Level
from comity_skills.accessibility_audit.dom.tree import looks_like_html
from comity_skills.skill import Mode, SkillOutcome

_Item = tuple[str, str]  # issue, fix

_BYPASS: Final[_Item] = (
    "Repeated navigation may have to be passed with the tab key on every page (2.4.1).",
    "Begin the page with a link that leads to the main content.",
)
_LABELS: Final[_Item] = (
    "Form fields may lack a label that programs can find (1.3.1, 4.1.2).",
    "Connect a label element to every field.",
)
_IMAGES: Final[_Item] = (
    "Images may lack a text alternative (1.1.1).",
    'Describe what each image tells in its alt attribute; write alt="" for decoration.',
)
_CONTRAST: Final = "Measure every pair of text and background colours and darken or lighten one of them."
_SEEING: Final[Mapping[Level, _Item]] = {
    "A": (
        "Colour may be the only sign of a link, an error or a state (1.4.1).",
        "Add a second sign: an underline, a word or an icon with a text alternative.",
    ),
    "AA": ("Text may not reach the contrast of 4.5 to 1, or 3 to 1 if it is large (1.4.3).", _CONTRAST),
    "AAA": (
        "Text may not reach the enhanced contrast of 7 to 1, or 4.5 to 1 if it is large (1.4.6).",
        _CONTRAST,
    ),
}
_WORDING: Final[Mapping[Level, _Item]] = {
    "A": (
        'Links may not say where they lead, as in "click here" (2.4.4).',
        "Name the target in the text of the link.",
    ),
    "AA": (
        "Headings and labels may not say what they are about (2.4.6).",
        "Word each heading and label so that it tells the topic or the purpose on its own.",
    ),
    "AAA": (
        "Links may open new tabs without saying so (3.2.5).",
        "Say in the text of the link that it opens a new tab, or let it open in place.",
    ),
}
_SEVERITIES: Final = ("high", "high", "medium", "medium", "low")


def first_look(given: Mapping[str, Any], level: Level, mode: Mode) -> SkillOutcome:
    context = given.get("context")
    told = isinstance(context, str) and bool(context.strip())
    holds = "; it holds HTML, which was not read" if looks_like_html(given["target"]) else ""
    items = (_BYPASS, _SEEING[level], _LABELS, _IMAGES, _WORDING[level])
    return SkillOutcome(
        uncertainty="high" if mode == "enhanced" else "medium",
        assumptions=(
            f"Target: as given{holds or '; it was neither fetched nor read'}",
            f"Compliance level: WCAG 2.2 {level}",
            "Context: as given; it does not change the list" if told else "No additional context provided",
            "Automation finds about 40 % of the barriers; people have to look for the rest",
        ),
        output={
            "summary": (
                f"Five things to look at first for WCAG 2.2 {level}. Nothing was checked: the list is the same for "
                "every target."
            ),
            "findings": [
                {"severity": severity, "issue": issue, "fix": fix}
                for severity, (issue, fix) in zip(_SEVERITIES, items, strict=True)
            ],
            "next_step": (
                "To have the page itself checked, call accessibility_audit with its text, "
                '{"pages": [{"url": "…", "html": "…"}]}, or with its address, {"url": "https://…"}.'
            ),
        },
    )
