"""The session service: runs the server's machine on a link and answers its questions.

- Every handshake, refusal, exchange and decision about revocation becomes an audit entry at once. If an address causes too
  many refusals, the rest of them are only counted (ruling 22).
- A context, the state of its extensions and the audit entry are one commit, and the answer waits for it (ruling 23). If
  another exchange of the same session was stored meanwhile, the request is applied to its result. Calls of extensions
  go through the pipeline.
- Internal errors go to the log; the client learns only that it failed.
- Before there is a session, a link accepts only hellos of at most 64 KiB. After that it accepts longer messages.
- Reading pauses while too many messages wait or too many calls are in progress (ruling 47).
- Each message in a session is charged to the address and to a proven identity. When a budget is used up, reading pauses:
  nothing is refused, lost or closed. Hellos have a limit of their own and are refused.
- A refused message of an unproven sender is charged to the address as a fault. An address in debt gets no new
  connection, and its messages wait.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Final, Protocol

from msgspec.structs import replace

from comity.identity.protocol.revocation import RevocationStatus
from comity.identity.protocol.tokens import TokenVerdict
from comity.requests.budget import Budget
from comity.requests.caller import Caller
from comity.requests.handler import begin_request
from comity.requests.record import REQUEST_IDS, Act, Recorder
from comity.store.interface import Operation, StoreConflict
from comity.store.vault import Vault
from comity.vcp import sessions as record
from comity.vcp.conductor import Conductor
from comity.vcp.contexts import ContextExchange, Contexts, UnreadableContextError, owner_of
from comity.vcp.extension_host import ExtensionHost, OperationRequest
from comity.vcp.identity import IdentityChecker
from comity.vcp.plugins import VcpExtension, answers_of
from comity.vcp.protocol import agreement as core_features
from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.built_in import addresses, built_in, operations
from comity.vcp.protocol.context import (
    CallerContext,
    ContextResponse,
    SessionContext,
    after,
    constitution_id,
    respond,
    without_proof,
)
from comity.vcp.protocol.extension_calls import MAX_CALLS_IN_FLIGHT, Audience, ExtensionError
from comity.vcp.protocol.injection import Severity
from comity.vcp.protocol.messages import RELATIONAL
from comity.vcp.protocol.negotiation import (
    CheckIdentity,
    ExchangeContext,
    Happened,
    RunOperation,
    ServerPolicy,
    SessionEndedError,
    WatchFeatures,
)
from comity.vcp.protocol.resource_addresses import BUNDLE, StateScope
from comity.vcp.protocol.server import ServerMachine, lost_message
from comity.vcp.protocol.signals import ContextError, model_safe
from comity.vcp.sessions import ConnectionLimits, LiveSessions, OpenConnections, RunningFeatures
from comity.wire.errors import ComityError, ConflictError, ForbiddenError, OverloadedError
from comity.wire.link import GONE, PeerLink
from comity.wire.machine import Ask, Clock, Effect, Event, Received

log = logging.getLogger("comity.vcp")

SEND_SECONDS: Final = 10.0
MAX_APPLIED: Final = 8

_DEBT_SECONDS: Final = 10.0
_FAULTS: Final = frozenset({"HANDSHAKE_ERROR", "CONTEXT_REFUSED", "CALL_REFUSED"})
_SHOWN_NAMES: Final = 5
_SHOWN_LENGTH: Final = 64
_STOPS: Final = "this side stops"
_ACK: Final = "HANDSHAKE_ACK"


class VcpLink(PeerLink, Protocol):
    def allow(self, message_bytes: int) -> None:
        """Accept messages of this many bytes. A longer one is handed over as any bytes beyond every limit of the
        machine.
        """
        ...


class VcpServer:
    def __init__(
        self,
        record: Recorder,
        clock: Clock,
        *,
        policy: ServerPolicy,
        features: RunningFeatures,
        desk: IdentityChecker,
        contexts: Contexts,
        vault: Callable[[], Vault],
        limits: ConnectionLimits | None = None,
        budget: Budget | None = None,
        extensions: ExtensionHost | None = None,
        plugins: Iterable[VcpExtension] = (),
        new_id: Callable[[], str] = lambda: f"ses_{secrets.token_hex(16)}",
    ) -> None:
        """`policy` is asked for all but its features, which are those that run. `budget` is that of the whole
        node, or else one of its own with the usual figures. Without `extensions` none of the
        contract may be in the registry; `plugins` answer the payloads of those from outside, which it holds too.
        """
        self.sessions = LiveSessions()
        self.on_change: Callable[[str], None] = lambda _uri: None
        self.last_client = ""
        self._record = record
        self._clock = clock
        self._policy = policy
        self.features = features
        self._checker = desk
        self._contexts = contexts
        self._vault = vault
        self._extensions = extensions
        self._budget = budget or Budget(clock)
        self._connections = OpenConnections(limits or ConnectionLimits(), has_share=self._budget.limits)
        self._plugins = {plugin.id: plugin for plugin in plugins}
        self._new_id = new_id

    @property
    def message_limit(self) -> int:
        return self._policy.message_limit

    @property
    def scan_threshold(self) -> Severity:
        return self._policy.scan_threshold

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def serve(self, link: VcpLink) -> str:
        """Serve one connection to its end, and return the reason. Raises OverloadedError, with nothing sent, if there is no
        capacity for it.
        """
        connection = ServedConnection(self, link, self.machine(link.peer))
        limited = RateLimitedLink(link, connection, self._budget, self._clock)
        conductor = Conductor(connection, limited, self._clock, connection.answer, send_seconds=SEND_SECONDS)
        try:
            connection.number = self._enter(link.peer, connection.cancel)
        except OverloadedError as refusal:
            self._record.refuse(record.FEATURE, refusal.code)
            raise
        connection.running = running = asyncio.create_task(conductor.run())
        try:
            await asyncio.wait([running])
        finally:
            running.cancel()
            await asyncio.wait([running])
            self._connections.gone(connection.number)
            connection.end()
        if running.cancelled():
            await link.close(_STOPS)  # it may not have begun
            return _STOPS
        fault = running.exception()
        if fault is not None and not isinstance(fault, ConnectionError):
            log.error("a VCP connection failed on our side", exc_info=fault)
            return "something failed on our side"
        reason = GONE if fault is not None else running.result()
        if reason == GONE:
            self._record.count(record.FEATURE, "hung_up")
        return reason

    def _enter(self, peer: str, cancel: Callable[[], None]) -> int:
        if self._budget.is_in_debt(peer):
            raise OverloadedError(
                "too many refused messages from this address; try again later", _DEBT_SECONDS
            )
        return self._connections.enter(peer, cancel)

    async def context_of(self, vacant_id: str) -> CallerContext | None:
        """Return what an agent may know of a vacant that calls it, from the last session that it opened and that is still open.
        A session is a vacant's if its token verifies and names it as the subject, or if it is the owner's.
        """
        session = next((one for one in reversed([*self.sessions]) if _is_of(one, vacant_id)), None)
        if session is None:
            return None
        try:
            await self._checker.check_open(session)
            context = await self._contexts.known(session, self._vault())
            if self._extensions is None:
                safe = model_safe(context.signals, context.categorical, session_active=True)
            else:
                safe = await self._extensions.model_safe_context(session, context, active=True)
        except ForbiddenError as reason:  # revoked or unreadable: the call continues without it
            log.warning("the context of a caller is not used: %s", reason)
            return None
        return CallerContext(model_safe_context=safe, generation_preferences=context.preferences)

    async def resume(self, session_id: str, identity: Identity | None) -> SessionContext:
        """Return the context of an earlier session, for its owner."""
        return await self._contexts.resume(session_id, identity, self._vault())

    async def history(self, session_id: str, identity: Identity | None) -> tuple[ContextExchange, ...]:
        return await self._contexts.history(session_id, identity, self._vault())

    def machine(self, peer: str, *, repeats: bool = False) -> ServerMachine:
        """`repeats`: the hello was accepted a moment ago and is only repeated with the next request."""
        running = self.features.running()
        if running != self._policy.core_features:
            self._policy = replace(self._policy, core_features=running)
        limiter = self._budget.handshakes(peer, repeats=repeats)
        return ServerMachine(self._policy, peer=peer, session_id=self._new_id(), limiter=limiter)

    def end(self, session: Session) -> None:
        """End a session, and drop what is held of it in memory."""
        self.sessions.ended(session)
        self._contexts.forget_anonymous(session.id)
        if self._extensions is not None:
            self._extensions.end(session.id)

    def spoke(self, number: int) -> None:
        self._connections.touch(number)

    def happened(self, what: Happened, peer: str) -> None:
        if what.invalid_names:
            shown = ", ".join(repr(name[:_SHOWN_LENGTH]) for name in what.invalid_names[:_SHOWN_NAMES])
            log.warning("a hello from %s names what are no extension ids: %s", peer, shown)
        act = record.happened(what, peer)
        if what.what in _FAULTS and what.code != "RATE_LIMITED" and act.caller.proof == "none":
            self._budget.spend_fault(peer)
        if what.what == _ACK:
            self.last_client = act.about
        self._note(act, peer, written=what.what == _ACK)

    async def check_identity(self, token: str) -> Identity:
        return await self._checker.check(token, self._decided)

    def ended(self, session: Session) -> SessionEndedError | None:
        """Return why a session must end, without a fetch; None if it can continue."""
        running = self.features.running()
        claimed = core_features.claimed(running, session.speaks, production=self._policy.production)
        lost = core_features.lost(session.core_features, claimed)
        if lost:
            return SessionEndedError("INTERNAL_ERROR", lost_message(lost))
        return self._checker.ended(session)

    async def call(self, question: RunOperation, peer: str) -> Any:
        """Run an operation of an extension for the owner of a session. Raises ExtensionError, SessionEndedError."""
        session, call = question.session, question.call
        request = OperationRequest(op=call.op, args=call.args, session=session)
        return await self.perform(request, record.caller_in(session, peer), record.FEATURE)

    async def perform(self, request: OperationRequest, caller: Caller, door: str) -> Any:
        """Run an operation for any door. Raises ExtensionError, SessionEndedError."""
        if self._extensions is None:
            raise ExtensionError("EXTENSION_INACTIVE", "this server has no extensions")
        self.features.check()
        await self._checker.check_open(request.session)
        result = await self._extensions.perform(request, caller, door)
        operation = operations()[request.op]
        self._notify_changes(request.session, operation.writes)
        extension = built_in()[operation.extension]
        if "shared" in operation.writes and extension.resource is not None:
            _, argument = extension.reads
            self.on_change(extension.resource.uri(request.args.get(argument, getattr(result, "id", ""))))
        return result

    def _notify_changes(self, session: Session, scopes: Collection[StateScope]) -> None:
        """Notify those who watch a resource that has changed. All sessions of an owner share the owner's state."""
        changed = {"session": {session.id}, "owner": {session.id}}
        owner = owner_of(session)
        if owner is not None and "owner" in scopes:
            changed["owner"] |= {one.id for one in self.sessions if owner_of(one) == owner}
        for address in (*addresses().values(), BUNDLE):
            if address.scope in scopes:
                for id_ in changed.get(address.scope, ()):
                    self.on_change(address.uri(id_))

    async def exchange(
        self, question: ExchangeContext, peer: str, audience: Audience = "owner"
    ) -> ContextResponse:
        """Apply and store a context request, and return the response."""
        try:
            self.features.check()
            await self._checker.check_open(question.session)
            question = await self._check_constitution(question)
            async with nullcontext() if self._extensions is None else self._extensions.turn(question.session):
                return await self._apply(question, peer, audience)
        except ComityError as refusal:
            self._note(record.not_exchanged(question.session, refusal.code, peer), peer)
            if isinstance(refusal, UnreadableContextError | ConflictError | SessionEndedError | ContextError):
                raise
            if isinstance(refusal, ExtensionError):
                raise ContextError("INVALID", refusal.message, refusal.field) from None
            log.exception("a context could not be kept")
            raise ComityError("the context could not be kept; try again later") from None

    async def _check_constitution(self, question: ExchangeContext) -> ExchangeContext:
        """Return the exchange; a stapled proof that did not count is among what is ignored then."""
        request = question.request
        if request.constitution is None:
            return question
        bundle = constitution_id(request.constitution)
        fault = await self._checker.check_bundle(bundle, request.stapled_proof, question.session)
        return replace(question, request=without_proof(request, fault)) if fault else question

    async def _apply(self, question: ExchangeContext, peer: str, audience: Audience) -> ContextResponse:
        session, request = question.session, question.request
        began = self._clock.now()
        vault = self._vault()
        added = await answers_of(self._plugins, request, session)
        for _ in range(MAX_APPLIED):
            if self._extensions is None:
                before = await self._contexts.read(session, vault)
                context = after(before.context, request)
                response = respond(request, context, session, added)
                stored = self._contexts.keeping(session, request, before, context, vault)
            else:
                applied = await self._extensions.exchange(session, request, audience)
                context, before = applied.context, applied.before
                answered = {**applied.answers, **added}
                response = respond(applied.request, context, session, answered, applied.signals)
                stored = self._contexts.keeping(session, applied.kept, before, context, vault)
                stored += applied.operations()
            act = record.exchanged(session, response, peer, self._clock.now() - began)
            if not stored:
                self._watch(self._record.note(act))
            elif not await self._committed(session, stored, act):
                continue
            self._record.measure(record.FEATURE, act.result.lower(), act.seconds)
            changed: tuple[StateScope, ...] = ("session",)
            if RELATIONAL in request.extensions:
                changed = ("session", "owner")
            self._notify_changes(session, changed)
            return response
        raise ConflictError(
            f"other requests of this session were stored first, {MAX_APPLIED} times in a row; send it again"
        )

    async def _committed(self, session: Session, operations: Sequence[Operation], act: Act) -> bool:
        """Return False if something else was stored since the state was read."""
        try:
            versions = await self._record.commit(operations, act)
        except StoreConflict:
            return False
        except ComityError:
            self.features.audit_written(False)
            raise
        self.features.audit_written(True)
        if self._extensions is not None:
            self._extensions.stored(session.id, operations, versions)
        return True

    def _decided(self, verdict: TokenVerdict, status: RevocationStatus) -> None:
        self._watch(self._record.note(record.revocation(verdict, status)))

    def _note(self, act: Act, peer: str, *, written: bool = False) -> None:
        """Write the audit entry; beyond the share of the address only count it."""
        if written or (act.failed_step != "RATE_LIMITED" and self._budget.take_entry(peer)):
            self._record.count(record.FEATURE, (act.failed_step or act.result).lower())
            self._watch(self._record.note(act))
        else:
            self._record.refuse(record.FEATURE, act.failed_step or act.result)

    def _watch(self, written: "asyncio.Future[tuple[Any, ...]] | None") -> None:
        """Report to the features whether the entry was written."""
        if written is not None:
            written.add_done_callback(self._tell_features)

    def _tell_features(self, written: "asyncio.Future[tuple[Any, ...]]") -> None:
        if not written.cancelled():
            self.features.audit_written(written.exception() is None)


def _is_of(session: Session, vacant_id: str) -> bool:
    identity = session.identity
    return (
        identity is not None
        and identity.owner is not None
        and vacant_id in (identity.owner, identity.subject)
    )


class RateLimitedLink:
    """A link that returns each message when the budget allows it."""

    def __init__(self, link: VcpLink, connection: "ServedConnection", budget: Budget, clock: Clock) -> None:
        self._link = link
        self._connection = connection
        self._budget = budget
        self._clock = clock

    @property
    def max_message_bytes(self) -> int:
        return self._link.max_message_bytes

    @property
    def peer(self) -> str:
        return self._link.peer

    async def send(self, message: bytes) -> None:
        await self._link.send(message)

    async def receive(self) -> bytes:
        await self._connection.wait_for_capacity()
        message = await self._link.receive()
        session, peer, budget = self._connection.session, self._link.peer, self._budget
        if not budget.limits(peer) or (session is None and not budget.is_in_debt(peer)):
            return message
        while wait := budget.take(peer, len(message)):
            await self._clock.sleep(wait)
        owner = None if session is None else owner_of(session)
        if owner is not None:
            while wait := budget.take_identity(f"vcp:{owner}", peer, len(message)):
                await self._clock.sleep(wait)
        return message

    async def close(self, reason: str = "") -> None:
        await self._link.close(reason)


class ServedConnection:
    """A machine, with its session and its calls in progress. Its events go on record before anything is sent, also when the
    connection ends at that moment.
    """

    def __init__(self, service: VcpServer, link: VcpLink, machine: ServerMachine) -> None:
        self.number = 0
        self.running: asyncio.Task[str] | None = None
        self._service = service
        self._link = link
        self._machine = machine
        self.session: Session | None = None
        self._calls = 0
        self._progress = asyncio.Event()

    async def wait_for_capacity(self) -> None:
        """Wait until one more message and one more call may be in progress."""
        while self._machine.is_full or self._calls >= MAX_CALLS_IN_FLIGHT:
            self._progress.clear()
            await self._progress.wait()

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        if type(event) is Received:
            begin_request(REQUEST_IDS.new())
        effects = self._machine.receive(event, now)
        self._progress.set()
        if type(event) is Received:
            self._service.spoke(self.number)
        if self.session is None and self._machine.session is not None:
            self.session = self._machine.session
            self._service.sessions.began(self.session)
            self._link.allow(self._service.message_limit)
        wanted: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Ask) and isinstance(effect.request, Happened):
                self._service.happened(effect.request, self._link.peer)
            else:
                if isinstance(effect, Ask) and isinstance(effect.request, RunOperation):
                    self._calls += 1
                wanted.append(effect)
        return wanted

    async def answer(self, question: Any) -> Any:
        match question:
            case CheckIdentity(token):
                return await self._service.check_identity(token)
            case ExchangeContext():
                return await self._service.exchange(question, self._link.peer)
            case RunOperation():
                try:
                    return await self._service.call(question, self._link.peer)
                finally:
                    self._calls -= 1
                    self._progress.set()
            case WatchFeatures(features):
                return await self._service.features.wait_for_change(features)
            case _:
                raise TypeError(f"there is no answer for {type(question).__name__}")

    def cancel(self) -> None:
        assert self.running is not None
        self.running.cancel()

    def end(self) -> None:
        if self.session is not None:
            self._service.end(self.session)
