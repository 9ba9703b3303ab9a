"""The guard in front of every HTTP route: budget, Host, Origin, size, and who may pass.

- Each request is first charged to the budget of its address, with the length of its body. If the length is not
  announced, the bytes are charged as they are read. An address over its budget gets 429 with the time to wait. A request
  with the node's own token is not charged; one with a wrong token is.
- A request that is refused before its sender has proven anything is charged to its address as a fault, once, whichever
  layer refused it: the answer passes through here. 429 and failures of the node itself are no faults.
- A visitor (a caller with a token of another issuer) is also charged by identity, after the token is verified.
- Host must be a name of this node. This stops DNS rebinding.
- Origin, if a browser sends it, must be this node or allowed by a setting.
- A body with a Content-Length over the limit is refused before any of it is read.
- What comes through the owner's socket comes from the node's own user at a terminal: nothing has to be proven, and the
  name in Host says nothing. No browser can get there, so a request with an Origin is refused.
- A path that is not public needs a caller who has the right that the path names (`identity/protocol/rights.py`): the node's own user, by a
  token or by the cookie of a browser that used a one-time link. A door that has visitors also accepts their tokens.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache, partial
from typing import Final, Literal, NamedTuple, Protocol

from comity.http.asgi import (
    CHALLENGE,
    SPEND_BYTES,
    SPEND_FAULT,
    App,
    HeadersByName,
    Message,
    Receive,
    Scope,
    Send,
    announced_length,
    answer_error,
    header,
    headers_by_name,
    refuse_announced,
    single,
)
from comity.http.peer_address import Proxies, peer_of
from comity.http.serving import LISTENER, OWNER_SOCKET
from comity.identity.protocol.rights import RIGHT_WORDS, Grant, Right
from comity.requests.budget import Budget
from comity.requests.caller import Caller, anonymous, own_user
from comity.requests.handler import current_request
from comity.wire.errors import ComityError, ForbiddenError, MalformedError, UnauthenticatedError, http_status
from comity.wire.machine import Clock

# Access over HTTP: programs use a bearer token, browsers a one-time link and a cookie.


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
        self, find_token: Callable[[str], TokenHolder | None], clock: Clock, *, port: int, secure: bool
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
        """Return the bearer token of a request."""
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
        """Find our cookie among those of other programs on this host, some of them malformed."""
        cookies = (cookie.strip().partition("=") for cookie in (header(scope, b"cookie") or "").split(";"))
        return next((value for name, _, value in cookies if name == self._cookie), "")


_SCOPE = "insufficient_scope"
_WORDS = {
    "act": "this token",
    "read": "this token, or a link for reading only,",
    "metrics": "this token",
    "browser": "the session of a browser",
    "oauth": "this access token",
}
_TOO_MANY_REQUESTS: Final = 429
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


CALLER: Final = "comity.caller"
"""The key of the caller in the ASGI scope, set by the guard."""


def caller_of(scope: Scope) -> Caller:
    """Return the caller that the guard found. Without a guard, as inside another program, only the address is known."""
    found: Caller | None = scope.get(CALLER)
    return found if found is not None else anonymous(peer_of(scope))


class Visitors(Protocol):
    """Callers with tokens of another issuer, for one door."""

    def identify(self, path: str, token: str, address: str) -> Caller | None:
        """Return the caller, or None for another door. Raise if the token is not valid."""
        ...

    def challenge(self, path: str, error: str | None) -> bytes | None:
        """Return the challenge for a refusal at that path; None for the usual one."""
        ...


class Guard:
    def __init__(
        self,
        app: App,
        entry: HttpAccess,
        *,
        is_public: Callable[[str], bool],
        right_for: Callable[[str], Right] = lambda _path: "manage",
        body_limit: int,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        budget: Budget,
        proxies: Collection[str] = (),
        refused: Callable[[str], None] = lambda _code: None,
        visitors: Visitors | None = None,
        refuse_browser: "Callable[[Send, ComityError], Awaitable[None]] | None" = None,
    ) -> None:
        """`proxies` may name the client that they speak for. `refused` is called with the code of each refusal. `right_for`
        returns the right that a path needs which is not public. `refuse_browser` answers a browser that is refused the page.
        """
        self._refuse_browser = refuse_browser
        self._right_for = right_for
        self._app = app
        self._entry = entry
        self._is_public = is_public
        self._body_limit = body_limit
        self._hosts = _LOOPBACK_NAMES | {_as_in_url(host) for host in hosts}
        self._budget = budget
        self._proxies = Proxies(proxies)
        self._refused = refused
        self._visitors = visitors
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "lifespan":
            try:
                self._check(scope)
            except ComityError as refusal:
                return self._refuse(scope, send, refusal)
            if SPEND_FAULT in scope:
                return self._app(scope, receive, charging_refusals(scope, send))
        return self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send, refusal: ComityError) -> None:
        self._refused(refusal.code)
        charge_refusal(scope, http_status(refusal))
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        elif self._refuse_browser is not None and scope["path"] == "/" and accepts_page(scope):
            await self._refuse_browser(send, refusal)
        else:
            await answer_error(send, refusal, self._challenge(scope, refusal))

    def _check(self, scope: Scope) -> None:
        if scope.get(LISTENER) == OWNER_SOCKET:
            self._check_owner_socket(scope)
            return
        self._proxies.find_peer(scope)
        address = peer_of(scope)
        headers = headers_by_name(scope)
        public = self._is_public(scope["path"])
        own = self._own_caller(scope, headers, address)
        if public and own is not None and not own.may("manage"):
            own = None  # on the open paths, a token or session with few rights counts as anonymous
        if own is None:
            charge_address(scope, headers, address, self._budget, self._body_limit)
        host = single(headers, b"host")
        if host is None:
            raise MalformedError("there is no Host header; send one that names this node")
        if _without_port(host) not in self._hosts:
            raise ForbiddenError("the Host header names no host of this node; add it to http.allowed_hosts")
        if b"origin" in headers:
            self._check_origin(scope, host)
        refuse_announced(headers, self._body_limit)
        caller = own or (anonymous(address) if public else self._visitor(scope, address))
        scope[CALLER] = caller
        if not public:
            right = self._right_for(scope["path"])
            if right not in caller.rights:
                raise _lacks_right(caller, right)

    def _check_owner_socket(self, scope: Scope) -> None:
        headers = headers_by_name(scope)
        if b"origin" in headers:
            raise ForbiddenError("this socket is for programs of the node's own user, not for pages")
        refuse_announced(headers, self._body_limit)
        scope[CALLER] = own_user("terminal", "127.0.0.1", "owner socket")

    def _own_caller(self, scope: Scope, headers: HeadersByName, address: str) -> Caller | None:
        """Return the node's own user if the request proves it, else None."""
        if b"authorization" not in headers and b"cookie" not in headers:
            return None
        try:
            return self._entry.caller_of(scope, address)
        except MalformedError:  # the check below says what is wrong with the headers
            return None

    def _visitor(self, scope: Scope, address: str) -> Caller:
        self._entry.caller_of(scope, address)  # raises where the headers are wrong
        token = None if self._visitors is None else self._entry.token_of(scope)
        visitor = None
        if token is not None and self._visitors is not None:
            try:
                visitor = self._visitors.identify(scope["path"], token, address)
            except ForbiddenError:  # the token is good, and not for this
                scope.pop(SPEND_FAULT, None)
                raise
        if visitor is None:
            raise UnauthenticatedError(
                "this needs the node's token (Authorization: Bearer …, see the file `token` in the data "
                "folder) or the one-time link that `comity up` and `comity open` print"
            )
        scope.pop(SPEND_FAULT, None)
        self._budget.spend_identity(visitor.owner, address, announced_length(headers_by_name(scope)) or 0)
        return visitor

    def _challenge(self, scope: Scope, refusal: ComityError) -> list[tuple[bytes, bytes]]:
        """Return the challenge header if a token would help."""
        if not isinstance(refusal, UnauthenticatedError) and refusal.code != _SCOPE:
            return []
        error = None
        if self._visitors is not None:
            if self._entry.token_of(scope) is not None:
                error = _SCOPE if refusal.code == _SCOPE else "invalid_token"
            challenge = self._visitors.challenge(scope["path"], error)
            if challenge is not None:
                return [(b"www-authenticate", challenge)]
        return [CHALLENGE]

    def _check_origin(self, scope: Scope, host: str) -> None:
        origin = header(scope, b"origin") or ""
        scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
        if origin.lower() != f"{scheme}://{host.lower()}" and origin.lower() not in self._origins:
            raise ForbiddenError("pages of this Origin may not use the node; add it to http.allowed_origins")


def _lacks_right(caller: Caller, right: Right) -> ForbiddenError:
    return ForbiddenError(
        f"this needs the right to {RIGHT_WORDS[right]}, which {_WORDS.get(caller.kind, 'this caller')} does not "
        "have; use the command line on the node's machine, or a token that may (comity token new --help)"
    )


def charge_address(
    scope: Scope, headers: HeadersByName, address: str, budget: Budget, body_limit: int
) -> None:
    """Charge a request and its body to the address, and note in the scope what charges the rest. Raise RateLimitedError."""
    if not budget.limits(address):
        return
    scope[SPEND_FAULT] = partial(budget.spend_fault, address)
    length = announced_length(headers)
    if length is None:
        scope[SPEND_BYTES] = partial(budget.spend_bytes, address)
    # a body beyond the limit is refused later, and none of it is read
    budget.spend(address, length if length is not None and length <= body_limit else 0)


def charging_refusals(scope: Scope, send: Send) -> Send:
    """Return a `send` that charges the address for an answer that refuses it."""

    def send_and_charge(message: Message) -> Awaitable[None]:
        status: int | None = message.get("status")
        if status is not None:
            charge_refusal(scope, status)
        return send(message)

    return send_and_charge


def charge_refusal(scope: Scope, status: int) -> None:
    """Charge the address for an answer of that status, if it refuses a caller who has proven nothing."""
    spend_fault: Callable[[], None] | None = scope.get(SPEND_FAULT)
    refuses = 400 <= status < 500 and status != _TOO_MANY_REQUESTS
    if spend_fault is not None and refuses and not current_request().excused:
        spend_fault()


def accepts_page(scope: Scope) -> bool:
    """Return whether a browser asks, which reads HTML."""
    try:
        return "text/html" in (header(scope, b"accept") or "")
    except MalformedError:
        return False


def _as_in_url(host: str) -> str:
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


@lru_cache(256)  # most ask for the same few
def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    if host.endswith("]") or not colon:
        return host.lower()
    if not port.isdecimal():
        raise MalformedError("the Host header is not a name and a port")
    return name
