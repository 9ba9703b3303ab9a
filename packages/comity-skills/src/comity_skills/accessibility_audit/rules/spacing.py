"""Spacing that is fixed with !important in a style attribute is wide enough."""

from collections.abc import Callable, Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import Finding, Rule, Subject, judge
from comity_skills.accessibility_audit.style import length
from comity_skills.accessibility_audit.style.sheet import read_declarations

_ONE_LINE = 25
_LOOKED_AT = 2000


def _spacing(name: str, least: float) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        for element in subject.document.with_attribute("style"):
            css = element.get("style") or ""
            if name not in css.lower():
                continue
            declared = read_declarations(css).get(name)
            if declared is None or not subject.shown.seen(element) or not _has_text(subject, element, name):
                continue
            if not _has_own_text(element, name):  # what is below sets another spacing for all of the text
                continue
            value, important = declared
            ratio = _ratio(subject, element, name, value)
            narrow = important and ratio is not None and ratio < least - 1e-6
            yield judge(element, f"{name} is fixed at less than {least} of the font size." if narrow else "")

    return check


def _has_text(subject: Subject, element: Element, name: str) -> bool:
    """Line height matters only to text that may need a second line."""
    text = subject.names.seen_text(element)
    return len(text) > (_ONE_LINE if name == "line-height" else 0)


def _has_own_text(element: Element, name: str) -> bool:
    """Whether there is text to which the spacing of this element applies: none of those between sets its own."""
    pending: list[Element | str] = list(element.children)
    for _ in range(_LOOKED_AT):
        if not pending:
            return False
        one = pending.pop()
        if isinstance(one, str):
            if one.strip():
                return True
        elif name not in (one.get("style") or "").lower():
            pending.extend(one.children)
    return True


def _ratio(subject: Subject, element: Element, name: str, value: str) -> float | None:
    """The value as a part of the font size; None when it is not known or taken over."""
    lowered = value.strip().lower()
    if lowered in {"inherit", "unset", "revert", "revert-layer"}:
        return None
    if lowered in {"normal", "initial"}:
        return 1.2 if name == "line-height" else 0.0
    size = subject.styles.of(element).size
    parts = length.split(lowered)
    if parts is None or not size:
        return None
    number, unit = parts
    if name == "line-height" and not unit:
        return number
    pixels = length.pixels(lowered, size, size)
    return None if pixels is None else pixels / size


RULES = (
    Rule(
        id="24afc2",
        name="Fixed letter spacing is wide enough",
        criteria=("1.4.12",),
        how="letter-spacing with !important in a style attribute is at least 0.12 of the font size.",
        fix="Leave out !important, so that people can widen the spacing.",
        check=_spacing("letter-spacing", 0.12),
    ),
    Rule(
        id="9e45ec",
        name="Fixed word spacing is wide enough",
        criteria=("1.4.12",),
        how="word-spacing with !important in a style attribute is at least 0.16 of the font size.",
        fix="Leave out !important, so that people can widen the spacing.",
        check=_spacing("word-spacing", 0.16),
    ),
    Rule(
        id="78fd32",
        name="Fixed line height is high enough",
        criteria=("1.4.12",),
        how="line-height with !important in a style attribute is at least 1.5 of the font size.",
        fix="Leave out !important, so that people can widen the spacing.",
        check=_spacing("line-height", 1.5),
    ),
)
