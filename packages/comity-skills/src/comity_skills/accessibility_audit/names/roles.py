"""The role of an element: the one it was given, or the one its tag brings along.

- Of several given roles the first that exists counts; abstract ones do not exist.
- `none` and `presentation` are not heeded where the element takes focus or has a global ARIA attribute.
- The parts of a list or table that was made presentational lose their roles with it.
- An element without a role of its own has the empty string.
"""

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.names.aria import Aria, Role
from comity_skills.accessibility_audit.style.shown import Shown

NOTHING = frozenset({"none", "presentation"})

_PLAIN = {
    "address": "group",
    "article": "article",
    "aside": "complementary",
    "blockquote": "blockquote",
    "button": "button",
    "caption": "caption",
    "code": "code",
    "datalist": "listbox",
    "dd": "definition",
    "del": "deletion",
    "details": "group",
    "dfn": "term",
    "dialog": "dialog",
    "dt": "term",
    "em": "emphasis",
    "fieldset": "group",
    "figure": "figure",
    "hgroup": "group",
    "hr": "separator",
    "html": "document",
    "ins": "insertion",
    "main": "main",
    "mark": "mark",
    "math": "math",
    "menu": "list",
    "meter": "meter",
    "nav": "navigation",
    "ol": "list",
    "optgroup": "group",
    "option": "option",
    "output": "status",
    "p": "paragraph",
    "progress": "progressbar",
    "search": "search",
    "strong": "strong",
    "sub": "subscript",
    "sup": "superscript",
    "table": "table",
    "tbody": "rowgroup",
    "textarea": "textbox",
    "tfoot": "rowgroup",
    "thead": "rowgroup",
    "time": "time",
    "tr": "row",
    "ul": "list",
    **{f"h{level}": "heading" for level in range(1, 7)},
    **dict.fromkeys(
        ("b", "bdi", "bdo", "body", "data", "div", "i", "pre", "q", "s", "samp", "small"), "generic"
    ),
    **dict.fromkeys(("span", "u", "hgroup"), "generic"),
}
_INPUTS = {
    "button": "button",
    "checkbox": "checkbox",
    "image": "button",
    "number": "spinbutton",
    "radio": "radio",
    "range": "slider",
    "reset": "button",
    "submit": "button",
}
_ROLELESS_INPUTS = frozenset(
    {"color", "date", "datetime-local", "file", "hidden", "month", "password", "time", "week"}
)
_SECTIONING = frozenset({"article", "aside", "main", "nav", "section"})
_TABLE_PARTS = frozenset({"tbody", "thead", "tfoot", "tr", "td", "th", "caption"})


class Roles:
    """Computed when first asked for, then kept."""

    def __init__(self, document: Document, shown: Shown, aria: Aria) -> None:
        self.aria = aria
        self._shown = shown
        self._known: dict[int, str] = {}
        self._document = document

    def of(self, element: Element) -> str:
        found = self._known.get(element.index)
        if found is None:
            found = self._given(element)
            if found is None:
                found = self._implicit(element)
            self._known[element.index] = found
        return found

    def facts(self, element: Element) -> Role | None:
        return self.aria.roles.get(self.of(element))

    def explicit(self, element: Element) -> str | None:
        """The first role in the attribute that exists, heeded or not."""
        return next((word for word in self.written(element) if word in self.aria.roles), None)

    def written(self, element: Element) -> list[str]:
        return [word.lower() for word in element.tokens("role")]

    def implicit(self, element: Element) -> str:
        return self._implicit(element)

    def is_a(self, element: Element, kind: str) -> bool:
        return self.aria.is_a(self.of(element), kind)

    def with_role(self, *wanted: str) -> list[Element]:
        return [element for element in self._document.elements if self.of(element) in wanted]

    def presentational(self, element: Element) -> bool:
        return self.of(element) in NOTHING

    def _given(self, element: Element) -> str | None:
        given = self.explicit(element)
        if given in NOTHING and self._heard_anyway(element):
            return next(
                (word for word in self.written(element) if word in self.aria.roles and word not in NOTHING),
                None,
            )
        return given

    def _heard_anyway(self, element: Element) -> bool:
        if self._shown.focusable(element):
            return True
        return any(name in self.aria.everywhere and name != "aria-hidden" for name in element.attributes)

    def _implicit(self, element: Element) -> str:
        tag = element.tag
        if element.foreign:
            linked = element.has("href") or element.has("xlink:href")
            return "link" if tag == "a" and linked else ""
        if tag == "li" or tag in _TABLE_PARTS:
            return self._part(element)
        if tag in {"a", "area"}:
            return "link" if element.has("href") else "generic"
        if tag == "img":
            return self._image(element)
        if tag == "input":
            return _input(element)
        if tag == "select":
            size = element.get("size") or ""
            many = element.has("multiple") or (size.isdigit() and int(size[:4]) > 1)
            return "listbox" if many else "combobox"
        if tag in {"header", "footer"}:
            inner = any(above.tag in _SECTIONING for above in element.ancestors())
            return "generic" if inner else {"header": "banner", "footer": "contentinfo"}[tag]
        if tag in {"section", "form"}:
            named = any(
                (element.get(name) or "").strip() for name in ("aria-label", "aria-labelledby", "title")
            )
            return ("region" if tag == "section" else "form") if named else "generic"
        return _PLAIN.get(tag, "")

    def _image(self, element: Element) -> str:
        if element.get("alt") == "" and not self._heard_anyway(element):
            return "presentation"
        return "img"

    def _part(self, element: Element) -> str:
        tag = element.tag
        if tag == "li":
            parent = element.parent
            if parent is None or parent.tag not in {"ul", "ol", "menu"} or self.of(parent) in NOTHING:
                return "generic"
            return "listitem"
        table = element.closest("table")
        if table is None:
            return "generic"
        of_table = self.of(table)
        if of_table in NOTHING:
            return "generic"
        if tag == "td":
            return "gridcell" if of_table in {"grid", "treegrid"} else "cell"
        if tag == "th":
            return _header_cell(element)
        return _PLAIN[tag]


def _input(element: Element) -> str:
    kind = (element.get("type") or "text").strip().lower()
    if kind in _ROLELESS_INPUTS:
        return ""
    if kind in _INPUTS:
        return _INPUTS[kind]
    if element.has("list"):
        return "combobox"
    return "searchbox" if kind == "search" else "textbox"


def _header_cell(element: Element) -> str:
    scope = (element.get("scope") or "").strip().lower()
    if scope in {"row", "rowgroup"}:
        return "rowheader"
    if scope in {"col", "colgroup"}:
        return "columnheader"
    row = element.parent
    in_body = row is not None and (row.parent is None or row.parent.tag != "thead")
    has_data = row is not None and any(one.tag == "td" for one in row.elements())
    return "rowheader" if in_body and has_data else "columnheader"
