"""Insert, replace or remove one table of a TOML text, statement by statement.

A statement is a header or a key with its value; comments and blank lines between statements stay. A
new table goes to the end of the text.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from comity.wire.errors import MalformedError

# What edits of TOML, JSON and YAML share: where a fault is, how lines end, how to splice.


KeyPath = tuple[str, ...]

DEPTH_LIMIT = 100

_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


class TextEdit(NamedTuple):
    """Replaces the text from `start` to `end`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def refuse_at(text: str, index: int, fault: str) -> NoReturn:
    line, column = 1, index + 1
    for line_end in _LINE_END.finditer(text, 0, index):
        line, column = line + 1, index - line_end.end() + 1
    raise MalformedError(f"line {line}, column {column}: {fault}")


def refuse_twice(key: str) -> NoReturn:
    raise MalformedError(f"the key {key!r} is there twice; keep one of them")


def refuse_kind(key: str) -> NoReturn:
    raise MalformedError(f"{key!r} does not hold named entries; correct it by hand")


def refuse_unsafe() -> NoReturn:
    """Refuse a text whose edited form does not say what it should."""
    raise MalformedError(
        "it is written in a way that cannot be changed without touching more; add it by hand"
    )


def line_end_of(text: str) -> str:
    found = _LINE_END.search(text)
    return found[0] if found else "\n"


def line_start(text: str, index: int) -> int:
    return max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) + 1


def former_line(text: str, start: int) -> int:
    """Return where the line before the one at `start` begins."""
    end = start - (2 if text.endswith("\r\n", 0, start) else 1)
    return line_start(text, max(end, 0))


def next_line(text: str, index: int) -> int:
    """Return where the next line begins, or the end of the text."""
    found = _LINE_END.search(text, index)
    return found.end() if found else len(text)


def rest_of_line(text: str, index: int) -> str:
    found = _LINE_END.search(text, index)
    return text[index : found.start() if found else len(text)]


def match_end(pattern: re.Pattern[str], text: str, index: int) -> int:
    """Return where a match at `index` ends; `index` if there is none."""
    found = pattern.match(text, index)
    return found.end() if found else index


def indentation(text: str, index: int) -> str:
    """Return the blanks at the beginning of the line."""
    start = line_start(text, index)
    line = text[start:index]
    return line[: len(line) - len(line.lstrip(" \t"))]


def quoted(value: str) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


def inline(value: Any) -> str:
    """Return a value on one line, as JSON; YAML reads it too."""
    match value:
        case str():
            return quoted(value)
        case dict():
            return "{" + ", ".join(f"{quoted(key)}: {inline(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            return json.dumps(value)


def nested(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


_BLANK = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_KEY = re.compile(r"""[ \t]*+([A-Za-z0-9_-]++|"(?:[^"\\\r\n]|\\.)*+"|'[^'\r\n]*+')[ \t]*+""")
_PIECE = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\r\n]|\\.)*+"'
    r"|'[^'\r\n]*+'"
    r"|#[^\r\n]*+|[\[{]|[\]}]|\r?\n|[^\"'#\[\]{}\r\n]++"
)
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLACE = re.compile(r"\(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")


class Statement(NamedTuple):
    """`path` includes the header that it is under."""

    path: KeyPath
    header: bool
    start: int
    end: int


def find(text: str, path: KeyPath) -> Any:
    node: Any = _parse(text)
    for key in path:
        if not isinstance(node, dict) or key not in node:
            return None
        node = node[key]
    return node


def put(text: str, path: KeyPath, value: Any) -> str:
    before = _parse(text)
    node = before
    for key in path[:-1]:
        node = node.get(key, {})
        if not isinstance(node, dict):
            refuse_kind(key)
    statements = list(_statements(text))
    _refuse_inline(text, statements, path)
    own = _own(statements, path)
    line_end = line_end_of(text)
    block = _table(path, value, line_end)
    if own and own[0].header:
        first = own[0]
        edits = [
            TextEdit(first.start, first.end, block),
            *(TextEdit(each.start, each.end, "") for each in own[1:]),
        ]
        new = apply_edits(text, edits)
    else:
        new = _appended(drop(text, path) if own else text, block, line_end)
    if not _same(_parse(new), _with(before, path, value)):
        refuse_unsafe()
    return new


def put_value(text: str, path: KeyPath, value: Any) -> str:
    """Set one key where it stands, else as the last of its section, which is made if it is missing."""
    before = _parse(text)
    statements = list(_statements(text))
    _refuse_inline(text, statements, path)
    line_end = line_end_of(text)
    line = f"{_name(path[-1])} = {_inline(value)}"
    same = next((each for each in statements if each.path == path and not each.header), None)
    if same is not None:
        comment = _comment_of(text, same)
        start = same.start + len(indentation(text, match_end(_BLANK, text, same.start)))
        new = apply_edits(text, [TextEdit(start, same.end, line + comment + line_end)])
    else:
        section = [each for each in statements if each.path[:-1] == path[:-1] and not each.header]
        section += [each for each in statements if each.path == path[:-1] and each.header]
        last = max(section, key=lambda each: each.end, default=None)
        if last is not None:
            gap = "" if text[: last.end].endswith(("\n", "\r")) else line_end
            new = apply_edits(text, [TextEdit(last.end, last.end, gap + line + line_end)])
        elif len(path) == 1:
            new = line + line_end + text
        else:
            new = _appended(text, f"[{_shown(path[:-1])}]{line_end}{line}{line_end}", line_end)
    if not _same(_parse(new), _with(before, path, value)):
        refuse_unsafe()
    return new


def drop(text: str, path: KeyPath, _made: int = 0) -> str:
    """Return the text without the table, and without empty holders of it."""
    own = _own(list(_statements(text)), path)
    if not own:
        return text
    edits = [TextEdit(each.start, each.end, "") for each in own]
    start, end = own[0].start, own[-1].end
    before = former_line(text, start)
    if start and not text[before:start].strip() and not text[end : next_line(text, end)].strip():
        edits.append(TextEdit(before, start, ""))  # the blank line that set it apart
    new = apply_edits(text, edits)
    if not _same(_without_empty(_parse(new), path), _without_empty(_without(_parse(text), path), path)):
        refuse_unsafe()
    return new


def _parse(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        said = str(fault)
        place = _PLACE.search(said)
        what = _PLACE.sub("", said).strip()
        if place is None or place["line"] is None:
            refuse_at(text, len(text), what)
        raise MalformedError(f"line {place['line']}, column {place['column']}: {what}") from None
    except RecursionError:
        raise MalformedError("nested too deep to be read") from None


def _statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a valid text."""
    header: KeyPath = ()
    at = match_end(_BLANK, text, 0)
    while at < len(text):
        start = line_start(text, at)
        is_header = text[at] == "["
        if is_header:
            header, at = _key(text, at + (2 if text.startswith("[[", at) else 1))
            path = header
        else:
            own, at = _key(text, at)
            path = header + own
            at = _value_end(text, at + 1)
        end = next_line(text, at)
        yield Statement(path, is_header, start, end)
        at = match_end(_BLANK, text, end)


def _key(text: str, at: int) -> tuple[KeyPath, int]:
    parts: list[str] = []
    while True:
        found = _KEY.match(text, at)
        if found is None:
            refuse_at(text, at, "a key is expected")
        part = found[1]
        parts.append(tomllib.loads(f"x = {part}")["x"] if part[0] in "\"'" else part)
        at = found.end()
        if text[at : at + 1] != ".":
            return tuple(parts), at
        at += 1


def _value_end(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        found = _PIECE.match(text, at)
        if found is None:
            refuse_at(text, at, "a value is expected")
        piece = found[0]
        if piece in {"\n", "\r\n"} and not depth:
            break
        depth += (piece in {"[", "{"}) - (piece in {"]", "}"})
        at = found.end()
    return at


def _refuse_inline(text: str, statements: list[Statement], path: KeyPath) -> None:
    for statement in statements:
        if not statement.header and statement.path == path[: len(statement.path)] != path:
            refuse_at(
                text,
                statement.start,
                f"{_shown(statement.path)} is written as an inline table; "
                f"write it as [{_shown(path)}] tables, then run this again",
            )


def _comment_of(text: str, statement: Statement) -> str:
    """Return the comment after the value of a statement, with blanks before it."""
    at = text.index("=", _key(text, match_end(_BLANK, text, statement.start))[1]) + 1
    comment = ""
    while at < statement.end and (found := _PIECE.match(text, at)) is not None:
        comment = found[0] if found[0].startswith("#") else "" if found[0].strip() else comment
        at = found.end()
    return f"  {comment}" if comment else ""


def _own(statements: list[Statement], path: KeyPath) -> list[Statement]:
    return [statement for statement in statements if statement.path[: len(path)] == path]


def _appended(text: str, block: str, line_end: str) -> str:
    if not text:
        return block
    ended = text if text.endswith("\n") else text + line_end
    last = ended[former_line(ended, len(ended)) :]
    return ended + (line_end if last.strip() else "") + block


def _table(path: KeyPath, value: Any, line_end: str) -> str:
    rows = [f"[{_shown(path)}]", *(f"{_name(key)} = {_inline(each)}" for key, each in value.items())]
    return line_end.join(rows) + line_end


def _inline(value: Any) -> str:
    match value:
        case str():
            return quoted(value)
        case bool():
            return str(value).lower()
        case dict():
            rows = ", ".join(f"{_name(key)} = {_inline(each)}" for key, each in value.items())
            return f"{{ {rows} }}" if rows else "{}"
        case list() | tuple():
            return "[" + ", ".join(map(_inline, value)) + "]"
        case _:
            return str(value)


def _shown(path: KeyPath) -> str:
    return ".".join(map(_name, path))


def _name(key: str) -> str:
    return key if _BARE.fullmatch(key) else quoted(key)


def _with(node: Any, path: KeyPath, value: Any) -> Any:
    return {**node, path[0]: _with(node.get(path[0], {}), path[1:], value)} if path else value


def _without(node: Any, path: KeyPath) -> Any:
    kept = {key: each for key, each in node.items() if key != path[0]}
    return {**kept, path[0]: _without(node[path[0]], path[1:])} if len(path) > 1 else kept


def _without_empty(node: Any, path: KeyPath) -> Any:
    """Return the node without tables that became empty."""
    return {key: each for key, each in node.items() if each or key != path[0]}


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals NaN."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(each, other[key]) for key, each in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case _:
            return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - how NaN is known
