"""The handler of the extension operations: every row of the table of ruling 47 runs here, whoever calls.

- One queue per owner: its operations run one after the other. What another process has stored meanwhile is read, and
  the operation is applied to that.
- A session counts towards trust with its first accepted operation, as with its first accepted exchange (ruling 49).
- The entry on record names the operation and the session by its hash. Arguments are in no entry, not even as a hash:
  there are so few states of a person that a hash could be guessed.
- Deliberations have a log of their own; whoever keeps it runs their rows.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.extensions.protocol.calls import Audience, CallFacts, ExtensionRules
from comity.extensions.protocol.operations import OPERATIONS, perform, refuse_inactive
from comity.extensions.protocol.relational import StandingLevel, set_standing
from comity.extensions.protocol.state import ExtensionState, count_exchange
from comity.extensions.state import ExtensionStates, LoadedState
from comity.identity.protocol.keys import SigningKey
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
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.context import SessionContext
from comity.vcp.protocol.extension_calls import Code, ExtensionError
from comity.vcp.protocol.messages import CONSENSUS, RELATIONAL
from comity.vcp.protocol.signals import Categorical
from comity.votes.protocol.vote import Voice
from comity.wire.errors import ComityError, ConflictError, ForbiddenError, NotFoundError, StorageFullError

if TYPE_CHECKING:
    from comity.votes.extension import DeliberationOperations

DEADLINE: Final = 30.0
NO_SUCH_SESSION: Final = "there is no such session, or its state has expired; begin a new one"

_CODES: Final[tuple[tuple[type[ComityError], Code], ...]] = (
    (ForbiddenError, "FORBIDDEN"),
    (NotFoundError, "NOT_FOUND"),
    (StorageFullError, "LIMIT_EXCEEDED"),
    (ConflictError, "CONFLICT"),
)


class OperationRequest(Struct, frozen=True, kw_only=True):
    op: str
    args: Any
    session: Session
    audience: Audience = "owner"


class CallerFacts:
    """Who a session speaks for: makes the facts of a call."""

    def __init__(self, key: SigningKey, standing: StandingLevel = "none") -> None:
        """`standing` is what the node's own user grants to the model (ruling 49)."""
        self.key = key
        self.own_id = key.vacant_id.hex()
        self._standing = standing

    def of(self, session: Session, audience: Audience, categorical: Categorical | None) -> CallFacts:
        owner = owner_of(session)
        voice = None
        if owner is not None:
            voice = Voice(self.own_id, None if owner == self.own_id else owner)
        return CallFacts(
            session_id=session.id,
            active=frozenset(session.extensions),
            key=self.key,
            fresh_id=secrets.token_hex(16),
            owner=owner,
            audience=audience,
            voice=voice,
            categorical=categorical,
        )

    def begin(self, loaded: LoadedState, session: Session, now: float) -> ExtensionState:
        """The state that an accepted exchange is applied to: the session counts with it."""
        state = loaded.state
        relation = state.owner.relational
        if loaded.owner == self.own_id and relation.standing != self._standing != "none":
            granted = set_standing(relation, self._standing)
            state = replace(state, owner=replace(state.owner, relational=granted))
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
        turns: KeyedLocks,
    ) -> None:
        """`context` is awaited for what a session was told, and for what keeps that from expiring."""
        self.deliberations: DeliberationOperations | None = None
        self._states = states
        self._facts = facts
        self._rules = rules
        self._context = context
        self._turns = turns

    def identify(self, request: Request) -> Identified:
        return Identified(request.caller, _Visit())

    def knows(self, call: Call) -> bool:
        return call.caller.kind != "unknown"

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        request: OperationRequest = call.request.body
        if _is_of_consensus(request.op):
            return nullcontext()
        return self._turns.of(turn_of(request.session))

    async def admit(self, call: Call) -> Admission:
        request: OperationRequest = call.request.body
        row = OPERATIONS.get(request.op)
        if row is not None:
            refuse_inactive(row, frozenset(request.session.extensions))
        return Admission(checks=() if row is None else (f"op:{row.name}",))

    async def handle(self, call: Call) -> Any:
        request: OperationRequest = call.request.body
        session, visit = request.session, call.evidence
        if _is_of_consensus(request.op):
            assert self.deliberations is not None, "it would not be active otherwise"
            facts = self._facts.of(session, request.audience, None)
            return await self.deliberations.perform(request.op, request.args, facts, call.caller)
        visit.before = await self._states.load(session.id, owner_of(session))
        context, visit.renewals = await self._context(session)
        facts = self._facts.of(session, request.audience, context.categorical)
        state = self._facts.begin(visit.before, session, call.at)
        visit.after, result = perform(request.op, state, request.args, facts, self._rules, call.at)
        return result

    async def seal(self, call: Call, result: Any) -> HandlerResult:
        request: OperationRequest = call.request.body
        operations: tuple[Operation, ...] = ()
        if not _is_of_consensus(request.op):
            visit = call.evidence
            operations = self._states.keeping(visit.before, visit.after) + visit.renewals
        # what changes nothing is counted with others of its kind (ruling 23)
        hashed = {"session_id_hash": privacy_hash(request.session.id)} if operations else {}
        return HandlerResult(reply=result, operations=operations, audit=hashed, about=request.op)

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        return await self.seal(call, await self.handle(call))


class ForgetRequest(Struct, frozen=True, kw_only=True):
    """Without `session_id` everything that the owner has here."""

    owner: str
    session_id: str | None = None


class ForgetHandler(HandlerDefaults):
    """What an owner has stored here is removed at once, when the owner says so (ruling 48)."""

    name = "forget"
    deadline = DEADLINE

    def __init__(self, states: ExtensionStates, turns: KeyedLocks) -> None:
        self._states = states
        self._turns = turns

    def identify(self, request: Request) -> Identified:
        return Identified(request.caller)

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return self._turns.of(f"owner {call.request.body.owner}")

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


def turn_of(session: Session) -> str:
    """The name of the queue that a session's operations wait in."""
    owner = owner_of(session)
    return f"session {session.id}" if owner is None else f"owner {owner}"


def as_refusal(error: ComityError) -> ExtensionError:
    """Any error of ours as the refusal of an operation (ruling 47)."""
    if isinstance(error, ExtensionError):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return ExtensionError(code, error.message)
    return ExtensionError("CONFLICT", "this node could not run the operation; try again later")


def _is_of_consensus(op: str) -> bool:
    row = OPERATIONS.get(op)
    return row is not None and row.extension == CONSENSUS
