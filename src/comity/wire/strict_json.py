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
from itertools import accumulate
from typing import Any

import msgspec
import orjson

from comity.wire import exact_json
from comity.wire.errors import MalformedError

DEPTH = 512

_NOT_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
_NOT_COLONS = bytes(set(range(256)) - set(b':"'))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")

_read = msgspec.json.Decoder().decode


def loads(
    data: bytes, *, depth: int = DEPTH, unique_keys: bool = False, lone_surrogates: bool = False
) -> Any:
    """The value that `data` spells. Raises MalformedError, and nothing else, for anything but strict JSON."""
    try:
        value = _read(data)
    except RecursionError:
        _refuse_depth(data, depth)
        return exact_json.read(data, depth=depth, unique_keys=unique_keys, lone_surrogates=lone_surrogates)
    except UnicodeDecodeError:
        exact_json.utf8(data)
        raise
    except msgspec.DecodeError as error:
        if lone_surrogates and (b"\\ud" in data or b"\\uD" in data):
            _refuse_depth(data, depth)
            return exact_json.read(data, depth=depth, unique_keys=unique_keys, lone_surrogates=True)
        raise MalformedError(f"{error}; send valid JSON") from None
    # Every level takes two bytes, so a short message is never too deep.
    if len(data) > 2 * depth:
        _refuse_depth(data, depth)
    if unique_keys and not _written_as(data, value) and _keys_in(value) != _colons_in(data):
        exact_json.read(data, depth=depth, unique_keys=True)
    return value


def dumps(value: Any) -> bytes:
    """`value` as compact JSON in UTF-8, members in their own order."""
    try:
        return orjson.dumps(value, option=orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME)
    except orjson.JSONEncodeError:
        return exact_json.escape_lone_surrogates(exact_json.write(value, _AS_IT_IS)).encode()


def _real(number: float) -> str:
    return float.__repr__(number) if math.isfinite(number) else "null"


_AS_IT_IS = exact_json.Form(
    string=exact_json.raw_string, integer=exact_json.whole, real=_real, members=dict.items
)


def _refuse_depth(data: bytes, depth: int) -> None:
    if data.count(b"[") + data.count(b"{") <= depth:
        return
    steps = memoryview(_outside_strings(data, _NOT_BRACKETS).translate(_STEPS)).cast("b")
    if max(accumulate(steps), default=0) > depth:
        raise MalformedError(f"JSON is malformed: it is nested deeper than {depth:,} levels; flatten it")


def _written_as(data: bytes, value: Any) -> bool:
    """Whether we would spell the value so ourselves; then no key was lost on reading."""
    try:
        return orjson.dumps(value) == data
    except orjson.JSONEncodeError:
        return False


def _outside_strings(data: bytes, unwanted: bytes) -> bytes:
    """What is left of valid JSON outside its strings when the unwanted bytes are taken away.

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
