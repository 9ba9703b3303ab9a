"""What is behind and before a text: the colours on the screen, worked out from the root down.

A colour inside an element reaches the screen through the backgrounds and the opacity of all elements around
it. Each of these steps is linear in the colour, so all of them together are: `scale * colour + tint * alpha +
shift`, with the colour multiplied by its alpha. Every element keeps this one step, made from its parent's; a
gradient makes one for each of its colours. What cannot be known is kept as a reason instead.
"""

import re
from typing import NamedTuple

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.style.cascade import Styles
from comity_skills.accessibility_audit.style.colour import Colour, over, read_colour

STOPS = 12

_STOP = re.compile(
    r"#[0-9a-f]{3,8}\b|(?:rgba?|hsla?|hwb)\([^()]*\)|\b(?!(?:linear|radial|conic|repeating|gradient|to|top|"
    r"bottom|left|right|at|center|circle|ellipse|from|deg|in)\b)[a-z]+\b",
    re.IGNORECASE,
)
_PLAIN = frozenset({"none", "normal", "initial", "unset"})
_EFFECTS = ("filter", "backdrop-filter", "mix-blend-mode", "background-blend-mode")

_Part = tuple[float, float, float]


class _Step(NamedTuple):
    scale: float
    tint: _Part
    shift: _Part

    def through(self, color: Colour) -> Colour:
        parts = [
            self.scale * part * color.alpha + tint * color.alpha + shift
            for part, tint, shift in zip(color[:3], self.tint, self.shift, strict=True)
        ]
        red, green, blue = (min(1.0, max(0.0, part)) for part in parts)
        return Colour(red, green, blue)

    def inside(self, background: Colour, opacity: float) -> "_Step":
        """The step of an element whose parent has this one."""
        scale = self.scale * opacity
        behind = [part * background.alpha for part in background[:3]]
        tint = [
            -scale * part + tint * opacity * (1 - background.alpha)
            for part, tint in zip(behind, self.tint, strict=True)
        ]
        shift = [
            scale * part + tint * opacity * background.alpha + shift
            for part, tint, shift in zip(behind, self.tint, self.shift, strict=True)
        ]
        return _Step(scale, (tint[0], tint[1], tint[2]), (shift[0], shift[1], shift[2]))


_PAPER = _Step(1.0, (-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))


class Backdrop(NamedTuple):
    """`effect` cannot be hidden by an opaque background, `unknown` can."""

    steps: tuple[_Step, ...]
    unknown: str
    effect: str
    faded: bool
    shadow: bool

    def pairs(self, color: Colour) -> list[tuple[Colour, Colour]]:
        """Text and background as seen, for each background there may be."""
        clear = color._replace(alpha=0.0)
        return [(step.through(color), step.through(clear)) for step in self.steps]


_FIRST = Backdrop((_PAPER,), "", "", faded=False, shadow=False)


def backdrops(document: Document, styles: Styles) -> list[Backdrop]:
    """One for each element, in document order."""
    found: list[Backdrop] = []
    for element in document.elements:
        above = found[element.parent.index] if element.parent is not None else _FIRST
        found.append(_inside(above, element, styles))
    return found


def _inside(above: Backdrop, element: Element, styles: Styles) -> Backdrop:
    opacity = max(0.0, min(1.0, styles.number(element, "opacity", 1.0)))
    faded = above.faded or opacity < 1
    layers, unknown = _layers(element, styles)
    opaque = bool(layers) and not faded and all(layer.alpha >= 1 for layer in layers)
    if opaque:
        steps: tuple[_Step, ...] = tuple(_PAPER.inside(layer, 1.0) for layer in layers)
    else:
        unknown = unknown or above.unknown or _placed(element, styles)
        steps = tuple(step.inside(layer, opacity) for step in above.steps for layer in layers)[:STOPS]
    shadow = styles.get(element, "text-shadow")
    return Backdrop(
        steps,
        unknown,
        above.effect or _effect(element, styles),
        faded=faded,
        shadow=above.shadow if shadow is None else shadow.lower() not in _PLAIN,
    )


def _effect(element: Element, styles: Styles) -> str:
    if any((styles.get(element, name) or "none").lower() not in _PLAIN for name in _EFFECTS):
        return "A filter changes the colours."
    clip = (
        styles.get(element, "background-clip") or styles.get(element, "-webkit-background-clip") or ""
    ).lower()
    return "The background is seen through the text." if "text" in clip else ""


def _placed(element: Element, styles: Styles) -> str:
    position = (styles.get(element, "position") or "").lower()
    return "The element is placed over others." if position in {"absolute", "fixed"} else ""


def _layers(element: Element, styles: Styles) -> tuple[list[Colour], str]:
    background = styles.of(element).background
    if background is None:
        return [], "The background colour is not known."
    image = (styles.get(element, "background-image") or "none").lower()
    if image in _PLAIN:
        return [background], ""
    if "url(" in image or image.count("gradient(") != 1:
        return [], "There is a picture behind the text."
    stops = [colour for word in _STOP.findall(image) if (colour := read_colour(word)) is not None]
    if not stops:
        return [], "The colours of the gradient are not known."
    return [over(stop, background) for stop in stops[:STOPS]], ""
