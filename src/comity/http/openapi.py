"""The OpenAPI 3.1 document of a node, at `/openapi.json`: every path that it serves, with who may use it.

Which paths there are, and which of them are public, is what the node serves now. What an operation does is said here, for
the paths of Comity; a path that another part brings is listed with what its route says.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from comity.identity.protocol.rights import RIGHTS_OF, Right

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
    ApiOperation("post", "/v1/state", "Set the state of the agent", _members("state", state=_TEXT)),
    ApiOperation(
        "post",
        "/v1/rooms",
        "Call a tool of the rooms of peers",
        _members("tool arguments", tool=_TEXT, arguments=_OBJECT, client=_TEXT, folder=_TEXT),
    ),
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
    ApiOperation("get", "/v1/capability_card/{vid}", "Read a card of the directory"),
    ApiOperation("get", "/v1/event_log/{vid}", "What an actor published in the directory"),
    ApiOperation("get", "/v1/event/{seq}", "One event of the directory"),
    ApiOperation("get", "/v1/lineage/{vid}", "Ancestors or descendants of an agent"),
    ApiOperation("get", "/v1/revocation_list", "The revocations that the directory has: none"),
    ApiOperation("get", "/v1/deliberations", "Who keeps deliberations here"),
    ApiOperation("post", "/v1/deliberations", "A signed message about a deliberation", _RPC),
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


def _operation(told: ApiOperation) -> Json:
    name = "_".join([told.method, *(piece.strip("{}") for piece in told.path.split("/") if piece)])
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
