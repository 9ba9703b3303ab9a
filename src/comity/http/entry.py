"""Access over HTTP: programs use a bearer token, browsers a one-time link and a cookie.

A link works once. It sets a cookie that scripts cannot read and other sites cannot send. The cookie opens a browser session:
it may do what the page does (`core/rights`), or only read, until it expires, it is ended, or the node stops.
"""

import secrets
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from comity.http.asgi import Scope, header
from comity.identity.protocol.rights import Grant
from comity.requests.caller import Caller, own_user
from comity.wire.clock import Clock

COOKIE = "comity"
LINK_SECONDS = 24 * 3600
SESSION_SECONDS = 12 * 3600
SESSION_LIMIT = 100


class TokenHolder(NamedTuple):
    """What a token may be used for, and its name where it has one."""

    can: Grant
    name: str = ""


class _Until(NamedTuple):
    """How long a link or a session is good, and for what."""

    moment: float
    kind: Literal["browser", "read"] = "read"


_NEVER: Final = _Until(0.0)


class HttpAccess:
    def __init__(
        self,
        find_token: Callable[[str], TokenHolder | None],
        clock: Clock,
        *,
        port: int,
        secure: bool,
    ) -> None:
        """`port` is part of the cookie's name: a browser keeps one set of cookies for all ports of a host."""
        self._find_token = find_token
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
        self._links[ticket] = _Until(now + LINK_SECONDS, "read" if reads_only else "browser")
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
        self._sessions[session] = _Until(now + SESSION_SECONDS, link.kind)
        secure = "; Secure" if self._secure else ""
        attributes = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_SECONDS}{secure}"
        return f"{self._cookie}={session}; {attributes}"

    def end_all(self) -> int:
        """End every browser session and every link that was not used yet; return how many sessions were open."""
        now = self._clock.monotonic()
        ended = sum(session.moment > now for session in self._sessions.values())
        self._sessions.clear()
        self._links.clear()
        return ended

    def token_of(self, scope: Scope) -> str | None:
        """The bearer token a request came with."""
        kind, _, token = (header(scope, b"authorization") or "").partition(" ")
        return token.strip() if kind.lower() == "bearer" and token.strip() else None

    def caller_of(self, scope: Scope, address: str) -> Caller | None:
        """Return the node's own user if the request proves that they sent it; else None."""
        token = self.token_of(scope)
        if token is not None:
            holder = self._find_token(token)
            return None if holder is None else own_user(holder.can, address, "token", holder.name)
        session = self._sessions.get(self._session_of(scope), _NEVER)
        return own_user(session.kind, address, "cookie") if session.moment > self._clock.monotonic() else None

    def _session_of(self, scope: Scope) -> str:
        """Among the cookies of everything else that this host serves, some in no form at all."""
        cookies = (cookie.strip().partition("=") for cookie in (header(scope, b"cookie") or "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie), "")
