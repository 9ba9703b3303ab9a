"""What the server's machine asks of those who run it; each is the request inside an `Ask`."""

from typing import Literal

from msgspec import Struct

from comity.core.context.request import ContextRequest
from comity.core.negotiation.session import Session

Happening = Literal[
    "HANDSHAKE_ACK", "HANDSHAKE_ERROR", "SESSION_IMPLICIT", "SESSION_ENDED", "CONTEXT_REFUSED"
]


class CheckIdentity(Struct, frozen=True):
    """Is this token good? The answer is an Identity.

    None means no, and so does a refusal because of the token itself (unauthenticated, forbidden, invalid,
    malformed). Any other refusal means that nobody can tell.
    """

    token: str


class ExchangeContext(Struct, frozen=True):
    """Keep what the request tells, and answer with a ContextResponse; a refusal is told to the client."""

    session: Session
    request: ContextRequest


class WatchFeatures(Struct, frozen=True):
    """Answer with the core features that run, once they differ from these."""

    features: dict[str, bool]


class Happened(Struct, frozen=True, kw_only=True):
    """For the record; the answer counts for nothing.

    `code` is that of the error. `overlooked` are names in a hello's list that are no extension ids.
    """

    what: Happening
    session: Session | None = None
    code: str | None = None
    reason: str | None = None
    overlooked: tuple[str, ...] = ()
