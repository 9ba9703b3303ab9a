"""One key of a YAML text, put in, replaced or taken out; comments and the author's layout stay.

The text is read as a stream of events with their places. Aliases are not followed: what an anchor stands for elsewhere is
never changed through its other name. A layout that cannot be changed without touching more is refused.
"""

import re
from functools import lru_cache
from typing import Any

import yaml  # type: ignore[import-untyped] # it brings no types

from comity.hosts.text_tree import Holders, Node, check_put, drop_key, find_value
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
    refuse_unsafe,
)

_DEFAULT_STEP = 2
_NULL = "tag:yaml.org,2002:null"
_STRING = "tag:yaml.org,2002:str"
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_RESOLVER = yaml.resolver.Resolver()


class YamlNode(Node):
    """A scalar, a list, a mapping or an alias, as an event of the parser."""

    def __init__(self, event: Any) -> None:
        kind = type(event).__name__.removesuffix("Event").removesuffix("Start").lower()
        super().__init__("list" if kind == "sequence" else kind, event.start_mark.index, event.end_mark.index)
        self.column: int = event.start_mark.column
        self.flow = bool(getattr(event, "flow_style", False))
        self.text: str | None = getattr(event, "value", None)
        self.anchor: str | None = event.anchor
        self.tag = _tag(event)

    @property
    def head(self) -> tuple[Any, ...]:
        return self.kind, self.anchor, self.tag, self.text

    @property
    def is_null(self) -> bool:
        return self.tag == _NULL and self.anchor is None

    def scalar(self) -> Any:
        return (
            self.text if self.kind == "alias" or self.tag == _STRING else yaml.safe_load(self.text or "null")
        )


def _tag(event: Any) -> str | None:
    """Return the tag of a node, or the one that readers give to a plain scalar."""
    if isinstance(event, yaml.ScalarEvent) and event.tag is None:
        return str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))
    return getattr(event, "tag", None)


def find(text: str, path: KeyPath) -> Any:
    return find_value(_parse(text), path)


def put(text: str, path: KeyPath, value: Any) -> str:
    root = _parse(text)
    return check_put(_parse, root, path, value, _put(text, root, path, value))


def drop(text: str, path: KeyPath, made: int = 0) -> str:
    return drop_key(_parse, text, path, made, lambda _, node: len(node.children) == 2, _without)


@lru_cache(8)  # one change looks at the same text many times
def _parse(text: str) -> YamlNode | None:
    """Return the root of the only document, or None if there is none."""
    try:
        root = _read(text)
    except yaml.MarkedYAMLError as fault:
        mark = fault.problem_mark or fault.context_mark
        refuse_at(text, mark.index if mark else 0, fault.problem or "it is not YAML")
    except yaml.reader.ReaderError as fault:
        refuse_at(text, fault.position, "this character is not allowed in YAML")
    if root is not None and root.kind != "mapping" and not root.is_null:
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
    """Set the end of a node. The parser lets a block run up to the next token; ours ends with its last child."""
    if node.flow:
        node.end = end
    elif node.children:
        node.end = node.children[-1].end


def _put(text: str, root: YamlNode | None, path: KeyPath, value: Any) -> str:
    line_end = line_end_of(text)
    if root is None or root.is_null:
        ended = text if not text or text[-1] in "\r\n" else text + line_end
        return ended + _block(path, value, 0, _DEFAULT_STEP, line_end)
    step = _step(root)
    node = root
    for depth, key in enumerate(path):
        pair = node.pair(key)
        rest = path[depth + 1 :]
        if pair is None:
            return apply_edits(text, _added(text, node, path[depth:], value, step))
        if rest and not pair[1].is_null:
            if pair[1].kind != "mapping":
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
    """Replace the value of a key by ours, with the missing keys on the way."""
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
        if value.kind == "mapping" and not value.flow and value.children:
            return max(1, value.children[0].column - root.children[0].column)
    return _DEFAULT_STEP


def _without(text: str, holders: Holders) -> list[TextEdit]:
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
