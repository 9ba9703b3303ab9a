"""Selectors: read from tokens, matched on the tree in time that grows with the page and not with its square.

- A selector is matched from left to right: each compound narrows the elements that the one before reached.
  "Somewhere inside" is asked of merged ranges of the document order, so depth costs nothing.
- States that a user brings about (`:hover`, `:focus`) match nothing, but are remembered in `states`: what
  happens then is the subject of a check. Pseudo-elements are remembered too and match nothing.
- A selector that is not understood is dropped with its rule, as the language demands.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tinycss2  # type: ignore[import-untyped] # it brings no types
from tinycss2.nth import parse_nth  # type: ignore[import-untyped] # it brings no types

from comity_skills.accessibility_audit.dom.tree import Document, Element

Test = Callable[[Element], bool]
Specificity = tuple[int, int, int]

_STATES = frozenset(
    {"hover", "focus", "active", "visited", "focus-visible", "focus-within", "target", "user-invalid"}
)
_LISTS = frozenset({"is", "where", "not", "matches", "-webkit-any", "-moz-any"})
_FIELDS = frozenset({"input", "select", "textarea", "button", "option", "optgroup", "fieldset"})
_DEPTH = 4


class Compound(NamedTuple):
    """`key` is what the elements are looked up by: an id, a class, a tag, or everything."""

    combinator: str
    key: tuple[str, str]
    tests: tuple[Test, ...]


class Selector(NamedTuple):
    compounds: tuple[Compound, ...]
    specificity: Specificity
    states: frozenset[str]
    pseudo_element: str


class _Unknown(Exception):  # noqa: N818 - it is the answer "not understood", caught in this file
    pass


def selectors(prelude: Sequence[Any], depth: int = 0) -> tuple[Selector, ...]:
    """The selectors of a rule; none if one of them is not understood."""
    try:
        return tuple(_selector(part, depth) for part in _split(prelude))
    except _Unknown:
        return ()


def match(document: Document, selector: Selector, spend: Callable[[int], None]) -> list[Element]:
    """The elements that a selector without states and pseudo-elements reaches. `spend` is told the work."""
    reached: list[Element] = []
    for place, compound in enumerate(selector.compounds):
        candidates = _candidates(document, compound.key)
        spend(len(candidates) + 1)
        kept = [one for one in candidates if all(test(one) for test in compound.tests)]
        if place:
            kept = _related(reached, kept, compound.combinator)
        reached = kept
        if not reached:
            break
    return reached


def _candidates(document: Document, key: tuple[str, str]) -> list[Element]:
    kind, name = key
    if kind == "id":
        return document.with_id(name)
    if kind == "class":
        return document.by_class.get(name, [])
    if kind == "tag":
        return document.tagged(name)
    return document.elements


def _related(before: list[Element], after: list[Element], combinator: str) -> list[Element]:
    if combinator == " ":
        starts, ends = _ranges(before)
        return [one for one in after if _inside(one.index, starts, ends)]
    marks = {one.index for one in before}
    if combinator == ">":
        return [one for one in after if one.parent is not None and one.parent.index in marks]
    nearest: dict[int, int] = {}
    for one in before:
        if one.parent is not None:
            nearest[one.parent.index] = min(nearest.get(one.parent.index, one.index), one.index)
    if combinator == "~":
        return [
            one
            for one in after
            if one.parent is not None and nearest.get(one.parent.index, one.index) < one.index
        ]
    following = {(one.parent.index, one.end) for one in before if one.parent is not None}
    return [one for one in after if one.parent is not None and (one.parent.index, one.index) in following]


def _ranges(elements: list[Element]) -> tuple[list[int], list[int]]:
    """The places inside any of these elements, as ranges that do not overlap."""
    starts: list[int] = []
    ends: list[int] = []
    for one in sorted(elements, key=lambda element: element.index):
        if ends and one.index < ends[-1]:
            continue
        starts.append(one.index)
        ends.append(one.end)
    return starts, ends


def _inside(index: int, starts: list[int], ends: list[int]) -> bool:
    place = bisect_right(starts, index - 1) - 1
    return place >= 0 and starts[place] < index < ends[place]


def _split(tokens: Iterable[Any]) -> list[list[Any]]:
    parts: list[list[Any]] = [[]]
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            parts.append([])
        elif token.type != "comment":
            parts[-1].append(token)
    return parts


def _selector(tokens: list[Any], depth: int) -> Selector:
    while tokens and tokens[0].type == "whitespace":
        tokens = tokens[1:]
    while tokens and tokens[-1].type == "whitespace":
        tokens = tokens[:-1]
    if not tokens or depth > _DEPTH:
        raise _Unknown
    reading = _Reading(depth)
    for place, token in enumerate(tokens):
        reading.take(token, tokens[place + 1] if place + 1 < len(tokens) else None)
    return reading.done()


class _Reading:
    """A selector while its tokens go by."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.compounds: list[Compound] = []
        self.tests: list[Test] = []
        self.key = ("all", "")
        self.combinator = ""
        self.counts = [0, 0, 0]
        self.states: set[str] = set()
        self.pseudo_element = ""
        self.empty = True
        self.colons = 0

    def take(self, token: Any, following: Any) -> None:
        kind = token.type
        if self.colons and (kind in {"ident", "function"} or (kind == "literal" and token.value == ":")):
            self._pseudo(token)
        elif self.colons:
            raise _Unknown
        elif kind == "literal":
            self._sign(token.value, following)
        elif kind == "whitespace":
            self._combine(" ")
        elif kind == "ident" and self.tests and self.tests[-1] is _class_next:
            self.tests.pop()
            self._class(token.value)
        elif kind == "ident" and self.empty:
            self._tag(token.value)
        elif kind == "hash":
            self.counts[0] += 1
            self._add(("id", token.value), _has_id(token.value))
        elif kind == "[] block":
            self.counts[1] += 1
            self._add(None, _attribute(token.content))
        else:
            raise _Unknown

    def _sign(self, sign: str, following: Any) -> None:
        if sign in {">", "+", "~"}:
            self._combine(sign)
        elif sign == ":":
            self.colons += 1
        elif sign == "." and following is not None and following.type == "ident":
            self._open()
            self.tests.append(_class_next)
        elif sign == "*":
            self._open()
        else:
            raise _Unknown

    def done(self) -> Selector:
        if self.empty or self.colons:
            raise _Unknown
        self._close()
        ids, classes, tags = self.counts
        states = frozenset(self.states)
        return Selector(tuple(self.compounds), (ids, classes, tags), states, self.pseudo_element)

    def _open(self) -> None:
        if self.pseudo_element:
            raise _Unknown
        if self.empty and self.compounds and not self.combinator:
            raise _Unknown
        self.empty = False

    def _add(self, key: tuple[str, str] | None, test: Test) -> None:
        self._open()
        if key is not None and (self.key[0] == "all" or key[0] == "id"):
            self.key = key
        self.tests.append(test)

    def _tag(self, name: str) -> None:
        self.counts[2] += 1
        lowered = name.lower()
        if name == lowered:
            self._add(("tag", name), lambda element: element.tag == name)
        else:
            self._add(None, lambda element: element.tag.lower() == lowered)

    def _class(self, name: str) -> None:
        self.counts[1] += 1
        self._add(("class", name), lambda element: name in element.tokens("class"))

    def _combine(self, combinator: str) -> None:
        if self.empty:
            if combinator == " " or self.combinator != " ":
                if combinator != " ":
                    raise _Unknown
                return
            self.combinator = combinator
            return
        self._close()
        self.combinator = combinator

    def _close(self) -> None:
        if self.tests and self.tests[-1] is _class_next:
            raise _Unknown
        self.compounds.append(Compound(self.combinator, self.key, tuple(self.tests)))
        self.tests, self.key, self.combinator, self.empty = [], ("all", ""), "", True

    def _pseudo(self, token: Any) -> None:
        if token.type == "literal":
            self.colons += 1
            return
        element = self.colons > 1
        self.colons = 0
        name = token.lower_name if token.type == "function" else token.lower_value
        if element or name in {"before", "after", "first-line", "first-letter"}:
            self._open()
            self.counts[2] += 1
            self.pseudo_element = name
            return
        if name in _STATES:
            self._open()
            self.counts[1] += 1
            self.states.add(name)
            return
        if token.type == "function":
            self._function(name, token.arguments)
            return
        self.counts[1] += 1
        if name in {"first-of-type", "last-of-type"}:
            counted = "nth-of-type" if name == "first-of-type" else "nth-last-of-type"
            self._add(None, _counted(counted, (0, 1)))
        elif name in _PLAIN:
            self._add(None, _PLAIN[name])
        else:
            raise _Unknown

    def _function(self, name: str, arguments: Sequence[Any]) -> None:
        if name in _LISTS:
            inner = selectors(arguments, self.depth + 1)
            if not inner or any(len(one.compounds) > 1 or one.pseudo_element for one in inner):
                raise _Unknown
            if name != "where":
                best = max(one.specificity for one in inner)
                self.counts = [mine + theirs for mine, theirs in zip(self.counts, best, strict=True)]
            self._add(None, _any_of(inner, wanted=name != "not"))
            return
        self.counts[1] += 1
        if name == "lang":
            wanted = tinycss2.serialize(arguments).strip().strip("\"'").lower()
            self._add(None, lambda element: _language(element, wanted))
            return
        place = parse_nth(list(arguments)) if name.startswith("nth-") else None
        if place is None or name not in _COUNTED:
            raise _Unknown
        self._add(None, _counted(name, place))


def _class_next(_element: Element) -> bool:
    """Stands where a dot was read and the name of the class follows."""
    return False


def _has_id(name: str) -> Test:
    return lambda element: element.get("id") == name


def _any_of(inner: tuple[Selector, ...], *, wanted: bool) -> Test:
    lists = [(one.compounds[0].tests, one.states) for one in inner]

    def test(element: Element) -> bool:
        hit = any(not states and all(one(element) for one in tests) for tests, states in lists)
        return hit is wanted

    return test


def _attribute(content: Sequence[Any]) -> Test:
    tokens = [token for token in content if token.type not in {"whitespace", "comment"}]
    if not tokens or tokens[0].type != "ident":
        raise _Unknown
    name = tokens[0].lower_value
    if len(tokens) == 1:
        return lambda element: name in element.attributes
    operator = tokens[1].value if tokens[1].type == "literal" else ""
    if operator not in _OPERATORS or len(tokens) < 3 or tokens[2].type not in {"ident", "string"}:
        raise _Unknown
    value = tokens[2].value
    compare = _OPERATORS[operator]
    insensitive = len(tokens) > 3 and getattr(tokens[3], "lower_value", "") == "i"
    if insensitive or name in {"type", "lang", "dir", "rel"}:
        value = value.lower()
        return lambda element: name in element.attributes and compare(element.attributes[name].lower(), value)
    return lambda element: name in element.attributes and compare(element.attributes[name], value)


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda found, value: found == value,
    "~=": lambda found, value: value in found.split(),
    "|=": lambda found, value: found == value or found.startswith(value + "-"),
    "^=": lambda found, value: bool(value) and found.startswith(value),
    "$=": lambda found, value: bool(value) and found.endswith(value),
    "*=": lambda found, value: bool(value) and value in found,
}


def _outermost(element: Element, *, last: bool) -> bool:
    """Whether it is the first (or last) of its siblings."""
    if element.parent is None:
        return True
    children = reversed(element.parent.children) if last else iter(element.parent.children)
    return next(child for child in children if isinstance(child, Element)) is element


def _counted(name: str, place: tuple[int, int]) -> Test:
    step, offset = place
    known: dict[int, dict[int, int]] = {}

    def positions(parent: Element) -> dict[int, int]:
        children = list(parent.elements())
        if "last" in name:
            children.reverse()
        seen: dict[str, int] = {}
        found = {}
        for child in children:
            group = child.tag if name.endswith("of-type") else ""
            seen[group] = seen.get(group, 0) + 1
            found[child.index] = seen[group]
        return found

    def test(element: Element) -> bool:
        if element.parent is None:
            position = 1
        else:
            if element.parent.index not in known:
                known[element.parent.index] = positions(element.parent)
            position = known[element.parent.index][element.index]
        if step == 0:
            return position == offset
        return (position - offset) % step == 0 and (position - offset) // step >= 0

    return test


_COUNTED = frozenset({"nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"})


def _language(element: Element, wanted: str) -> bool:
    for above in element.lineage():
        found = (above.get("lang") or "").lower()
        if found:
            return found == wanted or found.startswith(wanted + "-")
    return False


_PLAIN: dict[str, Test] = {
    "root": lambda element: element.parent is None,
    "first-child": lambda element: _outermost(element, last=False),
    "last-child": lambda element: _outermost(element, last=True),
    "only-child": lambda element: _outermost(element, last=False) and _outermost(element, last=True),
    "empty": lambda element: not any(child for child in element.children),
    "link": lambda element: element.tag in {"a", "area"} and element.has("href"),
    "any-link": lambda element: element.tag in {"a", "area"} and element.has("href"),
    "disabled": lambda element: element.tag in _FIELDS and element.has("disabled"),
    "enabled": lambda element: element.tag in _FIELDS and not element.has("disabled"),
    "checked": lambda element: element.has("checked") or element.has("selected"),
    "required": lambda element: element.tag in _FIELDS and element.has("required"),
    "optional": lambda element: element.tag in _FIELDS and not element.has("required"),
    "open": lambda element: element.has("open"),
    "scope": lambda element: element.parent is None,
}
