"""One key of a JSON text, put in, replaced or taken out; comments and trailing commas are welcome.

The new member takes the style of its neighbours: their indentation, line ends, and whether they are on one line or on many.
A comment stays beside what it was written for. Numbers and strings of others are never decoded and written again: only the
characters of our own member change.
"""

import json
import re
from functools import lru_cache
from typing import Any

from comity.hosts.text_tree import Node, check_put, drop_key, find_value
from comity.runtime.toml_edit import (
    DEPTH_LIMIT,
    KeyPath,
    TextEdit,
    apply_edits,
    indentation,
    inline,
    line_end_of,
    line_start,
    match_end,
    nested,
    next_line,
    quoted,
    refuse_at,
    refuse_kind,
    rest_of_line,
)

_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_BESIDE = re.compile(r"(?:[ \t]*+(?://[^\r\n]*+|/\*(?:[^*\r\n]++|\*(?!/))*+\*/))*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_PLAIN = re.compile(r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)(?![\w.])")
_ROW = 100  # a list of plain values stays on one line up to this width
_DEFAULT_STEP = "  "


class JsonNode(Node):
    """`comma` is the place of the comma after a value in a mapping, or -1."""

    def __init__(self, kind: str, start: int, end: int, text: str) -> None:
        super().__init__(kind, start, end)
        self.text = text[start:end] if kind == "scalar" else ""
        self.comma = -1

    @property
    def head(self) -> tuple[Any, ...]:
        if self.kind != "scalar":
            return (self.kind,)
        return ("text", json.loads(self.text)) if self.text[0] == '"' else ("digits", self.text)

    @property
    def is_null(self) -> bool:
        return self.text == "null"

    def scalar(self) -> Any:
        return json.loads(self.text)


def find(text: str, path: KeyPath) -> Any:
    return find_value(_parse(text), path)


def put(text: str, path: KeyPath, value: Any) -> str:
    root = _parse(text)
    after = (
        _begun(text, nested(path, value))
        if root is None
        else apply_edits(text, _put(text, root, path, value))
    )
    return check_put(_parse, root, path, value, after)


def drop(text: str, path: KeyPath, made: int = 0) -> str:
    return drop_key(_parse, text, path, made, _only_ours, lambda text, holders: _without(text, *holders[-1]))


@lru_cache(8)  # one change looks at the same text many times, and some are large
def _parse(text: str) -> JsonNode | None:
    """Return the root of the text, or None if there is nothing but blanks and comments."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    root = _read(text, start, 0)
    end = _skip(text, root.end)
    if end != len(text):
        refuse_at(text, end, "there is more after the end of the value")
    if root.kind != "mapping":
        refuse_at(text, root.start, "the file must hold an object, { … }")
    return root


def _skip(text: str, index: int) -> int:
    return match_end(_TRIVIA, text, index)


def _read(text: str, index: int, depth: int) -> JsonNode:
    if depth > DEPTH_LIMIT:
        refuse_at(text, index, f"nested deeper than {DEPTH_LIMIT} levels")
    opening = text[index : index + 1]
    if opening == "{":
        return _read_object(text, index, depth)
    if opening == "[":
        return _read_list(text, index, depth)
    if opening == '"':
        return _read_string(text, index)
    found = _PLAIN.match(text, index)
    if found is None:
        refuse_at(text, index, f"a value is expected, not {_shown(text, index)}")
    return JsonNode("scalar", index, found.end(), text)


def _read_object(text: str, index: int, depth: int) -> JsonNode:
    node = JsonNode("mapping", index, index, text)
    at = _skip(text, index + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            refuse_at(text, at, f'a key in "quotes" or }} is expected, not {_shown(text, at)}')
        key = _read_string(text, at)
        colon = _skip(text, key.end)
        if text[colon : colon + 1] != ":":
            refuse_at(text, colon, f"a colon is expected, not {_shown(text, colon)}")
        value = _read(text, _skip(text, colon + 1), depth + 1)
        node.children += [key, value]
        at = _skip(text, value.end)
        if text[at : at + 1] != ",":
            break
        value.comma = at
        at = _skip(text, at + 1)
    return _closed(text, node, at, "}")


def _read_list(text: str, index: int, depth: int) -> JsonNode:
    node = JsonNode("list", index, index, text)
    at = _skip(text, index + 1)
    while text[at : at + 1] != "]":
        node.children.append(_read(text, at, depth + 1))
        at = _skip(text, node.children[-1].end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    return _closed(text, node, at, "]")


def _closed(text: str, node: JsonNode, at: int, closing: str) -> JsonNode:
    if text[at : at + 1] != closing:
        refuse_at(text, at, f"a comma or {closing} is expected, not {_shown(text, at)}")
    node.end = at + 1
    return node


def _read_string(text: str, index: int) -> JsonNode:
    found = _STRING.match(text, index)
    if found is None:
        refuse_at(text, index, "a string is not closed on its line or holds a wrong escape")
    return JsonNode("scalar", index, found.end(), text)


def _shown(text: str, index: int) -> str:
    return repr(text[index]) if index < len(text) else "the end of the file"


def _begun(text: str, value: Any) -> str:
    line_end = line_end_of(text)
    before = text if not text or text[-1] in "\r\n" else text + line_end
    return before + _spread(value, "", _DEFAULT_STEP, line_end) + line_end


def _put(text: str, root: JsonNode, path: KeyPath, value: Any) -> list[TextEdit]:
    node = root
    for depth, key in enumerate(path):
        pair = node.pair(key)
        rest = nested(path[depth + 1 :], value)
        if pair is None:
            return _added(text, root, node, key, rest)
        name, held = pair
        if depth == len(path) - 1 or held.is_null:
            spread = _is_spread(text, root, node)
            shown = _styled(text, root, rest, indentation(text, name.start)) if spread else inline(rest)
            return [TextEdit(held.start, held.end, shown)]
        node = held
        if node.kind != "mapping":
            refuse_kind(key)
    return []


def _is_spread(text: str, root: JsonNode, node: JsonNode) -> bool:
    """Return whether members of this object are on lines of their own."""
    if node.children:
        return _has_line_end(text[node.start : node.children[0].start])
    return not root.children or _has_line_end(text[root.start : root.end])


def _has_line_end(part: str) -> bool:
    return "\n" in part or "\r" in part


def _added(text: str, root: JsonNode, node: JsonNode, key: str, value: Any) -> list[TextEdit]:
    spread = _is_spread(text, root, node)
    if not node.children:
        return [_first(text, root, node, key, value, spread=spread)]
    name, last = node.pairs[-1]
    end = last.end
    if not spread:
        member = f"{quoted(key)}: {inline(value)}"
        if last.comma >= 0:
            return [TextEdit(last.comma + 1, last.comma + 1, f" {member},")]
        return [TextEdit(end, end, f", {member}")]
    column = indentation(text, name.start)
    member = f"{line_end_of(text)}{column}{quoted(key)}: {_styled(text, root, value, column)}"
    if last.comma >= 0:
        return [_after_remarks(text, last.comma + 1, f"{member},")]
    remark = _after_remarks(text, end, member)
    if remark.start == end:
        return [TextEdit(end, end, f",{member}")]
    return [TextEdit(end, end, ","), remark]


def _after_remarks(text: str, index: int, new: str) -> TextEdit:
    end = match_end(_BESIDE, text, index)
    return TextEdit(end, end, new)


def _first(text: str, root: JsonNode, node: JsonNode, key: str, value: Any, *, spread: bool) -> TextEdit:
    inside = text[node.start + 1 : node.end - 1]
    if not spread and not inside.strip():
        return TextEdit(node.start + 1, node.end - 1, f"{quoted(key)}: {inline(value)}")
    line_end = line_end_of(text)
    closing = indentation(text, node.start)
    column = closing + _step(text, root)
    member = f"{line_end}{column}{quoted(key)}: {_styled(text, root, value, column)}"
    if not inside.strip():
        return TextEdit(node.start + 1, node.end - 1, f"{member}{line_end}{closing}")
    remark_end = node.start + 1 + len(inside.rstrip())
    blank = text[remark_end : node.end - 1]
    return TextEdit(
        remark_end, remark_end, member if _has_line_end(blank) else f"{member}{line_end}{closing}"
    )


def _styled(text: str, root: JsonNode, value: Any, column: str) -> str:
    return _spread(value, column, _step(text, root), line_end_of(text))


def _step(text: str, root: JsonNode) -> str:
    """Return the indentation of a member relative to its object, by the first place that shows it."""
    queue = [root]
    for node in queue:
        for name, value in node.pairs:
            outer, own = indentation(text, node.start), indentation(text, name.start)
            first_on_line = not text[line_start(text, name.start) : name.start].strip()
            if first_on_line and own.startswith(outer) and len(own) > len(outer):
                return own.removeprefix(outer)
            queue.append(value)
    return _DEFAULT_STEP


def _spread(value: Any, column: str, step: str, line_end: str) -> str:
    deeper = column + step
    if isinstance(value, dict) and value:
        rows = [f"{quoted(key)}: {_spread(each, deeper, step, line_end)}" for key, each in value.items()]
        opening, closing = "{}"
    elif isinstance(value, list | tuple) and len(inline(value)) > _ROW:
        rows = [_spread(each, deeper, step, line_end) for each in value]
        opening, closing = "[]"
    else:
        return inline(value)
    inside = f",{line_end}{deeper}".join(rows)
    return f"{opening}{line_end}{deeper}{inside}{line_end}{column}{closing}"


def _only_ours(text: str, node: JsonNode) -> bool:
    """Return whether the object would be empty without this member: no other member, and no comment."""
    if len(node.children) != 2:
        return False
    name, value = node.children
    around = text[node.start + 1 : name.start] + text[value.end : node.end - 1]
    return not around.replace(",", "").strip()


def _without(text: str, node: JsonNode, index: int) -> list[TextEdit]:
    if _only_ours(text, node):
        return [TextEdit(node.start + 1, node.end - 1, "")]
    name, value = node.children[index : index + 2]
    if value.comma >= 0:
        return [_cut(text, name.start, value.comma + 1)]
    if index == 0:
        return [_cut(text, name.start, value.end)]
    comma = node.children[index - 1].comma
    between = text[comma + 1 : name.start]
    start = comma + 1 + len(between.rstrip())
    # what follows must not become part of a comment that ends with its line
    guard = line_end_of(text) if between.strip() and rest_of_line(text, value.end).strip() else ""
    return [TextEdit(comma, comma + 1, ""), TextEdit(start, value.end, guard)]


def _cut(text: str, start: int, end: int) -> TextEdit:
    """Cut whole lines if nothing else is on them, else our text and the blanks after it."""
    opening = line_start(text, start)
    if not text[opening:start].strip() and not rest_of_line(text, end).strip():
        return TextEdit(opening, next_line(text, end), "")
    rest = rest_of_line(text, end)
    return TextEdit(start, end + len(rest) - len(rest.lstrip(" \t")), "")
