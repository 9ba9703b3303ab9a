"""Runs what a conversation or an HTTP request asks for, and makes the result of it.

- A handler that is a plain function runs at once, without a task. A handler that waits is a coroutine. The code that owns
  the connection runs it, with the timeout of its tool.
- In the legacy era, a question to the client is a message. In the modern era it is the result of the call, together with
  the encrypted state so far. The client repeats the request with the answers, and the handler runs again.
- A refusal of a tool is an error of the tool, which the model reads. Internal errors go to the log.
- Calls that change nothing are counted and audited without waiting (ruling 23). A call that changes state runs through
  the pipeline in its own handler.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from comity.mcp.protocol import conversation
from comity.mcp.protocol.context import LEVELS, LogLevel, McpClient
from comity.mcp.protocol.methods import Listen, RunningRequest, Server, TaskRequest
from comity.mcp.protocol.results import (
    META_SUBSCRIPTION,
    InputRequest,
    InputRequired,
    Json,
    McpError,
    ToolResult,
    failed,
)
from comity.mcp.protocol.session import McpSession, Sealer, binding, demand, notification, question
from comity.mcp.protocol.tasks import MAX_SECONDS
from comity.mcp.streams import Changes
from comity.requests.caller import Caller
from comity.wire.errors import (
    ComityError,
    ConfigError,
    DeadlineError,
    KeyRefusedError,
    OverloadedError,
    PeerError,
    StoreError,
)
from comity.wire.jsonrpc import Response, RpcError
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.mcp.tasks import StoredTasks

# What a handler sees of its call: the Context of the core, on asyncio.


_MAX_NAME_LENGTH: Final = 64


class Outlet(Protocol):
    """Where messages about one request go while it is worked on. `session` is that of a legacy client, `connection`
    the name of the connection or session, empty where a request stands connection_name.
    """

    @property
    def connection(self) -> str: ...

    @property
    def session(self) -> McpSession | None: ...

    def send(self, message: bytes) -> None: ...

    async def ask(self, request: InputRequest) -> Any: ...

    async def release(self) -> None: ...


class InputNeededError(Exception):
    """Raised through a handler that asked in the modern era; it runs again with the answers."""

    def __init__(self, requests: Mapping[str, InputRequest]) -> None:
        super().__init__("the client has to be asked first")
        self.requests = requests


class Cancellation:
    def __init__(self) -> None:
        self._set = False
        self._callbacks: list[Callable[[], object]] = []

    def is_set(self) -> bool:
        return self._set

    def on_set(self, callback: Callable[[], object]) -> None:
        if self._set:
            callback()
        else:
            self._callbacks.append(callback)

    def set(self) -> None:
        self._set = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class CallContext:
    __slots__ = ("_outlet", "_state", "_work", "cancelled", "client", "input_state", "inputs")

    def __init__(
        self,
        work: RunningRequest,
        outlet: Outlet,
        *,
        inputs: Mapping[str, Any] | None = None,
        input_state: Any = None,
    ) -> None:
        self._work = work
        self._outlet = outlet
        self._state: dict[str, Any] | None = None
        self.client: McpClient = work.client
        self.inputs: Mapping[str, Any] = work.inputs if inputs is None else inputs
        self.input_state = input_state
        self.cancelled = Cancellation()

    @property
    def connection(self) -> str:
        client = self.client
        return f"{client.owner} {self._outlet.connection or connection_name(client)}"

    @property
    def demands(self) -> Any:
        return self._work.selection.demands

    @property
    def profile(self) -> str:
        return self._work.selection.profile

    @property
    def folder(self) -> str | None:
        return self._work.selection.folder

    @property
    def meta(self) -> Mapping[str, Any]:
        return self._work.meta

    @property
    def state(self) -> dict[str, Any]:
        session = self._outlet.session
        if session is not None:
            return session.state
        if self._state is None:
            self._state = {}
        return self._state

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        token = self._work.progress_token
        if token is None or self.cancelled.is_set():
            return
        params: dict[str, Any] = {"progressToken": token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._outlet.send(notification("notifications/progress", params))

    def log(self, level: LogLevel, data: Any, logger: str | None = None) -> None:
        if self.cancelled.is_set() or not self._logs(level):
            return
        params = {"level": level, **({"logger": logger} if logger else {}), "data": data}
        self._outlet.send(notification("notifications/message", params))

    @property
    def waits(self) -> bool:
        """Return whether the handler waits for answers; else it runs again with them."""
        return not self.client.modern

    def again(self, inputs: Mapping[str, Any], input_state: Any) -> "CallContext":
        """Return the context of the next round of the call; a cancellation ends all rounds."""
        context = CallContext(self._work, self._outlet, inputs=inputs, input_state=input_state)
        context.cancelled = self.cancelled
        return context

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, Any]:
        for request in requests.values():
            demand(self.client, request)
        if not self.waits:
            missing = {key: one for key, one in requests.items() if not _is_answer(self.inputs.get(key))}
            if missing:
                raise InputNeededError(missing)
            return {key: self.inputs[key] for key in requests}
        asking = [asyncio.ensure_future(self._outlet.ask(request)) for request in requests.values()]
        try:
            answers = await asyncio.gather(*asking)
        finally:
            for one in asking:  # when one is refused, the others are useless
                one.cancel()
        if not all(map(_is_answer, answers)):
            raise PeerError("the client answered with something that is no object")
        return dict(zip(requests, answers, strict=True))

    async def release_stream(self) -> None:
        await self._outlet.release()

    def _logs(self, level: LogLevel) -> bool:
        session = self._outlet.session
        if session is not None:
            return session.logs(level)
        wanted = self._work.log_level
        return wanted in LEVELS and LEVELS.index(level) >= LEVELS.index(wanted)


def connection_name(client: McpClient) -> str:
    """Name a client that has neither a connection nor a session of its own."""
    return f"{client.caller.address} {str(client.info.get('name'))[:_MAX_NAME_LENGTH]}"


def _is_answer(value: Any) -> bool:
    """Return whether a value can be an answer of a client: an object."""
    return isinstance(value, dict)


log = logging.getLogger("comity.mcp")

MAX_ROUNDS: Final = 16
_ANSWERS: Final = "answers"
_STATE: Final = "state"

_INSIDE: Final = (StoreError, ConfigError, KeyRefusedError)
"""These name files and settings of this node, so they go to the log."""

Outcome = bytes | RpcError
"""A result as bytes, or the error instead of one."""
Tally = Callable[[str, Caller, str], None]
"""Called for each call that changed nothing, with its name, its caller and its outcome."""


class _Answers(Struct, frozen=True):
    """The answers that `ask` has so far, as the state between two rounds."""

    given: Json


class McpCalls:
    def __init__(
        self,
        server: Server,
        clock: Clock,
        *,
        sealer: Sealer,
        changes: Changes,
        tally: Tally = lambda _label, _caller, _outcome: None,
        tasks: "StoredTasks | None" = None,
    ) -> None:
        self.server = server
        self.changes = changes
        self._clock = clock
        self._sealer = sealer
        self._tally = tally
        self._tasks = tasks

    def start(
        self, work: RunningRequest, outlet: Outlet, reply: Json | None = None
    ) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Return the outcome, or the coroutine of it. `reply` answers a VCP hello of the request."""
        if work.special is not None:
            if isinstance(work.special, Listen):
                return self._listen(work, work.special, outlet, reply)
            return self._about_task(work, work.special, reply)
        if work.as_task and self._tasks is not None:
            return self._as_task(work, self._tasks, reply)
        try:
            context = self._context(work, outlet)
            answer = work.start(context)
            if type(answer) is not ToolResult and isinstance(answer, (Awaitable, InputRequired)):
                return self._later(work, context, answer, reply)
            outcome = conversation.result_of(self.server, work, answer, reply)
        except Exception as fault:  # noqa: BLE001 - whatever a handler raises has an answer
            return self._fault(work, fault, reply)
        self._count(work, "error" if getattr(answer, "is_error", False) else "ok")
        return outcome

    async def _later(
        self, work: RunningRequest, context: CallContext, answer: Any, reply: Json | None = None
    ) -> Outcome:
        try:
            answer = await self._in_rounds(work, context, answer)
            if type(answer) is InputRequired:
                return self._ask_again(work, answer, reply)
            outcome = conversation.result_of(self.server, work, answer, reply)
        except asyncio.CancelledError:
            context.cancelled.set()
            self._count(work, "cancelled")
            raise
        except Exception as fault:  # noqa: BLE001 - same
            return self._fault(work, fault, reply)
        self._count(work, "error" if getattr(answer, "is_error", False) else "ok")
        return outcome

    async def _in_rounds(self, work: RunningRequest, context: CallContext, answer: Any) -> Any:
        """Run rounds until there is an answer, or a question that only a repeated request can answer."""
        try:
            async with asyncio.timeout(work.deadline) as limit:
                for _round in range(MAX_ROUNDS):
                    try:
                        answer = await answer if isinstance(answer, Awaitable) else answer
                    except InputNeededError as needed:
                        return InputRequired(needed.requests, _Answers(dict(context.inputs)))
                    if type(answer) is not InputRequired or not context.waits:
                        return answer
                    given = await context.ask(answer.requests)
                    state = None if answer.state is UNSET else answer.state
                    context = context.again(given, state)
                    answer = work.start(context)
                raise McpError(-32603, f"more than {MAX_ROUNDS} rounds of questions")
        except TimeoutError:
            if not limit.expired():
                raise
            context.cancelled.set()
            raise DeadlineError(
                f"{work.label} took longer than {work.deadline:g} seconds; try again later"
            ) from None

    def _context(self, work: RunningRequest, outlet: Outlet) -> CallContext:
        if not work.client.modern or work.params.get("requestState") is None:
            return CallContext(work, outlet)
        inputs, state = self._known(work)
        return CallContext(work, outlet, inputs=inputs, input_state=state)

    def _known(self, work: RunningRequest) -> tuple[Mapping[str, Any], Any]:
        """Return the answers and the state of earlier rounds of a modern request."""
        sealed = work.params.get("requestState")
        if sealed is None:
            return work.inputs, None
        bound = binding(work.client.owner, work.method, work.params)
        state = self._sealer.open(sealed, bound, self._clock.now())
        return {**state.get(_ANSWERS, {}), **work.inputs}, state.get(_STATE)

    def _ask_again(self, work: RunningRequest, asked: InputRequired, reply: Json | None) -> Outcome:
        for request in asked.requests.values():
            demand(work.client, request)
        sealed = None
        if asked.state is not UNSET:
            bound = binding(work.client.owner, work.method, work.params)
            state = asked.state
            held = {_ANSWERS: state.given} if isinstance(state, _Answers) else {_STATE: state}
            sealed = self._sealer.seal(held, bound, self._clock.now())
        self._count(work, "asked")
        return conversation.input_required(self.server, work, asked, sealed, reply)

    async def _listen(
        self, work: RunningRequest, listen: Listen, outlet: Outlet, reply: Json | None
    ) -> Outcome:
        """Serve a subscription until it is cancelled."""

        def wanted(kind: str, name: str) -> bool:
            if kind == "resource":
                return name in listen.uris
            if kind == "task":
                return name in listen.tasks
            return bool(getattr(listen, name))

        def notify(method: str, params: Json) -> None:
            meta = {**params.get("_meta", {}), META_SUBSCRIPTION: work.id}
            outlet.send(notification(method, {**params, "_meta": meta}))

        try:
            owned = () if self._tasks is None else await self._tasks.known(listen.tasks, work.client.owner)
            listen = replace(listen, tasks=owned)
            with self.changes.subscribe(wanted, notify):
                notify("notifications/subscriptions/acknowledged", {"notifications": listen.to_json()})
                await self.changes.closing.wait()
        except ComityError as fault:
            return self._fault(work, fault, None)
        self._count(work, "ok")
        return conversation.complete(self.server, work, {"_meta": {META_SUBSCRIPTION: work.id}}, reply)

    async def _as_task(self, work: RunningRequest, tasks: "StoredTasks", reply: Json | None) -> Outcome:
        """Return an answer that is there at once; make a task of a call that has to wait."""
        answer: Any = None
        try:
            inputs, state = self._known(work)
            context = tasks.context(work, inputs=inputs, input_state=state)
            answer = work.start(context)
            if type(answer) is InputRequired:
                return self._ask_again(work, answer, reply)
            if not isinstance(answer, Awaitable):
                outcome = conversation.result_of(self.server, work, answer, reply)
                self._count(work, "error" if getattr(answer, "is_error", False) else "ok")
                return outcome
            work.deadline = MAX_SECONDS
            task = await tasks.begin(context, lambda: self._later(work, context, answer))
        except BaseException as fault:
            if isinstance(answer, Coroutine):
                answer.close()
            if not isinstance(fault, Exception):
                raise
            return self._fault(work, fault, reply)
        return conversation.complete(self.server, work, {**task, "resultType": "task"}, reply)

    async def _about_task(self, work: RunningRequest, request: TaskRequest, reply: Json | None) -> Outcome:
        assert self._tasks is not None
        try:
            answer = await self._tasks.answer(request, work.client.owner)
        except Exception as fault:  # noqa: BLE001 - same
            return self._fault(work, fault, None)
        self._count(work, "ok")
        return conversation.complete(self.server, work, answer, reply)

    def _fault(self, work: RunningRequest, fault: Exception, reply: Json | None) -> Outcome:
        self._count(work, fault.code if isinstance(fault, ComityError) else "internal")
        if isinstance(fault, McpError):
            if fault.__cause__ is not None:
                log.error("%s: %s", work.label, fault.__cause__)
            return fault.rpc
        ours = isinstance(fault, ComityError) and type(fault) is not ComityError
        if not ours or isinstance(fault, _INSIDE):
            log.error("%s failed", work.label, exc_info=fault)
            return conversation.INTERNAL
        if work.tool is not None:
            return conversation.result_of(self.server, work, failed(fault.message), reply)  # type: ignore[attr-defined]
        return conversation.refusal(work, fault)

    def _count(self, work: RunningRequest, outcome: str) -> None:
        if work.tool is None or work.tool.audit == "tally":
            self._tally(work.label, work.client.caller, outcome)


# Questions to a legacy client, and their answers.


MAX_OPEN: Final = 256


class ClientRefusedError(PeerError):
    """The client answered a question of ours with an error, or went away."""

    code = "client_refused"


class Questions:
    def __init__(self, prefix: str = "comity") -> None:
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._open: dict[str, asyncio.Future[Any]] = {}
        self._abandoned = False

    async def ask(self, request: InputRequest, send: Callable[[bytes], None]) -> Any:
        """Return the result of the client. If the caller stops waiting, tell the client that it is cancelled."""
        if self._abandoned:
            raise _client_gone()
        if len(self._open) >= MAX_OPEN:
            raise OverloadedError(f"{MAX_OPEN} questions to this client are open; let it answer first")
        id_ = f"{self._prefix}-{next(self._numbers)}"
        answer = self._open[id_] = asyncio.get_running_loop().create_future()
        try:
            send(question(id_, request))
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                send(
                    notification("notifications/cancelled", {"requestId": id_, "reason": "no longer needed"})
                )
            raise
        finally:
            self._open.pop(id_, None)

    def answered(self, response: Response) -> bool:
        """Deliver an answer. Return whether a question waited for it."""
        waiting = self._open.get(response.id) if isinstance(response.id, str) else None
        if waiting is None or waiting.done():
            return False
        if response.error is None:
            waiting.set_result(response.result)
        else:
            waiting.set_exception(ClientRefusedError(f"the client refused: {response.error.message[:200]}"))
        return True

    def abandon(self) -> None:
        """Refuse open and later questions, because the client is gone."""
        self._abandoned = True
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(_client_gone())


def _client_gone() -> ClientRefusedError:
    return ClientRefusedError("the client went away without an answer")
