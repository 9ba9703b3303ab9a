"""The byte forms that are signed, hashed and compared. Each contract has its own.

| form | keys | numbers | strings |
|---|---|---|---|
| `envelope_form` | code points | Python's (`1e-05`, `1.0`, any integer) | raw UTF-8 |
| `ascii_form` | code points | the same | everything beyond `~` escaped, DEL too |
| `jcs` | UTF-16 units | ECMAScript's (`0.00001`, `1`, doubles) | raw UTF-8 |
| `js_stringify` | array indices first, then as inserted | ECMAScript's | raw, half pairs escaped |

A form never refuses what its contract can carry. The fast encoder is used when its bytes are certain
to be the same; otherwise the exact writer is. To be certain, the value is also packed as MessagePack,
which costs as little again and shows what the JSON bytes hide: a float is marked by one byte and its
magnitude can be read off the next two; so are integers of 64 bits. Bytes of a text that look like such
a mark only cost the slower way.

What no form can carry is refused with MalformedError: NaN and the infinities (JavaScript alone has
an answer to them, null), and half a surrogate pair where the form is UTF-8 without escapes.
"""

import math
import re
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import msgspec
import orjson

from comity.wire import strict_json
from comity.wire.errors import MalformedError
from comity.wire.strict_json import Form

_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SORTED = _PLAIN | orjson.OPT_SORT_KEYS

# Safe: zero, and magnitudes in [2^-13, 2^49), which every form writes without an exponent.
_ODD_FLOAT = re.compile(rb"\xcb(?![\x3f\xbf][\x20-\xff]|[\x40-\x42\xc0-\xc2]|[\x00\x80]\x00{7})", re.DOTALL)
# Integers from 2^53 on, where doubles have gaps.
_ODD_UINT64 = re.compile(rb"\xcf(?!\x00[\x00-\x1f])", re.DOTALL)
_ODD_INT64 = re.compile(rb"\xd3(?!\xff[\xe0-\xff])", re.DOTALL)
_WHOLE_FLOAT = re.compile(rb"\.0(?:[,\]}]|\Z)")
_DIGITS_AS_KEY = re.compile(rb'"[0-9]+":')
_ARRAY_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,9})")
_LAST_ARRAY_INDEX = 2**32 - 2
_BEYOND_BMP = re.compile(rb"[\xf0-\xf4]")
_BMP_BEYOND_SURROGATES = re.compile(rb"[\xee\xef]")
_BEYOND_PRINTABLE_ASCII = re.compile("[\x7f-\U0010ffff]")
_EXACT_IN_A_DOUBLE = 2**53

_pack = msgspec.msgpack.Encoder().encode


def envelope_form(value: Any) -> bytes:
    """Return sorted keys, no spaces, text as it is: the form that signs envelopes, cards and logbooks."""
    out, packed = _fast(value, _SORTED)
    if out is not None and not _has_odd_float(packed):
        return out
    return _utf8(strict_json.write(value, _ENVELOPE))


def envelope_form_of_text(value: Any) -> bytes:
    """Return `envelope_form` for values that contain only strings, nulls and 64-bit integers.

    No text of an unknown sender can make it slow.
    """
    try:
        return orjson.dumps(value, option=_SORTED)
    except (TypeError, ValueError):
        return envelope_form(value)


def ascii_form(value: Any) -> bytes:
    """Return the same in ASCII: the form that the audit chain and the registry hash."""
    out, packed = _fast(value, _SORTED)
    if out is None or _has_odd_float(packed):
        return strict_json.write(value, _ASCII).encode()
    if out.isascii() and b"\x7f" not in out:
        return out
    return _BEYOND_PRINTABLE_ASCII.sub(_escape, out.decode()).encode()


def jcs(value: Any) -> bytes:
    """Return the form of RFC 8785. Numbers are doubles there: an integer beyond 2^53 is written as the double that any
    reader of the RFC makes of it, so that our signature of a card is the one they compute. An integer
    too large for a double is refused.
    """
    out, packed = _fast(value, _SORTED)
    if out is not None and not _has_odd_number(out, packed) and not _sorts_otherwise_in_utf16(out):
        return out
    return _utf8(strict_json.write(value, _JCS))


def js_stringify(value: Any) -> bytes:
    """Return what `JSON.stringify(JSON.parse(text))` gives in JavaScript, in UTF-8."""
    out, packed = _fast(value, _PLAIN)
    if out is not None and not _has_odd_number(out, packed) and _DIGITS_AS_KEY.search(out) is None:
        return out
    return strict_json.escape_lone_surrogates(strict_json.write(value, _JS)).encode()


def _fast(value: Any, option: int) -> tuple[bytes | None, bytes]:
    try:
        return orjson.dumps(value, option=option), _pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        # Too deep, too large or half a surrogate pair: the exact writer knows, and says what is wrong.
        return None, b""


def _has_odd_float(packed: bytes) -> bool:
    return b"\xcb" in packed and _ODD_FLOAT.search(packed) is not None


def _has_odd_number(out: bytes, packed: bytes) -> bool:
    """Return whether a number may look different in ECMAScript."""
    if b"\xcb" in packed and (_ODD_FLOAT.search(packed) or _WHOLE_FLOAT.search(out)):
        return True
    if b"\xcf" in packed and _ODD_UINT64.search(packed):
        return True
    return b"\xd3" in packed and _ODD_INT64.search(packed) is not None


def _sorts_otherwise_in_utf16(out: bytes) -> bool:
    """Return whether UTF-16 sorts otherwise: it puts the surrogates of U+10000 and beyond before U+E000; UTF-8 does not."""
    if out.isascii():
        return False
    return _BEYOND_BMP.search(out) is not None and _BMP_BEYOND_SURROGATES.search(out) is not None


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise MalformedError(
            "a string holds half a surrogate pair, which has no UTF-8 form; send whole characters"
        ) from None


def _escape(match: re.Match[str]) -> str:
    return strict_json.ascii_string(match[0])[1:-1]


def _python_real(number: float) -> str:
    return float.__repr__(number) if math.isfinite(number) else _refuse(number)


def _es_real(number: float) -> str:
    """Write a real as ECMA-262 Number::toString: the shortest digits, placed by its rules."""
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, _, exponent = float.__repr__(abs(number)).partition("e")
    before, _, after = mantissa.partition(".")
    digits = (before + after).strip("0")
    # The decimal point stands behind `point` digits.
    point = len(digits) - len(after.rstrip("0")) if before == "0" else len(before)
    point += int(exponent or 0)
    if 0 < point <= 21:
        if len(digits) <= point:
            return sign + digits.ljust(point, "0")
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _es_numbers(not_finite: Callable[[float], str]) -> tuple[Callable[[int], str], Callable[[float], str]]:
    """Return how ECMAScript writes integers and reals. `not_finite` writes what is no finite double."""

    def real(number: float) -> str:
        return _es_real(number) if math.isfinite(number) else not_finite(number)

    def integer(number: int) -> str:
        if -_EXACT_IN_A_DOUBLE <= number <= _EXACT_IN_A_DOUBLE:
            return int.__repr__(number)
        try:
            double = float(number)
        except OverflowError:
            double = math.inf
        return real(double)

    return integer, real


def _refuse(number: float) -> str:
    raise MalformedError(f"{number} has no canonical form; send a finite number or a string")


def _by_code_point(members: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(members.items(), key=itemgetter(0))


def _by_utf16_unit(members: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(members.items(), key=lambda member: member[0].encode("utf-16-be", "surrogatepass"))


def _array_indices_first(members: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted(members.items(), key=lambda member: _array_index(member[0]))


def _array_index(key: str) -> int:
    if _ARRAY_INDEX.fullmatch(key) and int(key) <= _LAST_ARRAY_INDEX:
        return int(key)
    return _LAST_ARRAY_INDEX + 1


_ENVELOPE = Form(strict_json.raw_string, strict_json.whole, _python_real, _by_code_point)
_ASCII = Form(strict_json.ascii_string, strict_json.whole, _python_real, _by_code_point)
_JCS = Form(strict_json.raw_string, *_es_numbers(_refuse), _by_utf16_unit)
_JS = Form(strict_json.raw_string, *_es_numbers(lambda _: "null"), _array_indices_first)
