"""Access over HTTP: programs use a bearer token, browsers a one-time link and a cookie. A second token only reads.

A link works once. It sets a cookie that scripts cannot read and other sites cannot send. The cookie gives the access
that its link was made for, until it expires or the node stops: that of the token, except to make further links, or that
of the token that only reads.
"""

import secrets
from collections.abc import Callable
from typing import Final, NamedTuple

from comity.core.caller import Proof
from comity.core.clock import Clock
from comity.doors.http.asgi import Scope, header

COOKIE = "comity"
LINK_SECONDS = 24 * 3600
SESSION_SECONDS = 12 * 3600
SESSION_LIMIT = 100


class _Until(NamedTuple):
    """How long a link or a session is good, and for what."""

    moment: float
    proof: Proof


_NEVER: Final = _Until(0.0, "none")


class HttpAccess:
    def __init__(
        self,
        knows_token: Callable[[str], bool],
        clock: Clock,
        *,
        port: int,
        secure: bool,
        knows_read_token: Callable[[str], bool] = lambda _token: False,
    ) -> None:
        """`port` is part of the cookie's name: a browser keeps one set of cookies for all ports of a host."""
        self._knows_token = knows_token
        self._knows_read_token = knows_read_token
        self._cookie = f"{COOKIE}-{port}"
        self._clock = clock
        self._secure = secure
        self._links: dict[str, _Until] = {}
        self._sessions: dict[str, _Until] = {}

    def new_link(self, *, reads_only: bool = False) -> str:
        """Create a one-time link and return its path."""
        now = self._clock.monotonic()
        self._links = {ticket: link for ticket, link in self._links.items() if link.moment > now}
        ticket = secrets.token_urlsafe(24)
        self._links[ticket] = _Until(now + LINK_SECONDS, "read cookie" if reads_only else "cookie")
        return f"/enter/{ticket}"

    def redeem(self, ticket: str) -> str | None:
        """Use up a link, and return the Set-Cookie value of the new session; None if the link is invalid or used."""
        now = self._clock.monotonic()
        link = self._links.pop(ticket, _NEVER)
        if link.moment <= now:
            return None
        session = secrets.token_urlsafe(32)
        if len(self._sessions) >= SESSION_LIMIT:
            self._sessions.pop(next(iter(self._sessions)))
        self._sessions[session] = _Until(now + SESSION_SECONDS, link.proof)
        secure = "; Secure" if self._secure else ""
        attributes = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}{secure}"
        return f"{self._cookie}={session}; {attributes}"

    def token_of(self, scope: Scope) -> str | None:
        """The bearer token a request came with."""
        kind, _, token = (header(scope, b"authorization") or "").partition(" ")
        return token.strip() if kind.lower() == "bearer" and token.strip() else None

    def proof_of(self, scope: Scope) -> Proof | None:
        """How a request proves that the node's own user sent it; None where it does not."""
        token = self.token_of(scope)
        if token is not None:
            if self._knows_token(token):
                return "token"
            return "read token" if self._knows_read_token(token) else None
        session = self._sessions.get(self._session_of(scope), _NEVER)
        return session.proof if session.moment > self._clock.monotonic() else None

    def _session_of(self, scope: Scope) -> str:
        """Among the cookies of everything else that this host serves, some in no form at all."""
        cookies = (cookie.strip().partition("=") for cookie in (header(scope, b"cookie") or "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie), "")
