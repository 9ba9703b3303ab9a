"""A context message that cannot be accepted, and how that is said on the wire (vcp 4.3).

`vcp-error` belongs to the handshake; here it is `{"error": {"code", "message", "field"}}`. `field` names the
member by its path, and is null where no single member is at fault. No error repeats a value that was sent.
"""

from typing import Literal

import msgspec

from comity.wire.errors import ComityError

ContextErrorCode = Literal[
    "MALFORMED", "INVALID", "TOO_LARGE", "UNKNOWN_MESSAGE", "CONSTITUTION_REFUSED", "NO_SESSION"
]

_encode = msgspec.json.Encoder().encode


class ContextError(ComityError):
    code = "context"

    def __init__(self, wire_code: ContextErrorCode, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.wire_code: str = wire_code
        self.field = field


def wrong(field: str, rule: str) -> ContextError:
    """The member `field` breaks a rule, such as "must be an object"."""
    return ContextError("INVALID", f"{field} {rule}", field)


def encode_error(error: ComityError) -> bytes:
    """Any error of ours as the answer to a context message."""
    told = {"code": error.code.upper(), "message": error.message, "field": None}
    if isinstance(error, ContextError):
        told |= {"code": error.wire_code, "field": error.field}
    return _encode({"error": told})
