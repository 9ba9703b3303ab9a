"""The extensions of a node, for its doors: operations, context exchanges, what a model may know of a session."""

import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from comity.extensions.handler import (
    NO_SUCH_SESSION,
    CallerFacts,
    ExtensionHandler,
    ForgetHandler,
    ForgetRequest,
    OperationRequest,
    as_refusal,
    turn_of,
)
from comity.extensions.protocol import calls, personal
from comity.extensions.protocol.calls import Audience, CallFacts, ExtensionRules, OperationCall
from comity.extensions.protocol.payloads import answers, apply_payload
from comity.extensions.protocol.relational import StandingLevel
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.state import ExtensionStates, LoadedState
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import Caller, vcp_identity
from comity.requests.handler import KeyedLocks, Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Operation, Versioned
from comity.store.vault import Vault
from comity.vcp.contexts import Contexts, owner_of
from comity.vcp.protocol.agreement import V3_1, Identity, Session
from comity.vcp.protocol.context import ContextRequest, SessionContext
from comity.vcp.protocol.context import after as context_after
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.messages import CONSENSUS, PERSONAL
from comity.vcp.protocol.registry import STANDARD_EXTENSIONS, Extension
from comity.vcp.protocol.signals import ModelSafeContext, Signal, model_safe
from comity.vcp.resource_addresses import (
    EXTENSION_ADDRESSES,
    FadingContent,
    Owner,
    ResourceReader,
    ResourceReaders,
)
from comity.vcp.sessions import LiveSessions
from comity.wire.errors import ComityError, ForbiddenError, NotFoundError
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.votes.extension import DeliberationOperations


class AppliedExchange(Struct, frozen=True, kw_only=True):
    """The result of a context request. `request` names what was applied, and `kept` is stored;
    `context` is the new context of the session; `signals` are the effective ones, None if those of the context count.
    """

    request: ContextRequest
    context: SessionContext
    kept: ContextRequest
    signals: Mapping[str, Signal] | None
    answers: Mapping[str, Any]
    before: LoadedState
    after: ExtensionState


class ExtensionService:
    def __init__(
        self,
        pipeline: Pipeline,
        clock: Clock,
        *,
        states: ExtensionStates,
        contexts: Contexts,
        vault: Callable[[], Vault],
        key: SigningKey,
        rules: ExtensionRules | None = None,
        standing: StandingLevel = "none",
        names: frozenset[str] | None = None,
    ) -> None:
        """`names` are the ids of the extensions that are switched on; None: all."""
        self.states = states
        self.contexts = contexts
        self.rules = rules or ExtensionRules()
        self.own_id = key.vacant_id.hex()
        self._pipeline = pipeline
        self._clock = clock
        self._vault = vault
        self._names = names
        self._facts = CallerFacts(key, standing)
        self._turns = KeyedLocks()
        self._forgetting = ForgetHandler(states, self._turns)
        self._room = ExtensionHandler(
            states,
            self._facts,
            self.rules,
            context=lambda session: contexts.used(session, vault()),
            turns=self._turns,
        )

    def run_deliberations(self, runner: "DeliberationOperations") -> None:
        """From now on Consensus works here."""
        self._room.deliberations = runner

    def registrations(self) -> tuple[Extension, ...]:
        """The extensions that work here (ruling 16), for the registry of the handshake."""
        return tuple(
            extension
            for extension in STANDARD_EXTENSIONS.values()
            if (self._names is None or extension.id in self._names)
            and (extension.id != CONSENSUS or self._room.deliberations is not None)
        )

    async def perform(self, request: OperationRequest, caller: Caller, door: str) -> Any:
        """One operation, through the walk. Raises ExtensionError."""
        try:
            return await self._pipeline.run(self._room, Request(door=door, caller=caller, body=request))
        except ComityError as refusal:
            raise as_refusal(refusal) from refusal

    def facts(self, session: Session) -> CallFacts:
        """Who calls, as a model."""
        return self._facts.of(session, "model", None)

    async def deliberations_of(self, session: Session) -> list[str]:
        voice, runner = self.facts(session).voice, self._room.deliberations
        return [] if voice is None or runner is None else await runner.ids_of(voice)

    def turn(self, session: Session) -> AbstractAsyncContextManager[None]:
        """Held while a session's state is read, changed and written."""
        return self._turns.of(turn_of(session))

    async def exchange(
        self,
        session: Session,
        request: ContextRequest,
        known: SessionContext,
        held: Mapping[str, Versioned],
        audience: Audience,
    ) -> AppliedExchange:
        """Apply a context request to what is stored; nothing is kept yet. Raises ExtensionError."""
        now = self._clock.now()
        before = await self.states.load(session.id, owner_of(session), held)
        # what the extension holds is held there alone, so that taking it back leaves nothing behind
        holds_signals = session.active(PERSONAL)
        context = context_after(known, replace(request, signals={}) if holds_signals else request)
        call = OperationCall(
            state=self._facts.begin(before, session, now),
            facts=self._facts.of(session, audience, context.categorical),
            rules=self.rules,
            now=now,
        )
        applied = apply_payload(call, request)
        return AppliedExchange(
            request=applied.request,
            context=context,
            kept=replace(applied.request, signals={}) if holds_signals else applied.request,
            signals=self._effective(session, applied.state, now),
            answers=answers(replace(call, state=applied.state)),
            before=before,
            after=applied.state,
        )

    def keeping(self, applied: AppliedExchange) -> tuple[Operation, ...]:
        """All that the answer was made from: it is written, so that the store tells if somebody else was first."""
        return self.states.keeping(applied.before, applied.after, whole=True)

    async def view(self, session: Session) -> OperationCall:
        """What a model may look at in a session. Nothing is counted and nothing is written."""
        loaded = await self.states.load(session.id, owner_of(session))
        context = await self.contexts.known(session, self._vault())
        return OperationCall(
            state=loaded.state,
            facts=self._facts.of(session, "model", context.categorical),
            rules=self.rules,
            now=self._clock.now(),
        )

    async def model_safe_context(
        self, session: Session, context: SessionContext, *, active: bool
    ) -> ModelSafeContext:
        signals: Mapping[str, Signal] | None = None
        if session.active(PERSONAL):
            loaded = await self.states.load(session.id, owner_of(session))
            signals = self._effective(session, loaded.state, self._clock.now())
        told = context.signals if signals is None else signals
        return model_safe(told, context.categorical, session_active=active)

    async def refuse_others(self, session_id: str, asking: Session) -> None:
        """Raises NotFoundError or ForbiddenError, unless a stored session has the same owner as the one that asks."""
        owner = await self.states.owner_of(session_id)
        if owner is None:
            raise NotFoundError(NO_SUCH_SESSION)
        if owner != owner_of(asking):
            raise ForbiddenError("this session belongs to another owner; start your own session")

    def end(self, session_id: str) -> None:
        """A session is over: what is held of it here goes, what is stored of it stays for its time."""
        self.states.forget_stranger(session_id)
        self.states.recent.forget(session_id)

    def own_session(self) -> Session:
        """A session of the node's own user, for a command: all that works here is active in it."""
        return Session(
            id=f"ses_{secrets.token_hex(16)}",
            version=str(V3_1),
            extensions=tuple(extension.id for extension in self.registrations()),
            identity=Identity(owner=self.own_id),
        )

    async def forget(self, session_id: str | None, caller: Caller, door: str) -> int:
        """Remove all that the node's own user has here, or one of its sessions; how many values that were.

        Raises NotFoundError, ForbiddenError.
        """
        request = ForgetRequest(owner=self.own_id, session_id=session_id)
        forgotten: int = await self._pipeline.run(
            self._forgetting, Request(door=door, caller=caller, body=request)
        )
        return forgotten

    async def purge(self) -> None:
        await self.states.purge(self.rules.personal)

    def _effective(self, session: Session, state: ExtensionState, now: float) -> Mapping[str, Signal] | None:
        if not session.active(PERSONAL):
            return None
        return personal.effective_signals(state.session.personal, self.rules.personal, now)


# The resources of the extensions: what a model may read of a session of its own (vcp 7.2, ruling 49).


def extension_readers(service: ExtensionService, sessions: LiveSessions) -> ResourceReaders:
    """`sessions` are those that are open; `VcpResources` has looked whose a session is before a reader is asked."""
    readers = ResourceReaders()
    for host, view in _VIEWS.items():
        readers.add(host, ResourceReader(_reading(service, host, view), _own(sessions)))
    readers.add(_CONSENSUS, ResourceReader(_reading_deliberation(service), _own_deliberations(service)))
    return readers


def _reading(service: ExtensionService, host: str, view: Callable[[OperationCall], Any]) -> Any:
    extension = EXTENSION_ADDRESSES[host].extension
    assert extension is not None

    async def read(session_id: str, owner: Owner) -> FadingContent:
        asking = owner.session or Session(
            id=session_id, version=str(V3_1), extensions=(extension,), identity=owner.identity
        )
        call = await service.view(replace(asking, id=session_id))
        state, rules = call.state.session.personal, call.rules.personal
        fades = host in _FADING
        return FadingContent(view(call), personal.unchanged_for(state, rules, call.now) if fades else 0.0)

    return read


def _reading_deliberation(service: ExtensionService) -> Any:
    async def read(delib_id: str, owner: Owner) -> dict[str, Any]:
        if owner.session is None:
            raise NotFoundError("there is no such deliberation for you here")
        request = OperationRequest(
            op="consensus.result", args={"delib_id": delib_id}, session=owner.session, audience="model"
        )
        try:
            result = await service.perform(request, vcp_identity(owner.id or ""), "mcp")
        except ExtensionError as refusal:
            # who takes no part does not learn whether there is one
            raise NotFoundError(refusal.message) from refusal
        told: dict[str, Any] = to_builtins(result)
        return told

    return read


def _own_deliberations(service: ExtensionService) -> Any:
    async def ids(owner: Owner) -> Iterable[str]:
        return [] if owner.session is None else await service.deliberations_of(owner.session)

    return ids


def _own(sessions: LiveSessions) -> Any:
    async def ids(owner: Owner) -> Iterable[str]:
        return sessions.ids_for(owner.session, owner.id)

    return ids


_VIEWS: dict[str, Callable[[OperationCall], Any]] = {
    "personal-state": calls.personal_view,
    "relational": calls.relational_view,
    "torch": calls.torch_view,
    "intent": calls.intent_view,
}
_CONSENSUS = "consensus"
_FADING = frozenset(("personal-state", "intent"))
