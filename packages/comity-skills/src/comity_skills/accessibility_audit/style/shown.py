"""Who perceives an element: whether it is rendered, seen, told to assistive technology, and takes focus.

Rendered is a matter of `display`, `visibility`, closed `details` and `dialog`. Seen asks more: not moved off
the screen, clipped away, without size or fully transparent. Told asks that no `aria-hidden` or `inert` is above.
"""

import re
from itertools import islice

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.style.cascade import Styles

_FIELDS = frozenset({"button", "input", "select", "textarea"})
_NEAR = 200
_OFF_SCREEN = -400.0
_CLIP_NOTHING = re.compile(
    r"rect\(\s*0(?:px)?[\s,]+0(?:px)?[\s,]+0(?:px)?[\s,]+0(?:px)?\s*\)|rect\(\s*1px[\s,]+1px[\s,]+1px[\s,]+1px\s*\)"
)
_CLIP_PATH_NOTHING = re.compile(
    r"inset\(\s*(?:50|[6-9]\d|100)(?:\.\d+)?%\s*\)|circle\(\s*0|polygon\(\s*0(?:px)?\s+0(?:px)?\s*\)"
)


class Shown:
    """Decided for all elements at once, from the root down."""

    def __init__(self, document: Document, styles: Styles) -> None:
        self._styles = styles
        size = len(document.elements)
        self._displayed = [True] * size
        self._told = [True] * size
        self._inert = [False] * size
        self._seen = [True] * size
        for element in document.elements:
            above = element.parent.index if element.parent is not None else None
            place = element.index
            displayed = above is None or self._displayed[above]
            self._displayed[place] = (
                displayed and styles.display(element) != "none" and not _in_closed_details(element)
            )
            inert = element.has("inert") or (above is not None and self._inert[above])
            self._inert[place] = inert
            hidden = (element.get("aria-hidden") or "").strip().lower() == "true"
            self._told[place] = not hidden and not inert and (above is None or self._told[above])
            self._seen[place] = (above is None or self._seen[above]) and not self._concealed(element)

    def displayed(self, element: Element) -> bool:
        """Has a box, be it invisible."""
        return self._displayed[element.index]

    def rendered(self, element: Element) -> bool:
        return self._displayed[element.index] and self._styles.of(element).visible

    def seen(self, element: Element) -> bool:
        return self.rendered(element) and self._seen[element.index]

    def told(self, element: Element) -> bool:
        """Whether it is in the accessibility tree, its own role left aside."""
        return self._told[element.index] and self.rendered(element)

    def aria_hidden(self, element: Element) -> bool:
        """`aria-hidden` or `inert` on it or above it, rendered or not."""
        return not self._told[element.index]

    def focusable(self, element: Element) -> bool:
        if not self.rendered(element) or self._inert[element.index]:
            return False
        if is_disabled(element):
            return False
        return _takes_focus(element) or tab_index(element) is not None

    def tabbable(self, element: Element) -> bool:
        """Whether the tab key reaches it."""
        place = tab_index(element)
        return self.focusable(element) and (place is None or place >= 0)

    def _concealed(self, element: Element) -> bool:
        styles = self._styles
        get = styles.get
        if styles.number(element, "opacity", 1.0) <= 0:
            return True
        position = (get(element, "position") or "").lower()
        moved = position in {"absolute", "fixed"}
        if moved and _CLIP_NOTHING.search((get(element, "clip") or "").lower()):
            return True
        if _CLIP_PATH_NOTHING.search((get(element, "clip-path") or "").lower()):
            return True
        places = ("text-indent", "left", "top", "right", "bottom")
        for place in places if moved or position == "relative" else places[:1]:
            away = styles.pixels(element, place)
            if away is not None and away <= _OFF_SCREEN:
                return True
        for axis, extent in (("overflow-x", "width"), ("overflow-y", "height")):
            hides = (get(element, axis) or "").lower() in {"hidden", "clip"}
            size = styles.pixels(element, extent)
            if hides and size is not None and size <= 1:
                return True
        transform = (get(element, "transform") or "").replace(" ", "").lower()
        return transform.startswith(("scale(0)", "scale(0,", "scalex(0)", "scaley(0)"))


def is_disabled(element: Element) -> bool:
    """By the attribute, its own or that of a `fieldset` above (whose first legend stays enabled)."""
    if element.tag in _FIELDS | {"option", "optgroup", "fieldset"} and element.has("disabled"):
        return True
    if element.tag not in _FIELDS:
        return False
    below = element
    for above in element.ancestors():
        shut = above.tag == "fieldset" and above.has("disabled")
        if shut and first_child(above, "legend") is not below:
            return True
        below = above
    return False


def _takes_focus(element: Element) -> bool:
    tag = element.tag
    if tag in {"a", "area"}:
        return element.has("href") or element.has("xlink:href")
    if tag == "input":
        return (element.get("type") or "").strip().lower() != "hidden"
    if tag in _FIELDS or tag in {"iframe", "embed", "object"}:
        return tag not in {"embed", "object"}
    if tag in {"audio", "video"}:
        return element.has("controls")
    if tag == "summary":
        parent = element.parent
        if parent is None or parent.tag != "details":
            return False
        return first_child(parent, "summary") is element
    return element.has("contenteditable") and (element.get("contenteditable") or "").lower() != "false"


def tab_index(element: Element) -> int | None:
    found = re.match(r"\s*([+-]?\d{1,9})", element.get("tabindex") or "")
    return int(found[1]) if found is not None else None


def _in_closed_details(element: Element) -> bool:
    parent = element.parent
    if parent is None or parent.tag != "details" or parent.has("open"):
        return False
    return first_child(parent, "summary") is not element


def first_child(element: Element, tag: str) -> Element | None:
    """The first child with a tag, looked for where authors put it: near the front."""
    return next((one for one in islice(element.elements(), _NEAR) if one.tag == tag), None)
