"""A task of the extension `io.modelcontextprotocol/tasks`: work that outlives the request it came with.

    working <-> input_required        while it runs
    completed | failed | cancelled    the end; nothing changes after it

- What a tool refuses is *completed*, with `isError` in its result. *failed* is for errors of the protocol and
  for a process that died.
- The key of a question is used once in a task. An answer is accepted if the question with its key is open and the answer
  is an object. Other answers are ignored, and questions without an answer stay open.
- Functions here return the changed task, or the same object if nothing changes.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.mcp.protocol.results import InputRequest, Json
from comity.store.audit_chain import timestamp
from comity.wire import strict_json
from comity.wire.jsonrpc import INTERNAL_ERROR, RpcError

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

KEPT: Final = 7200.0
MAX_SECONDS: Final = 3600.0
"""Seconds a task may run; its result can be fetched for as long again."""
POLL_MS: Final = 500

_DEPTH: Final = strict_json.DEPTH + 16

DIED: Final = RpcError(
    INTERNAL_ERROR, "the node stopped before this task was done; call the tool again for a new one"
)


class Task(Struct, frozen=True, kw_only=True):
    """A task as it is stored. `holder` is the process that runs it; `answers` are those it may not have read yet."""

    id: str
    owner: str
    holder: str
    created: float
    updated: float
    kept: float = KEPT
    status: Status = "working"
    questions: dict[str, InputRequest] = {}
    answers: dict[str, Json] = {}
    result: Json | None = None
    error: RpcError | None = None

    @property
    def over(self) -> bool:
        return self.status in ("completed", "failed", "cancelled")

    @property
    def expires(self) -> float:
        return self.created + self.kept


def asking(task: Task, requests: Mapping[str, InputRequest], now: float) -> Task:
    if task.over:
        return task
    more = {key: replace(one, params=dict(one.params)) for key, one in requests.items()}
    return replace(task, status="input_required", questions={**task.questions, **more}, updated=now)


def answered(task: Task, given: Mapping[str, Any], now: float) -> Task:
    taken = {key: one for key, one in given.items() if key in task.questions and isinstance(one, dict)}
    if not taken:
        return task
    still = {key: one for key, one in task.questions.items() if key not in taken}
    status: Status = "input_required" if still else "working"
    answers = {**task.answers, **taken}
    return replace(task, status=status, questions=still, answers=answers, updated=now)


def ended(task: Task, outcome: bytes | RpcError, now: float) -> Task:
    """End the task. `outcome` is the result of the call as it would have been sent, or its error."""
    if task.over:
        return task
    over = replace(task, questions={}, answers={}, updated=now)
    if isinstance(outcome, RpcError):
        return replace(over, status="failed", error=outcome)
    return replace(over, status="completed", result=_read(outcome))


def cancelled(task: Task, now: float) -> Task:
    if task.over:
        return task
    return replace(task, status="cancelled", questions={}, answers={}, updated=now)


def created_json(task: Task) -> Json:
    """Return the answer to the call that became this task."""
    return {
        "taskId": task.id,
        "status": task.status,
        "createdAt": timestamp(task.created),
        "lastUpdatedAt": timestamp(task.updated),
        "ttlMs": int(task.kept * 1000),
        "pollIntervalMs": POLL_MS,
    }


def detailed_json(task: Task, doing: str = "") -> Json:
    """Return the task as in tasks/get and notifications, with its questions or its result. `doing` is the progress of
    running work.
    """
    shown = created_json(task)
    if doing and not task.over:
        shown["statusMessage"] = doing
    if task.status == "input_required":
        shown["inputRequests"] = {key: one.to_json() for key, one in task.questions.items()}
    if task.result is not None:
        shown["result"] = task.result
    if task.error is not None:
        shown["error"] = msgspec.to_builtins(task.error)
    return shown


def to_bytes(task: Task) -> bytes:
    return strict_json.dumps(msgspec.to_builtins(task))


def from_bytes(stored: bytes) -> Task:
    return msgspec.convert(_read(stored), Task)


def _read(data: bytes) -> Any:
    """Read what this module wrote, also with lone surrogates or deep nesting."""
    return strict_json.loads(data, depth=_DEPTH, lone_surrogates=True)
