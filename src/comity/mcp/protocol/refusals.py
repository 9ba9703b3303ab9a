"""What MCP says no with: a JSON-RPC error, and the HTTP status that goes with it in the modern era."""

from typing import Any, Final

from msgspec import UNSET

from comity.mcp.protocol.revisions import MODERN
from comity.wire.errors import ComityError, ErrorAnswer, NotFoundError
from comity.wire.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError

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
    """Of a modern HTTP answer that carries this error."""
    return _STATUS.get(code, 400)


def invalid_params(message: str, data: Any = UNSET) -> McpError:
    return McpError(INVALID_PARAMS, message, data)


def invalid_request(message: str) -> McpError:
    return McpError(INVALID_REQUEST, message)


def no_such_method(method: str) -> McpError:
    return McpError(METHOD_NOT_FOUND, f"Method not found: {method}")


def missing_capability(message: str, required: dict[str, Any]) -> McpError:
    """`required` is what the client would have to declare, in the shape in which it declares it."""
    return McpError(MISSING_CAPABILITY, message, {"requiredCapabilities": required})


def unsupported_version(requested: object) -> McpError:
    return McpError(
        UNSUPPORTED_VERSION,
        f"this server speaks {', '.join(MODERN)} without a handshake; send initialize for older revisions",
        {"supported": list(MODERN), "requested": requested},
    )


def header_mismatch(message: str) -> McpError:
    return McpError(HEADER_MISMATCH, message)
