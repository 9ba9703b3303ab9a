"""Colours and sizes that old pages set by attributes: `bgcolor`, `text`, `link`, and `font`.

They are what HTML calls presentational hints: declarations of the author that any rule of a sheet outweighs.
"""

import re
from collections.abc import Iterator

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.style.colour import is_colour
from comity_skills.accessibility_audit.style.sheet import Declarations
from comity_skills.words.tokens import word_set

_PAINTED = word_set("body table thead tbody tfoot tr td th")
_BARE = re.compile(r"[0-9a-fA-F]{3}|[0-9a-fA-F]{6}")
_SIZES = ("", "x-small", "small", "medium", "large", "x-large", "xx-large", "xxx-large")


def attributes_as_style(element: Element) -> Declarations:
    return {name: (value, False) for name, value in _declared(element)}


def _declared(element: Element) -> Iterator[tuple[str, str]]:
    if element.tag in _PAINTED:
        yield from _colour("background-color", element.get("bgcolor"))
        if element.get("background"):
            yield "background-image", "url()"
    if element.tag == "body":
        yield from _colour("color", element.get("text"))
    elif element.tag == "font":
        yield from _colour("color", element.get("color"))
        size = (element.get("size") or "").strip()
        if size in {"1", "2", "3", "4", "5", "6", "7"}:
            yield "font-size", _SIZES[int(size)]
    elif element.tag == "a" and element.has("href"):
        body = element.closest("body")
        yield from _colour("color", body.get("link") if body is not None else None)


def _colour(name: str, written: str | None) -> Iterator[tuple[str, str]]:
    value = (written or "").strip()
    if _BARE.fullmatch(value):
        value = f"#{value}"
    if value and is_colour(value):
        yield name, value
