"""The OpenAPI 3.1 document of a node, at `/openapi.json`: every path that it serves, with who may use it.

Which paths there are, and which of them are public, is what the node serves now. What an operation does is said here, for
the paths of Comity; a path that another part brings is listed with what its route says.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

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

    summary: str
    body: Json | None = None
    query: Mapping[str, Json] = {}
    kind: str = "application/json"
    status: str = "200"


_PAGE: Final = {"after": _TEXT, "limit": {"type": "integer", "minimum": 1, "maximum": 200}, "text": _TEXT}

OPERATIONS: Final[Mapping[str, Mapping[str, ApiOperation]]] = {
    "/": {"get": ApiOperation("The page", kind="text/html")},
    "/enter/{ticket}": {"get": ApiOperation("Use up a one-time link", kind="", status="303")},
    "/assets/page.css": {"get": ApiOperation("The style of the page", kind="text/css")},
    "/assets/page.js": {"get": ApiOperation("The script of the page", kind="text/javascript")},
    "/assets/draw.js": {"get": ApiOperation("The second script of the page", kind="text/javascript")},
    "/healthz": {"get": ApiOperation("Whether the process lives")},
    "/readyz": {"get": ApiOperation("Whether the node can work; 503 while it cannot")},
    "/metrics": {"get": ApiOperation("Figures for Prometheus", kind="text/plain")},
    OPENAPI_PATH: {"get": ApiOperation("This document")},
    "/v1/status": {"get": ApiOperation("How the node is doing")},
    "/v1/views": {"get": ApiOperation("List the views of the page")},
    "/v1/views/{name}": {"get": ApiOperation("Read one view, in pages", query=_PAGE)},
    "/v1/events": {
        "get": ApiOperation(
            "Follow what happens on the node",
            query={"since": {"type": "integer", "minimum": 0}},
            kind="text/event-stream",
        )
    },
    "/v1/ping": {
        "post": ApiOperation("Answer with the nonce", _members(nonce={"type": "string", "maxLength": 256}))
    },
    "/v1/stop": {"post": ApiOperation("Stop the node")},
    "/v1/link": {
        "post": ApiOperation("Make a one-time link to the page", _members(read_only={"type": "boolean"}))
    },
    "/v1/vault/rotate": {"post": ApiOperation("Encrypt what is stored with a new key")},
    "/v1/audit/verify": {"post": ApiOperation("Verify the audit record in the background")},
    "/v1/pairs/verify": {
        "post": ApiOperation(
            "Verify both chains with an agent in the background", _members("agent", agent=_ID)
        )
    },
    "/v1/state": {"post": ApiOperation("Set the state of the agent", _members("state", state=_TEXT))},
    "/v1/rooms": {
        "post": ApiOperation(
            "Call a tool of the rooms of peers",
            _members("tool arguments", tool=_TEXT, arguments=_OBJECT, client=_TEXT, folder=_TEXT),
        )
    },
    "/signal": {"get": ApiOperation("The signalling relay, a WebSocket", kind="", status="101")},
    "/vcp": {"get": ApiOperation("VCP over WebSocket", kind="", status="101")},
    "/mcp": {
        "post": ApiOperation("One message of MCP", _RPC),
        "get": ApiOperation("Follow the messages of an MCP session", kind="text/event-stream"),
        "delete": ApiOperation("End an MCP session", kind="", status="204"),
    },
    "/v1/actions": {"get": ApiOperation("List the actions with their schemas")},
    "/v1/actions/openapi.json": {
        "get": ApiOperation("The actions as an OpenAPI document, with their schemas")
    },
    "/v1/actions/{name}": {"post": ApiOperation("Call an action with its input", _OBJECT)},
    "/v1/revocations/{issuer}": {"get": ApiOperation("The signed revocation list of an issuer name")},
    "/a2a/message/send": {"post": ApiOperation("A signed call", _RPC)},
    "/card": {"get": ApiOperation("The capability card of the agent")},
    "/health": {"get": ApiOperation("Id, state and name of the agent")},
    "/.well-known/agent-card.json": {"get": ApiOperation("The agent card of A2A")},
    "/v1/halo": {"post": ApiOperation("Publish a card in the directory", _OBJECT)},
    "/v1/query_capability": {"post": ApiOperation("Search the directory", _OBJECT)},
    "/v1/capability_card/{vid}": {"get": ApiOperation("Read a card of the directory")},
    "/v1/event_log/{vid}": {"get": ApiOperation("What an actor published in the directory")},
    "/v1/event/{seq}": {"get": ApiOperation("One event of the directory")},
    "/v1/lineage/{vid}": {"get": ApiOperation("Ancestors or descendants of an agent")},
    "/v1/revocation_list": {"get": ApiOperation("The revocations that the directory has: none")},
    "/v1/deliberations": {
        "get": ApiOperation("Who keeps deliberations here"),
        "post": ApiOperation("A signed message about a deliberation", _RPC),
    },
    "/.well-known/oauth-protected-resource": {"get": ApiOperation("Where tokens for MCP come from")},
    "/.well-known/oauth-protected-resource/mcp": {"get": ApiOperation("Where tokens for MCP come from")},
}


def openapi_document(
    served: Iterable[tuple[str, Iterable[str]]], is_public: Callable[[str], bool], version: str
) -> Json:
    """`served` are the paths with the methods of their routes; those of Comity have theirs here."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Comity node",
            "version": version,
            "description": "Every HTTP route of this node. A path without `security` of its own needs the token.",
        },
        "security": [{"token": []}, {"browser": []}],
        "paths": {path: _path_item(path, methods, public=is_public(path)) for path, methods in served},
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "the file `token`"},
                "browser": {"type": "apiKey", "in": "cookie", "name": "comity-PORT"},
            },
            "schemas": {"Refusal": _members("detail code", detail=_TEXT, code=_TEXT)},
        },
    }


def _path_item(path: str, methods: Iterable[str], *, public: bool) -> Json:
    others = {
        method.lower(): ApiOperation("A path of another part") for method in methods if method != "HEAD"
    }
    known = OPERATIONS.get(path) or others
    names = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    item: Json = {method: _operation(method, path, operation) for method, operation in known.items()}
    if public:
        for operation in item.values():
            operation["security"] = []
    if names:
        item["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names
        ]
    return item


def _operation(method: str, path: str, told: ApiOperation) -> Json:
    name = "_".join([method, *(piece.strip("{}") for piece in path.split("/") if piece)])
    content = {"content": {told.kind: {"schema": _OBJECT if "json" in told.kind else _TEXT}}}
    made: Json = {
        "operationId": name.replace(".", "_").replace("-", "_"),
        "summary": told.summary,
        "responses": {
            told.status: {"description": told.summary, **(content if told.kind else {})},
            "default": {
                "description": "What was wrong, and what to do",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
            },
        },
    }
    if told.query:
        made["parameters"] = [
            {"name": key, "in": "query", "schema": schema} for key, schema in told.query.items()
        ]
    if told.body is not None:
        made["requestBody"] = {"content": {"application/json": {"schema": told.body}}}
    return made
