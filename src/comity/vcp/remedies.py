"""How a VCP tool says no: the sentence that says what was wrong, and behind it, as the last line, what to do
about it (vcp 7.4).

The last lines are quoted from the specification, so that a host can search for them. All other errors have a message that
already says what to do.
"""

from typing import Any, Final

from msgspec import Struct

from comity.vcp.contexts import UnreadableContextError
from comity.vcp.protocol.errors import ContextError
from comity.wire.errors import ComityError, ForbiddenError, UnauthenticatedError

REAUTHENTICATE: Final = "Re-authenticate with a valid VCP/I token"
SCAN_FAILED: Final = "Constitution content failed safety scan"
UNREADABLE: Final = "Context decryption failed. Session may be corrupted"


class VcpToolAnswer(Struct, frozen=True, kw_only=True):
    """What a tool answers. `text` is what a person or a model reads; None: the structured content as JSON."""

    structured: dict[str, Any]
    text: str | None = None
    is_error: bool = False


class InactiveExtensionError(ForbiddenError):
    """Asked for something of an extension that was not agreed on in this session."""

    code = "extension_inactive"

    def __init__(self, extension: str) -> None:
        super().__init__(
            f"Extension {extension} is not active. Re-initialize with the extension in your VCP-Hello"
        )
        self.extension = extension


class RevokedError(ForbiddenError):
    """The requested object was revoked."""

    code = "revoked"

    def __init__(self, reason: str) -> None:
        super().__init__(f"Bundle has been revoked: {reason}")


class RevocationUnknownError(ForbiddenError):
    """It is not known whether the requested object was revoked, so the request is refused."""

    code = "revocation_unknown"

    def __init__(self) -> None:
        super().__init__(
            "Bundle may have been revoked: the revocation list of its issuer was not available; try again later"
        )


def refused(error: ComityError) -> VcpToolAnswer:
    """The error as the answer of a tool."""
    told: dict[str, Any] = {"error": _lines(error), "code": error.code}
    if isinstance(error, ContextError):
        told |= {"code": error.wire_code.lower(), "field": error.field}
    return VcpToolAnswer(structured=told, text=told["error"], is_error=True)


def _lines(error: ComityError) -> str:
    if isinstance(error, UnreadableContextError):
        return UNREADABLE
    if isinstance(error, UnauthenticatedError):
        return f"{error.message}\n{REAUTHENTICATE}"
    if isinstance(error, ContextError) and error.wire_code == "CONSTITUTION_REFUSED":
        return f"{error.message}\n{SCAN_FAILED}"
    return error.message
