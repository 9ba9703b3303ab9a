"""The handler of the extension operations (ruling 47), for every door.

- The operations of one owner run one after the other. If another process stores something meanwhile, the operation is
  applied to the new state.
- A session counts towards trust with its first accepted operation, as with its first accepted exchange (ruling 49).
- The audit entry names the operation and a hash of the session. Arguments are in no entry, not even as a hash: a person
  has so few states that a hash could be guessed.
- If another part keeps the state of an extension, that part runs its operations.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Protocol, runtime_checkable

from msgspec import Struct

from comity.extensions.protocol import relational
from comity.extensions.protocol.calls import CallFacts
from comity.extensions.protocol.operations import ExtensionRules, perform, read_operation, refuse_inactive
from comity.extensions.protocol.relational import StandingLevel, count_exchange, set_standing
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.state import ExtensionStates, LoadedState
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import Caller
from comity.requests.handler import (
    Admission,
    Call,
    HandlerDefaults,
    HandlerResult,
    Identified,
    KeyedLocks,
    Request,
)
from comity.store.audit_chain import privacy_hash
from comity.store.interface import Operation, StoreConflict
from comity.vcp.contexts import owner_of
from comity.vcp.extension_host import OperationRequest
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.context import SessionContext
from comity.vcp.protocol.extension_calls import Audience, Code, ExtensionError
from comity.vcp.protocol.messages import RELATIONAL
from comity.vcp.protocol.signals import Categorical
from comity.wire.errors import ComityError, ConflictError, ForbiddenError, NotFoundError, StorageFullError

DEADLINE: Final = 30.0
NO_SUCH_SESSION: Final = "there is no such session, or its state has expired; begin a new one"

_CODES: Final[tuple[tuple[type[ComityError], Code], ...]] = (
    (ForbiddenError, "FORBIDDEN"),
    (NotFoundError, "NOT_FOUND"),
    (StorageFullError, "LIMIT_EXCEEDED"),
    (ConflictError, "CONFLICT"),
)


class OperationRunner(Protocol):
    """Runs the operations of the extension with this id."""

    extension: str

    async def perform(
        self, op: str, args: dict[str, Any], given: Any, facts: CallFacts, caller: Caller
    ) -> Any:
        """Run an operation; `given` are its arguments as a Struct. Raises ExtensionError."""
        ...

    async def ids_of(self, facts: CallFacts) -> list[str]:
        """Return the ids of the resources that the caller may read."""
        ...


@runtime_checkable
class RunsOperations(Protocol):
    """The part that keeps the state of an extension."""

    def operation_runner(self) -> OperationRunner: ...


class CallerFacts:
    """Makes the facts of a call from a session."""

    def __init__(self, key: SigningKey, standing: StandingLevel = "none") -> None:
        """`standing` is what the node's own user grants to the model (ruling 49)."""
        self.key = key
        self.own_id = key.vacant_id.hex()
        self._standing = standing

    def of(self, session: Session, audience: Audience, categorical: Categorical | None) -> CallFacts:
        return CallFacts(
            session_id=session.id,
            active=frozenset(session.extensions),
            key=self.key,
            fresh_id=secrets.token_hex(16),
            owner=owner_of(session),
            audience=audience,
            categorical=categorical,
        )

    def begin(self, loaded: LoadedState, session: Session, now: float) -> ExtensionState:
        """Return the state that an accepted exchange is applied to: the session counts with it."""
        state = loaded.state
        relation = relational.STATE.of(state)
        if loaded.owner == self.own_id and relation.standing != self._standing != "none":
            state = relational.STATE.put(state, set_standing(relation, self._standing))
        return count_exchange(state, now) if session.active(RELATIONAL) else state


class _Visit:
    __slots__ = ("after", "before", "renewals")

    before: LoadedState
    after: ExtensionState
    renewals: tuple[Operation, ...]


class ExtensionHandler(HandlerDefaults):
    name = "extension"
    deadline = DEADLINE

    def __init__(
        self,
        states: ExtensionStates,
        facts: CallerFacts,
        rules: ExtensionRules,
        *,
        context: Callable[[Session], Awaitable[tuple[SessionContext, tuple[Operation, ...]]]],
        locks: KeyedLocks,
    ) -> None:
        """`context` is awaited for the context of a session, and for what keeps that from expiring."""
        self.runners: dict[str, OperationRunner] = {}
        self._states = states
        self._facts = facts
        self._rules = rules
        self._context = context
        self._locks = locks

    def identify(self, request: Request) -> Identified:
        return Identified(request.caller, _Visit())

    def knows(self, call: Call) -> bool:
        return call.caller.kind != "unknown"

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        request: OperationRequest = call.request.body
        return nullcontext() if self._runner(request.op) else self._locks.of(lock_name(request.session))

    async def admit(self, call: Call) -> Admission:
        request: OperationRequest = call.request.body
        operation = operations().get(request.op)
        if operation is not None:
            refuse_inactive(operation, request.session.extensions)
        return Admission(checks=() if operation is None else (f"op:{operation.name}",))

    async def handle(self, call: Call) -> Any:
        request: OperationRequest = call.request.body
        session, visit, runner = request.session, call.evidence, self._runner(request.op)
        if runner is not None:
            facts = self._facts.of(session, request.audience, None)
            _, given = read_operation(request.op, request.args, facts.active, self._rules)
            return await runner.perform(request.op, request.args, given, facts, call.caller)
        visit.before = await self._states.load(session.id, owner_of(session))
        context, visit.renewals = await self._context(session)
        facts = self._facts.of(session, request.audience, context.categorical)
        state = self._facts.begin(visit.before, session, call.at)
        visit.after, result = perform(request.op, state, request.args, facts, self._rules, call.at)
        return result

    async def seal(self, call: Call, result: Any) -> HandlerResult:
        request: OperationRequest = call.request.body
        stored: tuple[Operation, ...] = ()
        if self._runner(request.op) is None:
            visit = call.evidence
            stored = self._states.keeping(visit.before, visit.after) + visit.renewals
        # what changes nothing is counted with others of its kind (ruling 23)
        hashed = {"session_id_hash": privacy_hash(request.session.id)} if stored else {}
        return HandlerResult(reply=result, operations=stored, audit=hashed, about=request.op)

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        return await self.seal(call, await self.handle(call))

    def _runner(self, op: str) -> OperationRunner | None:
        operation = operations().get(op)
        return None if operation is None else self.runners.get(operation.extension)


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """A request to forget one session, or everything of the owner."""

    owner: str
    session_id: str | None = None


class ForgetHandler(HandlerDefaults):
    """Removes what an owner has stored here, at the owner's request (ruling 48)."""

    name = "forget"
    deadline = DEADLINE

    def __init__(self, states: ExtensionStates, locks: KeyedLocks) -> None:
        self._states = states
        self._locks = locks

    def identify(self, request: Request) -> Identified:
        return Identified(request.caller)

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return self._locks.of(f"owner {call.request.body.owner}")

    async def handle(self, call: Call) -> tuple[Operation, ...]:
        request: ForgetRequest = call.request.body
        if request.session_id is not None:
            owner = await self._states.owner_of(request.session_id)
            if owner is None:
                raise NotFoundError(NO_SUCH_SESSION)
            if owner != request.owner:
                raise ForbiddenError("this session belongs to another owner; only that owner may forget it")
        return await self._states.forgetting(request.owner, request.session_id)

    async def seal(self, call: Call, result: tuple[Operation, ...]) -> HandlerResult:
        session_id = call.request.body.session_id
        hashed = {} if session_id is None else {"session_id_hash": privacy_hash(session_id)}
        return HandlerResult(reply=len(result), operations=result, audit=hashed)


def lock_name(session: Session) -> str:
    """Return the name of the queue that a session's operations wait in."""
    owner = owner_of(session)
    return f"session {session.id}" if owner is None else f"owner {owner}"


def as_refusal(error: ComityError) -> ExtensionError:
    """Convert an error to the refusal of an operation (ruling 47)."""
    if isinstance(error, ExtensionError):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ExtensionError(code, error.message)
    return ExtensionError("CONFLICT", "this node could not run the operation; try again later")
