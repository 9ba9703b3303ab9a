"""The HTTP application: routes, and the guard in front of them.

Public without a token are only the paths listed here and those that a part names as public. Every other path needs a right
(`identity/protocol/rights.py`): the one that it is named with, else `manage`.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from comity.http.asgi import App, Endpoint, Receive, Scope, Send, answer_json, read_json_body
from comity.http.guard import Guard, HttpAccess, Visitors, caller_of
from comity.http.outside_guard import NOTHING_HERE, OutsideGuard
from comity.identity.protocol.rights import RIGHTS_OF, Right
from comity.release import __version__
from comity.requests.budget import Budget
from comity.requests.handler import Handler, Request
from comity.requests.metrics import CONTENT_TYPE, Metrics
from comity.requests.pipeline import Pipeline
from comity.wire import strict_json
from comity.wire.errors import ComityError, http_status, public_message

# The OpenAPI 3.1 document of a node, at `/openapi.json`: every path that it serves, with who may use it.


OPENAPI_PATH: Final = "/openapi.json"

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_OBJECT: Final[Json] = {"type": "object"}
_ID: Final[Json] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_RPC: Final[Json] = {
    "type": "object",
    "required": ["jsonrpc", "method"],
    "properties": {"jsonrpc": {"const": "2.0"}, "method": _TEXT, "params": _OBJECT},
}


def _members(required: str = "", **properties: Json) -> Json:
    return {"type": "object", "required": required.split(), "properties": properties}


class ApiOperation(NamedTuple):
    """`body` and `query` are what is sent, `kind` the content type of the answer, `status` that of a good one."""

    method: str
    path: str
    summary: str
    body: Json | None = None
    query: Mapping[str, Json] = {}
    kind: str = "application/json"
    status: str = "200"


_PAGE: Final = {"after": _TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 200}, "text": _TEXT}

OPERATIONS: Final = (
    ApiOperation("get", "/", "The page", kind="text/html"),
    ApiOperation("get", "/enter/{ticket}", "Use up a one-time link", kind="", status="303"),
    ApiOperation("get", "/assets/page.css", "The style of the page", kind="text/css"),
    ApiOperation("get", "/assets/page.js", "The script of the page", kind="text/javascript"),
    ApiOperation("get", "/assets/draw.js", "The second script of the page", kind="text/javascript"),
    ApiOperation("get", "/healthz", "Whether the process lives"),
    ApiOperation("get", "/readyz", "Whether the node can work; 503 while it cannot"),
    ApiOperation("get", "/metrics", "Figures for Prometheus", kind="text/plain"),
    ApiOperation("get", OPENAPI_PATH, "This document"),
    ApiOperation("get", "/v1/status", "How the node is doing"),
    ApiOperation("get", "/v1/views", "List the views of the page"),
    ApiOperation("get", "/v1/views/{name}", "Read one view, in pages", query=_PAGE),
    ApiOperation(
        "get",
        "/v1/events",
        "Follow what happens on the node",
        query={"since": {"type": "integer", "minimum": 0}},
        kind="text/event-stream",
    ),
    ApiOperation(
        "post", "/v1/ping", "Answer with the nonce", _members(nonce={"type": "string", "maxLength": 256})
    ),
    ApiOperation("post", "/v1/stop", "Stop the node"),
    ApiOperation(
        "post", "/v1/link", "Make a one-time link to the page", _members(read_only={"type": "boolean"})
    ),
    ApiOperation("post", "/v1/browsers/end", "End every browser session and every unused link"),
    ApiOperation("post", "/v1/vault/rotate", "Encrypt what is stored with a new key"),
    ApiOperation("post", "/v1/audit/verify", "Verify the audit record in the background"),
    ApiOperation(
        "post",
        "/v1/pairs/verify",
        "Verify both chains with an agent in the background",
        _members("agent", agent=_ID),
    ),
    ApiOperation(
        "post", "/a2a/witness", "Prove to an earlier caller that the audit record holds what it signed"
    ),
    ApiOperation("post", "/v1/state", "Set the state of the agent", _members("state", state=_TEXT)),
    ApiOperation(
        "post",
        "/v1/rooms",
        "Call a tool of the rooms of peers",
        _members("tool arguments", tool=_TEXT, arguments=_OBJECT, client=_TEXT, folder=_TEXT),
    ),
    ApiOperation(
        "post",
        "/v1/contacts",
        "List and change contacts, and decide about calls that wait",
        _members("do", do=_TEXT, who=_TEXT, name=_TEXT, rights=_OBJECT, once={"type": "boolean"}),
    ),
    ApiOperation(
        "post",
        "/v1/outside",
        "Show, open or close the door for other machines",
        _members(open={"type": "boolean"}),
    ),
    ApiOperation("post", "/v1/outside/renew", "Make a new certificate of that door, for the same key"),
    ApiOperation("get", "/signal", "The signalling relay, a WebSocket", kind="", status="101"),
    ApiOperation("get", "/vcp", "VCP over WebSocket", kind="", status="101"),
    ApiOperation("post", "/mcp", "One message of MCP", _RPC),
    ApiOperation("get", "/mcp", "Follow the messages of an MCP session", kind="text/event-stream"),
    ApiOperation("delete", "/mcp", "End an MCP session", kind="", status="204"),
    ApiOperation("get", "/v1/actions", "List the actions with their schemas"),
    ApiOperation("get", "/v1/actions/openapi.json", "The actions as an OpenAPI document, with their schemas"),
    ApiOperation("post", "/v1/actions/{name}", "Call an action with its input", _OBJECT),
    ApiOperation("get", "/v1/revocations/{issuer}", "The signed revocation list of an issuer name"),
    ApiOperation("post", "/a2a/message/send", "A signed call", _RPC),
    ApiOperation("get", "/card", "The capability card of the agent"),
    ApiOperation("get", "/health", "Id, state and name of the agent"),
    ApiOperation("get", "/.well-known/agent-card.json", "The agent card of A2A"),
    ApiOperation("post", "/v1/halo", "Publish a card in the directory", _OBJECT),
    ApiOperation("post", "/v1/query_capability", "Search the directory", _OBJECT),
    ApiOperation("post", "/v1/reviews", "Publish a signed review of an agent", _OBJECT),
    ApiOperation("get", "/v1/reviews/{vid}", "The last review of each reviewer of an agent", _OBJECT),
    ApiOperation("get", "/v1/capability_card/{vid}", "Read a card of the directory"),
    ApiOperation("get", "/v1/event_log/{vid}", "What an actor published in the directory"),
    ApiOperation("get", "/v1/event/{seq}", "One event of the directory"),
    ApiOperation("get", "/v1/lineage/{vid}", "Ancestors or descendants of an agent"),
    ApiOperation("get", "/v1/revocation_list", "The revocations that the directory has: none"),
    ApiOperation("get", "/v1/deliberations", "The id of this node, which hosts votes"),
    ApiOperation("post", "/v1/deliberations", "A signed message about a vote", _RPC),
    ApiOperation("get", "/.well-known/oauth-protected-resource", "Where tokens for MCP come from"),
    ApiOperation("get", "/.well-known/oauth-protected-resource/mcp", "Where tokens for MCP come from"),
)


def openapi_document(
    served: Iterable[tuple[str, Iterable[str]]],
    is_public: Callable[[str], bool],
    right_for: Callable[[str], Right],
    version: str,
) -> Json:
    """`served` are the paths with the methods of their routes; those of Comity have theirs here."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Comity node",
            "version": version,
            "description": "Every HTTP route of this node. A path that is not open names in `x-right` the right that its "
            "caller needs.",
        },
        "paths": {
            path: _path_item(path, methods, None if is_public(path) else right_for(path))
            for path, methods in served
        },
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the file `token`, or a token with the right",
                },
                "browser": {"type": "apiKey", "in": "cookie", "name": "comity-PORT"},
            },
            "schemas": {"Refusal": _members("detail code", detail=_TEXT, code=_TEXT)},
        },
    }


def _path_item(path: str, methods: Iterable[str], right: Right | None) -> Json:
    known = [operation for operation in OPERATIONS if operation.path == path] or [
        ApiOperation(method.lower(), path, "A path of another part") for method in methods if method != "HEAD"
    ]
    names = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    item: Json = {operation.method: _operation(operation) for operation in known}
    for described in item.values():
        described["security"] = [] if right is None else _security(right)
        if right is not None:
            described["x-right"] = right
    if names:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
        ]
    return item


def _security(right: Right) -> list[Json]:
    schemes: list[Json] = [{"token": []}]
    return [*schemes, {"browser": []}] if right in RIGHTS_OF["browser"] else schemes


def _operation(operation: ApiOperation) -> Json:
    name = "_".join([operation.method, *(piece.strip("{}") for piece in operation.path.split("/") if piece)])
    content = {"content": {operation.kind: {"schema": _OBJECT if "json" in operation.kind else _TEXT}}}
    made: Json = {
        "operationId": name.replace(".", "_").replace("-", "_"),
        "summary": operation.summary,
        "responses": {
            operation.status: {"description": operation.summary, **(content if operation.kind else {})},
            "default": {
                "description": "What was wrong, and what to do",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
            },
        },
    }
    if operation.query:
        made["parameters"] = [
            {"name": key, "in": "query", "schema": schema} for key, schema in operation.query.items()
        ]
    if operation.body is not None:
        made["requestBody"] = {"content": {"application/json": {"schema": operation.body}}}
    return made


PUBLIC_PATHS = frozenset({"/healthz", "/readyz"})
RIGHTS: Final[Mapping[str, Right]] = MappingProxyType({"/metrics": "metrics", "/v1/status": "read"})
WELL_KNOWN = "/.well-known/"
"""What stands here is for everybody, so that what does not is 404 and not 401."""
_NO_SNIFFING = {"x-content-type-options": "nosniff"}


class Readiness(NamedTuple):
    ready: bool
    reason: str = ""


class OffPath(NamedTuple):
    """A path of a part that is switched off, with all below it, and the sentence that is answered there, to everybody if `public`."""

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
    serves_outside: ClassVar[bool]


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
        pipeline: Pipeline,
        entry: HttpAccess,
        metrics: Metrics,
        ping: Handler,
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
            "/healthz": Endpoint("GET", _healthz, feature="http", record=pipeline.record),
            "/v1/ping": HandlerRoute(ping, pipeline, body_limit),
        }
        sockets: dict[str, App] = {}
        public, outside = set(PUBLIC_PATHS), set(PUBLIC_PATHS)
        prefixes: tuple[str, ...] = (WELL_KNOWN, *(() if page is None else page.public_prefixes))
        outside_prefixes: tuple[str, ...] = (WELL_KNOWN,)
        inside_only: set[str] = set()
        for part in parts:
            if part.serves_outside:
                outside |= set(part.public)
                outside_prefixes += part.public_prefixes
            else:
                inside_only |= set(part.public)
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
        self.sockets_outside = frozenset(sockets) & outside
        self._is_for_outside = lru_cache(256)(  # same
            lambda path: path in outside or (path.startswith(outside_prefixes) and path not in inside_only)
        )
        off_public = tuple(each for each in off if each.public)
        self._is_public = lru_cache(256)(  # most ask for the same few
            lambda path: (
                path in public or path.startswith(prefixes) or any(each.holds(path) for each in off_public)
            )
        )
        rights: dict[str, Right] = {**RIGHTS, **({} if page is None else page.rights)}
        for part in parts:
            rights |= part.rights
        self.right_for = right_table(rights)
        self._inner = _HotPaths(hot, sockets, application)
        self._body_limit, self._budget, self._origins = body_limit, budget, origins
        self._refused = lambda code: pipeline.record.refuse("http", code)
        self.app: App = Guard(
            self._inner,
            entry,
            is_public=self._is_public,
            right_for=self.right_for,
            body_limit=body_limit,
            hosts=hosts,
            origins=origins,
            budget=budget,
            proxies=proxies,
            refused=self._refused,
            visitors=visitors,
            refuse_browser=None if page is None else page.refuse_browser,
        )

    def outside_app(self, is_wanted: Callable[[str], bool]) -> App:
        """Return the application of the outside door: of the open paths those that are wanted there now."""
        return OutsideGuard(
            self._inner,
            is_open=lambda path: self._is_for_outside(path) and is_wanted(path),
            body_limit=self._body_limit,
            origins=self._origins,
            budget=self._budget,
            refused=self._refused,
        )

    async def _readyz(self, _request: HttpRequest) -> Response:
        readiness = await self._readiness()
        answer = {"ready": readiness.ready, **({"reason": readiness.reason} if readiness.reason else {})}
        return _json(answer, 200 if readiness.ready else 503)

    async def _show_metrics(self, _request: HttpRequest) -> Response:
        return Response(self._metrics.exposition(), headers={"content-type": CONTENT_TYPE, **_NO_SNIFFING})

    async def _show_status(self, _request: HttpRequest) -> Response:
        return _json(await self._status())

    async def _show_openapi(self, _request: HttpRequest) -> Response:
        return _json(openapi_document(self._served, self._is_public, self.right_for, __version__))


def right_table(rights: Mapping[str, Right]) -> Callable[[str], Right]:
    """Return the function that says which right a path needs: its own, that of the longest prefix, or `manage`."""
    prefixes = sorted((path for path in rights if path.endswith("/") and path != "/"), key=len, reverse=True)

    @lru_cache(256)  # same
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


class HandlerRoute(Endpoint):
    """Serves a handler for the owner behind a POST: JSON or nothing in, the pipeline, JSON out."""

    def __init__(self, handler: Handler, pipeline: Pipeline, body_limit: int) -> None:
        async def take(scope: Scope, receive: Receive) -> Any:
            body = await read_json_body(scope, receive, body_limit, "the body", may_be_empty=True)
            message = strict_json.loads(body) if body else {}
            return await pipeline.run(handler, Request(door="http", caller=caller_of(scope), body=message))

        super().__init__("POST", take, feature=handler.name, record=pipeline.record)


async def _needs_upgrade(_scope: Scope, _receive: Receive, send: Send) -> None:
    refusal = {"detail": "this path is a WebSocket; ask for an upgrade", "code": "upgrade_required"}
    await answer_json(send, refusal, 426, [(b"upgrade", b"websocket")])


async def _refusal(_request: HttpRequest, refusal: Exception) -> Response:
    assert isinstance(refusal, ComityError)
    answer = {"detail": public_message(refusal), "code": refusal.code}
    return _json(answer, http_status(refusal))


async def _healthz(_scope: Scope, _receive: Receive) -> dict[str, bool]:
    return {"ok": True}


async def _no_such_page(off: Sequence[OffPath], request: HttpRequest, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    if refusal.status_code == 404:
        path = request.url.path
        detail = next((each.sentence for each in off if each.holds(path)), NOTHING_HERE)
        return _json({"detail": detail, "code": "not_found"}, 404, refusal.headers)
    sentences = {405: "this path does not answer that method"}
    codes = {405: "method_not_allowed", 403: "forbidden"}
    detail = sentences.get(refusal.status_code, refusal.detail)
    answer = {"detail": detail, "code": codes.get(refusal.status_code, "invalid")}
    return _json(answer, refusal.status_code, refusal.headers)


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(strict_json.dumps(value), status, {**(headers or {}), **_NO_SNIFFING}, "application/json")
