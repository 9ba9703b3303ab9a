"""The HTTP application: routes, and the guard in front of them.

Public without a token are only the paths listed here and those that a part names as public. Every other path needs a right
(`core/rights`): the one that it is named with, else `manage`.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from comity.http.asgi import App, Receive, Scope, Send, answer_json
from comity.http.endpoint import Endpoint, read_json_body
from comity.http.entry import HttpAccess
from comity.http.guard import Guard, Visitors, caller_of
from comity.http.openapi import OPENAPI_PATH, openapi_document
from comity.http.statuses import http_status, sentence_for_strangers
from comity.identity.protocol.rights import Right
from comity.release import __version__
from comity.requests.budget import Budget
from comity.requests.handler import Arrival, Room
from comity.requests.metrics import CONTENT_TYPE, Metrics
from comity.requests.pipeline import Walk
from comity.wire import strict_json
from comity.wire.errors import ComityError

PUBLIC_PATHS = frozenset({"/healthz", "/readyz"})
RIGHTS: Final[Mapping[str, Right]] = MappingProxyType({"/metrics": "metrics", "/v1/status": "read"})
WELL_KNOWN = "/.well-known/"
"""What stands here is for everybody, so that what does not is 404 and not 401."""
_NO_SNIFFING = {"x-content-type-options": "nosniff"}


class Readiness(NamedTuple):
    ready: bool
    reason: str = ""


class OffPath(NamedTuple):
    """A path of a part that is switched off, with all below it, and what is said there. `public`: to everybody."""

    path: str
    sentence: str
    public: bool

    def holds(self, path: str) -> bool:
        return path == self.path or path.startswith(self.path + "/")


class Served(Protocol):
    """What a part of the node serves over HTTP. `hot` and, for WebSockets, `sockets` are answered without a router
    before them; `public` paths, and those that begin with one of `public_prefixes`, need no token.
    """

    rights: ClassVar[Mapping[str, Right]]
    routes: Sequence[BaseRoute]
    hot: Mapping[str, App]
    sockets: Mapping[str, App]
    public: Collection[str]
    public_prefixes: tuple[str, ...]


class Page(Protocol):
    """What the page at `/` adds: its routes, and the answer to a browser that is refused."""

    @property
    def routes(self) -> Sequence[Route]: ...

    @property
    def public_prefixes(self) -> tuple[str, ...]: ...

    @property
    def rights(self) -> Mapping[str, Right]: ...

    @property
    def refuse_browser(self) -> Callable[[Send, ComityError], Awaitable[None]]: ...


class HttpDoor:
    def __init__(
        self,
        *,
        walk: Walk,
        entry: HttpAccess,
        metrics: Metrics,
        ping: Room,
        readiness: Callable[[], Awaitable[Readiness]],
        status: Callable[[], Awaitable[dict[str, Any]]],
        body_limit: int,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        budget: Budget,
        proxies: Collection[str] = (),
        visitors: Visitors | None = None,
        parts: Sequence[Served] = (),
        page: Page | None = None,
        off: Sequence[OffPath] = (),
    ) -> None:
        """`budget`, `proxies` and `visitors` are the guard's."""
        self._metrics = metrics
        self._readiness = readiness
        self._status = status
        application = Starlette(
            routes=[
                Route("/readyz", self._readyz),
                Route("/metrics", self._show_metrics),
                Route("/v1/status", self._show_status),
                Route(OPENAPI_PATH, self._show_openapi),
                *(() if page is None else page.routes),
                *(route for part in parts for route in part.routes),
            ],
            exception_handlers={HTTPException: partial(_no_such_page, off), ComityError: _refusal},
        )
        hot: dict[str, App] = {
            "/healthz": Endpoint("GET", _healthz, room="http", record=walk.record),
            "/v1/ping": RoomRoute(ping, walk, body_limit),
        }
        sockets: dict[str, App] = {}
        public = set(PUBLIC_PATHS)
        prefixes = (WELL_KNOWN, *(() if page is None else page.public_prefixes))
        for part in parts:
            hot |= part.hot
            sockets |= part.sockets
            hot |= dict.fromkeys(part.sockets, _needs_upgrade)
            public |= set(part.public)
            prefixes += part.public_prefixes
        self._served = [
            *(
                (route.path, route.methods or {"GET"})
                for route in application.routes
                if isinstance(route, Route)
            ),
            *((path, {"GET"}) for path in hot),
        ]
        told = tuple(each for each in off if each.public)
        self._is_public: Callable[[str], bool] = lambda path: (
            path in public or path.startswith(prefixes) or any(each.holds(path) for each in told)
        )
        rights: dict[str, Right] = {**RIGHTS, **({} if page is None else page.rights)}
        for part in parts:
            rights |= part.rights
        self.right_for = right_table(rights)
        self.app: App = Guard(
            _HotPaths(hot, sockets, application),
            entry,
            is_public=self._is_public,
            right_for=self.right_for,
            body_limit=body_limit,
            hosts=hosts,
            origins=origins,
            budget=budget,
            proxies=proxies,
            refused=lambda code: walk.record.refuse("http", code),
            visitors=visitors,
            refuse_browser=None if page is None else page.refuse_browser,
        )

    async def _readyz(self, _request: Request) -> Response:
        readiness = await self._readiness()
        answer = {"ready": readiness.ready, **({"reason": readiness.reason} if readiness.reason else {})}
        return _json(answer, 200 if readiness.ready else 503)

    async def _show_metrics(self, _request: Request) -> Response:
        return Response(self._metrics.exposition(), headers={"content-type": CONTENT_TYPE, **_NO_SNIFFING})

    async def _show_status(self, _request: Request) -> Response:
        return _json(await self._status())

    async def _show_openapi(self, _request: Request) -> Response:
        return _json(openapi_document(self._served, self._is_public, self.right_for, __version__))


def right_table(rights: Mapping[str, Right]) -> Callable[[str], Right]:
    """Return the function that says which right a path needs: its own, that of the longest prefix, or `manage`."""
    prefixes = sorted((path for path in rights if path.endswith("/") and path != "/"), key=len, reverse=True)

    def right_for(path: str) -> Right:
        found = rights.get(path)
        if found is not None:
            return found
        return next((rights[prefix] for prefix in prefixes if path.startswith(prefix)), "manage")

    return right_for


class _HotPaths:
    """Straight to where most messages go; all others by the router."""

    def __init__(self, http: Mapping[str, App], sockets: Mapping[str, App], others: App) -> None:
        self._http = http
        self._sockets = sockets
        self._others = others

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        paths = self._http if scope["type"] == "http" else self._sockets
        return paths.get(scope.get("path", ""), self._others)(scope, receive, send)


class RoomRoute(Endpoint):
    """A room for the owner behind a POST: JSON or nothing in, the walk, JSON out."""

    def __init__(self, room: Room, walk: Walk, body_limit: int) -> None:
        async def take(scope: Scope, receive: Receive) -> Any:
            body = await read_json_body(scope, receive, body_limit, "the body", may_be_empty=True)
            message = strict_json.loads(body) if body else {}
            return await walk.take(room, Arrival(door="http", caller=caller_of(scope), body=message))

        super().__init__("POST", take, room=room.name, record=walk.record)


async def _needs_upgrade(_scope: Scope, _receive: Receive, send: Send) -> None:
    refusal = {"detail": "this path is a WebSocket; ask for an upgrade", "code": "upgrade_required"}
    await answer_json(send, refusal, 426, [(b"upgrade", b"websocket")])


async def _refusal(_request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, ComityError)
    answer = {"detail": sentence_for_strangers(refusal), "code": refusal.code}
    return _json(answer, http_status(refusal))


async def _healthz(_scope: Scope, _receive: Receive) -> dict[str, bool]:
    return {"ok": True}


async def _no_such_page(off: Sequence[OffPath], request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    if refusal.status_code == 404:
        path = request.url.path
        told = next((each.sentence for each in off if each.holds(path)), "there is nothing at this path")
        return _json({"detail": told, "code": "not_found"}, 404, refusal.headers)
    sentences = {405: "this path does not answer that method"}
    codes = {405: "method_not_allowed", 403: "forbidden"}
    detail = sentences.get(refusal.status_code, refusal.detail)
    answer = {"detail": detail, "code": codes.get(refusal.status_code, "invalid")}
    return _json(answer, refusal.status_code, refusal.headers)


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(strict_json.dumps(value), status, {**(headers or {}), **_NO_SNIFFING}, "application/json")
