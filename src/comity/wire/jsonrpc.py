"""JSON-RPC 2.0: what a message is, and how answers look.

- `parse` never raises. What cannot be used comes back as `Invalid`, which is the answer to send:
  it echoes the id when the message has a usable one, else null.
- An id is a string or a number, echoed as it came. A request with `id: null` is invalid.
- `params` is an object, an array or absent (null counts as absent); anything else is -32602.
- A message with `result` or `error` and no method is a `Response`, also when it is malformed, so that
  a response nobody asked for can be dropped and is never answered.
- An array is one invalid request, unless the caller speaks a revision that has batches.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.wire import frames, strict_json
from comity.wire.errors import MalformedError
from comity.wire.frames import BadHeader, FrameDecoder, Message, Oversize

# Server-sent events: how messages stand in a stream that can be taken up again.


CONTENT_TYPE: Final = b"text/event-stream"
KEEPALIVE: Final = b": still here\n\n"
_PLACE: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


def event(message: bytes, id_: str | None = None) -> bytes:
    head = b"" if id_ is None else b"id: %b\n" % id_.encode()
    return b"%bevent: message\ndata: %b\n\n" % (head, message)


def priming(id_: str, retry: int | None = None) -> bytes:
    """`retry` is in milliseconds: how long to wait before coming back."""
    wait = b"" if retry is None else b"retry: %d\n" % retry
    return b"id: %b\n%bdata: \n\n" % (id_.encode(), wait)


def event_id(stream: str, number: int) -> str:
    return f"{stream}.{number}"


def place_of(id_: str) -> tuple[str, int] | None:
    found = _PLACE.fullmatch(id_)
    return (found[1], int(found[2])) if found else None


PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

# A batch is answered item by item: a mebibyte of commas must not cause half a million answers.
BATCH_LIMIT = 1000

Id = str | int | float
_ID_TYPES = frozenset({str, int, float})
Params = dict[str, Any] | list[Any]


class RpcRequest(Struct, frozen=True):
    id: Id
    method: str
    params: Params | None = None


class Notification(Struct, frozen=True):
    method: str
    params: Params | None = None


class RpcError(Struct, frozen=True):
    """The error member of an answer; `data` is left out unless it is given, and null is given."""

    code: int
    message: str
    data: Any = UNSET


class Response(Struct, frozen=True):
    """A received response. `id` is None if the other side could not read the id of the request."""

    id: Id | None
    result: Any = None
    error: RpcError | None = None


class Invalid(Struct, frozen=True):
    """A message that cannot be used, as the error to answer it with."""

    id: Id | None
    code: int
    message: str
    data: Any = UNSET

    @property
    def error(self) -> RpcError:
        return RpcError(self.code, self.message, self.data)


class Batch(Struct, frozen=True):
    items: tuple[RpcRequest | Notification | Response | Invalid, ...]


Incoming = RpcRequest | Notification | Response | Batch | Invalid


def parse(
    body: bytes, *, batches: bool = False, read: Callable[[bytes], Any] = strict_json.loads
) -> Incoming:
    """Parse a body. `read` may be a stricter reader, such as one that wants unique keys."""
    try:
        value = read(body)
    except MalformedError as error:
        return malformed(error.message)
    if not isinstance(value, list) or not batches:
        return _message(value)
    if not 0 < len(value) <= BATCH_LIMIT:
        return invalid_request(f"a batch holds 1 to {BATCH_LIMIT} messages")
    return Batch(tuple(map(_message, value)))


def result_bytes(id: Id | None, result: Any) -> bytes:  # noqa: A002 - the word of the protocol
    return strict_json.dumps({"jsonrpc": "2.0", "id": id, "result": result})


def error_bytes(id: Id | None, error: RpcError) -> bytes:  # noqa: A002 - the word of the protocol
    member: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not UNSET:
        member["data"] = error.data
    return strict_json.dumps({"jsonrpc": "2.0", "id": id, "error": member})


def malformed(why: str) -> Invalid:
    return Invalid(None, PARSE_ERROR, "Parse error", {"message": why})


def invalid_request(why: str, *, code: str | None = None, id: Id | None = None) -> Invalid:  # noqa: A002 - same
    """`code` names the broken rule for programs."""
    data = {"message": why} if code is None else {"code": code, "message": why}
    return Invalid(id, INVALID_REQUEST, "Invalid Request", data)


def _message(value: Any) -> RpcRequest | Notification | Response | Invalid:
    if not isinstance(value, dict):
        kind = "an array is accepted only where batches are" if isinstance(value, list) else "it is no object"
        return invalid_request(f"a message is one JSON object; {kind}")
    given = value.get("id")
    id_ = given if type(given) in _ID_TYPES else None
    if value.get("jsonrpc") != "2.0":
        return invalid_request('jsonrpc must be "2.0"', id=id_)
    if "method" not in value and ("result" in value or "error" in value):
        return _response(value, id_)
    method = value.get("method")
    if not isinstance(method, str):
        return invalid_request("method must be a string", id=id_)
    if "id" in value and id_ is None:
        return invalid_request("id must be a string or a number; leave it out to notify")
    params = value.get("params")
    if params is not None and not isinstance(params, (dict, list)):
        why = {"message": "params must be an object or an array"}
        return Invalid(id_, INVALID_PARAMS, "Invalid params", why)
    return Notification(method, params) if id_ is None else RpcRequest(id_, method, params)


def _response(value: dict[str, Any], id_: Id | None) -> Response:
    error: Any = value.get("error")
    if error is None and "result" in value:
        return Response(id_, value["result"])
    match error:
        case {"code": int(code), "message": str(message)} if not isinstance(code, bool):
            return Response(id_, error=RpcError(code, message, error.get("data", UNSET)))
    return Response(id_, error=RpcError(INTERNAL_ERROR, "the peer answered with a malformed error", error))


class RpcStream:
    """JSON-RPC on a byte stream: what every stream door (stdio, TCP, a Unix socket) does with bytes.

    Bytes that came in become messages; what the decoder or the parser refuses becomes an `Invalid`, in its place among
    the messages, ready to be answered. A message is parsed when it is asked for, so that one message can change how the
    next is read. Answers leave in the framing that the peer has shown by the time they are written. `batches` may be
    turned on later, when the revision that has them has been agreed on.
    """

    def __init__(self, limit: int, *, batches: bool = False) -> None:
        self._decoder = FrameDecoder(limit)
        self.batches = batches

    def receive(self, data: bytes) -> Iterator[Incoming]:
        return map(self._incoming, self._decoder.feed(data))

    def end(self) -> Iterator[Incoming]:
        """Return what is left at the end of the stream."""
        return map(self._incoming, self._decoder.end())

    def encode(self, body: bytes) -> bytes:
        """Return a message as it is written now."""
        return frames.encode(body, self._decoder.framed)

    def _incoming(self, event: frames.Event) -> Incoming:
        match event:
            case Message(body):
                return parse(body, batches=self.batches)
            case Oversize(limit, framed):
                what = "message" if framed else "line"
                return invalid_request(f"{what} exceeds max size {limit}", code="message_too_large")
            case BadHeader(reason):
                return invalid_request(reason, code="invalid_header")
            case _:
                return malformed(event.reason)
