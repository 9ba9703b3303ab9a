"""What the eye takes in at a glance is also in the markup: levels of headings, and labels that stay."""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
)

_LEVEL = re.compile(r"[1-9]")


def _level(element: Element) -> int:
    given = (element.get("aria-level") or "").strip()
    if _LEVEL.fullmatch(given):
        return int(given)
    return int(element.tag[1]) if element.tag in {"h1", "h2", "h3", "h4", "h5", "h6"} else 2


def _levels(subject: Subject) -> Iterator[Finding]:
    before = 0
    for element in subject.roles.with_role("heading"):
        if not subject.shown.told(element):
            continue
        level = _level(element)
        if before and level > before + 1:
            yield cannot_tell(
                element, f"The level of headings goes from {before} to {level}; see that no level is missing."
            )
        before = level


def _placeholders(subject: Subject) -> Iterator[Finding]:
    for element in subject.document.tagged("input", "textarea"):
        if not (element.get("placeholder") or "").strip() or not subject.shown.seen(element):
            continue
        labels = [
            *subject.names.labels(element),
            *subject.document.referenced(element, "aria-labelledby"),
        ]
        if not any(subject.shown.seen(label) and subject.names.content(label) for label in labels):
            yield cannot_tell(
                element, "The placeholder is the only label connected, and goes when one types."
            )


RULES = (
    Rule(
        id="heading-levels",
        name="Levels of headings follow each other",
        criteria=("1.3.1",),
        how="Where a heading is more than one level below the one before, a person looks (our own rule).",
        fix="Use the level that the section has on the page.",
        check=_levels,
        decides=False,
        seen="levels of headings that are skipped",
    ),
    Rule(
        id="label-stays",
        name="Label stays while somebody types",
        criteria=("3.3.2",),
        how="Where only a placeholder labels a field to the eye, a person looks for words beside it (our own rule).",
        fix="Show a label beside the field, and keep the placeholder for an example.",
        check=_placeholders,
        decides=False,
        seen="a placeholder as the only label",
    ),
)
