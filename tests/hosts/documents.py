"""Texts of each format with comments in all places where people put them, made by Hypothesis.

Each strategy gives a text; `plain_json` and `comments_of` are a second opinion on what it says, written
without the code under test.
"""

import json
import re
from collections import Counter

from hypothesis import strategies as st

LINE_ENDS = st.sampled_from(["\n", "\r\n"])
KEYS = st.sampled_from(["a", "b", "theme", "x y", 'q"uote', "é", "//not a comment", "/* nor this */"])
_STRINGS = st.sampled_from(["", "x", "a // b", "/* c */", 'say "hi"', "tab\t", "日本", "C:\\dir\\", "}", ","])
_PLAIN = st.sampled_from(["1", "-0.50", "1e400", "12345678901234567890", "true", "null"])

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\r\n]*|/\*.*?\*/|[^"/]+|/', re.DOTALL)

_TRAILING = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])')


@st.composite
def _space(draw, line_end, indent):
    return draw(
        st.sampled_from(
            [
                "",
                " ",
                line_end + indent,
                f" // note, not {{code}}{line_end}{indent}",
                " /* a, b */ ",
                f"{line_end}{indent}/* two{line_end} lines */{line_end}{indent}",
            ]
        )
    )


@st.composite
def _value(draw, line_end, depth):
    kind = draw(st.integers(0, 3 if depth < 3 else 1))
    if kind == 0:
        return json.dumps(draw(_STRINGS), ensure_ascii=draw(st.booleans()))
    if kind == 1:
        return draw(_PLAIN)
    if kind == 2:
        items = draw(st.lists(_value(line_end, depth + 1), max_size=2))
        return _joined(draw, "[", items, "]", line_end, depth)
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    return _object(draw, {key: draw(_value(line_end, depth + 1)) for key in keys}, line_end, depth)


def _object(draw, members, line_end, depth):
    indent = "  " * (depth + 1)
    rows = [
        f"{json.dumps(key)}{draw(_space(line_end, indent))}:{draw(_space(line_end, indent))}{value}"
        for key, value in members.items()
    ]
    return _joined(draw, "{", rows, "}", line_end, depth)


def _joined(draw, opening, rows, closing, line_end, depth):
    indent = "  " * (depth + 1)
    space = _space(line_end, indent)
    text = opening + draw(space)
    for number, row in enumerate(rows):
        text += row + draw(space)
        if number < len(rows) - 1 or draw(st.booleans()):
            text += "," + draw(space)
    return text + closing


@st.composite
def json_texts(draw, holder="mcpServers"):
    line_end = draw(LINE_ENDS)
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", line_end, f"// only a comment{line_end}", " /* and */"]))
    keys = draw(st.lists(KEYS, max_size=3, unique=True))
    members = {key: draw(_value(line_end, 1)) for key in keys}
    if draw(st.booleans()):
        others = draw(st.lists(st.sampled_from(["other", "third"]), max_size=2, unique=True))
        servers = {name: draw(_value(line_end, 2)) for name in others}
        members[holder] = draw(st.sampled_from(["null", _object(draw, servers, line_end, 1)]))
    around = _space(line_end, "")
    return draw(around) + _object(draw, members, line_end, 0) + draw(around)


def plain_json(text):
    """What it says, read by the library's own parser after comments and trailing commas are gone."""
    bare = "".join(" " if token.startswith(("//", "/*")) else token for token in _TOKEN.findall(text))
    strict = _TRAILING.sub(lambda found: found[1] or "", bare)
    return json.loads(strict) if strict.strip() else {}


def comments_of(text, token=_TOKEN, marks=("//", "/*")):
    return Counter(found for found in token.findall(text) if found.startswith(marks))


_TOML_ROWS = st.sampled_from(
    [
        "# a comment",
        "",
        "   # deeper, with [mcp_servers.comity] in it",
        'model = "x" # why',
        'text = """\n[mcp_servers.comity]\ncommand = "no"\n"""',
        "raw = '''\n# not a comment '' here\n'''",
        'list = [ # first\n  1, # one\n  [2, "]"],\n]',
        'q."mcp_servers".x = nan',
        "t = { a = 1, b = { c = 'd' } }",
    ]
)
_TOML_TABLES = st.sampled_from(
    [
        "[profile]",
        '[mcp_servers.other]\ncommand = "x" # theirs\n\n[mcp_servers.other.env]\nKEY = "v"',
        "[[list_of]]\nname = 1",
        "[ mcp_servers . 'quoted name' ]\ncommand = 'y'",
        "[mcp_servers.comity2]\ncommand = 'z'",
    ]
)


@st.composite
def toml_texts(draw):
    """Statements, each key once, in tables, each once."""
    line_end = draw(LINE_ENDS)
    rows = draw(st.lists(_TOML_ROWS, max_size=5, unique_by=lambda row: row if "=" in row else object()))
    for table in draw(st.lists(_TOML_TABLES, max_size=4, unique=True)):
        rows += [table, *draw(st.lists(st.sampled_from(["# below", ""]), max_size=2))]
    text = line_end.join(row.replace("\n", line_end) for row in rows)
    return text + draw(st.sampled_from(["", line_end, line_end * 3, f"{line_end}# the end"]))


_YAML_VALUES = st.sampled_from(
    [
        "1",
        "plain text",
        '"quoted: # no comment"',
        "'it''s'",
        "{a: 1, b: [x, y]}",
        "[1, 2]",
        "~",
        "",
        ".nan",
        "2026-01-01",
    ]
)
_YAML_BLOCKS = ["|", ">-", "|+"]


@st.composite
def yaml_texts(draw, holder="extensions"):
    line_end = draw(LINE_ENDS)
    step = draw(st.sampled_from([2, 4]))
    rows = draw(st.lists(st.sampled_from(["# head", "", "---"]), max_size=1))
    keys = draw(
        st.lists(st.sampled_from(["GOOSE_MODEL", "other", "x-y", '"quoted"']), max_size=3, unique=True)
    )
    if draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), holder)
    for key in keys:
        rows += _yaml_pair(draw, key, 0, step, holder=key == holder)
        rows += draw(st.lists(st.sampled_from(["# between", "", "  # indented"]), max_size=1))
    # a block that ends with the text and without a line end means something else with one, and is refused
    ended = draw(st.booleans()) or any(row.endswith(tuple(_YAML_BLOCKS)) for row in rows)
    return line_end.join([*rows, ""] if ended else rows)


def _yaml_pair(draw, key, depth, step, *, holder=False):
    pad = " " * (depth * step)
    remark = draw(st.sampled_from(["", " # why"]))
    kind = draw(st.integers(0, 2 if depth < 2 else 1))
    if holder and kind < 2:
        return [pad + f"{key}: {draw(st.sampled_from(['{}', '', '~', '{o: {cmd: x}}', '{o: 1,}']))}{remark}"]
    if kind == 0:
        return [f"{pad}{key}: {draw(_YAML_VALUES)}{remark}"]
    if kind == 1:
        inner = " " * ((depth + 1) * step)
        return [
            f"{pad}{key}: {draw(st.sampled_from(_YAML_BLOCKS))}",
            f"{inner}text",
            f"{inner}# not a comment",
            "",
        ]
    names = draw(st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=2, unique=True))
    rows = [f"{pad}{key}:{remark}"]
    for name in names:
        rows += _yaml_pair(draw, name, depth + 1, step)
    return rows
