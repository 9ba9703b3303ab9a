"""What handlers answer with, and how it looks on the wire in each era."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.wire import strict_json
from comity.wire.errors import ComityError, ErrorAnswer, NotFoundError
from comity.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError

Json = dict[str, Any]


class ToolResult(Struct, frozen=True):
    """`content` are content blocks as they go out; `structured` is any JSON, left out unless given."""

    content: Sequence[Json]
    structured: Any = UNSET
    is_error: bool = False
    meta: Mapping[str, Any] | None = None

    def to_json(self) -> Json:
        answer: Json = {"content": list(self.content)}
        if self.structured is not UNSET:
            answer["structuredContent"] = self.structured
        answer["isError"] = self.is_error
        if self.meta:
            answer["_meta"] = dict(self.meta)
        return answer


class InputRequest(Struct, frozen=True):
    """One question to the client: `elicitation/create`, `sampling/createMessage` or `roots/list`."""

    method: str
    params: Mapping[str, Any] = {}

    def to_json(self) -> Json:
        return {"method": self.method, "params": dict(self.params)}


class InputRequired(Struct, frozen=True):
    """The call needs these answers. `state` is any JSON that comes back with them, sealed."""

    requests: Mapping[str, InputRequest]
    state: Any = UNSET


class Contents(Struct, frozen=True):
    """The contents of a resource. `ttl` is in milliseconds; `private` means for this client only."""

    contents: Sequence[Json]
    ttl: int = 0
    private: bool = True


class PromptResult(Struct, frozen=True):
    messages: Sequence[Json]
    description: str = ""

    def to_json(self) -> Json:
        answer: Json = {"description": self.description} if self.description else {}
        return {**answer, "messages": list(self.messages)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def said(words: str, *, error: bool = False) -> ToolResult:
    return ToolResult([text(words)], is_error=error)


def structured(value: Mapping[str, Any], *, error: bool = False) -> ToolResult:
    """Return the value as structured content, and as text for clients that read only text."""
    return ToolResult([text(strict_json.dumps(value).decode())], value, error)


def failed(words: str) -> ToolResult:
    """Return an error of the tool, which the model reads."""
    return said(words, error=True)


# The revisions of MCP that are spoken, and how one is chosen.


LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN: Final = ("2026-07-28",)
LATEST_LEGACY: Final = LEGACY[-1]
UNSPOKEN: Final = "2025-06-18"
"""The revision for a client that sends requests without `initialize`."""
ICONS: Final = "2025-11-25"
"""The first revision in which a server has icons."""
BATCHES: Final = frozenset({"2025-03-26"})

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
META_LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
TASKS: Final = "io.modelcontextprotocol/tasks"
"""The extension for work that outlives its request."""


def chosen_legacy(requested: object) -> str:
    """Return the revision of the client if it is known, else our latest."""
    return requested if isinstance(requested, str) and requested in LEGACY else LATEST_LEGACY


# Refusals of MCP: a JSON-RPC error, and its HTTP status in the modern era.


RESOURCE_NOT_FOUND: Final = -32002
"""In the legacy era only; the modern one says -32602."""
HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

_STATUS: Final = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}


class McpError(ComityError):
    """A refusal that is a JSON-RPC error of its own."""

    code = "mcp_refused"
    _answer = ErrorAnswer(400, INVALID_REQUEST)

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.rpc = RpcError(code, message, data)

    @property
    def status(self) -> int:
        return status_of(self.rpc.code)


class StreamGoneError(NotFoundError):
    """The stream cannot be resumed; its messages are lost. The session continues."""

    code = "stream_gone"
    _answer = ErrorAnswer(410, INVALID_REQUEST)


class NotAcceptableError(McpError):
    """The client takes neither of the two forms that answers have."""

    code = "not_acceptable"
    _answer = ErrorAnswer(406, INVALID_REQUEST)

    def __init__(self) -> None:
        super().__init__(INVALID_REQUEST, "answers are application/json or text/event-stream; accept both")

    @property
    def status(self) -> int:
        return 406


def status_of(code: int) -> int:
    """Return the HTTP status of a modern answer with this error."""
    return _STATUS.get(code, 400)


def invalid_params(message: str, data: Any = UNSET) -> McpError:
    return McpError(INVALID_PARAMS, message, data)


def invalid_request(message: str) -> McpError:
    return McpError(INVALID_REQUEST, message)


def no_such_method(method: str) -> McpError:
    return McpError(METHOD_NOT_FOUND, f"Method not found: {method}")


def missing_capability(message: str, required: dict[str, Any]) -> McpError:
    """Return the refusal of a client that has to declare `required` first."""
    return McpError(MISSING_CAPABILITY, message, {"requiredCapabilities": required})


def unsupported_version(requested: object) -> McpError:
    return McpError(
        UNSUPPORTED_VERSION,
        f"this server speaks {', '.join(MODERN)} without a handshake; send initialize for older revisions",
        {"supported": list(MODERN), "requested": requested},
    )


def header_mismatch(message: str) -> McpError:
    return McpError(HEADER_MISMATCH, message)
