"""Text stands out from what is behind it.

The colours are those of the cascade, laid over one another along the ancestors. Of several possible
backgrounds (the stops of a gradient) the best counts, as the ACT rules say. Pictures, filters, positioned
elements and style sheets that are not at hand leave the question open.
"""

import re
from collections.abc import Callable, Iterator

from comity.core.actions.skills.accessibility_audit.dom.tree import Element
from comity.core.actions.skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    passed,
)
from comity.core.actions.skills.accessibility_audit.style.colour import (
    WHITE,
    Colour,
    contrast,
    faded,
    over,
    read_colour,
)
from comity.core.actions.skills.accessibility_audit.style.shown import is_disabled

_LARGE = 24.0
_LARGE_BOLD = 18.66
_BOLD = 700
_STOP = re.compile(
    r"#[0-9a-f]{3,8}\b|(?:rgba?|hsla?|hwb)\([^()]*\)|\b(?!(?:linear|radial|conic|repeating|gradient|to|top|"
    r"bottom|left|right|at|center|circle|ellipse|from|deg|in)\b)[a-z]+\b",
    re.IGNORECASE,
)
# A single sign such as an X on a button is not language; one ideograph is.
_WORD = re.compile(r"[^\W_]{2}|[^\W_]\W+[^\W_]|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_TYPED = frozenset({"text", "search", "email", "tel", "url", "password", "number", ""})
_STOPS = 12


def _enough(normal: float, large: float) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        disabled = _disabled_labels(subject)
        for element in subject.document.elements:
            if not _has_own_text(element) or not subject.shown.seen(element):
                continue
            if element.foreign or element.index in disabled or _out_of_use(element):
                continue
            yield _judge(subject, element, normal, large)

    return check


def _has_own_text(element: Element) -> bool:
    """Text in a human language directly inside, or typed into a field."""
    if element.tag == "input":
        kind = (element.get("type") or "").strip().lower()
        return kind in _TYPED | {"submit", "button", "reset"} and bool(
            _WORD.search(element.get("value") or "")
        )
    return any(isinstance(child, str) and _WORD.search(child) for child in element.children)


def _out_of_use(element: Element) -> bool:
    for above in element.lineage():
        if is_disabled(above) or (above.get("aria-disabled") or "").strip().lower() == "true":
            return True
    return False


def _disabled_labels(subject: Subject) -> set[int]:
    """The labels of controls that are out of use, with all that is in them."""
    found: set[int] = set()
    for control in subject.document.elements:
        if not is_disabled(control) and (control.get("aria-disabled") or "").strip().lower() != "true":
            continue
        labels = subject.names.labels(control) + subject.document.referenced(control, "aria-labelledby")
        for label in labels:
            found.update(range(label.index, label.end))
    return found


def _judge(subject: Subject, element: Element, normal: float, large: float) -> Finding:
    style = subject.styles.of(element)
    if subject.styles.external:
        return cannot_tell(element, "Colours may come from a style sheet that is not at hand.")
    if style.color is None or style.size is None:
        return cannot_tell(element, "The colour or the size of the text is not known.")
    shadow = subject.styles.taken(element, "text-shadow") or "none"
    if shadow.lower() not in {"none", "initial"}:
        return cannot_tell(element, "The text has a shadow.")
    pairs, unknown = _pairs(subject, element, style.color)
    if unknown:
        return cannot_tell(element, unknown)
    big = style.size >= _LARGE or (style.size >= _LARGE_BOLD and style.weight >= _BOLD)
    needed = large if big else normal
    ratio = max(contrast(text, behind) for text, behind in pairs)
    if round(ratio, 2) >= needed:
        return passed(element)
    if ratio < 1.005:
        return cannot_tell(element, "The text has the colour of its background and cannot be seen.")
    return failed(element, f"The contrast is {ratio:.2f}, needed is {needed:g}.")


def _pairs(subject: Subject, element: Element, color: Colour) -> tuple[list[tuple[Colour, Colour]], str]:
    """Text and background as seen, for each background there may be; or why they are not known."""
    texts, layers = [color], []
    for above in element.lineage():
        styles = subject.styles
        for name in ("filter", "backdrop-filter", "mix-blend-mode", "background-blend-mode"):
            if (styles.get(above, name) or "none").lower() not in {"none", "normal", "initial"}:
                return [], "A filter changes the colours."
        clip = styles.get(above, "background-clip") or styles.get(above, "-webkit-background-clip") or ""
        if "text" in clip.lower():
            return [], "The background is seen through the text."
        opacity = max(0.0, min(1.0, styles.number(above, "opacity", 1.0)))
        behind, unknown = _layer(subject, above)
        if unknown:
            return [], unknown
        layers.append((behind, opacity))
        if opacity >= 1 and all(one.alpha >= 1 for one in behind) and not _faded_above(subject, above):
            break
        position = (styles.get(above, "position") or "").lower()
        if position in {"absolute", "fixed"} and above.tag != "body":
            return [], "The element is placed over others."
    return _compose(texts[0], layers), ""


def _faded_above(subject: Subject, element: Element) -> bool:
    """An opaque background hides what is behind it, unless an element around it is faded as a whole."""
    return any(subject.styles.number(above, "opacity", 1.0) < 1 for above in element.ancestors())


def _compose(color: Colour, layers: list[tuple[list[Colour], float]]) -> list[tuple[Colour, Colour]]:
    """From the innermost layer outwards: the text and its background fade and mix together."""
    first, opacity = layers[0]
    pairs = [(faded(over(color, one), opacity), faded(one, opacity)) for one in first]
    for behind, opacity in layers[1:]:
        pairs = [
            (faded(over(text, one), opacity), faded(over(back, one), opacity))
            for text, back in pairs[:_STOPS]
            for one in behind
        ]
    return [(over(text, WHITE), over(back, WHITE)) for text, back in pairs]


def _layer(subject: Subject, element: Element) -> tuple[list[Colour], str]:
    background = subject.styles.of(element).background
    if background is None:
        return [], "The background colour is not known."
    image = subject.styles.get(element, "background-image")
    if image is None or image.lower() in {"none", "initial", "unset"}:
        return [background], ""
    if "url(" in image.lower() or "gradient(" not in image.lower() or image.lower().count("gradient(") > 1:
        return [], "There is a picture behind the text."
    stops = [colour for word in _STOP.findall(image) if (colour := read_colour(word)) is not None]
    if not stops:
        return [], "The colours of the gradient are not known."
    return [over(stop, background) for stop in stops[:_STOPS]], ""


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
