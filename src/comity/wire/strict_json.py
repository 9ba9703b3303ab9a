"""Strict JSON in, compact JSON out.

In: RFC 8259 in UTF-8 without a byte order mark. NaN, Infinity, numbers that overflow to infinity,
nesting beyond `depth` and lone surrogates are malformed; integers of any size (up to the
interpreter's 4,300 digits) stay exact. Where bytes are signed, ask for `unique_keys`: two readers of
one signature must not see two different messages. Where JavaScript peers may send half a surrogate
pair and want it back, ask for `lone_surrogates`.

The value is read by msgspec, which is as fast as any reader and, unlike orjson, never turns a large
integer into a float. Depth and keys are counted on the bytes, outside strings, by whole-buffer
operations, so that strictness costs little and hostile input costs no more than ordinary input.

Out: what has no JSON form of its own is written as JavaScript does, so that an answer never fails on
its content: half a surrogate pair becomes an escape, NaN and the infinities become null.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from json import JSONEncoder
from typing import Any, NamedTuple

import msgspec
import orjson

from comity.wire.errors import MalformedError

# JSON read and written one step at a time: slow, exact, and without recursion.


# Beyond any allowed depth; a value that contains itself ends here.
DEEPEST = 10_000

_SPACE = re.compile(r"[ \t\n\r]*+")
_STRING = re.compile(r'"((?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*+)"')
_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]*+))((?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)")
_LITERAL = re.compile(r"true|false|null")
_LITERALS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|u(.{4}))')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_SURROGATE = re.compile("[\ud800-\udfff]")

raw_string: Callable[[str], str] = JSONEncoder(ensure_ascii=False).encode
ascii_string: Callable[[str], str] = JSONEncoder(ensure_ascii=True).encode


def read(data: bytes, *, depth: int, unique_keys: bool = False, lone_surrogates: bool = False) -> Any:
    """Return the value that `data` spells. Raise MalformedError with the place of a fault."""
    return _JsonReader(utf8(data), depth, unique_keys, lone_surrogates).document()


def utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"JSON is malformed at byte {error.start}: it must be UTF-8") from None


class Form(NamedTuple):
    """How to write what JSON leaves open."""

    string: Callable[[str], str]
    integer: Callable[[int], str]
    real: Callable[[float], str]
    members: Callable[[dict[str, Any]], Iterable[tuple[str, Any]]]


def write(value: Any, form: Form) -> str:
    """Return `value` in the given form. It may contain lone surrogates if `form.string` allows them."""
    pieces: list[str] = []
    outer: list[tuple[Iterator[tuple[str, Any]], str]] = []
    items, closer = iter([("", value)]), ""
    while True:
        for prefix, item in items:
            pieces.append(prefix)
            if isinstance(item, dict | list | tuple):
                if len(outer) == DEEPEST:
                    raise MalformedError(f"the value is nested deeper than {DEEPEST:,} levels; flatten it")
                outer.append((items, closer))
                if isinstance(item, dict):
                    pieces.append("{")
                    items, closer = _members(item, form), "}"
                else:
                    pieces.append("[")
                    items, closer = _elements(item), "]"
                break
            pieces.append(_scalar(item, form))
        else:
            pieces.append(closer)
            if not outer:
                return "".join(pieces)
            items, closer = outer.pop()


def escape_lone_surrogates(text: str) -> str:
    """Write surrogates as JavaScript does: pairs become one character, a lone one becomes an escape."""
    if _SURROGATE.search(text) is None:
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", joined)


def whole(number: int) -> str:
    """Return all the digits of an integer."""
    try:
        return int.__repr__(number)
    except ValueError:
        raise MalformedError("an integer has more digits than can be written; send it as a string") from None


def _elements(items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    prefix = ""
    for item in items:
        yield prefix, item
        prefix = ","


def _members(item: dict[str, Any], form: Form) -> Iterator[tuple[str, Any]]:
    for key in item:
        if not isinstance(key, str):
            raise TypeError(f"the keys of a JSON object are strings, not {type(key).__name__}")
    comma = ""
    for key, value in form.members(item):
        yield f"{comma}{form.string(key)}:", value
        comma = ","


def _scalar(item: Any, form: Form) -> str:
    if isinstance(item, str):
        return form.string(item)
    if item is None:
        return "null"
    if item is True:
        return "true"
    if item is False:
        return "false"
    if isinstance(item, int):
        return form.integer(item)
    if isinstance(item, float):
        return form.real(item)
    raise TypeError(f"{type(item).__name__} is not a JSON type")


class _JsonReader:
    def __init__(self, text: str, depth: int, unique_keys: bool, lone_surrogates: bool) -> None:
        self._text = text
        self._at = 0
        self._depth = depth
        self._unique_keys = unique_keys
        self._lone_surrogates = lone_surrogates
        self._open: list[Any] = []
        self._keys: list[str] = []

    def document(self) -> Any:
        while True:
            opened, value = self._begin()
            if opened:
                continue
            while self._open:
                value, complete = self._attach(value)
                if not complete:
                    break
            else:
                self._skip_space()
                if self._at != len(self._text):
                    raise self._error("there is more after the value")
                return value

    def _begin(self) -> tuple[bool, Any]:
        """Read a scalar or an empty container, or open a container that has something in it."""
        self._skip_space()
        start = self._peek()
        if start not in {"[", "{"}:
            return False, self._scalar(start)
        if len(self._open) >= self._depth:
            raise self._error(f"it is nested deeper than {self._depth:,} levels")
        container: Any = [] if start == "[" else {}
        self._at += 1
        self._skip_space()
        if self._peek() == ("]" if start == "[" else "}"):
            self._at += 1
            return False, container
        self._open.append(container)
        if start == "{":
            self._key(container)
        return True, None

    def _attach(self, value: Any) -> tuple[Any, bool]:
        """Put `value` into the innermost container, and return the container if that completes it."""
        container = self._open[-1]
        is_list = isinstance(container, list)
        if is_list:
            container.append(value)
        else:
            container[self._keys.pop()] = value
        self._skip_space()
        mark = self._peek()
        if mark == ",":
            self._at += 1
            if not is_list:
                self._skip_space()
                self._key(container)
            return None, False
        if mark == ("]" if is_list else "}"):
            self._at += 1
            return self._open.pop(), True
        raise self._error(f"a comma or {']' if is_list else '}'} is missing")

    def _key(self, container: dict[str, Any]) -> None:
        at = self._at
        if self._peek() != '"':
            raise self._error("a key in double quotes is missing")
        key = self._string()
        if self._unique_keys and key in container:
            self._at = at
            raise self._error(f"the key {ascii_string(key[:40])} is there twice")
        self._skip_space()
        if self._peek() != ":":
            raise self._error("a colon is missing")
        self._at += 1
        self._keys.append(key)

    def _scalar(self, start: str) -> Any:
        if start == '"':
            return self._string()
        if (literal := _LITERAL.match(self._text, self._at)) is not None:
            self._at = literal.end()
            return _LITERALS[literal[0]]
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            raise self._error("a value is missing" if start else "it ends too early")
        try:
            value = float(number[0]) if number[2] else int(number[1])
        except ValueError:
            raise self._error("the integer has too many digits") from None
        if value in {math.inf, -math.inf}:
            raise self._error("the number is too large")
        self._at = number.end()
        return value

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        if match is None:
            raise self._error("the string does not end, or holds a bad escape or a control character")
        string = match[1]
        if "\\" in string:
            string = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1]) or chr(int(escape[2], 16)), string)
            if _SURROGATE.search(string) is not None:
                string = string.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
                if not self._lone_surrogates and _SURROGATE.search(string) is not None:
                    raise self._error("the string holds half a surrogate pair")
        self._at = match.end()
        return string

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> None:
        match = _SPACE.match(self._text, self._at)
        assert match is not None
        self._at = match.end()

    def _error(self, what: str) -> MalformedError:
        return MalformedError(f"JSON is malformed at character {self._at}: {what}")


DEPTH = 512

_NOT_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_NOT_COLONS = bytes(set(range(256)) - set(b':"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

_read = msgspec.json.Decoder().decode


def loads(
    data: bytes, *, depth: int = DEPTH, unique_keys: bool = False, lone_surrogates: bool = False
) -> Any:
    """Return the value that `data` spells. Raise only MalformedError, for anything but strict JSON."""
    try:
        value = _read(data)
    except RecursionError:
        _refuse_depth(data, depth)
        return read(data, depth=depth, unique_keys=unique_keys, lone_surrogates=lone_surrogates)
    except UnicodeDecodeError:
        utf8(data)
        raise
    except msgspec.DecodeError as error:
        if lone_surrogates and (b"\\ud" in data or b"\\uD" in data):
            _refuse_depth(data, depth)
            return read(data, depth=depth, unique_keys=unique_keys, lone_surrogates=True)
        raise MalformedError(f"{error}; send valid JSON") from None
    # Every level takes two bytes, so a short message is never too deep.
    if len(data) > 2 * depth:
        _refuse_depth(data, depth)
    if unique_keys and not _written_as(data, value) and _keys_in(value) != _colons_in(data):
        read(data, depth=depth, unique_keys=True)
    return value


def dumps(value: Any) -> bytes:
    """Return `value` as compact JSON in UTF-8, members in their own order."""
    try:
        return orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME)
    except orjson.JSONEncodeError:
        return escape_lone_surrogates(write(value, _AS_IT_IS)).encode()


def _real(number: float) -> str:
    return float.__repr__(number) if math.isfinite(number) else "null"


_AS_IT_IS = Form(string=raw_string, integer=whole, real=_real, members=dict.items)


def _refuse_depth(data: bytes, depth: int) -> None:
    if data.count(b"[") + data.count(b"{") <= depth:
        return
    steps = memoryview(_outside_strings(data, _NOT_BRACKETS).translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > depth:
        raise MalformedError(f"JSON is malformed: it is nested deeper than {depth:,} levels; flatten it")


def _written_as(data: bytes, value: Any) -> bool:
    """Return whether we would write the value the same; then no key was lost on reading."""
    try:
        return orjson.dumps(value) == data
    except orjson.JSONEncodeError:
        return False


def _outside_strings(data: bytes, unwanted: bytes) -> bytes:
    """Return valid JSON outside its strings without the unwanted bytes.

    Escaped backslashes and quotes go first, so that each quote left opens or closes a string. Two
    quotes that meet may then go: that leaves every other byte on its own side of the quotes.
    """
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    left = data.translate(None, unwanted).replace(b'""', b"")
    return b"".join(left.split(b'"')[::2]) if b'"' in left else left


def _colons_in(data: bytes) -> int:
    return len(_outside_strings(data, _NOT_COLONS))


def _keys_in(value: Any) -> int:
    count = 0
    nodes = [value]
    for node in nodes:
        if type(node) is dict:
            count += len(node)
            nodes += node.values()
        elif type(node) is list:
            nodes += node
    return count
