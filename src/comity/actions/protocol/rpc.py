"""The same actions as JSON-RPC 2.0: lines or `Content-Length` frames, single requests or batches.

- Methods are `list_actions`, `invoke` and `describe_action`; `params` is what the payload is on the other
  wire, and `result` is what `data` is there. A refusal keeps its sentence, as the message of the error;
  `issues` go under `data`.
- A notification gets no answer and no action changes anything, so it is ignored. A response is ignored too.
- `Work` is yielded as by the other machine; a batch is answered when the last of its work is done.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from msgspec import UNSET

from comity.actions.protocol.calls import ActionCalls, Settled, Work
from comity.actions.protocol.envelope import (
    INVALID_DESCRIBE,
    INVALID_PAYLOAD,
    Issue,
    describe_issues,
    invoke_issues,
)
from comity.actions.protocol.machine import LIMIT, Steps
from comity.wire import jsonrpc
from comity.wire.errors import ComityError
from comity.wire.jsonrpc import Batch, Invalid, Request, RpcError, RpcStream

CodeOf = Callable[[ComityError], int]
_Reply = Generator[Work, Settled, bytes | None]


_OF_MCP = frozenset({"initialize", "server/discover", "tools/list", "tools/call", "ping"})


class RpcMachine:
    def __init__(self, calls: ActionCalls, code_of: CodeOf, *, limit: int = LIMIT) -> None:
        """`code_of` is the table of the doors: the JSON-RPC code of an error."""
        self._calls = calls
        self._code_of = code_of
        self._stream = RpcStream(limit, batches=True)

    def receive(self, data: bytes) -> Steps:
        return self._answer_all(self._stream.receive(data))

    def end(self) -> Steps:
        return self._answer_all(self._stream.end())

    def _answer_all(self, messages: Iterable[jsonrpc.Incoming]) -> Steps:
        replies: list[bytes] = []
        for message in messages:
            answering = self._batch(message) if isinstance(message, Batch) else self._answer(message)
            settled: Settled | None = None
            try:
                while True:
                    work = next(answering) if settled is None else answering.send(settled)
                    if replies:
                        yield replies
                        replies = []
                    settled = yield work
            except StopIteration as done:
                if done.value is not None:
                    replies.append(self._stream.encode(done.value))
        if replies:
            yield replies

    def _batch(self, batch: Batch) -> _Reply:
        replies = []
        for message in batch.items:
            reply = yield from self._answer(message)
            if reply is not None:
                replies.append(reply)
        return b"[%b]" % b",".join(replies) if replies else None

    def _answer(self, message: jsonrpc.Incoming) -> _Reply:
        if isinstance(message, Invalid):
            return jsonrpc.error_bytes(message.id, message.error)
        if not isinstance(message, Request):
            return None
        try:
            result = yield from self._result(message)
            return result if isinstance(result, bytes) else self._encoded(message, result)
        except ComityError as refused:
            return jsonrpc.error_bytes(message.id, RpcError(self._code_of(refused), refused.message))

    def _encoded(self, request: Request, result: Any) -> bytes:
        try:
            return jsonrpc.result_bytes(request.id, result)
        except Exception as failure:  # noqa: BLE001 - what a handler returned may have no JSON form
            raise self._calls.failed(request.method, failure) from None

    def _result(self, request: Request) -> Generator[Work, Settled, Any]:
        params: Any = UNSET if request.params is None else request.params
        match request.method:
            case "list_actions":
                return self._listing()
            case "invoke":
                if issues := invoke_issues(params):
                    return _invalid(request, INVALID_PAYLOAD, issues)
                return (yield from self._invoke(params))
            case "describe_action":
                if issues := describe_issues(params):
                    return _invalid(request, INVALID_DESCRIBE, issues)
                entry = self._calls.entry(params["action"])
                return self._calls.registry.description(entry)
        known = "there are list_actions, invoke and describe_action"
        if request.method in _OF_MCP:
            known += "; this is not MCP, which `comity mcp --rooms actions` speaks"
        error = RpcError(jsonrpc.METHOD_NOT_FOUND, "Method not found", {"message": known})
        return jsonrpc.error_bytes(request.id, error)

    def _listing(self) -> list[dict[str, Any]]:
        try:
            return self._calls.registry.listing()
        except Exception as failure:  # noqa: BLE001 - a skill that cannot be loaded
            raise self._calls.failed("list_actions", failure) from None

    def _invoke(self, params: Any) -> Generator[Work, Settled, Any]:
        entry, begun = self._calls.begin(params["action"], params["input"])
        settled = (yield begun) if isinstance(begun, Work) else begun
        return self._calls.data(entry, settled)


def _invalid(request: Request, text: str, issues: list[Issue]) -> bytes:
    return jsonrpc.error_bytes(request.id, RpcError(jsonrpc.INVALID_PARAMS, text, {"issues": issues}))
