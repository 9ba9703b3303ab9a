"""The extensions of a node, for its doors: operations, context exchanges, resources, and what a model may know."""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from comity.extensions.handler import (
    NO_SUCH_SESSION,
    CallerFacts,
    ExtensionHandler,
    ForgetHandler,
    ForgetRequest,
    OperationRunner,
    as_refusal,
    lock_name,
)
from comity.extensions.protocol import personal
from comity.extensions.protocol.calls import CallFacts, OperationCall
from comity.extensions.protocol.operations import ExtensionRules, answers, apply_payload
from comity.extensions.protocol.relational import StandingLevel
from comity.extensions.protocol.state import ExtensionState
from comity.extensions.state import ExtensionStates
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import Caller, vcp_identity
from comity.requests.handler import KeyedLocks, Request
from comity.requests.pipeline import Pipeline
from comity.store.interface import Operation, Versioned
from comity.store.vault import Vault
from comity.vcp.contexts import Contexts, owner_of
from comity.vcp.extension_host import AppliedExchange, FadingContent, OperationRequest, Owner, ResourceReader
from comity.vcp.protocol.agreement import V3_1, Identity, Session
from comity.vcp.protocol.built_in import built_in
from comity.vcp.protocol.context import ContextRequest, SessionContext
from comity.vcp.protocol.context import after as context_after
from comity.vcp.protocol.extension_calls import Audience, ExtensionError
from comity.vcp.protocol.messages import PERSONAL
from comity.vcp.protocol.registry import Extension
from comity.vcp.protocol.signals import ModelSafeContext, Signal, model_safe
from comity.vcp.sessions import LiveSessions
from comity.wire.errors import ComityError, ForbiddenError, NotFoundError
from comity.wire.machine import Clock


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
        self._locks = KeyedLocks()
        self._forget_handler = ForgetHandler(states, self._locks)
        self._handler = ExtensionHandler(
            states,
            self._facts,
            self.rules,
            context=lambda session: contexts.used(session, vault()),
            locks=self._locks,
        )

    def run_by(self, runner: OperationRunner) -> None:
        """Let the part that keeps the state of an extension run its operations."""
        self._handler.runners[runner.extension] = runner

    def registrations(self) -> tuple[Extension, ...]:
        return tuple(
            extension
            for extension in built_in().values()
            if (self._names is None or extension.id in self._names)
            and (extension.id in self._handler.runners or all(each.run for each in extension.operations))
        )

    async def perform(self, request: OperationRequest, caller: Caller, door: str) -> Any:
        """Run one operation in the pipeline. Raises ExtensionError."""
        try:
            return await self._pipeline.run(self._handler, Request(door=door, caller=caller, body=request))
        except ComityError as refusal:
            raise as_refusal(refusal) from refusal

    def facts(self, session: Session) -> CallFacts:
        """Return the facts of a call by a model."""
        return self._facts.of(session, "model", None)

    def turn(self, session: Session) -> AbstractAsyncContextManager[None]:
        return self._locks.of(lock_name(session))

    async def exchange(
        self, session: Session, request: ContextRequest, audience: Audience
    ) -> AppliedExchange:
        recent = self.states.recent.take(session.id, self._clock.now())
        if recent is not None:
            try:
                return await self._exchange(session, request, audience, recent)
            except ComityError:
                pass  # what is stored now decides
        held = await self.states.held(session.id, owner_of(session))
        return await self._exchange(session, request, audience, held)

    async def _exchange(
        self, session: Session, request: ContextRequest, audience: Audience, held: Mapping[str, Versioned]
    ) -> AppliedExchange:
        known = await self.contexts.read(session, self._vault(), held)
        now = self._clock.now()
        before = await self.states.load(session.id, owner_of(session), held)
        # what the extension holds is held there alone, so that taking it back leaves nothing behind
        holds_signals = session.active(PERSONAL)
        context = context_after(known.context, replace(request, signals={}) if holds_signals else request)
        call = OperationCall(
            state=self._facts.begin(before, session, now),
            facts=self._facts.of(session, audience, context.categorical),
            rules=self.rules,
            now=now,
        )
        applied = apply_payload(call, request)
        return AppliedExchange(
            request=applied.request,
            kept=replace(applied.request, signals={}) if holds_signals else applied.request,
            before=known,
            context=context,
            signals=self._effective(session, applied.state, now),
            answers=answers(replace(call, state=applied.state)),
            # all that the answer was made from is written, so that the store reports if another write was first
            operations=lambda: self.states.keeping(before, applied.state, whole=True),
        )

    def stored(self, session_id: str, operations: Sequence[Operation], versions: Sequence[int]) -> None:
        self.states.recent.wrote(session_id, operations, versions)

    async def view(self, session: Session) -> OperationCall:
        """Return what a model may look at in a session. Nothing is counted and nothing is written."""
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
        used = context.signals if signals is None else signals
        return model_safe(used, context.categorical, session_active=active)

    async def owner_of(self, session_id: str) -> str | None:
        return await self.states.owner_of(session_id)

    async def refuse_others(self, session_id: str, asking: Session) -> None:
        """Raise NotFoundError or ForbiddenError, unless a stored session has the same owner as the one that asks."""
        owner = await self.states.owner_of(session_id)
        if owner is None:
            raise NotFoundError(NO_SUCH_SESSION)
        if owner != owner_of(asking):
            raise ForbiddenError("this session belongs to another owner; start your own session")

    def end(self, session_id: str) -> None:
        self.states.forget_anonymous(session_id)
        self.states.recent.forget(session_id)

    def own_session(self) -> Session:
        """Return a session of the node's own user, for a command: all that works here is active in it."""
        return Session(
            id=f"ses_{secrets.token_hex(16)}",
            version=str(V3_1),
            extensions=tuple(extension.id for extension in self.registrations()),
            identity=Identity(owner=self.own_id),
        )

    async def forget(self, session_id: str | None, caller: Caller, door: str) -> int:
        """Remove all that the node's own user has here, or one of its sessions; return how many values that were.

        Raises NotFoundError, ForbiddenError.
        """
        request = ForgetRequest(owner=self.own_id, session_id=session_id)
        forgotten: int = await self._pipeline.run(
            self._forget_handler, Request(door=door, caller=caller, body=request)
        )
        return forgotten

    async def purge(self) -> None:
        await self.states.purge(self.rules.personal)

    def _effective(self, session: Session, state: ExtensionState, now: float) -> Mapping[str, Signal] | None:
        if not session.active(PERSONAL):
            return None
        return personal.effective_signals(personal.STATE.of(state), self.rules.personal, now)

    def readers(self, sessions: LiveSessions) -> dict[str, ResourceReader]:
        """Return the readers of the resources (vcp 7.2). The owner of a session is checked before one is asked."""

        async def session_ids(owner: Owner) -> Iterable[str]:
            return sessions.ids_for(owner.session, owner.id)

        readers = {}
        for extension in built_in().values():
            if extension.resource is None:
                continue
            readers[extension.resource.host] = (
                self._operation_reader(extension)
                if extension.view is None
                else ResourceReader(self._view_reader(extension), session_ids)
            )
        return readers

    def _view_reader(self, extension: Extension) -> Any:
        async def read(session_id: str, owner: Owner) -> FadingContent:
            asking = owner.session or Session(
                id=session_id, version=str(V3_1), extensions=(extension.id,), identity=owner.identity
            )
            call = await self.view(replace(asking, id=session_id))
            assert extension.view is not None
            return FadingContent(extension.view(call), extension.unchanged_for(call))

        return read

    def _operation_reader(self, extension: Extension) -> ResourceReader:
        op, argument = extension.reads

        async def read(id_: str, owner: Owner) -> dict[str, Any]:
            if owner.session is None:
                raise NotFoundError("there is no such vote for you here")
            request = OperationRequest(op=op, args={argument: id_}, session=owner.session, audience="model")
            try:
                result = await self.perform(request, vcp_identity(owner.id or ""), "mcp")
            except ExtensionError as refusal:
                # a caller who takes no part does not learn whether there is one
                raise NotFoundError(refusal.message) from refusal
            found: dict[str, Any] = to_builtins(result)
            return found

        async def ids(owner: Owner) -> Iterable[str]:
            runner = self._handler.runners.get(extension.id)
            return (
                []
                if owner.session is None or runner is None
                else await runner.ids_of(self.facts(owner.session))
            )

        return ResourceReader(read, ids)
