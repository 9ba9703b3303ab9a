"""The parsed page as plain objects in document order.

- Attribute names are lower case, values are strings; an attribute without a value has the empty string.
- What a `template` holds is not part of the page.
- `index` is the place in document order and `end` the place after the last descendant, so that "is inside"
  is a comparison of numbers.
- A page is cut at a number of elements; `notes` says what was left out.
"""

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from comity_skills.accessibility_audit.dom.bounds import NESTING, cut

ELEMENTS = 20_000
TEXT = 1_000_000

_HTML_IN_SVG = frozenset({"foreignObject", "desc", "title"})
_ID = re.compile(r"[A-Za-z_][\w-]{0,59}")
_STEPS = 60


class Element:
    """One element with its children, which are elements and texts in their order.

    `sole` says that a selector with it finds no stranger: no other element has its id, or, without one, no other
    has its tag, or all that have it are children of the body.
    """

    __slots__ = ("attributes", "children", "depth", "end", "foreign", "index", "parent", "sole", "tag")

    def __init__(self, tag: str, attributes: dict[str, str], parent: "Element | None", index: int) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parent = parent
        self.index = index
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.end = index + 1
        self.children: list[Element | str] = []
        self.sole = False
        self.foreign: bool = tag in {"svg", "math"} or (
            parent is not None and parent.foreign and parent.tag not in _HTML_IN_SVG
        )

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)

    def has(self, name: str) -> bool:
        return name in self.attributes

    def tokens(self, name: str) -> list[str]:
        return self.attributes.get(name, "").split()

    def holds(self, other: "Element") -> bool:
        return self.index <= other.index < self.end

    def elements(self) -> Iterator["Element"]:
        """The child elements."""
        return (child for child in self.children if isinstance(child, Element))

    def ancestors(self) -> Iterator["Element"]:
        """From the parent to the root."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def lineage(self) -> Iterator["Element"]:
        """The element itself, then its ancestors."""
        yield self
        yield from self.ancestors()

    def closest(self, *tags: str) -> "Element | None":
        return next((above for above in self.lineage() if above.tag in tags), None)

    def text(self) -> str:
        """All text inside, as written."""
        found: list[str] = []
        pending: list[Element | str] = [self]
        while pending:
            one = pending.pop()
            if isinstance(one, str):
                found.append(one)
            else:
                pending.extend(reversed(one.children))
        return "".join(found)


class Document:
    """The elements of a page, found by place, tag, id and class."""

    __slots__ = ("_by_tag", "_with_id", "by_class", "by_id", "elements", "notes", "root")

    def __init__(self, elements: list[Element], notes: list[str]) -> None:
        self.elements = elements
        self.notes = notes
        self.root = elements[0]
        self.by_id: dict[str, Element] = {}
        self.by_class: dict[str, list[Element]] = {}
        self._by_tag: dict[str, list[Element]] = {}
        self._with_id: dict[str, list[Element]] = {}
        for element in elements:
            self._by_tag.setdefault(element.tag, []).append(element)
            identity = element.get("id")
            if identity:
                self.by_id.setdefault(identity, element)
                self._with_id.setdefault(identity, []).append(element)
            for name in dict.fromkeys(element.tokens("class")):
                self.by_class.setdefault(name, []).append(element)
        self._single_out()

    def _single_out(self) -> None:
        for twins in self._with_id.values():
            twins[0].sole = len(twins) == 1
        for same in self._by_tag.values():
            if len(same) == 1 or all(
                one.parent is None or one.parent.tag in {"html", "body"} for one in same
            ):
                for one in same:
                    one.sole = one.sole or not one.get("id")

    def tagged(self, *tags: str) -> list[Element]:
        """In document order within each tag."""
        return [element for tag in tags for element in self._by_tag.get(tag, ())]

    def with_id(self, identity: str) -> list[Element]:
        """All of them: an id that was given twice is met in real pages."""
        return self._with_id.get(identity, [])

    def with_attribute(self, name: str) -> list[Element]:
        return [element for element in self.elements if name in element.attributes]

    def inside(self, element: Element, most: int = ELEMENTS) -> list[Element]:
        """The descendants, in document order."""
        return self.elements[element.index + 1 : min(element.end, element.index + 1 + most)]

    def referenced(self, element: Element, attribute: str) -> list[Element]:
        """The elements that an attribute names by id, each once, in the order of the attribute."""
        return [self.by_id[name] for name in dict.fromkeys(element.tokens(attribute)) if name in self.by_id]


def looks_like_html(text: str) -> bool:
    """Whether there is a tag of any kind in the text."""
    place = text.find("<")
    while place >= 0:
        follows = text[place + 1 : place + 2]
        if follows in {"!", "/"} or (follows.isascii() and follows.isalpha()):
            return text.find(">", place) > place
        place = text.find("<", place + 1)
    return False


def parse(html: str) -> Document:
    text, note = cut(html)
    notes = [note] if note else []
    top = LexborHTMLParser(text).root
    elements = _copied(top, notes) if top is not None else []
    if not elements:
        elements.append(Element("html", {}, None, 0))
    for element in reversed(elements):
        if element.parent is not None:
            element.parent.end = max(element.parent.end, element.end)
    return Document(elements, notes)


def _copied(top: LexborNode, notes: list[str]) -> list[Element]:
    elements: list[Element] = []
    budget = TEXT
    pending: list[tuple[LexborNode, Element | None]] = [(top, None)]
    while pending:
        node, parent = pending.pop()
        if node.next is not None and parent is not None:
            pending.append((node.next, parent))
        tag = node.tag or ""
        if tag == "-text":
            words = node.text_content or ""
            if parent is not None and budget > 0:
                parent.children.append(words[:budget])
            budget -= len(words)
            continue
        if not tag or tag[0] in "-!":
            continue
        if len(elements) >= ELEMENTS:
            notes.append(f"Only the first {ELEMENTS} elements were looked at.")
            break
        attributes = {name.lower(): value or "" for name, value in node.attributes.items()}
        element = Element(tag, attributes, parent, len(elements))
        elements.append(element)
        if parent is not None:
            parent.children.append(element)
        if node.child is not None and tag != "template" and element.depth < 2 * NESTING:
            pending.append((node.child, element))
    if budget < 0:
        notes.append(f"Only the first {TEXT} characters of text were looked at.")
    return elements


def path(element: Element) -> str:
    """Where an element is, as a selector that finds it and no other: `main > ul:nth-of-type(2) > li#last`."""
    steps: list[str] = []
    anchored = False
    for step in element.lineage():
        identity = step.get("id") or ""
        if step.sole and _ID.fullmatch(identity):
            steps.append(f"{step.tag}#{identity}")
            break
        if step.tag in {"html", "body"} and step is not element:
            if not anchored:
                steps.append(step.tag)
            break
        twins = [one for one in step.parent.elements() if one.tag == step.tag] if step.parent else []
        steps.append(f"{step.tag}:nth-of-type({twins.index(step) + 1})" if len(twins) > 1 else step.tag)
        anchored = anchored or (step.sole and not identity)
        if len(steps) == _STEPS:
            break
    return " > ".join(reversed(steps))
