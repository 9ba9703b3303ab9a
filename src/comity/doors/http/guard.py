"""The guard in front of every HTTP route: rate, Host, Origin, size, and who may pass.

- A peer beyond its budget is told when to come again; nothing else is looked at.
- Host must be a name of this node: a page that rebinds its own name to us stops here.
- Origin, where a browser sends one, must be ours or allowed by a setting.
- A body that announces itself as too large is refused before any of it is read.
- What is not public needs the token or the cookie of a browser that was let in; or, where a door has visitors of
  its own, a token that this door takes.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Collection
from functools import lru_cache
from typing import Protocol

from comity.core.errors import (
    ComityError,
    ForbiddenError,
    MalformedError,
    RateLimitedError,
    UnauthenticatedError,
)
from comity.doors.http.asgi import App, Receive, Scope, Send, answer_error, header, refuse_announced
from comity.doors.http.entry import Entry

_CHALLENGE = b'Bearer realm="comity"'
_SCOPE = "insufficient_scope"
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Visitors(Protocol):
    """Those who come to one door with tokens of somebody else's."""

    def admits(self, scope: Scope, token: str) -> bool:
        """False where the door is another one. Raises when the token is not good."""
        ...

    def challenge(self, path: str, error: str | None) -> bytes | None:
        """What to answer who was refused at that path; None for the usual."""
        ...


class Guard:
    def __init__(
        self,
        app: App,
        entry: Entry,
        *,
        is_public: Callable[[str], bool],
        body_limit: int,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        wait_of: Callable[[str], float] = lambda _peer: 0.0,
        refused: Callable[[str], None] = lambda _code: None,
        visitors: Visitors | None = None,
    ) -> None:
        """`wait_of` takes one request off a peer's budget and says how long it has to wait, 0.0 for not
        at all; `refused` is told the code of each refusal, so that it can be counted.
        """
        self._app = app
        self._entry = entry
        self._is_public = is_public
        self._body_limit = body_limit
        self._hosts = _LOOPBACK_NAMES | {_as_in_url(host) for host in hosts}
        self._wait_of = wait_of
        self._refused = refused
        self._visitors = visitors
        self._origins = {origin.lower().rstrip("/") for origin in origins}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] != "lifespan":
            try:
                self._check(scope)
            except ComityError as refusal:
                return self._refuse(scope, send, refusal)
        return self._app(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send, refusal: ComityError) -> None:
        self._refused(refusal.code)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await answer_error(send, refusal, self._challenge(scope, refusal))

    def _check(self, scope: Scope) -> None:
        wait = self._wait_of(peer_of(scope))
        if wait:
            raise RateLimitedError(f"too many requests; try again in {wait:.1f} seconds", wait)
        host = header(scope, b"host")
        if host is None or _without_port(host) not in self._hosts:
            raise ForbiddenError("the Host header names no host of this node; add it to http.allowed_hosts")
        self._check_origin(scope, host)
        refuse_announced(scope, self._body_limit)
        if not self._is_public(scope["path"]) and not self._entry.admits(scope) and not self._visits(scope):
            raise UnauthenticatedError(
                "this needs the node's token (Authorization: Bearer …, see the file `token` in the data "
                "folder) or the one-time link that `comity up` prints"
            )

    def _visits(self, scope: Scope) -> bool:
        token = None if self._visitors is None else self._entry.token_of(scope)
        return token is not None and self._visitors is not None and self._visitors.admits(scope, token)

    def _challenge(self, scope: Scope, refusal: ComityError) -> list[tuple[bytes, bytes]]:
        """Only where a token would help."""
        if not isinstance(refusal, UnauthenticatedError) and refusal.code != _SCOPE:
            return []
        error = None
        if self._visitors is not None:
            if self._entry.token_of(scope) is not None:
                error = _SCOPE if refusal.code == _SCOPE else "invalid_token"
            told = self._visitors.challenge(scope["path"], error)
            if told is not None:
                return [(b"www-authenticate", told)]
        return [(b"www-authenticate", _CHALLENGE)]

    def _check_origin(self, scope: Scope, host: str) -> None:
        origin = header(scope, b"origin")
        if origin is None:
            return
        scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
        if origin.lower() != f"{scheme}://{host.lower()}" and origin.lower() not in self._origins:
            raise ForbiddenError("pages of this Origin may not use the node; add it to http.allowed_origins")


def peer_of(scope: Scope) -> str:
    """The address limits are counted by: IPv6 callers by their network, they have a whole one each."""
    return _counted_as(str((scope.get("client") or ("unknown",))[0]))


@lru_cache(4096)  # asked for every message
def _counted_as(address: str) -> str:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.version == 6 and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, 64), strict=False))
    return str(ip)


def _as_in_url(host: str) -> str:
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def _without_port(host: str) -> str:
    name, colon, port = host.lower().rpartition(":")
    if host.endswith("]") or not colon:
        return host.lower()
    if not port.isdecimal():
        raise MalformedError("the Host header is not a name and a port")
    return name
