"""Tasks: calls that continue after their first answer. They are stored, so that any process can report on them.

- A task is stored before its first answer is sent, and starts to run after that. Its id has 192 random bits. For everyone
  except its owner the task does not exist.
- The stored state decides: a question, an answer, a cancellation and the end are each written to the store first. If two
  processes write at the same time, the second one gets a conflict. The process that runs a task sees its own changes at
  once, and those of other processes with its next heartbeat.
- A process that runs tasks writes a heartbeat to the store. If the heartbeat of the process has expired, the task is
  marked as failed by the first request for it.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

from comity.mcp.calls import CallContext
from comity.mcp.protocol import tasks
from comity.mcp.protocol.methods import RunningRequest, TaskRequest
from comity.mcp.protocol.results import InputRequest, Json, invalid_params
from comity.mcp.protocol.session import McpSession, demand
from comity.mcp.protocol.tasks import DIED, Task
from comity.mcp.streams import Changes
from comity.requests.caller import Caller
from comity.requests.record import Act, Recorder
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Put, Store, StoreConflict
from comity.wire.errors import OverloadedError, StoreError
from comity.wire.jsonrpc import RpcError
from comity.wire.machine import Clock

log = logging.getLogger("comity.mcp")

SPACE: Final = "mcp:task"
HOLDERS: Final = "mcp:task-holder"
MAX_RUNNING: Final = 256
MAX_OF_ONE: Final = 64
BEAT: Final = 5.0
_MISSED_BEATS: Final = 3


class TaskRuntime(Protocol):
    """What tasks need of a node."""

    @property
    def store(self) -> Store: ...

    @property
    def record(self) -> Recorder: ...


class StoredTasks:
    """`runtime` returns the store and the record, and opens them for the first task."""

    def __init__(
        self,
        runtime: Callable[[], Awaitable[TaskRuntime]],
        clock: Clock,
        changes: Changes,
        *,
        most: int = MAX_RUNNING,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._changes = changes
        self._most = most
        self._name = secrets.token_urlsafe(12)
        self._jobs: dict[str, _Job] = {}
        self._owned: Counter[str] = Counter()
        self._beating: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Return how many tasks run here."""
        return len(self._jobs)

    def context(self, work: RunningRequest, *, inputs: Mapping[str, Any], input_state: Any) -> "TaskContext":
        """Return the context of a call that may become a task."""
        return TaskContext(work, self, _Job(work.client.owner), inputs=inputs, input_state=input_state)

    async def begin(
        self, context: "TaskContext", run: Callable[[], Coroutine[Any, Any, bytes | RpcError]]
    ) -> Json:
        """Store the task, run it, and return its first answer."""
        job, owner = context.job, context.client.owner
        if len(self._jobs) >= self._most or self._owned[owner] >= min(MAX_OF_ONE, self._most):
            raise OverloadedError("too many tasks are running; wait for some to end, or cancel them", 5.0)
        now = self._clock.now()
        task = job.task = Task(id=job.id, owner=owner, holder=self._name, created=now, updated=now)
        self._jobs[job.id] = job
        self._owned[owner] += 1
        try:
            node = await self._runtime()
            act = _act("MCP_TASK_BEGUN", task, context.client.caller)
            await node.record.commit([self._alive(), _put(task, expect=0)], act)
        except BaseException:
            self._forget(job)
            raise
        job.running = asyncio.ensure_future(self._run(job, run))
        if self._beating is None:
            self._beating = asyncio.ensure_future(self._beat())
        return tasks.created_json(task)

    async def answer(self, request: TaskRequest, owner: str) -> Json:
        task = await self._owned_by(request.task_id, owner)
        if task is None:
            raise invalid_params("there is no such task, or it is too long ago")
        if request.verb == "get":
            job = self._jobs.get(task.id)
            return tasks.detailed_json(task, "" if job is None else job.doing)
        if request.verb == "update":
            await self._change(task.id, lambda held: tasks.answered(held, request.inputs, self._clock.now()))
        else:
            await self._change(task.id, lambda held: tasks.cancelled(held, self._clock.now()))
        return {}

    async def known(self, ids: Iterable[str], owner: str) -> tuple[str, ...]:
        """Return the ids that are tasks of this owner."""
        return tuple([id_ for id_ in ids if await self._owned_by(id_, owner) is not None])

    async def ask(self, job: "_Job", requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        """Ask questions from inside a task, and return the answers once all are there."""
        keys = {job.fresh(key): key for key in requests}
        open_ = {fresh: requests[key] for fresh, key in keys.items()}
        await self._change(job.id, lambda held: tasks.asking(held, open_, self._clock.now()))
        while not keys.keys() <= job.answers.keys():
            job.changed.clear()
            await job.changed.wait()
        return {key: job.answers[fresh] for fresh, key in keys.items()}

    def report_progress(self, job: "_Job", doing: str) -> None:
        """Report the progress to clients of this process. It is not stored, so other processes do not know it."""
        job.doing = doing
        if job.task is not None and not job.task.over:
            self._changes.task_changed(job.id, tasks.detailed_json(job.task, doing))

    async def close(self) -> None:
        """Mark running tasks as failed and stop them. The store must be open."""
        if self._beating is not None:
            self._beating.cancel()
        for job in tuple(self._jobs.values()):
            with contextlib.suppress(StoreError):  # a later request for it finds that it died
                await self._store_outcome(job.id, DIED)
        await asyncio.sleep(0)  # let new tasks start, so that they end in order
        running = [job.running for job in self._jobs.values() if job.running is not None]
        for one in running:
            one.cancel()
        if running:
            await asyncio.wait(running)

    async def _run(self, job: "_Job", run: Callable[[], Coroutine[Any, Any, bytes | RpcError]]) -> None:
        try:
            await self._store_outcome(job.id, await run())
        except asyncio.CancelledError:
            log.debug("a task was cancelled")
        except Exception:  # a later request for it finds that it died
            log.exception("the end of a task could not be written")
        finally:
            self._forget(job)

    async def _store_outcome(self, id_: str, outcome: bytes | RpcError) -> None:
        await self._change(id_, lambda held: tasks.ended(held, outcome, self._clock.now()))

    async def _owned_by(self, id_: str, owner: str) -> Task | None:
        found = await (await self._runtime()).store.get(SPACE, id_)
        if found is None:
            return None
        task = tasks.from_bytes(found.value)
        if task.owner != owner:
            return None
        if task.over or await self._is_held(task):
            return task
        return await self._change(id_, lambda held: tasks.ended(held, DIED, self._clock.now()))

    async def _is_held(self, task: Task) -> bool:
        if task.holder == self._name:
            return task.id in self._jobs
        return await (await self._runtime()).store.get(HOLDERS, task.holder) is not None

    async def _change(self, id_: str, change: Callable[[Task], Task]) -> Task | None:
        """Apply a change to a stored task, and retry it on what others have written meanwhile."""
        node = await self._runtime()
        while True:
            found = await node.store.get(SPACE, id_)
            if found is None:
                return None
            before = tasks.from_bytes(found.value)
            after = change(before)
            if after is before:
                return before
            put = _put(after, expect=found.version)
            try:
                if after.over:
                    act = _act(f"MCP_TASK_{after.status.upper()}", after, _caller_of(after.owner))
                    await node.record.commit([put], act)
                else:
                    await node.store.commit(put)
            except StoreConflict:
                continue
            self._publish(after)
            return after

    def _publish(self, task: Task) -> None:
        job = self._jobs.get(task.id)
        if job is not None:
            job.update(task)
        self._changes.task_changed(task.id, tasks.detailed_json(task))

    async def _beat(self) -> None:
        try:
            while self._jobs:
                await self._clock.sleep(BEAT)
                try:
                    await (await self._runtime()).store.commit(self._alive())
                    await self._reload()
                except StoreError:
                    log.exception("the tasks of this process could not be looked after")
        finally:
            self._beating = None

    async def _reload(self) -> None:
        """Read what other processes have written about tasks that run here."""
        for job in tuple(self._jobs.values()):
            found = await (await self._runtime()).store.get(SPACE, job.id)
            if found is not None:
                job.update(tasks.from_bytes(found.value))

    def _forget(self, job: "_Job") -> None:
        if self._jobs.pop(job.id, None) is not None:
            self._owned[job.owner] -= 1

    def _alive(self) -> Put:
        until = self._clock.now() + _MISSED_BEATS * BEAT
        return Put(space=HOLDERS, key=self._name, value=b"", expires_at=until)


def _act(result: str, task: Task, caller: Caller) -> Act:
    return Act(feature="mcp", result=result, caller=caller, hashes={"request_id_hash": privacy_hash(task.id)})


def _caller_of(owner: str) -> Caller:
    """Return the caller of a task that ends without a request."""
    kind, _, id_ = owner.partition(":")
    return Caller(kind=kind, id=id_)  # type: ignore[arg-type] # it was one when the task was made


class TaskContext(CallContext):
    """The context of a call that may become a task: its questions are asked while it waits."""

    __slots__ = ("_tasks", "job")

    def __init__(
        self,
        work: RunningRequest,
        tasks_: StoredTasks,
        job: "_Job",
        *,
        inputs: Mapping[str, Any],
        input_state: Any,
    ) -> None:
        super().__init__(work, NullOutlet(), inputs=inputs, input_state=input_state)
        self._tasks = tasks_
        self.job = job

    @property
    def waits(self) -> bool:
        return True

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Put the progress into the status of the task; the request has its answer."""
        far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        self._tasks.report_progress(self.job, f"{far}: {message}" if message else far)

    async def ask(self, requests: Mapping[str, InputRequest]) -> Mapping[str, Any]:
        for request in requests.values():
            demand(self.client, request)
        return await self._tasks.ask(self.job, requests)

    def again(self, inputs: Mapping[str, Any], input_state: Any) -> CallContext:
        context = TaskContext(self._work, self._tasks, self.job, inputs=inputs, input_state=input_state)
        context.cancelled = self.cancelled
        return context


class _Job:
    """A task that this process runs."""

    def __init__(self, owner: str) -> None:
        self.id = secrets.token_urlsafe(24)
        self.owner = owner
        self.answers: dict[str, Any] = {}
        self.task: Task | None = None
        self.doing = ""
        self.changed = asyncio.Event()
        self.running: asyncio.Task[None] | None = None
        self._keys: set[str] = set()

    def fresh(self, key: str) -> str:
        """Return a key that this task has not used yet."""
        fresh, number = key, 1
        while fresh in self._keys:
            number += 1
            fresh = f"{key}-{number}"
        self._keys.add(fresh)
        return fresh

    def update(self, task: Task) -> None:
        self.task = task
        self.answers |= task.answers
        self.changed.set()
        if task.over and self.running is not None and self.running is not asyncio.current_task():
            self.running.cancel()


class NullOutlet:
    """The outlet of a request that was answered; messages are dropped."""

    connection: str = ""
    session: McpSession | None = None

    def send(self, message: bytes) -> None:
        pass

    async def ask(self, request: InputRequest) -> Any:
        raise TypeError("a task asks through the store")

    async def release(self) -> None:
        pass


def _put(task: Task, expect: int) -> Put:
    return Put(space=SPACE, key=task.id, value=tasks.to_bytes(task), expect=expect, expires_at=task.expires)
