"""The style rules of a page, from its `style` elements: which selectors, which declarations, in which order.

- Conditions are judged for a screen of 1280 by 720 pixels with no preferences set; a condition that cannot
  be judged does not hold. Rules for an orientation are kept apart, they are the subject of a check.
- Shorthands are taken apart into the longhands that the checks ask for. Values stay text.
- Style sheets that are only linked are not at hand: `external` says that there are some.
- At most `RULES` rules and `CHARACTERS` of CSS are read; `notes` says what was left out.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tinycss2  # type: ignore[import-untyped] # it brings no types

from comity.core.actions.skills.accessibility_audit.dom.tree import Document
from comity.core.actions.skills.accessibility_audit.style.colour import is_colour
from comity.core.actions.skills.accessibility_audit.style.selectors import Selector, selectors

CHARACTERS = 400_000
RULES = 4_000
VALUE = 2_000
WIDTH = 1280
HEIGHT = 720

_NESTED = frozenset({"media", "supports", "layer", "container", "scope", "starting-style"})
_BRACKET = re.compile(r"[()\[\]{}]")
_LONG_NUMBER = re.compile(r"\d{300}")
_DEPTH = 40
_FEATURE = re.compile(r"\( ?([a-z-]+) ?(?::([^()]*))?\)")
_CONDITION = 1_000
_PIXELS = {"px": 1.0, "em": 16.0, "rem": 16.0, "pt": 96 / 72, "cm": 96 / 2.54, "in": 96.0}
_SIZE = re.compile(r"([0-9.]+)([a-z]*)")
_FONT_SIZE = re.compile(
    r"^(?:[0-9.]+(?:px|pt|em|rem|%|pc|in|cm|mm|ex|ch|vw|vh)|xx-small|x-small|small|medium|large|x-large|"
    r"xx-large|smaller|larger)(?:/(\S+))?$"
)
_IMAGE = re.compile(r"\b(?:url|[a-z-]*gradient|image-set|image|cross-fade|element|paint)\(", re.IGNORECASE)

Declarations = dict[str, tuple[str, bool]]


class Rule(NamedTuple):
    """`layered` rules give way to those that are not; `orientation` is set inside such a condition."""

    selectors: tuple[Selector, ...]
    declarations: Declarations
    layered: bool
    orientation: str


class Sheet(NamedTuple):
    rules: list[Rule]
    external: bool
    notes: list[str]


def read_sheet(document: Document) -> Sheet:
    rules: list[Rule] = []
    notes: list[str] = []
    budget = CHARACTERS
    external = any(
        "stylesheet" in (link.get("rel") or "").lower().split() and "disabled" not in link.attributes
        for link in document.tagged("link")
    )
    for element in document.tagged("style"):
        if (element.get("type") or "text/css").strip().lower() not in {"", "text/css"}:
            continue
        if not _media_holds(element.get("media") or "all")[0]:
            continue
        css = element.text()
        if len(css) > budget:
            notes.append(f"Only the first {CHARACTERS} characters of CSS were read.")
        external = external or "@import" in css
        parsed = tinycss2.parse_stylesheet(_shallow(css[:budget]), skip_comments=True, skip_whitespace=True)
        rules.extend(_rules(parsed, RULES - len(rules)))
        budget = max(0, budget - len(css))
        if len(rules) >= RULES:
            notes.append(f"Only the first {RULES} style rules were read.")
            break
    return Sheet(rules, external, notes)


def read_declarations(css: str) -> Declarations:
    """The declarations of a `style` attribute."""
    if ":" not in css:
        return {}
    return _declarations(tinycss2.parse_blocks_contents(_shallow(css[:CHARACTERS]), skip_comments=True))


def _shallow(css: str) -> str:
    """The text up to where brackets are nested deeper, or a number is longer, than anybody writes."""
    number = _LONG_NUMBER.search(css)
    css = css if number is None else css[: number.start()]
    depth = 0
    for found in _BRACKET.finditer(css):
        depth = depth + 1 if found[0] in "([{" else max(0, depth - 1)
        if depth > _DEPTH:
            return css[: found.start()]
    return css


def _rules(parsed: Iterable[Any], room: int) -> Iterator[Rule]:
    pending = [(iter(parsed), False, "")]
    while pending and room > 0:
        nodes, layered, orientation = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        if node.type == "qualified-rule":
            found = selectors(node.prelude)
            if found:
                room -= 1
                content = tinycss2.parse_blocks_contents(node.content, skip_comments=True)
                yield Rule(found, _declarations(content), layered, orientation)
        elif node.type == "at-rule" and node.lower_at_keyword in _NESTED and node.content is not None:
            if len(pending) > 8:
                continue
            holds, turned = True, orientation
            if node.lower_at_keyword == "media":
                holds, turned = _media_holds(tinycss2.serialize(node.prelude))
                turned = turned or orientation
            elif node.lower_at_keyword in {"starting-style", "container"}:
                holds = False
            if holds:
                inner = tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)
                layer = layered or node.lower_at_keyword == "layer"
                pending.append((iter(inner), layer, turned))


def _media_holds(condition: str) -> tuple[bool, str]:
    """Whether one of the queries holds, and the orientation it asks for if that alone decides."""
    orientation = ""
    holds = False
    for query in " ".join(condition[:_CONDITION].lower().split()).split(","):
        asked = dict.fromkeys(
            value.strip() for name, value in _FEATURE.findall(query) if name == "orientation"
        )
        if _query_holds(query):
            holds = True
            orientation = orientation or next(iter(asked), "")
    return holds, orientation


def _query_holds(query: str) -> bool:
    bare = _FEATURE.sub(" ", query)
    words = [word for word in bare.split() if word not in {"and", "only"}]
    negated = bool(words) and words[0] == "not"
    kinds = [word for word in words if word != "not"]
    if "(" in bare or "<" in bare or ">" in bare or "or" in kinds:
        return False
    holds = all(kind in {"all", "screen"} for kind in kinds)
    holds = holds and all(_feature_holds(name, value.strip()) for name, value in _FEATURE.findall(query))
    return not holds if negated else holds


def _feature_holds(name: str, value: str) -> bool:
    if name == "orientation":
        return True
    if name.startswith(("prefers-", "forced-", "inverted-")):
        return value in {"no-preference", "none", "light"}
    if name in {"hover", "pointer", "any-hover", "any-pointer"}:
        return value in {"hover", "fine", ""}
    size = _SIZE.fullmatch(value)
    if size is None:
        return False
    try:
        pixels = float(size[1]) * _PIXELS.get(size[2], 1.0)
    except ValueError:
        return False
    extent = WIDTH if name.endswith("width") else HEIGHT if name.endswith("height") else None
    if extent is None:
        return False
    if name.startswith("min-"):
        return extent >= pixels
    return extent <= pixels if name.startswith("max-") else extent == pixels


def _declarations(parsed: Iterable[Any]) -> Declarations:
    found: Declarations = {}
    for node in parsed:
        if node.type != "declaration":
            continue
        value = tinycss2.serialize(node.value).strip()[:VALUE]
        name = node.name if node.name.startswith("--") else node.lower_name
        for longhand, text in _longhands(name, value):
            before = found.get(longhand)
            if before is None or node.important or not before[1]:
                found[longhand] = (text, node.important)
    return found


def _longhands(name: str, value: str) -> Iterator[tuple[str, str]]:
    if name == "background":
        yield from _background(value)
    elif name == "font":
        yield from _font(value)
    elif name == "overflow":
        parts = value.split() or [""]
        yield "overflow-x", parts[0]
        yield "overflow-y", parts[-1]
    elif name == "inset":
        parts = value.split() or [""]
        for side, place in (("top", 0), ("right", 1), ("bottom", 2), ("left", 3)):
            yield side, parts[place] if place < len(parts) else parts[place % 2 if len(parts) > 1 else 0]
    else:
        yield name, value


def _background(value: str) -> Iterator[tuple[str, str]]:
    if "var(" in value:
        yield "background-color", value
        yield "background-image", value if _IMAGE.search(value) else "none"
        return
    if _IMAGE.search(value):
        yield "background-image", value
        rest = [tinycss2.serialize([token]) for token in tinycss2.parse_component_value_list(value)]
        plain = [text for text in rest if not _IMAGE.match(text)]
        yield "background-color", _colour_word(plain)
        return
    yield "background-image", "none"
    tokens = tinycss2.parse_component_value_list(value)
    yield "background-color", _colour_word([tinycss2.serialize([token]) for token in tokens])


def _colour_word(texts: list[str]) -> str:
    for text in texts:
        word = text.strip()
        if word and (word.lower() in {"inherit", "initial", "unset", "revert"} or is_colour(word)):
            return word
        if word.lower().startswith(("color-mix(", "color(")):
            return word
    return "transparent"


def _font(value: str) -> Iterator[tuple[str, str]]:
    words = value.split()
    for word in words:
        size = _FONT_SIZE.match(word.lower())
        if size is not None:
            yield "font-size", word.split("/")[0]
            yield "line-height", size[1] or "normal"
            break
        if word.lower() in {"bold", "bolder", "lighter"} or word.isdigit():
            yield "font-weight", word
