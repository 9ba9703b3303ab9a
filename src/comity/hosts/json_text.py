"""One key of a JSON text, put in, replaced or taken out; comments and trailing commas are welcome.

The new member takes the style of its neighbours: their indentation, line ends, and whether they stand on one
line or on many. A comment stays beside what it was written for. Numbers and strings of others are never
decoded and written again: only the characters of our own member change.
"""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

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
    refuse_twice,
    refuse_unsafe,
    rest_of_line,
)

_TRIVIA = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+")
_BESIDE = re.compile(r"(?:[ \t]*+(?://[^\r\n]*+|/\*(?:[^*\r\n]++|\*(?!/))*+\*/))*+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"')
_PLAIN = re.compile(r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)(?![\w.])")
_ROW = 100  # a list of plain values stays on one line up to this width
_DEFAULT_STEP = "  "


class JsonNode(NamedTuple):
    """`kind` is its first character for an object, a list or a string, else empty."""

    kind: str
    start: int
    end: int
    members: "tuple[Member, ...]" = ()
    items: "tuple[JsonNode, ...]" = ()


class Member(NamedTuple):
    """`comma` is where the one behind it stands, or -1."""

    name: str
    start: int
    value: JsonNode
    comma: int


def find(text: str, path: KeyPath) -> Any:
    """The value under the path, or None."""
    node = _parse(text)
    for key in path:
        member = _member(node, key) if node is not None and node.kind == "{" else None
        if member is None:
            return None
        node = member.value
    return None if node is None else _value(text, node)


def put(text: str, path: KeyPath, value: Any) -> str:
    """The text with the value under the path; what is missing on the way is made."""
    root = _parse(text)
    if root is None:
        new = _begun(text, nested(path, value))
    else:
        new = apply_edits(text, _put(text, root, path, value))
    if _sense(new) != _with(_sense(text), path, value):
        refuse_unsafe()
    return new


def drop(text: str, path: KeyPath, made: int = 0) -> str:
    """The text without the key, and without those of its `made` nearest holders that are empty then."""
    root = _parse(text)
    holders: list[tuple[JsonNode, int]] = []
    node = root
    for key in path:
        if node is None or node.kind != "{" or (member := _member(node, key)) is None:
            return text
        holders.append((node, node.members.index(member)))
        node = member.value
    while made and len(holders) > 1 and _only_ours(text, *holders[-1]):
        holders.pop()
        made -= 1
    new = apply_edits(text, _without(text, *holders[-1]))
    if _sense(new) != _sense_without(_sense(text), path[: len(holders)]):
        refuse_unsafe()
    return new


@lru_cache(4)  # one change looks at the same text many times, and some are large
def _parse(text: str) -> JsonNode | None:
    """The whole text, checked; None when there is nothing but blanks and comments."""
    start = _skip(text, 0)
    if start == len(text):
        return None
    root = _read(text, start, 0)
    end = _skip(text, root.end)
    if end != len(text):
        refuse_at(text, end, "there is more after the end of the value")
    if root.kind != "{":
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
        return JsonNode('"', index, _string_end(text, index))
    found = _PLAIN.match(text, index)
    if found is None:
        refuse_at(text, index, f"a value is expected, not {_shown(text, index)}")
    return JsonNode("", index, found.end())


def _read_object(text: str, index: int, depth: int) -> JsonNode:
    members: list[Member] = []
    at = _skip(text, index + 1)
    while text[at : at + 1] != "}":
        if text[at : at + 1] != '"':
            refuse_at(text, at, f'a key in "quotes" or }} is expected, not {_shown(text, at)}')
        key_end = _string_end(text, at)
        colon = _skip(text, key_end)
        if text[colon : colon + 1] != ":":
            refuse_at(text, colon, f"a colon is expected, not {_shown(text, colon)}")
        value = _read(text, _skip(text, colon + 1), depth + 1)
        comma = _skip(text, value.end)
        has_comma = text[comma : comma + 1] == ","
        members.append(Member(json.loads(text[at:key_end]), at, value, comma if has_comma else -1))
        if not has_comma:
            at = comma
            break
        at = _skip(text, comma + 1)
    if text[at : at + 1] != "}":
        refuse_at(text, at, f"a comma or }} is expected, not {_shown(text, at)}")
    return JsonNode("{", index, at + 1, tuple(members))


def _read_list(text: str, index: int, depth: int) -> JsonNode:
    items: list[JsonNode] = []
    at = _skip(text, index + 1)
    while text[at : at + 1] != "]":
        items.append(_read(text, at, depth + 1))
        at = _skip(text, items[-1].end)
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    if text[at : at + 1] != "]":
        refuse_at(text, at, f"a comma or ] is expected, not {_shown(text, at)}")
    return JsonNode("[", index, at + 1, items=tuple(items))


def _string_end(text: str, index: int) -> int:
    found = _STRING.match(text, index)
    if found is None:
        refuse_at(text, index, "a string is not closed on its line or holds a wrong escape")
    return found.end()


def _shown(text: str, index: int) -> str:
    return repr(text[index]) if index < len(text) else "the end of the file"


def _member(node: JsonNode, key: str) -> Member | None:
    found = [member for member in node.members if member.name == key]
    if len(found) > 1:
        refuse_twice(key)
    return found[0] if found else None


def _value(text: str, node: JsonNode) -> Any:
    match node.kind:
        case "{":
            return {member.name: _value(text, member.value) for member in node.members}
        case "[":
            return [_value(text, item) for item in node.items]
        case _:
            return json.loads(text[node.start : node.end])


def _sense(text: str) -> Any:
    """What the text says: every member in its order, numbers by their digits."""
    root = _parse(text)
    return None if root is None else _meaning(text, root)


def _meaning(text: str, node: JsonNode) -> Any:
    match node.kind:
        case "{":
            return "members", [(member.name, _meaning(text, member.value)) for member in node.members]
        case "[":
            return "items", [_meaning(text, item) for item in node.items]
        case '"':
            return "text", json.loads(text[node.start : node.end])
        case _:
            return "plain", text[node.start : node.end]


def _with(sense: Any, path: KeyPath, value: Any) -> Any:
    if not path:
        shown = inline(value)
        return _meaning(shown, _read(shown, 0, 0))
    members = list(sense[1]) if sense is not None and sense[0] == "members" else []
    names = [name for name, _ in members]
    at = names.index(path[0]) if path[0] in names else len(members)
    old = members[at][1] if path[0] in names else None
    members[at : at + 1] = [(path[0], _with(old, path[1:], value))]
    return "members", members


def _sense_without(sense: Any, path: KeyPath) -> Any:
    return "members", [
        (name, _sense_without(each, path[1:]) if name == path[0] else each)
        for name, each in sense[1]
        if name != path[0] or len(path) > 1
    ]


def _begun(text: str, value: Any) -> str:
    line_end = line_end_of(text)
    before = text if not text or text[-1] in "\r\n" else text + line_end
    return before + _spread(value, "", _DEFAULT_STEP, line_end) + line_end


def _put(text: str, root: JsonNode, path: KeyPath, value: Any) -> list[TextEdit]:
    node = root
    for depth, key in enumerate(path):
        member = _member(node, key)
        rest = nested(path[depth + 1 :], value)
        if member is None:
            return _added(text, root, node, key, rest)
        empty = text[member.value.start : member.value.end] == "null"
        if depth == len(path) - 1 or empty:
            spread = _is_spread(text, root, node)
            shown = _styled(text, root, rest, indentation(text, member.start)) if spread else inline(rest)
            return [TextEdit(member.value.start, member.value.end, shown)]
        node = member.value
        if node.kind != "{":
            refuse_kind(key)
    return []


def _is_spread(text: str, root: JsonNode, node: JsonNode) -> bool:
    """Whether members of this object stand on lines of their own."""
    if node.members:
        return _has_line_end(text[node.start : node.members[0].start])
    return not root.members or _has_line_end(text[root.start : root.end])


def _has_line_end(part: str) -> bool:
    return "\n" in part or "\r" in part


def _added(text: str, root: JsonNode, node: JsonNode, key: str, value: Any) -> list[TextEdit]:
    spread = _is_spread(text, root, node)
    if not node.members:
        return [_first(text, root, node, key, value, spread=spread)]
    last = node.members[-1]
    end = last.value.end
    if not spread:
        member = f"{quoted(key)}: {inline(value)}"
        if last.comma >= 0:
            return [TextEdit(last.comma + 1, last.comma + 1, f" {member},")]
        return [TextEdit(end, end, f", {member}")]
    column = indentation(text, last.start)
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
    """How much deeper a member stands than the object that holds it, by the first place that shows it."""
    queue = [root]
    for node in queue:
        for member in node.members:
            outer, own = indentation(text, node.start), indentation(text, member.start)
            first_on_line = not text[line_start(text, member.start) : member.start].strip()
            if first_on_line and own.startswith(outer) and len(own) > len(outer):
                return own.removeprefix(outer)
            queue.append(member.value)
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


def _only_ours(text: str, node: JsonNode, index: int) -> bool:
    """Whether nothing would be left in the object: no other member, and no comment."""
    if len(node.members) != 1:
        return False
    member = node.members[index]
    around = text[node.start + 1 : member.start] + text[member.value.end : node.end - 1]
    return not around.replace(",", "").strip()


def _without(text: str, node: JsonNode, index: int) -> list[TextEdit]:
    if _only_ours(text, node, index):
        return [TextEdit(node.start + 1, node.end - 1, "")]
    member = node.members[index]
    if member.comma >= 0:
        return [_cut(text, member.start, member.comma + 1)]
    if index == 0:
        return [_cut(text, member.start, member.value.end)]
    former = node.members[index - 1]
    between = text[former.comma + 1 : member.start]
    start = former.comma + 1 + len(between.rstrip())
    # what follows must not slip into a comment that ends with its line
    guard = line_end_of(text) if between.strip() and rest_of_line(text, member.value.end).strip() else ""
    return [TextEdit(former.comma, former.comma + 1, ""), TextEdit(start, member.value.end, guard)]


def _cut(text: str, start: int, end: int) -> TextEdit:
    """Whole lines when nothing else stands on them; else what is ours and the blanks behind it."""
    opening = line_start(text, start)
    if not text[opening:start].strip() and not rest_of_line(text, end).strip():
        return TextEdit(opening, next_line(text, end), "")
    rest = rest_of_line(text, end)
    return TextEdit(start, end + len(rest) - len(rest.lstrip(" \t")), "")
