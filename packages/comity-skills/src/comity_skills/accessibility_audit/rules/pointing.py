"""What is clicked can be operated by those who do not point and click (WCAG failures F42, F54 and F59)."""

from bisect import bisect
from collections.abc import Iterator, Sequence

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)
from comity_skills.words.tokens import word_set

_CONTROLS = word_set("button link checkbox switch textbox searchbox slider spinbutton combobox")
_NEAR = 20
_NOT_OPERATED = word_set("html body form label option area tbody table")


def _reached(subject: Subject) -> Iterator[Finding]:
    takers = [one.index for one in subject.document.elements if subject.shown.focusable(one)]
    around = [False] * len(subject.document.elements)
    for element in subject.document.elements:
        above = element.parent
        if above is not None:
            around[element.index] = around[above.index] or subject.shown.focusable(above)
        clicked = element.has("onclick") and element.tag not in _NOT_OPERATED
        control = subject.roles.explicit(element) in _CONTROLS
        if not (clicked or control) or not subject.shown.seen(element):
            continue
        if subject.shown.focusable(element):
            yield passed(element)
        elif not (around[element.index] or _holds_one(element, takers) or _out_of_use(element)):
            yield _judge(subject, element, clicked=clicked)


def _holds_one(element: Element, takers: Sequence[int]) -> bool:
    place = bisect(takers, element.index)
    return place < len(takers) and takers[place] < element.end


def _out_of_use(element: Element) -> bool:
    return element.has("disabled") or (element.get("aria-disabled") or "").strip().lower() == "true"


def _judge(subject: Subject, element: Element, *, clicked: bool) -> Finding:
    if not clicked:
        return cannot_tell(element, "The control takes no focus; see that the keyboard operates it.")
    if not _says_something(subject, element):
        return cannot_tell(element, "A click does something here; see that the keyboard can do the same.")
    return failed(element, "It answers a click, but takes no focus: the keyboard does not reach it.")


def _says_something(subject: Subject, element: Element) -> bool:
    """Whether there are words or a named picture near its top: a cover that only catches clicks has none."""
    return any(
        (one.get("alt") or "").strip()
        or any(isinstance(child, str) and child.strip() for child in one.children)
        for one in (element, *subject.document.inside(element, _NEAR))
    )


RULES = (
    Rule(
        id="click-reached",
        name="What is clicked is reached by keyboard",
        criteria=("2.1.1", "2.1.3"),
        how="Elements with words and an onclick attribute take the focus, or stand around or in one that does (our own rule).",
        fix='Use a button or a link, or add tabindex="0", a role and handlers for the keys.',
        check=_reached,
    ),
)
