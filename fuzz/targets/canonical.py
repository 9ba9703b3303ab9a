"""The canonical forms: any JSON has one, and it is the one that the slow reference gives."""

import json
import re

from comity.wire.canonical import ascii_form, envelope_form, jcs, js_stringify
from comity.wire.errors import MalformedError
from comity.wire.strict_json import loads

LONGEST = 1024
EXAMPLES = [
    b'{"b":[1.0,-0.0,1e-5,1e-7,1e16,1e21,0.1,5e-324,1.7976931348623157e308],"a":null,"c":true}',
    b'{"10":1,"2":2,"01":3,"4294967294":4,"4294967295":5,"":6}',
    b"[9007199254740993,18446744073709551615,-9223372036854775809,123456789012345678901234567890]",
    '{"\ue000":1,"\U00010000":2,"\x7f":"\u2028","\u02c7":"\u03c0","\\u001f":"\\u0008"}'.encode(),
    b'["\\ud800",{"\\udc00":1}]',
]

_SURROGATE = re.compile("[\ud800-\udfff]")


def check(data: bytes) -> None:
    try:
        value = loads(data, lone_surrogates=True)
    except MalformedError:
        return
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    in_ascii = json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert ascii_form(value) == in_ascii.encode()
    written = js_stringify(value)
    assert js_stringify(loads(written, lone_surrogates=True)) == written
    if _SURROGATE.search(text) is not None:
        return
    assert envelope_form(value) == text.encode()
    try:
        sorted_as_in_the_rfc = jcs(value)
    except MalformedError:
        # An integer that no double can hold, which JavaScript takes for infinite.
        assert b"null" in written
        return
    assert jcs(loads(written)) == sorted_as_in_the_rfc
