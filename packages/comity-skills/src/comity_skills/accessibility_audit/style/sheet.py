"""The style rules of a page, from its `style` elements: which selectors, which declarations, in which order.

- Conditions are judged for a screen of 1280 by 720 pixels with no preferences set; a condition that cannot
  be judged does not hold. Rules for an orientation are kept apart, they are the subject of a check.
- Shorthands are taken apart into the longhands that the checks ask for. Values stay text; a colour that is none
  leaves the one before it in force.
- A rule inside a rule is written out: `&` stands for the selectors around it.
- Style sheets that are only linked are not at hand: `external` says that there are some for the screen.
- At most `RULES` rules and `CHARACTERS` of CSS are read; `notes` says what was left out.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tinycss2  # type: ignore[import-untyped] # it brings no types

from comity_skills.accessibility_audit.dom.tree import Document, Element
from comity_skills.accessibility_audit.style.colour import is_colour
from comity_skills.accessibility_audit.style.selectors import Selector, selectors
from comity_skills.words.tokens import word_set

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
_RANGE = re.compile(
    r"\( ?(?:([0-9.]+[a-z]*) ?([<>]=?) ?)?(width|height)(?: ?([<>]=?|=) ?([0-9.]+[a-z]*))? ?\)", re.IGNORECASE
)
_SELECTOR = 2_000
_RULE_DEPTH = 8
_COLOURS = frozenset({"color", "background-color"})
_WORDS_FOR_COLOURS = word_set(
    "inherit initial unset revert revert-layer currentcolor canvas canvastext linktext visitedtext activetext "
    "buttonface buttontext buttonborder field fieldtext highlight highlighttext selecteditem selecteditemtext mark "
    "marktext graytext accentcolor accentcolortext"
)
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
    external = any(_links_sheet(link) for link in document.tagged("link"))
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


def _links_sheet(link: Element) -> bool:
    """Whether a sheet comes from elsewhere; one for print counts where a script may turn it to the screen."""
    kinds = (link.get("rel") or "").lower().split()
    if "stylesheet" not in kinds or "alternate" in kinds or link.has("disabled"):
        return False
    return link.has("onload") or _media_holds(link.get("media") or "all")[0]


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


class _Around(NamedTuple):
    """What the rules of a block are inside of: a layer, an orientation, the selectors of another rule."""

    layered: bool = False
    orientation: str = ""
    selectors: str = ""


def _rules(parsed: Iterable[Any], room: int) -> Iterator[Rule]:
    pending: list[tuple[Iterator[Any], _Around]] = [(iter(parsed), _Around())]
    while pending and room > 0:
        nodes, around = pending[-1]
        node = next(nodes, None)
        if node is None:
            pending.pop()
            continue
        if node.type == "qualified-rule":
            inner, found, within = _rule(node, around)
        else:
            inner, found, within = _condition(node, around)
        if found:
            room -= 1
            yield Rule(found, _declarations(inner), within.layered, within.orientation)
        rules = [one for one in inner if one.type in {"qualified-rule", "at-rule"}]
        if rules and len(pending) <= _RULE_DEPTH:
            pending.append((iter(rules), within))


_Block = tuple[list[Any], tuple[Selector, ...], _Around]


def _rule(node: Any, around: _Around) -> _Block:
    prelude = _written_out(node.prelude, around.selectors)
    found = selectors(prelude)
    if not found:
        return [], (), around
    written = tinycss2.serialize(prelude).strip()
    return _parsed(node.content, inside=True), found, around._replace(selectors=written)


def _condition(node: Any, around: _Around) -> _Block:
    """Nothing where it does not hold. Declarations in a condition inside of a rule are for what the rule reaches."""
    if node.type != "at-rule" or node.lower_at_keyword not in _NESTED or node.content is None:
        return [], (), around
    if node.lower_at_keyword in {"starting-style", "container"}:
        return [], (), around
    if node.lower_at_keyword == "media":
        holds, turned = _media_holds(tinycss2.serialize(node.prelude))
        if not holds:
            return [], (), around
        around = around._replace(orientation=turned or around.orientation)
    elif node.lower_at_keyword == "layer":
        around = around._replace(layered=True)
    if not around.selectors:
        return _parsed(node.content, inside=False), (), around
    found = selectors(tinycss2.parse_component_value_list(around.selectors))
    return _parsed(node.content, inside=True), found, around


def _parsed(content: Iterable[Any], *, inside: bool) -> list[Any]:
    """What a block holds: rules, and inside of a rule declarations too."""
    read = tinycss2.parse_blocks_contents if inside else tinycss2.parse_rule_list
    return list(read(content, skip_comments=True, skip_whitespace=True))


def _written_out(prelude: list[Any], around: str) -> list[Any]:
    """The selectors of a rule inside another one, with `&` put in where it is written or left out."""
    if not around:
        return prelude
    outer = _apart(tinycss2.parse_component_value_list(around))
    written = []
    for part in _apart(prelude):
        inner = part if "&" in part else f"& {part}"
        written += [inner.replace("&", one) for one in outer]
        if len(written) * (len(around) + len(inner)) > _SELECTOR:
            return []
    return list(tinycss2.parse_component_value_list(",".join(written)))


def _apart(prelude: Iterable[Any]) -> list[str]:
    """The selectors of a list, as text; `&` is left only where it stands for the rule around."""
    parts = [""]
    for token in prelude:
        sign = token.value if token.type == "literal" else ""
        if sign == ",":
            parts.append("")
        else:
            parts[-1] += "&" if sign == "&" else tinycss2.serialize([token]).replace("&", "")
    return [part.strip() for part in parts]


def _media_holds(condition: str) -> tuple[bool, str]:
    """Whether one of the queries holds, and the orientation it asks for if that alone decides."""
    orientation = ""
    holds = False
    for query in _RANGE.sub(_bounds, " ".join(condition[:_CONDITION].lower().split())).split(","):
        asked = dict.fromkeys(
            value.strip() for name, value in _FEATURE.findall(query) if name == "orientation"
        )
        if _query_holds(query):
            holds = True
            orientation = orientation or next(iter(asked), "")
    return holds, orientation


def _bounds(range_: re.Match[str]) -> str:
    """`(400px <= width < 900px)` as the bounds that it stands for."""
    least, before, name, after, most = range_.groups()
    found = []
    if before:
        found.append(f"({'min' if before[0] == '<' else 'max'}-{name}:{least})")
    if after == "=":
        found.append(f"({name}:{most})")
    elif after:
        found.append(f"({'max' if after[0] == '<' else 'min'}-{name}:{most})")
    return " and ".join(found) or range_[0]


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
            if before is not None and longhand in _COLOURS and not _may_be_colour(text):
                continue
            if before is None or node.important or not before[1]:
                found[longhand] = (text, node.important)
    return found


def _may_be_colour(value: str) -> bool:
    return "(" in value or value.lower() in _WORDS_FOR_COLOURS or is_colour(value)


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
