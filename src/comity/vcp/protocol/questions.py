"""What the server's machine asks of those who run it; each is the request inside an `Ask`."""

from typing import Literal

from msgspec import Struct

from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.context import ContextRequest
from comity.vcp.protocol.extensions_messages import ExtensionCall
from comity.vcp.protocol.messages import ErrorCode
from comity.wire.errors import ForbiddenError, UnauthenticatedError

Happening = Literal[
    "HANDSHAKE_ACK",
    "HANDSHAKE_ERROR",
    "SESSION_IMPLICIT",
    "SESSION_ENDED",
    "CONTEXT_REFUSED",
    "CALL_REFUSED",
]


class IdentityRefusedError(UnauthenticatedError):
    """A token that is proven and refused all the same. The message is told to whoever brought it; `retry_after` is in
    whole seconds, where waiting may help.
    """

    def __init__(self, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SessionEndedError(ForbiddenError):
    """The session can no longer be served; the message tells the client why, and `vcp_code` what to do about it."""

    code = "session_ended"

    def __init__(self, vcp_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.vcp_code: ErrorCode = vcp_code


class CheckIdentity(Struct, frozen=True):
    """Is this token good? The answer is an Identity.

    None means no, and so does a refusal because of the token itself (unauthenticated, forbidden, invalid,
    malformed). Any other refusal means that nobody can tell.
    """

    token: str


class ExchangeContext(Struct, frozen=True):
    """Keep what the request tells, and answer with a ContextResponse; a refusal is told to the client. A
    SessionEndedError also ends the session.
    """

    session: Session
    request: ContextRequest


class RunOperation(Struct, frozen=True):
    """Run an operation of an extension, and answer with its result; a refusal is told to the client. A
    SessionEndedError also ends the session.
    """

    session: Session
    call: ExtensionCall


class WatchFeatures(Struct, frozen=True):
    """Answer with the core features that run, once they differ from these."""

    features: dict[str, bool]


class Happened(Struct, frozen=True, kw_only=True):
    """For the record; the answer counts for nothing.

    `code` is that of the error. `overlooked` are names in a hello's list that are no extension ids. `client_id` is how
    the client calls itself: for those who watch, never for a decision (vcp 1.2).
    """

    what: Happening
    session: Session | None = None
    code: str | None = None
    reason: str | None = None
    overlooked: tuple[str, ...] = ()
    client_id: str = ""
