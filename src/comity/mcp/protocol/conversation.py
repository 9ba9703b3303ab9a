"""One stream of messages with one client: stdio, a Unix socket. Each request names its era.

    initialize                 -> legacy from here on; a second one is refused and changes nothing
    request with a version     -> modern, whatever came before
    any other request          -> the session; before `initialize` as 2025-06-18

- While an `initialize` is being answered, what follows it waits: it may depend on what is agreed.
- A connection that was opened with extensions begins with a hello for them; its outcome counts for requests without a
  hello of their own.
- `notifications/cancelled` ends the work, also while its hello is negotiated, and nothing more is sent for it.
- In 2025-03-26 the answers to a batch leave as one array, once the last of them is there.
- A response to no open question is dropped.

Effects are bytes to write; `RunningRequest`, a request to start; `Greet`, a hello to negotiate; `Drop`, work to cancel; `PeerAnswered`,
an answer to a question of ours; `Exit`, the client wants us to end.
"""

from collections import deque
from typing import Any, Final

from msgspec import Struct

from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.context import HandshakeResult, McpClient, client_of, is_modern, meta_of
from comity.mcp.protocol.methods import RunningRequest, Server, begin, finished, resource_not_found
from comity.mcp.protocol.results import (
    BATCHES,
    InputRequired,
    Json,
    McpError,
    invalid_params,
    invalid_request,
)
from comity.mcp.protocol.session import (
    KEPT_METHODS,
    McpSession,
    initialize_result,
    introduced,
    without_handshake,
)
from comity.requests.caller import Caller
from comity.wire import strict_json
from comity.wire.errors import ComityError, DeadlineError, NotFoundError, PeerError, RetryLaterError
from comity.wire.jsonrpc import (
    INTERNAL_ERROR,
    Batch,
    Id,
    Incoming,
    Invalid,
    Notification,
    Response,
    RpcError,
    RpcRequest,
    error_bytes,
)

# Answers as bytes: results and errors around the id they belong to.


INTERNAL = RpcError(INTERNAL_ERROR, "Internal error; the log of this node says why")
_NOT_OF_THE_CLIENT: Final = (DeadlineError, PeerError, RetryLaterError)
"""Nothing was wrong with the request."""


def around(id_: Id, result: bytes) -> bytes:
    """Return the answer to `id_` around a result in bytes."""
    number = b"%d" % id_ if type(id_) is int else strict_json.dumps(id_)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (number, result)


def result_of(server: Server, work: RunningRequest, answer: Any, reply: Json | None = None) -> bytes:
    """Return the result of an answer. `reply` answers a hello in the request."""
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
    """Encode a result that is in its shape already."""
    return strict_json.dumps(server.with_reply(finished(server, work.client, result), reply))


def with_reply(server: Server, result: bytes, reply: Json | None) -> bytes:
    """Write the answer to a hello into an encoded result."""
    return result if reply is None else strict_json.dumps(server.with_reply(strict_json.loads(result), reply))


def refusal(work: RunningRequest, error: Exception) -> RpcError:
    """Return the JSON-RPC error for an exception. Details of unexpected exceptions are not shown to the client."""
    if isinstance(error, McpError):
        return error.rpc
    if isinstance(error, NotFoundError) and work.method == "resources/read":
        return resource_not_found(work.client, str(work.params.get("uri"))).rpc
    if isinstance(error, _NOT_OF_THE_CLIENT):
        return RpcError(INTERNAL_ERROR, error.message)
    if isinstance(error, ComityError):
        return invalid_params(error.message).rpc
    return INTERNAL


def refused(id_: Id | None, error: RpcError) -> bytes:
    return error_bytes(id_, error)


MAX_RUNNING: Final = 1024
MAX_HELD: Final = 1024


class Greet(Struct, frozen=True):
    """Negotiate, and call `greeted` with the outcome. `request` is None for the hello of the connection itself."""

    request: RpcRequest | None
    hello: Any
    client: McpClient
    batch: "BatchAnswers | None" = None


class Drop(Struct, frozen=True):
    work: RunningRequest


class PeerAnswered(Struct, frozen=True):
    response: Response


class Shutdown(Struct, frozen=True):
    """End what this connection opened; the connection itself stays."""


class Exit(Struct, frozen=True):
    pass


Effect = bytes | RunningRequest | Greet | Drop | PeerAnswered | Shutdown | Exit


class BatchAnswers:
    """Collects the answers to a batch until they are complete."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self._answers: list[bytes] = []

    def add(self, answer: bytes) -> bytes | None:
        self._answers.append(answer)
        return self._whole()

    def less(self) -> bytes | None:
        """Expect one answer less."""
        self._expected -= 1
        return self._whole()

    def _whole(self) -> bytes | None:
        if len(self._answers) < self._expected or not self._answers:
            return None
        return b"[" + b",".join(self._answers) + b"]"


class McpConversation:
    def __init__(self, server: Server, selection: Selection, *, caller: Caller) -> None:
        self.server = server
        self.selection = selection
        self.session = McpSession(without_handshake(caller))
        self._caller = caller
        self._to_say: Json | None = None
        if selection.vcp and server.handshake is not None:
            self._to_say = server.handshake.hello_for(selection.vcp)
        self._given: HandshakeResult | None = None
        self._initialized = False
        self._greeting = False
        self._held: deque[Incoming] = deque()
        self._running: dict[Id, RunningRequest] = {}
        self._greeted: dict[Id, Greet] = {}
        self._gathering: dict[Id, BatchAnswers] = {}
        self._replies: dict[Id, Json] = {}

    @property
    def batches(self) -> bool:
        """Return whether the next message may be a batch."""
        return self.session.client.version in BATCHES

    @property
    def attached(self) -> tuple[Any, ...]:
        """Return what the hellos of the connection have agreed on."""
        given = None if self._given is None else self._given.attached
        own = self.session.client.attached
        return tuple(one for one in (given, None if own is given else own) if one is not None)

    @property
    def initialized(self) -> bool:
        return self._initialized

    @property
    def running(self) -> int:
        return len(self._running)

    def is_running(self, work: RunningRequest) -> bool:
        return self._running.get(work.id) is work

    def receive(self, message: Incoming) -> list[Effect]:
        if self._to_say is not None:
            hello, self._to_say = self._to_say, None
            self._greeting = True
            self._held.append(message)
            return [Greet(None, hello, self.session.client)]
        if self._greeting:
            if len(self._held) >= MAX_HELD:
                return self._overflowing(message)
            self._held.append(message)
            return []
        if type(message) is RpcRequest:
            return self._request(message, None)
        return self._other(message)

    def greeted(self, greet: Greet, negotiated: HandshakeResult) -> list[Effect]:
        """Go on with the request whose hello has been negotiated."""
        request = greet.request
        if request is None:
            self._given = negotiated
            self.session.client = negotiated.agreed(self.session.client)
            return self._process_held([])
        if greet.client.modern:
            if self._greeted.get(request.id) is not greet:
                return []  # cancelled meanwhile
            del self._greeted[request.id]
            return self._begin(request, negotiated.agreed(greet.client), greet.batch, negotiated.reply)
        return self._process_held([*self._initialized_answer(request, negotiated, greet.batch)])

    def _process_held(self, effects: list[Effect]) -> list[Effect]:
        """Process the messages that waited for a hello."""
        self._greeting = False
        while self._held and not self._greeting:
            effects += self.receive(self._held.popleft())
        return effects

    def finish(self, work: RunningRequest, result: bytes) -> bytes | None:
        """Return the response to write; None if the client no longer waits for it."""
        return self._deliver(work.id, around(work.id, result), work)

    def refuse(self, work: RunningRequest, error: RpcError) -> bytes | None:
        return self._deliver(work.id, refused(work.id, error), work)

    def reply_of(self, work: RunningRequest) -> Json | None:
        """Return the answer to the hello of a request."""
        return self._replies.get(work.id)

    def _deliver(self, id_: Id, answer: bytes, work: RunningRequest) -> bytes | None:
        if self._running.get(id_) is not work:
            return None
        del self._running[id_]
        if self._replies:
            self._replies.pop(id_, None)
        gathering = self._gathering.pop(id_, None) if self._gathering else None
        return answer if gathering is None else gathering.add(answer)

    def _request(self, request: RpcRequest, batch: BatchAnswers | None) -> list[Effect]:
        if request.method == "initialize":
            return self._initialize(request, batch)
        params = request.params
        client = self.session.client
        if type(params) is dict and "_meta" in params and is_modern(params):
            meta = meta_of(params)
            try:
                client = client_of(meta, self._caller)
            except McpError as refusal:
                return self._answer(refused(request.id, refusal.rpc), batch)
            hello = self.server.hello_in_request(meta)
            if hello is not None:
                return self._negotiate(Greet(request, hello, client, batch))
            if self._given is not None:
                client = self._given.agreed(client)
        return self._begin(request, client, batch)

    def _negotiate(self, greet: Greet) -> list[Effect]:
        assert greet.request is not None
        id_ = greet.request.id
        try:
            self._admit(id_)
        except McpError as refusal:
            return self._answer(refused(id_, refusal.rpc), greet.batch)
        self._greeted[id_] = greet
        return [greet]

    def _admit(self, id_: Id) -> None:
        if id_ in self._running or id_ in self._greeted:
            raise invalid_request("a request with this id is still being worked on; ids are used once")
        if len(self._running) + len(self._greeted) >= MAX_RUNNING:
            raise invalid_request(f"more than {MAX_RUNNING} requests at once; wait for answers")

    def _begin(
        self, request: RpcRequest, client: McpClient, batch: BatchAnswers | None, reply: Json | None = None
    ) -> list[Effect]:
        id_ = request.id
        try:
            begun = begin(self.server, self.selection, client, request)
            if type(begun) is bytes:
                if request.method in KEPT_METHODS:
                    self.session.apply_setting(request)
                return self._ready(request, begun, batch, reply)
            assert isinstance(begun, RunningRequest)
            self._admit(id_)
        except McpError as refusal:
            return self._answer(refused(id_, refusal.rpc), batch)
        self._running[id_] = begun
        if reply is not None:
            self._replies[id_] = reply
        if batch is not None:
            self._gathering[id_] = batch
        return [begun]

    def _ready(
        self, request: RpcRequest, result: bytes, batch: BatchAnswers | None, reply: Json | None
    ) -> list[Effect]:
        effects = self._answer(around(request.id, with_reply(self.server, result, reply)), batch)
        if request.method == "shutdown":
            effects.insert(0, Shutdown())
        return effects

    def _initialize(self, request: RpcRequest, batch: BatchAnswers | None) -> list[Effect]:
        if not isinstance(request.params, dict | None):
            return self._answer(refused(request.id, invalid_params("params must be an object").rpc), batch)
        if self._initialized:
            why = invalid_request("this connection is initialised already; open a new one to negotiate again")
            return self._answer(refused(request.id, why.rpc), batch)
        self._initialized = True
        params = request.params or {}
        hello = self.server.hello_in_initialize(params)
        if hello is None:
            return self._initialized_answer(request, None, batch)
        self._greeting = True
        return [Greet(request, hello, introduced(params, self._caller, None), batch)]

    def _initialized_answer(
        self, request: RpcRequest, negotiated: HandshakeResult | None, batch: BatchAnswers | None
    ) -> list[Effect]:
        params = request.params if isinstance(request.params, dict) else {}
        self.session.client = introduced(params, self._caller, negotiated or self._given)
        result = initialize_result(self.server, self.selection, self.session.client, negotiated)
        return self._answer(around(request.id, result), batch)

    def _other(self, message: Incoming) -> list[Effect]:
        if isinstance(message, Notification):
            return self._notified(message)
        if isinstance(message, Response):
            return [PeerAnswered(message)]
        if isinstance(message, Batch):
            return self._batch(message)
        assert isinstance(message, Invalid)
        return [refused(message.id, message.error)]

    def _notified(self, message: Notification) -> list[Effect]:
        if message.method == "exit":
            return [Exit()]
        if message.method == "notifications/cancelled" and isinstance(message.params, dict):
            wanted = message.params.get("requestId")
            if isinstance(wanted, str | int | float) and not isinstance(wanted, bool):
                return self._cancel(wanted)
        return []

    def _cancel(self, id_: Id) -> list[Effect]:
        work, greet = self._running.pop(id_, None), self._greeted.pop(id_, None)
        if work is None and greet is None:
            return []
        self._replies.pop(id_, None)
        gathering = self._gathering.pop(id_, None) if greet is None else greet.batch
        whole = None if gathering is None else gathering.less()
        dropped: list[Effect] = [] if work is None else [Drop(work)]
        return dropped if whole is None else [*dropped, whole]

    def _batch(self, batch: Batch) -> list[Effect]:
        gathering = BatchAnswers(sum(isinstance(item, RpcRequest | Invalid) for item in batch.items))
        effects: list[Effect] = []
        for item in batch.items:
            if isinstance(item, RpcRequest):
                effects += self._request(item, gathering)
            elif isinstance(item, Invalid):
                effects += self._answer(refused(item.id, item.error), gathering)
            else:
                effects += self._other(item)
        return effects

    def _answer(self, answer: bytes, batch: BatchAnswers | None) -> list[Effect]:
        if batch is None:
            return [answer]
        whole = batch.add(answer)
        return [] if whole is None else [whole]

    def _overflowing(self, message: Incoming) -> list[Effect]:
        if isinstance(message, RpcRequest):
            refusal = invalid_request("too many messages before initialize is answered")
            return [refused(message.id, refusal.rpc)]
        return [refused(message.id, message.error)] if isinstance(message, Invalid) else []
