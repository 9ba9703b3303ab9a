"""One key of a YAML text, put in, replaced or taken out; comments and the author's layout stay.

The text is read as a stream of events with their places. Aliases are not followed: what an anchor stands for
elsewhere is never changed through its other name. After every change the new stream must be the old one and
ours, nothing else; a layout for which that cannot be done is refused.
"""

import re
from functools import lru_cache
from typing import Any

import yaml  # type: ignore[import-untyped] # it brings no types

from comity.runtime.toml_edit import (
    DEPTH_LIMIT,
    KeyPath,
    TextEdit,
    apply_edits,
    inline,
    line_end_of,
    line_start,
    nested,
    next_line,
    refuse_at,
    refuse_kind,
    refuse_twice,
    refuse_unsafe,
)

_DEFAULT_STEP = 2
_NULL = "tag:yaml.org,2002:null"
_STRING = "tag:yaml.org,2002:str"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESOLVER = yaml.resolver.Resolver()


class YamlNode:
    """A scalar, a list, a mapping or an alias, with its place. The children of a mapping are its keys and values in turn."""

    def __init__(self, event: Any) -> None:
        self.start: int = event.start_mark.index
        self.end: int = event.end_mark.index
        self.column: int = event.start_mark.column
        self.flow = bool(getattr(event, "flow_style", False))
        self.kind = type(event).__name__.removesuffix("Event").removesuffix("Start")
        self.text: str | None = getattr(event, "value", None)
        self.anchor: str | None = event.anchor
        self.tag = _tag(event)
        self.children: list[YamlNode] = []

    @property
    def pairs(self) -> "list[tuple[YamlNode, YamlNode]]":
        return list(zip(self.children[::2], self.children[1::2], strict=True))

    @property
    def nothing(self) -> bool:
        """An empty value, which may become a mapping."""
        return self.tag == _NULL and self.anchor is None

    @property
    def head(self) -> tuple[Any, ...]:
        return self.kind, self.anchor, self.tag, self.text

    def meaning(self) -> Any:
        return (*self.head, [child.meaning() for child in self.children])


def _tag(event: Any) -> str | None:
    """Its own, or the one that readers take a bare word for."""
    if isinstance(event, yaml.ScalarEvent) and event.tag is None:
        return str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))
    return getattr(event, "tag", None)


def find(text: str, path: KeyPath) -> Any:
    node = _parse(text)
    for key in path:
        pair = _pair(node, key) if node is not None and node.kind == "Mapping" else None
        if pair is None:
            return None
        node = pair[1]
    return None if node is None else _value(node)


def put(text: str, path: KeyPath, value: Any) -> str:
    root = _parse(text)
    new = _put(text, root, path, value)
    if _meaning(new) != _with(root, path, value):
        refuse_unsafe()
    return new


def drop(text: str, path: KeyPath, made: int = 0) -> str:
    holders: list[tuple[YamlNode, int]] = []
    node = _parse(text)
    for key in path:
        if node is None or node.kind != "Mapping" or (pair := _pair(node, key)) is None:
            return text
        holders.append((node, node.children.index(pair[0])))
        node = pair[1]
    while made and len(holders) > 1 and len(holders[-1][0].children) == 2:
        holders.pop()
        made -= 1
    new = apply_edits(text, _without(text, holders))
    if _meaning(new) != _meaning_without(holders):
        refuse_unsafe()
    return new


def _meaning_without(holders: list[tuple[YamlNode, int]]) -> Any:
    """What the text must say once the last of these is gone. An empty document may be none at all."""
    holder, index = holders[-1]
    kept = [child.meaning() for child in holder.children]
    del kept[index : index + 2]
    if not kept and len(holders) == 1:
        return None
    meaning = (*holder.head, kept)
    for outer, at in reversed(holders[:-1]):
        kept = [child.meaning() for child in outer.children]
        kept[at + 1] = meaning
        meaning = (*outer.head, kept)
    return meaning


@lru_cache(4)  # one change looks at the same text many times
def _parse(text: str) -> YamlNode | None:
    """The one document, or None when there is none."""
    try:
        root = _read(text)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        refuse_at(text, mark.index if mark else 0, fault.problem or "it is not YAML")
    except yaml.reader.ReaderError as fault:
        refuse_at(text, fault.position, "this character is not allowed in YAML")
    if root is not None and root.kind != "Mapping" and not root.nothing:
        refuse_at(text, root.start, "the file must hold keys with values")
    return root


def _read(text: str) -> YamlNode | None:
    open_nodes: list[YamlNode] = []
    root: YamlNode | None = None
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            _close(open_nodes.pop(), event.end_mark.index)
        if not isinstance(event, yaml.NodeEvent):
            continue
        node = YamlNode(event)
        if open_nodes:
            open_nodes[-1].children.append(node)
        elif root is not None:
            refuse_at(text, node.start, "a second document begins here; keep one")
        root = root or node
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(node)
        if len(open_nodes) > DEPTH_LIMIT:
            refuse_at(text, node.start, f"nested deeper than {DEPTH_LIMIT} levels")
    return root


def _close(node: YamlNode, end: int) -> None:
    """A block runs up to whatever comes next; ours ends with its last child."""
    if node.flow:
        node.end = end
    elif node.children:
        node.end = node.children[-1].end


def _pair(node: YamlNode, key: str) -> tuple[YamlNode, YamlNode] | None:
    found = [pair for pair in node.pairs if pair[0].kind == "Scalar" and pair[0].text == key]
    if len(found) > 1:
        refuse_twice(key)
    return found[0] if found else None


def _value(node: YamlNode) -> Any:
    match node.kind:
        case "Mapping":
            return {str(_value(key)): _value(value) for key, value in node.pairs}
        case "Sequence":
            return [_value(child) for child in node.children]
        case "Scalar" if node.tag != _STRING:
            return yaml.safe_load(node.text or "null")
        case _:
            return node.text


def _meaning(text: str) -> Any:
    root = _parse(text)
    return None if root is None else root.meaning()


def _with(node: YamlNode | None, path: KeyPath, value: Any) -> Any:
    """What the changed text must say."""
    if not path:
        return _parsed(inline({"x": value})).children[1].meaning()
    if node is None or node.nothing:
        node = _parsed("{}")
    kept = [child.meaning() for child in node.children]
    pair = _pair(node, path[0])
    inner = _with(pair[1] if pair else None, path[1:], value)
    if pair is not None:
        kept[node.children.index(pair[1])] = inner
    else:
        kept += [_parsed(f"{_name(path[0])}:").children[0].meaning(), inner]
    return (*node.head, kept)


def _parsed(text: str) -> YamlNode:
    node = _parse(text)
    assert node is not None
    return node


def _put(text: str, root: YamlNode | None, path: KeyPath, value: Any) -> str:
    line_end = line_end_of(text)
    if root is None or root.nothing:
        ended = text if not text or text[-1] in "\r\n" else text + line_end
        return ended + _block(path, value, 0, _DEFAULT_STEP, line_end)
    step = _step(root)
    node = root
    for depth, key in enumerate(path):
        pair = _pair(node, key)
        rest = path[depth + 1 :]
        if pair is None:
            return apply_edits(text, _added(text, node, path[depth:], value, step))
        if rest and not pair[1].nothing:
            if pair[1].kind != "Mapping":
                refuse_kind(key)
            if pair[1].anchor is not None:
                refuse_unsafe()
        if not rest or not pair[1].children:
            return apply_edits(text, _replaced(text, node, pair, rest, value, step))
        node = pair[1]
    return text


def _added(text: str, node: YamlNode, path: KeyPath, value: Any, step: int) -> list[TextEdit]:
    line_end = line_end_of(text)
    if node.flow or not node.children:
        entry = f"{inline(path[0])}: {inline(nested(path[1:], value))}"
        end = node.children[-1].end if node.children else node.start + 1
        return [TextEdit(end, end, f", {entry}" if node.children else entry)]
    block = _block(path, value, node.children[0].column, step, line_end)
    at = node.end if text[node.end - 1 : node.end] in {"\n", "\r"} else next_line(text, node.end)
    begun = "" if text[at - 1] in "\r\n" else line_end
    return [TextEdit(at, at, begun + block)]


def _replaced(
    text: str, holder: YamlNode, pair: tuple[YamlNode, YamlNode], rest: KeyPath, value: Any, step: int
) -> list[TextEdit]:
    """What the key holds becomes ours, with as many keys on the way as are missing."""
    key, old = pair
    if holder.flow:
        return [TextEdit(old.start, old.end, inline(nested(rest, value)))]
    column = key.column
    line_end = line_end_of(text)
    entry = nested(rest, value)
    block = "".join(_block((name,), each, column + step, step, line_end) for name, each in entry.items())
    colon = text.index(":", key.end) + 1
    end = max(old.end, colon)
    if text[end - 1] in "\r\n":
        return [TextEdit(colon, end, line_end + block)]
    after = next_line(text, end)
    remark = text[end:after]
    if not remark.endswith(("\r", "\n")):
        remark += line_end
    return [TextEdit(colon, after, remark + block)]


def _block(path: KeyPath, value: Any, column: int, step: int, line_end: str) -> str:
    pad = " " * column
    head = f"{pad}{_name(path[0])}:"
    if len(path) > 1:
        return head + line_end + _block(path[1:], value, column + step, step, line_end)
    if isinstance(value, dict) and value and any(isinstance(each, dict | list) for each in value.values()):
        rows = (_block((key,), each, column + step, step, line_end) for key, each in value.items())
        return head + line_end + "".join(rows)
    return f"{head} {inline(value)}{line_end}"


def _name(key: str) -> str:
    bare = _RESOLVER.resolve(yaml.ScalarNode, key, (True, False)) == _STRING
    return key if bare and _PLAIN.fullmatch(key) else inline(key)


def _step(root: YamlNode) -> int:
    for _, value in root.pairs:
        if value.kind == "Mapping" and not value.flow and value.children:
            return max(1, value.children[0].column - root.children[0].column)
    return _DEFAULT_STEP


def _without(text: str, holders: list[tuple[YamlNode, int]]) -> list[TextEdit]:
    holder, index = holders[-1]
    key, value = holder.children[index : index + 2]
    end = max(value.end, text.index(":", key.end) + 1)
    if holder.flow:
        return [_without_in_flow(holder, index, end)]
    at = line_start(text, key.start)
    after = end if text[end - 1] in "\r\n" else next_line(text, end)
    edits = [TextEdit(at, after, "")]
    if len(holder.children) == 2 and len(holders) > 1:
        outer, outer_index = holders[-2]
        colon = text.index(":", outer.children[outer_index].end) + 1
        edits.append(TextEdit(colon, colon, " {}"))
    return edits


def _without_in_flow(holder: YamlNode, index: int, end: int) -> TextEdit:
    key = holder.children[index]
    if index:
        return TextEdit(holder.children[index - 1].end, end, "")
    if len(holder.children) > 2:
        return TextEdit(key.start, holder.children[2].start, "")
    return TextEdit(key.start, end, "")
