"""Session mode: the criteria of a level as a list to work through."""

from collections.abc import Sequence

from comity_skills.accessibility_audit.criteria import LEVELS, Criterion, Level, up_to
from comity_skills.skill import SkillOutcome


def checklist(criteria: Sequence[Criterion], level: Level) -> SkillOutcome:
    asked = up_to(criteria, level)
    count = {"total": len(asked)} | {str(one): sum(each.level == one for each in asked) for one in LEVELS}
    return SkillOutcome(
        uncertainty="low",
        assumptions=(
            "Mode: session (a list for a review by people)",
            f"Level: WCAG 2.2 {level}, with the levels below it",
            "No page was looked at; the list is the same for every product",
            "The wording is ours and explains the criteria; WCAG 2.2 itself is what counts",
        ),
        output={
            "mode": "session",
            "level": level,
            "checklist": [
                {
                    "id": one.id,
                    "title": one.title,
                    "level": one.level,
                    "principle": one.principle,
                    "requirement": one.requirement,
                    "implementation": one.implementation,
                }
                for one in asked
            ],
            "criteria_count": count,
            "session_notice": (
                f"Work through the {len(asked)} criteria of level {level} for each page or state, and write down "
                "for each whether it is met, not met, or does not apply."
            ),
        },
    )
