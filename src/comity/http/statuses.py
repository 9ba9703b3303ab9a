"""The one table that maps each error class to an HTTP status and a JSON-RPC code. A class without a row uses its nearest base class."""

from comity.envelopes.protocol.refusals import (
    BehaviourError,
    MisdirectedError,
    VacantAsleepError,
    VacantGoneError,
)
from comity.mcp.protocol.refusals import McpError, NotAcceptableError, StreamGoneError
from comity.wire import jsonrpc
from comity.wire.errors import (
    ComityError,
    ConfigError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    KeyRefusedError,
    MalformedError,
    NotFoundError,
    OverloadedError,
    PeerError,
    RateLimitedError,
    RetryLaterError,
    StorageFullError,
    StoreError,
    StoreFullError,
    TooLargeError,
    UnauthenticatedError,
)

_INTERNAL = (500, jsonrpc.INTERNAL_ERROR)

_SPOKEN: dict[type[ComityError], tuple[int, int]] = {
    ComityError: _INTERNAL,
    MalformedError: (400, jsonrpc.PARSE_ERROR),
    InvalidError: (400, jsonrpc.INVALID_PARAMS),
    TooLargeError: (413, jsonrpc.INVALID_REQUEST),
    UnauthenticatedError: (401, jsonrpc.INVALID_REQUEST),
    ForbiddenError: (403, jsonrpc.INVALID_REQUEST),
    NotFoundError: (404, jsonrpc.INVALID_PARAMS),
    ConflictError: (409, jsonrpc.INVALID_REQUEST),
    RetryLaterError: (503, jsonrpc.INTERNAL_ERROR),
    RateLimitedError: (429, jsonrpc.INVALID_REQUEST),
    OverloadedError: (503, jsonrpc.INTERNAL_ERROR),
    StorageFullError: (507, jsonrpc.INVALID_REQUEST),
    DeadlineError: (504, jsonrpc.INTERNAL_ERROR),
    PeerError: (502, jsonrpc.INTERNAL_ERROR),
    ConfigError: _INTERNAL,
    KeyRefusedError: _INTERNAL,
    StoreError: (503, jsonrpc.INTERNAL_ERROR),
    StoreFullError: (507, jsonrpc.INTERNAL_ERROR),
    StreamGoneError: (410, jsonrpc.INVALID_REQUEST),
    McpError: (400, jsonrpc.INVALID_REQUEST),
    NotAcceptableError: (406, jsonrpc.INVALID_REQUEST),
    MisdirectedError: (421, -32052),
    VacantGoneError: (410, -32054),
    VacantAsleepError: (423, -32054),
    BehaviourError: (500, jsonrpc.INTERNAL_ERROR),
}


def http_status(error: ComityError) -> int:
    return _spoken(error)[0]


def rpc_code(error: ComityError) -> int:
    return _spoken(error)[1]


def sentence_for_strangers(error: ComityError) -> str:
    """Errors of ours keep their words; what happened inside stays inside."""
    if isinstance(error, BehaviourError | StorageFullError):
        return error.message
    if http_status(error) in (500, 507) or isinstance(error, StoreError):
        return "this node cannot serve the request right now; its log says why"
    return error.message


def _spoken(error: ComityError) -> tuple[int, int]:
    return next((_SPOKEN[kind] for kind in type(error).__mro__ if kind in _SPOKEN), _INTERNAL)
