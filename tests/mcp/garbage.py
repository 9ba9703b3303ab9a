"""What a hostile or a broken client sends: each piece with the code of the error that answers it.

`SILENCE` is for what nobody may answer, `RESULT` for what is odd and yet good.
"""

import json
from typing import NamedTuple

SILENCE = "silence"
RESULT = "result"
PARSE, INVALID, NO_METHOD, PARAMS, VERSION = -32700, -32600, -32601, -32602, -32022
DEEP = 100_000


class Piece(NamedTuple):
    name: str
    body: bytes
    outcome: object


def _call(**params):
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def _asked(method, **more):
    return {"jsonrpc": "2.0", "id": 7, "method": method, **more}


def _modern(version="2026-07-28", capabilities=None, **more):
    prefix = "io.modelcontextprotocol"
    declared = {} if capabilities is None else capabilities
    meta = {f"{prefix}/protocolVersion": version, f"{prefix}/clientCapabilities": declared, **more}
    return _asked("tools/list", params={"_meta": meta})


def unreadable():
    """No JSON at all, or none that is taken."""
    ping = b'{"jsonrpc":"2.0","id":7,"method":"ping"%s}'
    return {
        "invalid UTF-8": b'{"jsonrpc":"2.0","id":7,"method":"\xff\xfe"}',
        "a cut UTF-8 sequence": b'{"jsonrpc":"2.0","id":7,"method":"\xe2\x82"}',
        "overlong UTF-8": b'{"jsonrpc":"2.0","id":7,"method":"\xc0\xaf"}',
        "UTF-16": json.dumps(_asked("ping")).encode("utf-16-le").replace(b"\n", b""),
        "a surrogate in UTF-8": b'{"jsonrpc":"2.0","id":7,"method":"\xed\xa0\x80"}',
        "a lone surrogate": ping % rb',"params":{"a":"\ud800"}',
        "a lone surrogate as a key": ping % rb',"params":{"\udfff":1}',
        "a lone surrogate as the id": rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}',
        "NaN": ping % b',"params":{"a":NaN}',
        "Infinity": ping % b',"params":{"a":Infinity}',
        "-Infinity": ping % b',"params":{"a":-Infinity}',
        "a number beyond every float": ping % b',"params":{"a":1e999999}',
        "deep arrays": b"[" * DEEP,
        "deep closed arrays": b"[" * DEEP + b"]" * DEEP,
        "deep objects": b'{"a":' * DEEP,
        "deep params": ping % (b',"params":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}"),
        "an open object": b'{"jsonrpc":"2.0"',
        "an open string": b'{"jsonrpc":"2.0',
        "a closing brace": b"}",
        "two messages on one line": b'{"jsonrpc":"2.0","id":7,"method":"ping"} {"jsonrpc":"2.0"}',
        "a trailing comma": ping % b",",
        "single quotes": b"{'jsonrpc':'2.0'}",
        "a comment": b'{"jsonrpc":"2.0" /* hi */}',
        "a bare word": b"hello",
        "True": b"True",
        "undefined": b"undefined",
        "a leading zero": ping % b',"params":{"a":01}',
        "a plus sign": ping % b',"params":{"a":+1}',
        "no digit after the point": ping % b',"params":{"a":1.}',
        "a raw control character": b'{"jsonrpc":"2.0","id":7,"method":"pi\x01ng"}',
        "a raw NUL": b'{"jsonrpc":"2.0","id":7,"method":"ping"}\x00',
        "an unknown escape": rb'{"jsonrpc":"2.0","id":7,"method":"\x"}',
        "a request line of HTTP": b"GET / HTTP/1.1",
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    }


def misshapen():
    """JSON, and no message."""
    bodies = {
        "null": None,
        "true": True,
        "a number": 1,
        "a fraction": 1.5,
        "a string": "ping",
        "an empty array": [],
        "an array": [_asked("ping")],
        "arrays in arrays": [[[]]],
        "an empty object": {},
        "no jsonrpc": {"id": 7, "method": "ping"},
        "jsonrpc 1.0": {"jsonrpc": "1.0", "id": 7, "method": "ping"},
        "jsonrpc as a number": {"jsonrpc": 2.0, "id": 7, "method": "ping"},
        "jsonrpc null": {"jsonrpc": None, "id": 7, "method": "ping"},
        "no method": {"jsonrpc": "2.0", "id": 7},
        "method null": {"jsonrpc": "2.0", "id": 7, "method": None},
        "method a number": {"jsonrpc": "2.0", "id": 7, "method": 5},
        "method a list": {"jsonrpc": "2.0", "id": 7, "method": ["ping"]},
        "id null": {"jsonrpc": "2.0", "id": None, "method": "ping"},
        "id true": {"jsonrpc": "2.0", "id": True, "method": "ping"},
        "id a list": {"jsonrpc": "2.0", "id": [], "method": "ping"},
        "id an object": {"jsonrpc": "2.0", "id": {}, "method": "ping"},
        "a second initialize": _asked("initialize", params={"protocolVersion": "2025-11-25"}),
    }
    return {name: json.dumps(body).encode() for name, body in bodies.items()}


def mistaken():
    """Messages that ask for what is not there, or in the wrong way: name, message, outcome."""
    return [
        ("an unknown method", _asked("tools/burn"), NO_METHOD),
        ("an empty method", _asked(""), NO_METHOD),
        ("NUL in a method", _asked("ping\0"), NO_METHOD),
        ("a very long method", _asked("x" * 100_000), NO_METHOD),
        ("a modern method", _asked("server/discover"), NO_METHOD),
        ("params a string", _asked("ping", params="x"), PARAMS),
        ("params a number", _asked("ping", params=0), PARAMS),
        ("params a list", _asked("tools/call", params=[]), PARAMS),
        ("no name", _call(), PARAMS),
        ("name null", _call(name=None), PARAMS),
        ("name a list", _call(name=["echo"]), PARAMS),
        ("an unknown tool", _call(name="burn", arguments={}), PARAMS),
        ("arguments a list", _call(name="echo", arguments=[]), PARAMS),
        ("arguments a string", _call(name="echo", arguments="x"), PARAMS),
        ("arguments null", _call(name="echo", arguments=None), PARAMS),
        ("arguments of the wrong type", _call(name="echo", arguments={"text": {}}), RESULT),
        ("an odd progress token", _call(name="steps", arguments={}, _meta={"progressToken": {}}), RESULT),
        ("_meta a list", _call(name="echo", arguments={"text": "x"}, _meta=[]), RESULT),
        ("a cursor", _asked("tools/list", params={"cursor": "next"}), PARAMS),
        ("a cursor that is an object", _asked("resources/list", params={"cursor": {}}), PARAMS),
        ("no uri", _asked("resources/read", params={}), PARAMS),
        ("uri a number", _asked("resources/read", params={"uri": 5}), PARAMS),
        ("an unknown resource", _asked("resources/read", params={"uri": "shop://attic"}), -32002),
        ("an unknown prompt", _asked("prompts/get", params={"name": "burn"}), PARAMS),
        ("prompt arguments of numbers", _asked("prompts/get", params={"name": "greet", "arguments": {"who": 5}}), PARAMS),
        ("an odd completion", _asked("completion/complete", params={"ref": [], "argument": 5}), PARAMS),
        ("an unknown log level", _asked("logging/setLevel", params={"level": "loud"}), PARAMS),
        ("a log level that is a list", _asked("logging/setLevel", params={"level": []}), PARAMS),
        ("a subscription to nothing", _asked("resources/subscribe", params={"uri": None}), PARAMS),
        ("a notification nobody knows", {"jsonrpc": "2.0", "method": "notifications/burn"}, SILENCE),
        ("a request without an id", {"jsonrpc": "2.0", "method": "tools/call", "params": {}}, SILENCE),
        ("cancelling nothing", _cancelled({"requestId": 99}), SILENCE),
        ("cancelling true", _cancelled({"requestId": True}), SILENCE),
        ("cancelling an object", _cancelled({"requestId": {}}), SILENCE),
        ("cancelling with a list", _cancelled([1]), SILENCE),
        ("an answer to nothing", {"jsonrpc": "2.0", "id": 9, "result": {}}, SILENCE),
        ("an answer to null", {"jsonrpc": "2.0", "id": None, "result": 5}, SILENCE),
        ("an error of no shape", {"jsonrpc": "2.0", "id": 9, "error": "burn"}, SILENCE),
        ("a very large number", _call(name="echo", arguments={"text": "x"}, n=10**300), RESULT),
        ("an id of 300 digits", {"jsonrpc": "2.0", "id": 10**300, "method": "ping"}, RESULT),
        ("an id that is a fraction", {"jsonrpc": "2.0", "id": 7.5, "method": "ping"}, RESULT),
        ("an empty id", {"jsonrpc": "2.0", "id": "", "method": "ping"}, RESULT),
        ("an id of line ends", {"jsonrpc": "2.0", "id": "\r\n\u2028\0", "method": "ping"}, RESULT),
    ]  # fmt: skip


def mistaken_in_the_modern_era():
    """Where the era is told from the body alone: on a stream."""
    return [
        ("a revision that is a number", _modern(version=5), PARAMS),
        ("an unknown revision", _modern(version="2031-01-01"), VERSION),
        ("capabilities a list", _modern(capabilities=[]), PARAMS),
        ("odd extensions", _modern(capabilities={"extensions": [5]}), RESULT),
        ("a client that is a number", _modern(**{"io.modelcontextprotocol/clientInfo": 5}), RESULT),
    ]


def pieces():
    twice = b'{"jsonrpc":"2.0","id":6,"id":7,"method":"ping","method":"ping"}'
    yield Piece("keys that come twice", twice, RESULT)
    yield Piece("5,000 digits", b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5000), PARSE)
    for name, body in unreadable().items():
        yield Piece(name, body, PARSE)
    for name, body in misshapen().items():
        yield Piece(name, body, INVALID)
    for name, message, outcome in mistaken():
        yield Piece(name, json.dumps(message).encode(), outcome)


def _cancelled(params):
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
