"""MCP at one HTTP endpoint, both eras: legacy sessions and modern requests that stand alone.

    POST     a message; answered as JSON, or as a stream of events once there is more to say than the answer
    GET      the stream of a legacy session, or one of its streams taken up again (`Last-Event-ID`)
    DELETE   the end of a legacy session

- Token, Host, Origin and the size of the body were checked before (`http/guard.py`).
- In the legacy era a lost connection cancels nothing: the answer waits in its stream. In the modern era a
  closed response is how a client cancels.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from contextlib import aclosing
from typing import Any, Final, TypeVar

from msgspec import Struct

from comity.http.asgi import (
    Disconnected,
    Headers,
    Receive,
    Scope,
    Send,
    answer,
    answer_at_once,
    content_type,
    disconnected,
    read_body,
    send_part,
    start_event_stream,
    when_to_retry,
)
from comity.http.guard import caller_of
from comity.mcp.calls import McpCalls, Outcome
from comity.mcp.protocol import http_rules
from comity.mcp.protocol.catalog import Selection
from comity.mcp.protocol.context import HandshakeResult, McpClient, client_of, meta_of
from comity.mcp.protocol.conversation import INTERNAL, MAX_RUNNING, around, refused, with_reply
from comity.mcp.protocol.http_rules import McpHeaders
from comity.mcp.protocol.methods import RunningRequest, begin
from comity.mcp.protocol.results import (
    BATCHES,
    InputRequest,
    Json,
    McpError,
    NotAcceptableError,
    invalid_params,
    invalid_request,
    status_of,
    unsupported_version,
)
from comity.mcp.protocol.session import (
    KEPT_METHODS,
    McpSession,
    check_introduction,
    initialize_result,
    introduced,
)
from comity.mcp.sessions import HttpSession, Sessions
from comity.mcp.stream import Negotiate, warn_of_differing_hellos
from comity.mcp.streams import EventStream, Following
from comity.requests.record import Recorder
from comity.wire import jsonrpc
from comity.wire.errors import ComityError, http_status, public_message
from comity.wire.jsonrpc import Batch, Id, Incoming, Invalid, Notification, Response, RpcError, RpcRequest

# How an exchange over HTTP is answered: with one JSON body, or with a stream of events.


log = logging.getLogger("comity.mcp")

RETRY_MS: Final = 1000
SILENCE: Final = 5.0
"""Seconds after which a silent answer becomes a stream with keepalives."""


class HttpResponder:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send

    async def with_body(self, status: int, body: bytes, headers: Headers = ()) -> None:
        if status == 200 and not headers:
            await answer_at_once(self._scope, self._send, body)
        else:
            await answer(self._send, status, body, headers=headers)

    async def refuse(self, id_: Id | None, error: RpcError, status: int, headers: Headers = ()) -> None:
        await refuse(self._send, id_, error, status, headers)

    async def say(self, request: RpcRequest, outcome: Outcome, *, legacy: bool = False) -> None:
        status = 200 if legacy or isinstance(outcome, bytes) else status_of(outcome.code)
        await self.with_body(status, spoken(request, outcome))

    async def until_done(
        self,
        request: RpcRequest,
        stream: EventStream,
        work: "asyncio.Task[Outcome | None]",
        *,
        with_ids: bool,
        primed: bool = False,
    ) -> None:
        """Answer with the outcome of the work: as JSON if there was no other message, else as a stream."""
        gone = asyncio.ensure_future(disconnected(self._receive))
        first = asyncio.ensure_future(stream.wait())
        try:
            await asyncio.wait((first, gone), timeout=SILENCE, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if work.done() and stream.last <= 1:
                outcome = None if work.cancelled() else work.result()
                if outcome is None:  # cancelled by the client: there is nothing to say
                    await answer(self._send, 202, b"")
                else:
                    await self.say(request, outcome, legacy=with_ids)
                return
            events = stream.follow(with_ids=with_ids)
            await self._until_gone(events, _primed(stream, 0) if primed else b"", gone)
        finally:
            first.cancel()
            gone.cancel()

    async def follow(self, stream: EventStream, after: int, *, primed: bool, take_over: bool) -> None:
        """Answer with a stream from a place on, until it ends or the client disconnects. A client that comes back may take
        over from its former connection.
        """
        events = stream.follow(after, take_over=take_over)  # a refusal comes before anything is written
        gone = asyncio.ensure_future(disconnected(self._receive))
        try:
            await self._until_gone(events, _primed(stream, after) if primed else b"", gone)
        finally:
            gone.cancel()

    async def _until_gone(self, events: Following, start: bytes, gone: "asyncio.Task[None]") -> None:
        async with aclosing(events):
            writing = asyncio.ensure_future(self._write(start, events))
            try:
                await asyncio.wait((writing, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancelled(writing)

    async def _write(self, start: bytes, events: Following) -> None:
        await start_event_stream(self._send)
        await send_part(self._send, start)  # also when it is empty: the head leaves at once
        async for event in events:
            await send_part(self._send, event)
        await self._send({"type": "http.response.body", "body": b""})


def _primed(stream: EventStream, after: int) -> bytes:
    """Return an event with only an id, with which a client can come back before the first message."""
    return jsonrpc.priming(jsonrpc.event_id(stream.name, after), RETRY_MS)


def spoken(request: RpcRequest, outcome: Outcome) -> bytes:
    return around(request.id, outcome) if isinstance(outcome, bytes) else refused(request.id, outcome)


async def cancelled(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and (fault := task.exception()) is not None:
        log.debug("a response ended early: %s", fault)


async def refuse(send: Send, id_: Id | None, error: RpcError, status: int, headers: Headers = ()) -> None:
    await answer(send, status, refused(id_, error), headers=headers)


_T = TypeVar("_T")

MCP_PATH: Final = "/mcp"
SERVER_ERROR: Final = 500
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
LEAVING_SECONDS: Final = 1.0
"""How long a new reader of a stream waits for the former one to disconnect."""
PRIMED: Final = "2025-11-25"
"""Since this revision streams begin with an event that has only an id."""


class McpEndpoint(Struct, frozen=True, kw_only=True):
    calls: McpCalls
    sessions: Sessions
    negotiate: Negotiate
    body_limit: int
    record: Recorder
    selection: Selection = Selection()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = _Exchange(self, scope, receive, send)
        try:
            await exchange.serve()
        except (Disconnected, ConnectionError):
            return
        except McpError as refusal:
            self.record.refuse_once("mcp", refusal)
            await refuse(send, exchange.asked, refusal.rpc, refusal.status)
        except ComityError as refusal:
            self.record.refuse_once("mcp", refusal)
            status = http_status(refusal)
            code = jsonrpc.INVALID_REQUEST if status < SERVER_ERROR else jsonrpc.INTERNAL_ERROR
            error = RpcError(code, public_message(refusal))
            await refuse(send, exchange.asked, error, status, [*when_to_retry(refusal)])
        except Exception:  # an unexpected fault of a handler
            log.exception("a message could not be answered")
            await refuse(send, exchange.asked, INTERNAL, SERVER_ERROR)


class _Exchange:
    """One HTTP request and its response. `asked` is the id that an answer has to carry."""

    def __init__(self, endpoint: McpEndpoint, scope: Scope, receive: Receive, send: Send) -> None:
        self._endpoint = endpoint
        self._scope = scope
        self._receive = receive
        self._respond = HttpResponder(scope, receive, send)
        self._caller = caller_of(scope)
        self.asked: Id | None = None

    async def serve(self) -> None:
        method = self._scope["method"]
        if method == "POST":
            await self._post()
        elif method in ("GET", "DELETE"):
            headers = http_rules.read_headers(self._scope["headers"])
            if headers.modern or headers.session is None:
                await self._not_allowed()
            elif method == "GET":
                await self._get(headers)
            else:
                await self._endpoint.sessions.end(headers.session, self._caller.owner)
                await self._respond.with_body(200, b"")
        else:
            await self._not_allowed()

    async def _not_allowed(self) -> None:
        error = invalid_request("this endpoint takes POST; GET and DELETE belong to a session").rpc
        await self._respond.refuse(None, error, 405, [(b"allow", b"POST, GET, DELETE")])

    async def _post(self) -> None:
        if content_type(self._scope) != JSON:
            error = invalid_request("the body must be application/json; say so in Content-Type").rpc
            await self._respond.refuse(None, error, 415)
            return
        body = await read_body(self._scope, self._receive, self._endpoint.body_limit)
        headers = http_rules.read_headers(self._scope["headers"])
        message = jsonrpc.parse(body, batches=not headers.modern)
        if isinstance(message, RpcRequest):
            self.asked = message.id
        if isinstance(message, Invalid):
            self._endpoint.record.refuse("mcp", "malformed")
            await self._respond.refuse(message.id, message.error, 400)
        elif headers.unknown_version:
            raise unsupported_version(headers.version)
        elif headers.modern:
            await self._modern(headers, message)
        else:
            await self._legacy(headers, message)

    # the modern era

    async def _modern(self, headers: McpHeaders, message: Incoming) -> None:
        if isinstance(message, Notification):
            await self._respond.with_body(202, b"")
            return
        if not isinstance(message, RpcRequest):
            raise invalid_request("a modern client sends one request at a time, and no responses")
        client, reply = await self._client(headers, message)
        begun = self._begin(headers, message, client)
        if isinstance(begun, bytes):
            result = with_reply(self._endpoint.calls.server, begun, reply)
            await self._respond.with_body(200, around(message.id, result))
            return
        stream = EventStream("")
        outcome = self._endpoint.calls.start(begun, _HttpOutlet(stream, None), reply)
        if not isinstance(outcome, Coroutine):
            await self._respond.say(message, outcome)
            return
        work = asyncio.ensure_future(_into(stream, message, outcome))
        try:
            await self._respond.until_done(message, stream, work, with_ids=False)
        finally:
            await cancelled(work)

    async def _client(self, headers: McpHeaders, request: RpcRequest) -> tuple[McpClient, Json | None]:
        http_rules.check_era(headers, request)
        meta = meta_of(request.params)
        client = client_of(meta, self._caller)
        http_rules.check_repeats(headers, request)
        hello = self._endpoint.calls.server.hello_in_request(meta)
        if hello is None:
            return client, None
        negotiated = await self._endpoint.negotiate(hello, client)
        return negotiated.agreed(client), negotiated.reply

    def _begin(self, headers: McpHeaders, request: RpcRequest, client: McpClient) -> bytes | RunningRequest:
        begun = begin(self._endpoint.calls.server, self._endpoint.selection, client, request)
        if isinstance(begun, RunningRequest) and begun.tool is not None and begun.tool.mirrored:
            http_rules.check_mirrored(headers, begun.tool, begun.params.get("arguments", {}))
        return begun

    # the legacy era

    async def _legacy(self, headers: McpHeaders, message: Incoming) -> None:
        self._check_accept(JSON, EVENTS)
        if isinstance(message, RpcRequest):
            http_rules.check_era(headers, message)
            if message.method == "initialize":
                await self._initialize(headers, message)
                return
        if headers.session is None:
            raise invalid_request("send initialize first, then its Mcp-Session-Id with each message")
        held = await self._endpoint.sessions.get(headers.session, self._caller.owner)
        if isinstance(message, Batch):
            if held.session.client.version not in BATCHES:
                raise invalid_request("a message is one JSON object; batches are of 2025-03-26 only")
            await self._batch(held, message)
        elif isinstance(message, RpcRequest):
            await self._request(held, message)
        else:
            self._take_unanswered(held, message)
            await self._respond.with_body(202, b"")

    def _check_accept(self, *forms: str) -> None:
        lines = [value.decode("latin-1") for name, value in self._scope["headers"] if name == b"accept"]
        accepted = ",".join(lines) if lines else None
        if not all(http_rules.accepts(accepted, form) for form in forms):
            raise NotAcceptableError

    async def _initialize(self, headers: McpHeaders, request: RpcRequest) -> None:
        if headers.session is not None:
            error = invalid_request(
                "this session is initialised already; leave Mcp-Session-Id out for a new one"
            )
            await self._respond.refuse(request.id, error.rpc, 400)
            return
        params = {} if request.params is None else request.params
        if not isinstance(params, dict):
            await self._respond.refuse(request.id, invalid_params("params must be an object").rpc, 200)
            return
        check_introduction(params)
        hello = self._endpoint.calls.server.hello_in_initialize(params)
        negotiated: HandshakeResult | None = None
        if hello is not None:
            warn_of_differing_hellos(self._endpoint.calls.server, request)
            client = introduced(params, self._caller, None)
            negotiated = await self._endpoint.negotiate(hello, client)
        session = McpSession(introduced(params, self._caller, negotiated))
        held = await self._endpoint.sessions.begin(session)
        result = initialize_result(
            self._endpoint.calls.server, self._endpoint.selection, session.client, negotiated
        )
        session_header = (http_rules.SESSION, held.id.encode())
        await self._respond.with_body(200, around(request.id, result), headers=[session_header])

    async def _request(self, held: HttpSession, request: RpcRequest) -> None:
        try:
            begun = await self._begun(held, request)
        except McpError as refusal:
            await self._respond.refuse(request.id, refusal.rpc, 200)
            return
        if isinstance(begun, bytes):
            await self._respond.with_body(200, around(request.id, begun))
            return
        stream = held.new_stream()
        outcome = self._endpoint.calls.start(begun, _HttpOutlet(stream, held))
        if not isinstance(outcome, Coroutine):
            held.forget_stream(stream)
            await self._respond.say(request, outcome, legacy=True)
            return
        work = _run(held, begun, _into(stream, request, outcome))
        primed = held.session.client.version >= PRIMED
        await self._respond.until_done(request, stream, work, with_ids=True, primed=primed)
        if not stream.streamed:  # no client has an id to resume it with
            work.add_done_callback(lambda _: held.forget_stream(stream))

    async def _batch(self, held: HttpSession, batch: Batch) -> None:
        """Answer a batch with one body. Its other messages go to the general stream."""
        waiting: list[Awaitable[bytes | None]] = []
        for item in batch.items:
            if isinstance(item, RpcRequest):
                waiting.append(self._one_of_batch(held, item))
            elif isinstance(item, Invalid):
                waiting.append(_ready(refused(item.id, item.error)))
            else:
                self._take_unanswered(held, item)
        answers = [answer for answer in await asyncio.gather(*waiting) if answer is not None]
        if answers:
            await self._respond.with_body(200, b"[" + b",".join(answers) + b"]")
        else:
            await self._respond.with_body(202, b"")

    async def _one_of_batch(self, held: HttpSession, request: RpcRequest) -> bytes | None:
        """Return the answer to one request of a batch; None if the client has cancelled it."""
        try:
            begun = await self._begun(held, request)
        except McpError as refusal:
            return refused(request.id, refusal.rpc)
        if isinstance(begun, bytes):
            return around(request.id, begun)
        outcome = self._endpoint.calls.start(begun, _HttpOutlet(held.general, held))
        if isinstance(outcome, Coroutine):
            work = _run(held, begun, outcome)
            await asyncio.wait([work])
            if work.cancelled():
                return None
            outcome = work.result()
        return spoken(request, outcome)

    async def _begun(self, held: HttpSession, request: RpcRequest) -> bytes | RunningRequest:
        begun = begin(self._endpoint.calls.server, self._endpoint.selection, held.session.client, request)
        if isinstance(begun, RunningRequest):
            if request.id in held.running:
                raise invalid_request("a request with this id is still being worked on; ids are used once")
            if len(held.running) >= MAX_RUNNING:
                raise invalid_request(f"more than {MAX_RUNNING} requests at once; wait for answers")
        elif request.method in KEPT_METHODS:
            held.session.apply_setting(request)
            await self._endpoint.sessions.keep(held)
        return begun

    def _take_unanswered(self, held: HttpSession, message: Incoming) -> None:
        if isinstance(message, Response):
            held.questions.answered(message)
        elif isinstance(message, Notification) and message.method == "notifications/cancelled":
            params = message.params if isinstance(message.params, dict) else {}
            held.cancel(params.get("requestId"))

    async def _get(self, headers: McpHeaders) -> None:
        self._check_accept(EVENTS)
        assert headers.session is not None
        held = await self._endpoint.sessions.get(headers.session, self._caller.owner)
        if headers.last_event is None:
            stream = held.general
            await stream.wait_for_leaving(LEAVING_SECONDS)
            after = stream.last
        else:
            place = jsonrpc.place_of(headers.last_event)
            if place is None:
                raise invalid_request("Last-Event-ID is not one of ours")
            stream, after = held.resume(*place)
        primed = held.session.client.version >= PRIMED and stream is held.general
        resumed = headers.last_event is not None
        await self._respond.follow(stream, after, primed=primed, take_over=resumed)


class _HttpOutlet:
    __slots__ = ("_held", "_stream", "connection")

    def __init__(self, stream: EventStream, held: HttpSession | None) -> None:
        self._stream = stream
        self._held = held
        self.connection = "" if held is None else held.id

    @property
    def session(self) -> McpSession | None:
        return None if self._held is None else self._held.session

    def send(self, message: bytes) -> None:
        self._stream.add(message)

    async def ask(self, request: InputRequest) -> Any:
        assert self._held is not None
        return await self._held.questions.ask(request, self._stream.add)

    async def release(self) -> None:
        """Disconnect a client that can come back, with the id that the stream began with."""
        if self._held is not None and self._held.session.client.version >= PRIMED:
            self._stream.release()


async def _into(
    stream: EventStream, request: RpcRequest, running: Coroutine[Any, Any, Outcome]
) -> Outcome | None:
    """Run the work, and add its outcome as the last message of the stream."""
    try:
        outcome = await running
        stream.add(spoken(request, outcome))
    except asyncio.CancelledError:
        return None
    else:
        return outcome
    finally:
        stream.end()


def _run(held: HttpSession, work: RunningRequest, running: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
    """Run it as a call of the session, which the client can cancel and which ends with the session."""
    task = asyncio.ensure_future(running)
    held.running[work.id] = work, task

    def over(_: object) -> None:
        if held.running.get(work.id, (None, None))[1] is task:  # a cancelled one may have a successor
            del held.running[work.id]

    task.add_done_callback(over)
    return task


async def _ready(body: bytes) -> bytes:
    return body
