"""The guard of the outside door: it serves the open paths that are wanted there, and knows no credentials.

- A path that is not open there answers like one that does not exist, whoever asks. No token, cookie or ticket is read: their
  headers are taken away before anything else sees the request.
- Every address has the limits of an unknown caller, also one of this machine. Proxies are not believed.
- Host is not checked, because nothing here trusts a name. No page lives here, so only an Origin that the settings allow may ask.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from comity.http.asgi import (
    HEADERS_BY_NAME,
    App,
    Receive,
    Scope,
    Send,
    answer_error,
    by_name,
    header,
    refuse_announced,
    refuse_websocket,
)
from comity.http.guard import CALLER, charge_address, charge_refusal, charging_refusals
from comity.http.peer_address import PEER, as_outside, peer_of
from comity.requests.budget import Budget
from comity.requests.caller import anonymous
from comity.wire.errors import ComityError, ForbiddenError, NotFoundError, http_status

NOTHING_HERE: Final = "there is nothing at this path"
_CREDENTIALS: Final = frozenset({b"authorization", b"cookie", b"proxy-authorization"})


class OutsideGuard:
    def __init__(
        self,
        app: App,
        *,
        is_open: Callable[[str], bool],
        body_limit: int,
        origins: Collection[str] = (),
        budget: Budget,
        refused: Callable[[str], None] = lambda _code: None,
    ) -> None:
        """`is_open` says which paths are served now. `refused` is called with the code of each refusal."""
        self._app = app
        self._is_open = is_open
        self._body_limit = body_limit
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._budget = budget
        self._refused = refused

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._app(scope, receive, send)
        try:
            self._check(scope)
        except ComityError as refusal:
            return self._refuse(scope, send, refusal)
        return self._app(scope, receive, charging_refusals(scope, send))

    async def _refuse(self, scope: Scope, send: Send, refusal: ComityError) -> None:
        self._refused(refusal.code)
        charge_refusal(scope, http_status(refusal))
        if scope["type"] == "websocket":
            await refuse_websocket(scope, send, refusal)
        else:
            await answer_error(send, refusal)

    def _check(self, scope: Scope) -> None:
        address = scope[PEER] = as_outside(peer_of(scope))
        headers = [each for each in scope["headers"] if each[0] not in _CREDENTIALS]
        named = by_name(headers)
        scope["headers"], scope[HEADERS_BY_NAME] = headers, named
        charge_address(scope, named, address, self._budget, self._body_limit)
        if not self._is_open(scope["path"]):
            raise NotFoundError(NOTHING_HERE)
        if b"origin" in named and (header(scope, b"origin") or "").lower() not in self._origins:
            raise ForbiddenError("pages of this Origin may not use the node; add it to http.allowed_origins")
        refuse_announced(named, self._body_limit)
        scope[CALLER] = anonymous(address)
