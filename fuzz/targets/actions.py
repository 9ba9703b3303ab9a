"""The lines of the actions: each gets exactly one reply in JSON, whatever it holds and however it is cut.

The first byte of the input chooses the mode and the chunks; the rest is the stream.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from comity.actions.library import registry_of
from comity.actions.protocol.action import Action, Contract, Mode, Outcome
from comity.actions.protocol.calls import ActionCalls, Work
from comity.actions.protocol.machine import NdjsonMachine, Steps

LONGEST = 512
LIMIT = 256

_MODES: tuple[Mode, ...] = ("strict", "compat", "enhanced")
_SCHEMA = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string", "maxLength": 9},
        "level": {"type": "string", "enum": ["low", "high"]},
        "words": {"type": "array", "items": {"type": "string"}},
    },
}
_LINES = [
    b'{"id":"a","type":"invoke","payload":{"action":"echo","input":{"text":"t","level":"low"}}}',
    b'{"type":"invoke","payload":{"action":"echo","input":{"text":"\\ud800","words":[1,"a"]}}}',
    b'{"id":"\xc3\xa9","type":"describe_action","payload":{"action":"echo"}}',
    b'{"id":5,"type":"foo"}',
    b'[[[[1e999,"\xff"]]]]',
    b"{" + b" " * LIMIT + b"}",
    b"NaN",
    b"",
]
EXAMPLES = [bytes([way]) + end.join([*_LINES, b""]) for way, end in enumerate([b"\n", b"\r\n", b"\r", b"\n"])]


def check(data: bytes) -> None:
    way, stream = data[0] if data else 0, data[1:]
    whole = _replies(stream, len(stream) or 1, way)
    assert _replies(stream, 1 + way // 8, way) == whole
    lines = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    replies = whole.split(b"\n")[:-1]
    assert len(replies) == len(lines) - (0 if lines[-1] else 1)
    for reply in replies:
        answer = json.loads(reply)
        assert answer["ok"] is ("data" in answer)
        assert answer["ok"] or (isinstance(answer["error"], str) and answer["error"] != "Internal error")


def _replies(stream: bytes, size: int, way: int) -> bytes:
    machine = NdjsonMachine(_calls(_MODES[way % 3]), limit=LIMIT)
    said = []
    for at in range(0, len(stream), size):
        said.append(_said(machine.receive(stream[at : at + size])))
        assert machine.held <= LIMIT
    return b"".join([*said, _said(machine.end())])


def _said(steps: Steps) -> bytes:
    return b"".join(piece for step in steps if not isinstance(step, Work) for piece in step)


@functools.cache
def _calls(mode: Mode) -> ActionCalls:
    return ActionCalls(registry_of(mode, [_ECHO]), lambda action: action.prepare({}), _fail)


def _fail(name: str, failure: BaseException) -> None:
    raise AssertionError(f"{name} failed") from failure


def _echo(given: Mapping[str, Any], mode: Mode) -> Outcome:
    return Outcome(uncertainty="low", assumptions=("none",), output={"said": given, "mode": mode})


_ECHO = Action(
    name="echo",
    contracts={
        "enhanced": Contract(
            skill="echo", boundary="none", input_schema=_SCHEMA, output_schema={"type": "object"}
        )
    },
    prepare=lambda _files: _echo,
)
