"""The NDJSON protocol (actions 1): bytes in, replies out, one for each line, in order.

- The checks have the order of the contract, and the first one that fails gives the reply. Nothing ends the stream: a line
  that is too long is refused once, as soon as it is over the limit, and skipped without being stored.
- A call that needs time is yielded as `Work` between the replies. The code that drives the machine sends back the result.
  No later line is read before that.
- The replies of one read are yielded together, so that they can be sent in one write.
- Lines are read as JavaScript reads them: bytes that are no UTF-8 become U+FFFD, and count as such; half a
  surrogate pair is a character; a number too large is infinite; of two equal keys the later one counts.
  Only depth is ours: beyond 10,000 levels a line is malformed.
"""

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct

from comity.actions.protocol.action import Mode, Outcome
from comity.actions.protocol.calls import ActionCalls, RegisteredAction, Work, WorkResult
from comity.wire import jsonrpc, strict_json
from comity.wire.errors import ComityError, MalformedError, TooLargeError
from comity.wire.frames import Event, FrameDecoder, Message
from comity.wire.jsonrpc import Batch, Invalid, RpcError, RpcRequest, RpcStream

INVALID_ENVELOPE: Final = "Invalid request envelope"
INVALID_PAYLOAD: Final = "Invalid invoke payload"
INVALID_DESCRIBE: Final = "Invalid describe_action payload"
MALFORMED: Final = "Malformed JSON request"
OVERSIZE: Final = "Request exceeds maximum size (512 KB)"

_RECEIVED: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    type(None): "null",
    type(UNSET): "undefined",
}

Issue = dict[str, Any]


class ModeRules(Struct, frozen=True):
    """What differs between the modes: the types of request, and whether a refused envelope keeps its id."""

    types: tuple[str, ...]
    echoes_ids: bool = False

    @property
    def expected(self) -> str:
        return " | ".join(f"'{name}'" for name in self.types)


_RECORDED: Final = ModeRules(("list_actions", "invoke"))
_OURS: Final = ModeRules(("list_actions", "invoke", "describe_action"), echoes_ids=True)


def rules_of(mode: Mode) -> ModeRules:
    return _OURS if mode == "enhanced" else _RECORDED


def envelope_issues(request: Any, rules: ModeRules) -> list[Issue]:
    """Return the issues of an envelope, the id before the type."""
    if not isinstance(request, dict):
        return [wrong_type("object", request)]
    issues: list[Issue] = []
    given = request.get("id", UNSET)
    if given is not UNSET and type(given) is not str:
        issues.append(wrong_type("string", given, "id"))
    kind = request.get("type", UNSET)
    if type(kind) is not str:
        issue = wrong_type(rules.expected, kind, "type")
        issues.append({key: issue[key] for key in ("expected", "received", "code", "path", "message")})
    elif kind not in rules.types:
        issues.append(
            {
                "received": kind,
                "code": "invalid_enum_value",
                "options": list(rules.types),
                "path": ["type"],
                "message": f"Invalid enum value. Expected {rules.expected}, received '{kind}'",
            }
        )
    return issues


def invoke_issues(payload: Any) -> list[Issue]:
    """Return the issues of the payload of `invoke`."""
    issues = describe_issues(payload)
    if isinstance(payload, dict) and type(given := payload.get("input", UNSET)) is not dict:
        issues.append(wrong_type("object", given, "input"))
    return issues


def describe_issues(payload: Any) -> list[Issue]:
    """Return the issues of the payload of `describe_action`."""
    if not isinstance(payload, dict):
        return [wrong_type("object", payload)]
    name = payload.get("action", UNSET)
    if type(name) is not str:
        return [wrong_type("string", name, "action")]
    return [] if name else [_empty("action")]


def wrong_type(expected: str, value: Any, *path: str) -> Issue:
    """Return the issue of a value of the wrong type. `value` is UNSET if it is missing."""
    received = _RECEIVED[type(value)]
    message = "Required" if value is UNSET else f"Expected {expected}, received {received}"
    return {
        "code": "invalid_type",
        "expected": expected,
        "received": received,
        "path": list(path),
        "message": message,
    }


def _empty(*path: str) -> Issue:
    return {
        "code": "too_small",
        "minimum": 1,
        "type": "string",
        "inclusive": True,
        "exact": False,
        "message": "String must contain at least 1 character(s)",
        "path": list(path),
    }


def refusal(text: str, issues: Sequence[Issue] = (), *, id_: Any = UNSET) -> dict[str, Any]:
    """Return an error reply, its keys in order."""
    reply: dict[str, Any] = {} if id_ is UNSET else {"id": id_}
    reply |= {"ok": False, "error": text}
    if issues:
        reply["issues"] = list(issues)
    return reply


LIMIT: Final = 524_288

_LF: Final = 0x0A
_DIGITS: Final = 4000  # what the interpreter still turns into an integer

_decode = msgspec.json.Decoder().decode

Steps = Generator[list[bytes] | Work, WorkResult | None, None]
"""Pieces to write one after the other, and work to be run between them."""


class NdjsonMachine:
    def __init__(self, calls: ActionCalls, *, limit: int = LIMIT) -> None:
        self._calls = calls
        self._rules = rules_of(calls.registry.mode)
        self._limit = limit
        self._decoder = FrameDecoder(limit, lines_only=True)
        self._between_lines = True
        self._listing: bytes | None = None
        self._tails: dict[int, tuple[Outcome, bytes]] = {}

    @property
    def held(self) -> int:
        """The bytes of an unfinished line that are stored."""
        return self._decoder.held

    def receive(self, data: bytes) -> Steps:
        return self._answer_all(self._lines(data))

    def end(self) -> Steps:
        """End the stream. The last line needs no line end."""
        return self._answer_all(_bodies(self._decoder.end()))

    def _lines(self, data: bytes) -> list[bytes | None]:
        """Return the lines that are complete now, and None for one that is too long.

        Whole lines of a read that is not longer than the limit of a line are split at once. The decoder gets the lines that
        begin or end in another read, and all that have a CR.
        """
        if b"\r" in data or len(data) > self._limit:
            self._between_lines = data.endswith(b"\n")
            return _bodies(self._decoder.feed(data))
        lines: list[bytes | None] = []
        if data and not self._between_lines:
            first = data.find(b"\n") + 1 or len(data)
            lines += _bodies(self._decoder.feed(data[:first]))
            self._between_lines = data[first - 1] == _LF
            if not self._between_lines:
                return lines
            data = data[first:]
        *whole, rest = data.split(b"\n")
        lines += whole
        if rest:
            self._between_lines = False
            lines += _bodies(self._decoder.feed(rest))
        return lines

    def _answer_all(self, lines: Sequence[bytes | None]) -> Steps:
        pieces: list[bytes] = []
        for line in lines:
            if line is None:
                pieces.append(_OVERSIZE)
                continue
            work = self._answer(line, pieces)
            if work is not None:
                if pieces:
                    yield pieces
                    pieces = []
                result = yield work
                assert result is not None
                pieces.append(self._finish(work, result))
        if pieces:
            yield pieces

    def _answer(self, line: bytes, pieces: list[bytes]) -> Work | None:
        """Append the reply, or hand back what has to be done for it."""
        try:
            request = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            try:
                request = read_as_javascript(line, self._limit)
            except TooLargeError:
                pieces.append(_OVERSIZE)
                return None
            except MalformedError:
                pieces.append(_MALFORMED)
                return None
        if type(request) is not dict:
            pieces.append(_line(refusal(INVALID_ENVELOPE, envelope_issues(request, self._rules))))
            return None
        id_ = request.get("id", UNSET)
        kind = request.get("type")
        if (
            type(kind) is not str
            or kind not in self._rules.types
            or (type(id_) is not str and id_ is not UNSET)
        ):
            known = id_ if self._rules.echoes_ids and type(id_) is str else UNSET
            pieces.append(_line(refusal(INVALID_ENVELOPE, envelope_issues(request, self._rules), id_=known)))
            return None
        try:
            if kind == "list_actions":
                tail = self._listing or self._list()
                pieces.append(_reply_head(id_))
                pieces.append(tail)
                return None
            payload = request.get("payload", UNSET)
            reply = self._invoke(id_, payload) if kind == "invoke" else self._describe(id_, payload)
        except ComityError as refused:
            reply = _line(refusal(refused.message, id_=id_))
        if isinstance(reply, Work):
            return reply
        pieces.append(reply)
        return None

    def _list(self) -> bytes:
        """Return the end of a listing, which is the same in every reply."""
        try:
            self._listing = strict_json.dumps(self._calls.registry.listing()) + b"}\n"
        except Exception as failure:  # noqa: BLE001 - a skill that cannot be loaded
            raise self._calls.failed("list_actions", failure) from None
        return self._listing

    def _invoke(self, id_: Any, payload: Any) -> bytes | Work:
        name, given = (payload.get("action"), payload.get("input")) if type(payload) is dict else (None, None)
        if type(name) is not str or not name or type(given) is not dict:
            return _invalid(INVALID_PAYLOAD, invoke_issues(payload), id_)
        entry, outcome = self._calls.begin(name, given)
        if known := self._tails.get(id(outcome)):
            return _reply_head(id_) + known[1]
        if isinstance(outcome, Work):
            return msgspec.structs.replace(outcome, id=id_)
        if isinstance(outcome, Outcome) and outcome.shared:
            return _reply_head(id_) + self._tail(entry, outcome)
        return self._success(id_, self._calls.data(entry, outcome), entry.name)

    def _tail(self, entry: RegisteredAction, outcome: Outcome) -> bytes:
        """Return the end of the reply to a shared outcome. The outcome is kept too, so that no other object gets its id."""
        tail = strict_json.dumps(self._calls.data(entry, outcome)) + b"}\n"
        self._tails[id(outcome)] = outcome, tail
        return tail

    def _describe(self, id_: Any, payload: Any) -> bytes:
        if issues := describe_issues(payload):
            return _invalid(INVALID_DESCRIBE, issues, id_)
        entry = self._calls.entry(payload["action"])
        return self._success(id_, self._calls.registry.description(entry), entry.name)

    def _finish(self, work: Work, result: WorkResult) -> bytes:
        try:
            return self._success(work.id, self._calls.data(work.entry, result), work.entry.name)
        except ComityError as refused:
            return _line(refusal(refused.message, id_=work.id))

    def _success(self, id_: Any, data: dict[str, Any], name: str) -> bytes:
        reply: dict[str, Any] = (
            {"ok": True, "data": data} if id_ is UNSET else {"id": id_, "ok": True, "data": data}
        )
        try:
            return _line(reply)
        except Exception as failure:  # noqa: BLE001 - what a handler returned may have no JSON form
            raise self._calls.failed(name, failure) from None


def read_as_javascript(line: bytes, limit: int) -> Any:
    """Decode a line that the fast decoder refuses. Raise MalformedError if JavaScript refuses it too."""
    if not line:
        raise MalformedError("there is nothing in the line; send valid JSON")
    text = line.decode("utf-8", "replace")
    if len(text) > limit // 4 and len(text.encode()) > limit:
        raise TooLargeError("the line", limit)
    try:
        return json.loads(text, parse_constant=_no_constant, parse_int=_integer)
    except RecursionError:
        return strict_json.read(text.encode(), depth=strict_json.DEEPEST, lone_surrogates=True)
    except ValueError as fault:
        raise MalformedError(f"{fault}; send valid JSON") from None


def _no_constant(name: str) -> Any:
    raise MalformedError(f"JSON has no {name}")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else float(digits)


def _bodies(events: Iterable[Event]) -> list[bytes | None]:
    return [event.body if isinstance(event, Message) else None for event in events]


def _reply_head(id_: Any) -> bytes:
    return b'{"ok":true,"data":' if id_ is UNSET else b'{"id":%b,"ok":true,"data":' % strict_json.dumps(id_)


def _invalid(text: str, issues: list[Issue], id_: Any) -> bytes:
    return _line(refusal(text, issues, id_=id_))


def _line(reply: dict[str, Any]) -> bytes:
    return strict_json.dumps(reply) + b"\n"


_OVERSIZE: Final = _line(refusal(OVERSIZE))
_MALFORMED: Final = _line(refusal(MALFORMED))


CodeOf = Callable[[ComityError], int]
_Reply = Generator[Work, WorkResult, bytes | None]


_OF_MCP = frozenset({"initialize", "server/discover", "tools/list", "tools/call", "ping"})


class RpcMachine:
    """The same actions as JSON-RPC 2.0: lines or `Content-Length` frames, single requests or batches."""

    def __init__(self, calls: ActionCalls, code_of: CodeOf, *, limit: int = LIMIT) -> None:
        """`code_of` returns the JSON-RPC code of an error."""
        self._calls = calls
        self._code_of = code_of
        self._stream = RpcStream(limit, batches=True)

    def receive(self, data: bytes) -> Steps:
        return self._answer_all(self._stream.receive(data))

    def end(self) -> Steps:
        return self._answer_all(self._stream.end())

    def _answer_all(self, messages: Iterable[jsonrpc.Incoming]) -> Steps:
        replies: list[bytes] = []
        for message in messages:
            answering = self._batch(message) if isinstance(message, Batch) else self._answer(message)
            result: WorkResult | None = None
            try:
                while True:
                    work = next(answering) if result is None else answering.send(result)
                    if replies:
                        yield replies
                        replies = []
                    result = yield work
            except StopIteration as done:
                if done.value is not None:
                    replies.append(self._stream.encode(done.value))
        if replies:
            yield replies

    def _batch(self, batch: Batch) -> _Reply:
        replies = []
        for message in batch.items:
            reply = yield from self._answer(message)
            if reply is not None:
                replies.append(reply)
        return b"[%b]" % b",".join(replies) if replies else None

    def _answer(self, message: jsonrpc.Incoming) -> _Reply:
        if isinstance(message, Invalid):
            return jsonrpc.error_bytes(message.id, message.error)
        if not isinstance(message, RpcRequest):
            return None
        try:
            result = yield from self._result(message)
            return result if isinstance(result, bytes) else self._encoded(message, result)
        except ComityError as refused:
            return jsonrpc.error_bytes(message.id, RpcError(self._code_of(refused), refused.message))

    def _encoded(self, request: RpcRequest, result: Any) -> bytes:
        try:
            return jsonrpc.result_bytes(request.id, result)
        except Exception as failure:  # noqa: BLE001 - what a handler returned may have no JSON form
            raise self._calls.failed(request.method, failure) from None

    def _result(self, request: RpcRequest) -> Generator[Work, WorkResult, Any]:
        params: Any = UNSET if request.params is None else request.params
        match request.method:
            case "list_actions":
                return self._listing()
            case "invoke":
                if issues := invoke_issues(params):
                    return _invalid_params(request, INVALID_PAYLOAD, issues)
                return (yield from self._invoke(params))
            case "describe_action":
                if issues := describe_issues(params):
                    return _invalid_params(request, INVALID_DESCRIBE, issues)
                entry = self._calls.entry(params["action"])
                return self._calls.registry.description(entry)
        known = "there are list_actions, invoke and describe_action"
        if request.method in _OF_MCP:
            known += "; this is not MCP, which `comity mcp --rooms actions` speaks"
        error = RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found", {"message": known})
        return jsonrpc.error_bytes(request.id, error)

    def _listing(self) -> list[dict[str, Any]]:
        try:
            return self._calls.registry.listing()
        except Exception as failure:  # noqa: BLE001 - a skill that cannot be loaded
            raise self._calls.failed("list_actions", failure) from None

    def _invoke(self, params: Any) -> Generator[Work, WorkResult, Any]:
        entry, outcome = self._calls.begin(params["action"], params["input"])
        result = (yield outcome) if isinstance(outcome, Work) else outcome
        return self._calls.data(entry, result)


def _invalid_params(request: RpcRequest, text: str, issues: list[Issue]) -> bytes:
    return jsonrpc.error_bytes(request.id, RpcError(jsonrpc.INVALID_PARAMS, text, {"issues": issues}))
