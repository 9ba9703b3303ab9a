"""Extension calls on a VCP connection (ruling 47).

    {"type": "vcp-call", "id", "op", "args"}
    {"type": "vcp-result", "id", "ok": true, "result": {…}}
    {"type": "vcp-result", "id", "ok": false, "error": {"code", "message", "field"?}}

Results may come in another order than the calls; the id says which is which. A call whose id cannot be read is
answered with the id null. A member that is not named here is refused in a call and overlooked in a result.
"""

from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from comity.vcp.protocol.extension_calls import Code, ExtensionError, invalid, shaped

CALL: Final = "vcp-call"
RESULT: Final = "vcp-result"
LONGEST_CALL_ID: Final = 128
MOST_CALLS_IN_FLIGHT: Final = 16

_encode = msgspec.json.Encoder().encode


class ExtensionCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: Literal["vcp-call"]
    id: str
    op: str
    args: dict[str, Any] = {}


class CallError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    code: Code
    message: str
    field: str | None = None


class CallResult(Struct, frozen=True, kw_only=True):
    """What a client reads of an answer: `result` where it is `ok`, `error` where it is not."""

    id: str | None
    ok: bool
    result: Any = None
    error: CallError | None = None


def is_call(value: Any) -> bool:
    return type(value) is dict and value.get("type") == CALL


def call_id(value: Any) -> str | None:
    """The id of a call, however wrong the rest of it is; None when it has no id to answer to."""
    id_ = value.get("id") if type(value) is dict else None
    return id_ if type(id_) is str and 0 < len(id_) <= LONGEST_CALL_ID else None


def read_call(value: Any) -> ExtensionCall:
    """Raises ExtensionError."""
    if call_id(value) is None:
        raise invalid(f"id must be a text of 1 to {LONGEST_CALL_ID} characters", "id")
    return shaped(value, ExtensionCall)


def write_call(id_: str, op: str, args: dict[str, Any]) -> bytes:
    return _encode({"type": CALL, "id": id_, "op": op, "args": args})


def write_result(id_: str, result: Any) -> bytes:
    return _encode({"type": RESULT, "id": id_, "ok": True, "result": result})


def write_refusal(id_: str | None, refusal: ExtensionError) -> bytes:
    error = CallError(code=refusal.wire_code, message=refusal.message, field=refusal.field)
    return _encode({"type": RESULT, "id": id_, "ok": False, "error": error})


def read_result(value: Any) -> CallResult:
    """Raises ExtensionError for what is no answer to a call."""
    if type(value) is not dict or value.get("type") != RESULT:
        raise invalid(f"an answer to a call has the type {RESULT}", "type")
    told = shaped(value, CallResult)
    if told.ok == (told.error is not None):
        raise invalid("an answer is either ok or has an error", "error")
    return told
