"""A settings text as a tree of nodes with their places, and what JSON and YAML have in common: find and drop one key, and
check that a changed text says what the old one said, with our key and nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Self

from comity.runtime.toml_edit import KeyPath, TextEdit, apply_edits, inline, refuse_twice, refuse_unsafe

Holders = list[tuple[Any, int]]
"""The mappings on the way to a key, and in each the index of the next key among its children."""


class Node(ABC):
    """`kind` is mapping, list, scalar or alias. The children of a mapping are its keys and values in turn."""

    def __init__(self, kind: str, start: int, end: int) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.children: list[Self] = []

    @property
    def head(self) -> tuple[Any, ...]:
        """What the node means, apart from its children."""
        return (self.kind,)

    @property
    def is_null(self) -> bool:
        """An empty value, which may become a mapping."""
        return False

    @abstractmethod
    def scalar(self) -> Any:
        """Return the value of a scalar."""

    @property
    def pairs(self) -> list[tuple[Self, Self]]:
        if self.kind != "mapping":
            return []
        return list(zip(self.children[::2], self.children[1::2], strict=True))

    def pair(self, key: str) -> tuple[Self, Self] | None:
        found = [pair for pair in self.pairs if pair[0].kind == "scalar" and pair[0].head[-1] == key]
        if len(found) > 1:
            refuse_twice(key)
        return found[0] if found else None

    def value(self) -> Any:
        match self.kind:
            case "mapping":
                return {str(key.value()): value.value() for key, value in self.pairs}
            case "list":
                return [child.value() for child in self.children]
            case _:
                return self.scalar()

    def meaning(self) -> Any:
        return (*self.head, [child.meaning() for child in self.children])


Parse = Callable[[str], Any]


def find_value(root: Node | None, path: KeyPath) -> Any:
    """Return the value under the path, or None."""
    holders = find_holders(root, path)
    if holders is None:
        return None
    node, index = holders[-1]
    return node.children[index + 1].value()


def find_holders(root: Node | None, path: KeyPath) -> Holders | None:
    holders: Holders = []
    node = root
    for key in path:
        pair = node.pair(key) if node is not None and node.kind == "mapping" else None
        if node is None or pair is None:
            return None
        holders.append((node, node.children.index(pair[0])))
        node = pair[1]
    return holders


def check_put(parse: Parse, before: Node | None, path: KeyPath, value: Any, after: str) -> str:
    """Return the changed text. Refuse it if it does not say what it should."""
    if _meaning(parse(after)) != _meaning_with(parse, before, path, value):
        refuse_unsafe()
    return after


def drop_key(
    parse: Parse,
    text: str,
    path: KeyPath,
    made: int,
    is_last: Callable[[str, Any], bool],
    cut: Callable[[str, Holders], list[TextEdit]],
) -> str:
    """Return the text without the key, and without those of its `made` nearest holders that are empty then."""
    holders = find_holders(parse(text), path)
    if holders is None:
        return text
    while made and len(holders) > 1 and is_last(text, holders[-1][0]):
        holders.pop()
        made -= 1
    after = apply_edits(text, cut(text, holders))
    if _meaning(parse(after)) != _meaning_without(holders):
        refuse_unsafe()
    return after


def _meaning(root: Node | None) -> Any:
    """Return the meaning of a text. One without keys says the same as one without anything."""
    return root.meaning() if root is not None and root.children else None


def _meaning_with(parse: Parse, node: Node | None, path: KeyPath, value: Any) -> Any:
    if not path:
        return parse(inline({"x": value})).children[1].meaning()
    if node is None or node.is_null:
        node = parse("{}")
    assert node is not None
    children = [child.meaning() for child in node.children]
    pair = node.pair(path[0])
    inner = _meaning_with(parse, pair[1] if pair else None, path[1:], value)
    if pair is not None:
        children[node.children.index(pair[1])] = inner
    else:
        children += [parse(inline({path[0]: 0})).children[0].meaning(), inner]
    return (*node.head, children)


def _meaning_without(holders: Holders) -> Any:
    node, index = holders[-1]
    children = [child.meaning() for child in node.children]
    del children[index : index + 2]
    if not children and len(holders) == 1:
        return None
    meaning = (*node.head, children)
    for outer, at in reversed(holders[:-1]):
        children = [child.meaning() for child in outer.children]
        children[at + 1] = meaning
        meaning = (*outer.head, children)
    return meaning
