"""Answers as bytes: results and errors around the id they belong to."""

from typing import Any, Final

from comity.mcp.protocol.methods import Server, finished, resource_not_found
from comity.mcp.protocol.refusals import McpError, invalid_params
from comity.mcp.protocol.results import InputRequired, Json
from comity.mcp.protocol.work import RunningRequest
from comity.wire import strict_json
from comity.wire.errors import ComityError, DeadlineError, NotFoundError, PeerError, RetryLaterError
from comity.wire.jsonrpc import INTERNAL_ERROR, Id, RpcError, error_bytes

INTERNAL = RpcError(INTERNAL_ERROR, "Internal error; the log of this node says why")
_NOT_THE_ASKERS: Final = (DeadlineError, PeerError, RetryLaterError)
"""Nothing was wrong with the request."""


def around(id_: Id, result: bytes) -> bytes:
    """A result that is bytes already, as the answer to `id_`."""
    number = b"%d" % id_ if type(id_) is int else strict_json.dumps(id_)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, result)


def result_of(server: Server, work: RunningRequest, answer: Any, reply: Json | None = None) -> bytes:
    """`reply` is the answer to a hello that the request carried."""
    return complete(server, work, work.shape(answer), reply)


def input_required(
    server: Server, work: RunningRequest, asked: InputRequired, sealed: str | None, reply: Json | None = None
) -> bytes:
    result: Json = {
        "resultType": "input_required",
        "inputRequests": {key: one.to_json() for key, one in asked.requests.items()},
    }
    if sealed is not None:
        result["requestState"] = sealed
    return complete(server, work, result, reply)


def complete(server: Server, work: RunningRequest, result: Json, reply: Json | None = None) -> bytes:
    """A result that is in its shape already."""
    return strict_json.dumps(server.with_reply(finished(server, work.asker, result), reply))


def with_reply(server: Server, result: bytes, reply: Json | None) -> bytes:
    """Write the answer to a hello into a result that was made before."""
    return result if reply is None else strict_json.dumps(server.with_reply(strict_json.loads(result), reply))


def refusal(work: RunningRequest, error: Exception) -> RpcError:
    """The JSON-RPC error for an exception. Details of unexpected exceptions are not shown to the client."""
    if isinstance(error, McpError):
        return error.rpc
    if isinstance(error, NotFoundError) and work.method == "resources/read":
        return resource_not_found(work.asker, str(work.params.get("uri"))).rpc
    if isinstance(error, _NOT_THE_ASKERS):
        return RpcError(INTERNAL_ERROR, error.message)
    if isinstance(error, ComityError):
        return invalid_params(error.message).rpc
    return INTERNAL


def refused(id_: Id | None, error: RpcError) -> bytes:
    return error_bytes(id_, error)
