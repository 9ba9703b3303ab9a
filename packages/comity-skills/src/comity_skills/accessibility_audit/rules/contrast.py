"""Text stands out from what is behind it.

The colours are those of the cascade, laid over one another along the ancestors. Of several possible
backgrounds (the stops of a gradient) the best counts, as the ACT rules say. Pictures, filters, positioned
elements and style sheets that are not at hand leave the question open.
"""

import re
from collections.abc import Callable, Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)
from comity_skills.accessibility_audit.style.backdrop import Backdrop, backdrops
from comity_skills.accessibility_audit.style.colour import contrast
from comity_skills.accessibility_audit.style.shown import is_disabled

_LARGE = 24.0
_LARGE_BOLD = 18.66
_BOLD = 700
# A single sign such as an X on a button is not language; one ideograph is.
_WORD = re.compile(r"[^\W_]{2}|[^\W_]\W+[^\W_]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TYPED = frozenset({"text", "search", "email", "tel", "url", "password", "number", ""})
_NO_DIFFERENCE = 1.005


def _enough(normal: float, large: float) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        if subject.styles.external:
            yield cannot_tell(
                subject.document.root, "Colours may come from style sheets that are not at hand."
            )
            return
        idle = _out_of_use(subject)
        behind = backdrops(subject.document, subject.styles)
        for element in subject.document.elements:
            if element.foreign or idle[element.index]:
                continue
            if _has_own_text(element) and subject.shown.seen(element):
                yield _judge(subject, element, behind[element.index], normal, large)

    return check


def _has_own_text(element: Element) -> bool:
    """Text in a human language directly inside, or typed into a field."""
    if element.tag == "input":
        kind = (element.get("type") or "").strip().lower()
        return kind in _TYPED | {"submit", "button", "reset"} and bool(
            _WORD.search(element.get("value") or "")
        )
    return any(isinstance(child, str) and _WORD.search(child) for child in element.children)


def _out_of_use(subject: Subject) -> list[bool]:
    """Which elements are in a control that is out of use, or in the label of one."""
    idle = [False] * len(subject.document.elements)
    labels: set[int] = set()
    for element in subject.document.elements:
        off = is_disabled(element) or (element.get("aria-disabled") or "").strip().lower() == "true"
        idle[element.index] = off or (element.parent is not None and idle[element.parent.index])
        if off:
            named_by = subject.document.referenced(element, "aria-labelledby")
            labels.update(label.index for label in (*subject.names.labels(element), *named_by))
    for element in subject.document.elements:
        if element.index in labels or (element.parent is not None and idle[element.parent.index]):
            idle[element.index] = True
    return idle


def _judge(subject: Subject, element: Element, backdrop: Backdrop, normal: float, large: float) -> Finding:
    style = subject.styles.of(element)
    if style.color is None:
        return cannot_tell(element, "The colour of the text is not known.")
    if backdrop.shadow:
        return cannot_tell(element, "The text has a shadow.")
    unknown = backdrop.effect or backdrop.unknown
    if unknown:
        return cannot_tell(element, unknown)
    ratio = max(contrast(text, behind) for text, behind in backdrop.pairs(style.color))
    if style.size is None and large <= round(ratio, 2) < normal:
        return cannot_tell(element, f"The contrast is {ratio:.2f}; whether the text is large is not known.")
    big = style.size is None or style.size >= (_LARGE_BOLD if style.weight >= _BOLD else _LARGE)
    needed = large if big else normal
    if round(ratio, 2) >= needed:
        return passed(element)
    if ratio < _NO_DIFFERENCE:
        return cannot_tell(element, "The text has the colour of its background and cannot be seen.")
    return failed(element, f"The contrast is {ratio:.2f}, needed is {needed:g}.")


RULES = (
    Rule(
        id="afw4f7",
        name="Text has minimum contrast",
        criteria=("1.4.3",),
        how="Colours from the cascade, transparency mixed; 4.5, or 3 for large text (24 px, or 18.66 px bold).",
        fix="Make the text darker or the background lighter, or the other way round.",
        check=_enough(4.5, 3.0),
    ),
    Rule(
        id="09o5cg",
        name="Text has enhanced contrast",
        criteria=("1.4.6",),
        how="Colours from the cascade, transparency mixed; 7, or 4.5 for large text (24 px, or 18.66 px bold).",
        fix="Make the text darker or the background lighter, or the other way round.",
        check=_enough(7.0, 4.5),
    ),
)
