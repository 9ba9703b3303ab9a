"""The JSON reader: it raises nothing but MalformedError, and agrees with the standard library.

The standard library reads more than JSON. Held to the same rules (no constants, no infinities, no
half surrogate pairs, no depth beyond the limit) it has to accept and refuse the same inputs.
"""

import json
import math
from typing import Any

from comity.wire.errors import MalformedError
from comity.wire.strict_json import dumps, loads

DEPTH = 8
LONGEST = 1024

EXAMPLES = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[1,-2.5e-7,true,false,null,"\\u00e9\\n"]}}',
    b'{"a":1,"\\u0061":2,"b" : ":","\\":":[]}',
    b'["\\ud83d\\ude00","\\ud800","\xc3\xa9","\x7f","\\\\","\\""]',
    b"[18446744073709551616,-9223372036854775809,1e400,1e-400,-0,-0.0,0e1]",
    b"[[[[[[[[1]]]]]]]]",
    b'[[[[[[[["]"]]]]]]]]]',
    b"\xef\xbb\xbf[NaN,Infinity,-Infinity]",
]


class _DuplicateKeyError(ValueError):
    pass


def check(data: bytes) -> None:
    for unique_keys in (False, True):
        ours = _ours(data, unique_keys=unique_keys)
        assert ours == _theirs(data, unique_keys=unique_keys, lone_surrogates=False), ours
    kept = _ours(data, lone_surrogates=True)
    assert kept == _theirs(data, unique_keys=False, lone_surrogates=True), kept
    if kept is not None:
        again = dumps(loads(data, depth=DEPTH, lone_surrogates=True))
        assert _ours(again, lone_surrogates=True) == kept


def _ours(data: bytes, **options: bool) -> str | None:
    """How the value looks to Python, which tells 1 from 1.0 and 0.0 from -0.0; None when it is refused."""
    try:
        return repr(loads(data, depth=DEPTH, **options))
    except MalformedError:
        return None


def _theirs(data: bytes, *, unique_keys: bool, lone_surrogates: bool) -> str | None:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if unique_keys and len(found) < len(pairs):
            raise _DuplicateKeyError
        return found

    try:
        value = json.loads(
            data.decode(), parse_constant=_refuse, parse_float=_finite, object_pairs_hook=members
        )
        if not lone_surrogates:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return repr(value) if _depth(value) <= DEPTH else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(text)
    return number


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item)]
    return depth
