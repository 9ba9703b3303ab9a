"""Runs what a conversation or an HTTP request asks for, and makes the result of it.

- A handler that is a plain function runs at once, without a task. A handler that waits is a coroutine. The code that owns
  the connection runs it, with the timeout of its tool.
- In the legacy era, a question to the client is a message. In the modern era it is the result of the call, together with
  the encrypted state so far. The client repeats the request with the answers, and the handler runs again.
- A refusal of a tool is an error of the tool, which the model reads. Internal errors go to the log.
- Calls that change nothing are counted and audited without waiting (ruling 23). A call that changes state takes the walk,
  in its own room.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct
from msgspec.structs import replace

from comity.mcp.changes import Changes
from comity.mcp.context import CallContext, InputNeededError, Outlet
from comity.mcp.protocol import answers
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.refusals import McpError
from comity.mcp.protocol.request_state import Sealer, binding
from comity.mcp.protocol.results import InputRequired, Json, ToolResult, failed
from comity.mcp.protocol.revisions import META_SUBSCRIPTION
from comity.mcp.protocol.session import demand, notification
from comity.mcp.protocol.tasks import LONGEST
from comity.mcp.protocol.work import Listen, RunningRequest, TaskRequest
from comity.requests.caller import Caller
from comity.wire.clock import Clock
from comity.wire.errors import ComityError, ConfigError, DeadlineError, KeyRefusedError, StoreError
from comity.wire.jsonrpc import RpcError

if TYPE_CHECKING:
    from comity.mcp.tasks import StoredTasks

log = logging.getLogger("comity.mcp")

MOST_ROUNDS: Final = 16
_ANSWERS: Final = "answers"
_STATE: Final = "state"

_INSIDE: Final = (StoreError, ConfigError, KeyRefusedError)
"""For the log: these name files and settings of this node."""

Outcome = bytes | RpcError
"""A result as bytes, or the error instead of one."""
Tally = Callable[[str, Caller, str], None]
"""Told of each call that changed nothing: what was called, by whom, how it ended."""


class _Answers(Struct, frozen=True):
    """What `ask` has been told so far, as the state between two rounds."""

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
        """The outcome, or the coroutine that gives it. `reply` answers a VCP hello of the request."""
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
            outcome = answers.result_of(self.server, work, answer, reply)
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
            outcome = answers.result_of(self.server, work, answer, reply)
        except asyncio.CancelledError:
            context.cancelled.set()
            self._count(work, "cancelled")
            raise
        except Exception as fault:  # noqa: BLE001 - same
            return self._fault(work, fault, reply)
        self._count(work, "error" if getattr(answer, "is_error", False) else "ok")
        return outcome

    async def _in_rounds(self, work: RunningRequest, context: CallContext, answer: Any) -> Any:
        """Until there is an answer, or a question that only a repeated request can answer."""
        try:
            async with asyncio.timeout(work.deadline) as limit:
                for _round in range(MOST_ROUNDS):
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
                raise McpError(-32603, f"more than {MOST_ROUNDS} rounds of questions")
        except TimeoutError:
            if not limit.expired():
                raise
            context.cancelled.set()
            raise DeadlineError(
                f"{work.label} took longer than {work.deadline:g} seconds; try again later"
            ) from None

    def _context(self, work: RunningRequest, outlet: Outlet) -> CallContext:
        if not work.asker.modern or work.params.get("requestState") is None:
            return CallContext(work, outlet)
        inputs, state = self._known(work)
        return CallContext(work, outlet, inputs=inputs, input_state=state)

    def _known(self, work: RunningRequest) -> tuple[Mapping[str, Any], Any]:
        """What earlier rounds of a modern request have brought."""
        sealed = work.params.get("requestState")
        if sealed is None:
            return work.inputs, None
        bound = binding(work.asker.owner, work.method, work.params)
        state = self._sealer.open(sealed, bound, self._clock.now())
        return {**state.get(_ANSWERS, {}), **work.inputs}, state.get(_STATE)

    def _ask_again(self, work: RunningRequest, asked: InputRequired, reply: Json | None) -> Outcome:
        for request in asked.requests.values():
            demand(work.asker, request)
        sealed = None
        if asked.state is not UNSET:
            bound = binding(work.asker.owner, work.method, work.params)
            state = asked.state
            held = {_ANSWERS: state.given} if isinstance(state, _Answers) else {_STATE: state}
            sealed = self._sealer.seal(held, bound, self._clock.now())
        self._count(work, "asked")
        return answers.input_required(self.server, work, asked, sealed, reply)

    async def _listen(
        self, work: RunningRequest, listen: Listen, outlet: Outlet, reply: Json | None
    ) -> Outcome:
        """The subscription lasts until it is cancelled."""

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
            owned = () if self._tasks is None else await self._tasks.known(listen.tasks, work.asker.owner)
            listen = replace(listen, tasks=owned)
            with self.changes.subscribe(wanted, notify):
                notify("notifications/subscriptions/acknowledged", {"notifications": listen.to_json()})
                await self.changes.closing.wait()
        except ComityError as fault:
            return self._fault(work, fault, None)
        self._count(work, "ok")
        return answers.complete(self.server, work, {"_meta": {META_SUBSCRIPTION: work.id}}, reply)

    async def _as_task(self, work: RunningRequest, tasks: "StoredTasks", reply: Json | None) -> Outcome:
        """What the handler answers at once is the answer; what it has to wait for becomes a task."""
        answer: Any = None
        try:
            inputs, state = self._known(work)
            context = tasks.context(work, inputs=inputs, input_state=state)
            answer = work.start(context)
            if type(answer) is InputRequired:
                return self._ask_again(work, answer, reply)
            if not isinstance(answer, Awaitable):
                outcome = answers.result_of(self.server, work, answer, reply)
                self._count(work, "error" if getattr(answer, "is_error", False) else "ok")
                return outcome
            work.deadline = LONGEST
            task = await tasks.begin(context, lambda: self._later(work, context, answer))
        except BaseException as fault:
            if isinstance(answer, Coroutine):
                answer.close()
            if not isinstance(fault, Exception):
                raise
            return self._fault(work, fault, reply)
        return answers.complete(self.server, work, {**task, "resultType": "task"}, reply)

    async def _about_task(self, work: RunningRequest, request: TaskRequest, reply: Json | None) -> Outcome:
        assert self._tasks is not None
        try:
            answer = await self._tasks.answer(request, work.asker.owner)
        except Exception as fault:  # noqa: BLE001 - same
            return self._fault(work, fault, None)
        self._count(work, "ok")
        return answers.complete(self.server, work, answer, reply)

    def _fault(self, work: RunningRequest, fault: Exception, reply: Json | None) -> Outcome:
        self._count(work, fault.code if isinstance(fault, ComityError) else "internal")
        if isinstance(fault, McpError):
            if fault.__cause__ is not None:
                log.error("%s: %s", work.label, fault.__cause__)
            return fault.rpc
        ours = isinstance(fault, ComityError) and type(fault) is not ComityError
        if not ours or isinstance(fault, _INSIDE):
            log.error("%s failed", work.label, exc_info=fault)
            return answers.INTERNAL
        if work.tool is not None:
            return answers.result_of(self.server, work, failed(fault.message), reply)  # type: ignore[attr-defined]
        return answers.refusal(work, fault)

    def _count(self, work: RunningRequest, outcome: str) -> None:
        if work.tool is None or work.tool.audit == "tally":
            self._tally(work.label, work.asker.caller, outcome)
