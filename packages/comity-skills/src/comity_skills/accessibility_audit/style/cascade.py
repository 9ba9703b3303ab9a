"""The cascade: which declaration wins on which element, and what children take over.

- Origin, importance, layers, specificity and order decide, in this order; `style` attributes come last.
- `var()` is resolved along the ancestors, and a variable made of others where it is declared. A value that stays
  unknown is None, and what depends on it is not decided.
- Attributes such as `bgcolor` give way to every rule of a sheet.
- The browser's own sheet is known as far as it shows or hides elements and changes size, weight or colour.
- Matching has a budget of work; rules beyond it are left out and `notes` says so.
"""

from typing import NamedTuple

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.style import length
from comity_skills.accessibility_audit.style.attributes import attributes_as_style
from comity_skills.accessibility_audit.style.colour import BLACK, CLEAR, Colour, read_colour
from comity_skills.accessibility_audit.style.selectors import Selector, match
from comity_skills.accessibility_audit.style.sheet import (
    VALUE,
    Declarations,
    Rule,
    Sheet,
    read_declarations,
)
from comity_skills.words.tokens import word_set

WORK = 1_500_000

_INHERITED = frozenset({"letter-spacing", "word-spacing", "line-height", "text-shadow", "text-indent"})
_KEYWORDS = frozenset({"inherit", "initial", "unset", "revert", "revert-layer"})
_NOT_SHOWN = word_set(
    "head script style template title meta link base noscript datalist source track param noembed noframes rp"
)
_SIZES = {"h1": 2.0, "h2": 1.5, "h3": 1.17, "h5": 0.83, "h6": 0.67, "small": 1 / 1.2, "big": 1.2}
_SIZES |= {"sub": 1 / 1.2, "sup": 1 / 1.2, "code": 13 / 16, "kbd": 13 / 16, "samp": 13 / 16, "pre": 13 / 16}
_BOLD = frozenset({"b", "strong", "th", "h1", "h2", "h3", "h4", "h5", "h6"})
_LINK = Colour(0, 0, 0xEE / 255)
_FACE = Colour(0xEF / 255, 0xEF / 255, 0xEF / 255)
_YELLOW = Colour(1, 1, 0)
_WHITE = Colour(1, 1, 1)
_BUTTONS = frozenset({"button", "submit", "reset"})
_VARIABLE_DEPTH = 12

Priority = tuple[bool, bool, bool, tuple[int, int, int], int]


class Style(NamedTuple):
    """What is taken over by children, and the element's own background. None is unknown."""

    color: Colour | None
    size: float | None
    weight: int
    visible: bool
    background: Colour | None


class _Declared(NamedTuple):
    priority: Priority
    value: str


class Styles:
    """Asked for one element and property at a time: `get` gives the winning text, `of` the computed part."""

    def __init__(self, document: Document, sheet: Sheet) -> None:
        self.document = document
        self.external = sheet.external
        self.notes = list(sheet.notes)
        self.focus_rules: list[tuple[list[Element], Declarations]] = []
        self.oriented: list[tuple[list[Element], Declarations, str]] = []
        self.generated: dict[tuple[int, str], str] = {}
        self._declared: list[dict[str, _Declared]] = [{} for _ in document.elements]
        self._customs: dict[tuple[int, str], str | None] = {}
        self._cascade(sheet)
        self._computed: list[Style] = []
        for element in document.elements:
            self._computed.append(self._compute(element))

    def of(self, element: Element) -> Style:
        return self._computed[element.index]

    def get(self, element: Element, name: str) -> str | None:
        """The winning value of the element itself, `var()` resolved; None when nothing is declared."""
        declared = self._declared[element.index].get(name)
        if declared is None:
            return None
        value = declared.value
        return self._resolved(element, value) if "var(" in value else value

    def important(self, element: Element, name: str) -> bool:
        declared = self._declared[element.index].get(name)
        return declared is not None and declared.priority[0]

    def taken(self, element: Element, name: str) -> str | None:
        """The value an element has or takes over from above, for properties that are inherited."""
        for above in element.lineage():
            value = self.get(above, name)
            if value is not None and value.lower() not in {"inherit", "unset"}:
                return value
        return None

    def display(self, element: Element) -> str:
        value = self.get(element, "display")
        if value is not None and value.lower() not in _KEYWORDS:
            return value.lower()
        if element.foreign:
            return "inline"
        if element.tag in _NOT_SHOWN or (element.has("hidden") and element.get("hidden") != "until-found"):
            return "none"
        if element.tag == "dialog" and not element.has("open"):
            return "none"
        if element.tag == "input" and (element.get("type") or "").strip().lower() == "hidden":
            return "none"
        return ""

    def pixels(self, element: Element, name: str) -> float | None:
        value = self.get(element, name)
        return None if value is None else length.pixels(value, self.of(element).size or length.ROOT)

    def number(self, element: Element, name: str, otherwise: float) -> float:
        parts = length.split(self.get(element, name) or "")
        if parts is None:
            return otherwise
        return parts[0] / 100 if parts[1] == "%" else parts[0]

    def _cascade(self, sheet: Sheet) -> None:
        left = WORK

        def spend(work: int) -> None:
            nonlocal left
            left -= work

        for order, rule in enumerate(sheet.rules):
            for selector in rule.selectors:
                if left < 0:
                    self.notes.append(f"Only the first {order} style rules were matched.")
                    return
                reached = match(self.document, selector, spend)
                spend(len(reached) * len(rule.declarations))
                self._apply(rule, selector, reached, order)
        for element in self.document.elements:
            written = attributes_as_style(element)
            if written:
                self._declare(element, written, (False, False), (-1, 0, 0), 0)
            css = element.get("style")
            if css:
                self._declare(element, read_declarations(css), (True, True), (0, 0, 0), 0)

    def _apply(self, rule: Rule, selector: Selector, reached: list[Element], order: int) -> None:
        if selector.pseudo_element:
            content = rule.declarations.get("content", ("", False))[0]
            if selector.pseudo_element in {"before", "after"} and content and not selector.states:
                for element in reached:
                    self.generated[element.index, selector.pseudo_element] = content
        elif selector.states:
            if selector.states & {"focus", "focus-visible"}:
                self.focus_rules.append((reached, rule.declarations))
        elif rule.orientation:
            self.oriented.append((reached, rule.declarations, rule.orientation))
        else:
            origin = (not rule.layered, False)
            for element in reached:
                self._declare(element, rule.declarations, origin, selector.specificity, order)

    def _declare(
        self,
        element: Element,
        declarations: Declarations,
        origin: tuple[bool, bool],
        specificity: tuple[int, int, int],
        order: int,
    ) -> None:
        mine = self._declared[element.index]
        for name, (value, important) in declarations.items():
            priority = (important, *origin, specificity, order)
            before = mine.get(name)
            if before is None or before.priority <= priority:
                mine[name] = _Declared(priority, value)

    def _resolved(self, element: Element, value: str, depth: int = 0) -> str | None:
        for _ in range(_VARIABLE_DEPTH):
            start = value.rfind("var(")
            if start < 0:
                return value[:VALUE]
            end = value.find(")", start)
            if end < 0 or len(value) > VALUE:
                return None
            name, _, fallback = value[start + 4 : end].partition(",")
            found = self._custom(element, name.strip(), depth + 1)
            if found is None and not fallback.strip():
                return None
            value = value[:start] + (fallback.strip() if found is None else found) + value[end + 1 :]
        return None

    def _custom(self, element: Element, name: str, depth: int) -> str | None:
        if depth > _VARIABLE_DEPTH:
            return None
        for above in element.lineage():
            declared = self._declared[above.index].get(name)
            if declared is None:
                continue
            place = (above.index, name)
            if place not in self._customs:
                self._customs[place] = None  # what is made of itself is nothing
                value = declared.value
                self._customs[place] = self._resolved(above, value, depth) if "var(" in value else value
            return self._customs[place]
        return None

    def _compute(self, element: Element) -> Style:
        above = self._computed[element.parent.index] if element.parent is not None else None
        taken = above or Style(BLACK, length.ROOT, 400, True, CLEAR)
        size = self._size(element, taken)
        color = self._color(element, taken)
        return Style(
            color=color,
            size=size,
            weight=self._weight(element, taken),
            visible=self._visible(element, taken),
            background=self._background(element, color, taken),
        )

    def _size(self, element: Element, taken: Style) -> float | None:
        value = self.get(element, "font-size") if "font-size" in self._declared[element.index] else ""
        root = self._computed[0].size if self._computed else None
        if value is None or taken.size is None:
            return None
        if not value or value.lower() in {"revert", "revert-layer"}:
            return taken.size * _SIZES.get(element.tag, 1.0)
        if value.lower() in {"inherit", "unset"}:
            return taken.size
        if value.lower() == "initial":
            return length.ROOT
        return length.font_size(value, taken.size, root or length.ROOT)

    def _weight(self, element: Element, taken: Style) -> int:
        value = (self.get(element, "font-weight") or "").lower()
        if value in {"bold", "bolder"}:
            return 700
        if value in {"normal", "lighter", "initial"}:
            return 400
        if value.isdigit():
            return min(1000, int(value[:4]))
        if not value and element.tag in _BOLD:
            return 700
        return taken.weight

    def _visible(self, element: Element, taken: Style) -> bool:
        value = (self.get(element, "visibility") or "").lower()
        if value in {"hidden", "collapse"}:
            return False
        return True if value in {"visible", "initial"} else taken.visible

    def _color(self, element: Element, taken: Style) -> Colour | None:
        name = "fill" if element.foreign and element.tag == "text" else "color"
        if name not in self._declared[element.index]:
            if element.tag == "a" and element.has("href"):
                return _LINK
            if element.tag in {"button", "input", "select", "textarea", "mark"}:
                return BLACK
            return taken.color
        value = self.get(element, name)
        if value is None:
            return None
        if value.lower() in _KEYWORDS:
            return BLACK if value.lower() == "initial" else taken.color
        return read_colour(value, taken.color)

    def _background(self, element: Element, color: Colour | None, taken: Style) -> Colour | None:
        if "background-color" not in self._declared[element.index]:
            return _own_background(element)
        value = self.get(element, "background-color")
        if value is None:
            return None
        if value.lower() in _KEYWORDS:
            return taken.background if value.lower() == "inherit" else CLEAR
        return read_colour(value, color)


def _own_background(element: Element) -> Colour:
    """What the browser paints by itself."""
    if element.tag == "mark":
        return _YELLOW
    kind = (element.get("type") or "").lower()
    if element.tag == "button" or (element.tag == "input" and kind in _BUTTONS):
        return _FACE
    if element.tag in {"input", "select", "textarea"} and kind not in {"checkbox", "radio", "range", "image"}:
        return _WHITE
    return CLEAR
