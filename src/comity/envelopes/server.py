"""The handler where signed envelopes are answered by the agent of a node.

`SignedHandler` is what every handler of signed envelopes does, whatever does the work. Each has a book of its own, so the
numbers of one handler say nothing in another.

The order of checks is the contract's (envelope 3): carrier, format, addressee, state, signature,
chain. Between the last two stands the consent of the owner, where the handler has contacts. The acceptance of a request, the reply to it and both chains advance in one commit, after
the work is done: a crash before it leaves the pair as it was, and the same bytes run again; after
it, the same bytes get the stored reply. Work that fails changes nothing.

`MessageSend` is the door `POST /a2a/message/send` (envelope 3, ruling 7). Errors are an HTTP status and
`{"detail": sentence}`; a refusal by the chain also carries the signed statement of where the pair stands.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from comity.contacts.consent import CallConsent
from comity.contacts.held import MAX_WORDS
from comity.contacts.protocol.contact import Consent
from comity.envelopes.features import NO_FEATURES, Features
from comity.envelopes.protocol.card import can_be_called, is_gone
from comity.envelopes.protocol.chain import (
    BehaviourError,
    MisdirectedError,
    OutOfChainError,
    PairKey,
    ReplayState,
    TipStatement,
    VacantAsleepError,
    VacantGoneError,
    check_chain,
    check_freshness,
    check_stamped_after,
    signed_reply,
)
from comity.envelopes.protocol.envelope import (
    METHOD,
    Behaviour,
    VacantEnvelope,
    from_a2a_jsonrpc,
    recognise,
    to_a2a_message,
)
from comity.envelopes.protocol.errors import (
    ChainForkError,
    EnvelopeFormatError,
    EnvelopeSignatureError,
    ReplayDetectedError,
)
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.protocol.metadata import NO_MEMBERS, members_of_request, with_members
from comity.envelopes.queues import (
    SERVE_BOOK,
    ChainPositions,
    PairQueue,
    PairQueues,
    place_check,
    state_of,
    tip_of,
)
from comity.envelopes.sealing import ReplyVault
from comity.http.asgi import (
    Disconnected,
    Receive,
    Scope,
    Send,
    answer_at_once,
    answer_json,
    content_type,
    header,
    read_body,
    when_to_retry,
)
from comity.http.guard import caller_of
from comity.http.serving import LISTENER
from comity.identity.protocol.keys import SigningKey
from comity.requests.budget import KEPT_SECONDS, Budget, Quota
from comity.requests.caller import vacant
from comity.requests.handler import (
    Admission,
    Call,
    Handler,
    HandlerDefaults,
    HandlerResult,
    Identified,
    Request,
)
from comity.requests.pipeline import Pipeline
from comity.store.interface import CHAIN_BYTES, Advance, Answer, PruneReplies, Store, StoreConflict
from comity.store.vault import SEAL_BYTES, Vault
from comity.wire import strict_json
from comity.wire.errors import ComityError, ForbiddenError, StorageFullError, http_status, public_message
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.runtime.node_runtime import NodeRuntime

log = logging.getLogger("comity.envelopes")

StateProvider = Callable[[], str]
ContextOf = Callable[[str], Awaitable[object | None]]
"""Returns the context that the vacant of an id sent in a VCP session; None without one."""

BODY_LIMIT = 1_048_576
DEADLINE_SECONDS = 60.0
KEPT_REPLIES = 64
PAIR_BYTES = 16_777_216

_ASK_AGAIN = 1.0
_CONTENT_TYPES = frozenset({"application/json", "application/a2a+json"})

_ADMITTED = Admission(checks=("signature", "chain"))


class VerifiedCall:
    """An envelope that verified, and what came beside it. `queue` is set when its turn comes, `accepted` when it is
    admitted: the position of its chain after it. `consent` says whether the owner lets it be answered.
    """

    __slots__ = ("accepted", "consent", "envelope", "members", "queue")

    queue: PairQueue
    accepted: ReplayState
    consent: Consent

    def __init__(self, envelope: VacantEnvelope, members: Mapping[str, Any] = NO_MEMBERS) -> None:
        self.envelope = envelope
        self.members = members
        self.consent = "accept"

    @property
    def positions(self) -> ChainPositions:
        assert self.queue.positions is not None, "the positions are read before the first call of a queue"
        return self.queue.positions


class NodeOptions(TypedDict, total=False):
    """What is the same for all handlers of signed envelopes in a node."""

    key: Required[SigningKey]
    state_provider: Required[StateProvider]
    store: Required[Store]
    clock: Required[Clock]
    freshness: float | None
    restored_at: float | None
    budget: Budget | None
    quota: Quota | None
    pair_bytes: int
    sole_writer: bool
    vault: Callable[[], Vault] | None


class SignedHandlerOptions(NodeOptions, total=False):
    """What `SignedHandler` is made of, for handlers that need something besides."""

    deadline: float
    book: str
    features: Features


def node_options(runtime: "NodeRuntime", state_provider: StateProvider, quota: Quota) -> NodeOptions:
    return {
        "key": runtime.key,
        "state_provider": state_provider,
        "store": runtime.store,
        "clock": runtime.clock,
        "freshness": runtime.settings.agent.freshness_seconds or None,
        "restored_at": runtime.restored_at,
        "budget": runtime.budget,
        "quota": quota,
        "pair_bytes": runtime.settings.storage.pair_bytes,
        "sole_writer": True,  # the folder is claimed by this process
        "vault": runtime.current_vault,
    }


class SignedHandler(HandlerDefaults):
    def __init__(
        self,
        *,
        key: SigningKey,
        state_provider: StateProvider,
        store: Store,
        clock: Clock,
        deadline: float = DEADLINE_SECONDS,
        freshness: float | None = None,
        restored_at: float | None = None,
        budget: Budget | None = None,
        quota: Quota | None = None,
        pair_bytes: int = PAIR_BYTES,
        sole_writer: bool = False,
        book: str = SERVE_BOOK,
        features: Features = NO_FEATURES,
        vault: Callable[[], Vault] | None = None,
    ) -> None:
        """`freshness` is how many seconds a timestamp may be off, None for any number. `restored_at` is when the store
        was restored from a backup: nothing that was signed up to then moves a chain. `budget` limits the new pairs of
        an address. `sole_writer` says that no other process serves from this store. With a `quota`, what is stored is
        limited: `pair_bytes` for each pair, and what the quota says in all. `book` holds the chains. `features` add to
        the replies what is not of the envelope. `vault` seals the replies that are stored; without one they are stored
        as they are.
        """
        self.deadline = deadline
        self._key = key
        self._self = key.vacant_id
        self._state = state_provider
        self._store = store
        self._clock = clock
        self._freshness = freshness
        self._restored_at = None if restored_at is None else datetime.fromtimestamp(restored_at, UTC)
        self._budget = budget
        self._quota = quota
        self._features = features
        self._has_features = bool(features)
        self._pair_bytes = pair_bytes
        self._replies = ReplyVault(vault)
        self._queues = PairQueues(self._load, sole_writer=sole_writer, release=self._release, book=book)

    def identify(self, request: Request) -> Identified:
        envelope = self._read(request.body)
        if envelope.to_vacant_id != self._self:
            raise MisdirectedError(envelope.to_vacant_id, self._self)
        state = self._state()
        if not can_be_called(state):
            if is_gone(state):
                raise VacantGoneError(f"vacant is {state}; calls permanently rejected")
            raise VacantAsleepError(f"vacant is {state}; not accepting calls")
        verified = recognise(envelope)
        if verified is None:
            raise EnvelopeSignatureError(
                f"envelope signature did not verify for sender {envelope.from_vacant_id.short()}"
            )
        if self._freshness is not None:
            check_freshness(verified, now=self._now(), window=self._freshness)
        caller = vacant(verified.from_vacant_id.hex(), request.caller.address)
        members = members_of_request(request.body) if self._has_features else NO_MEMBERS
        return Identified(caller, VerifiedCall(verified, members))

    def _read(self, body: Any) -> VacantEnvelope:
        if not isinstance(body, dict):
            raise EnvelopeFormatError("the body must be one JSON object, the JSON-RPC request")
        if body.get("jsonrpc") != "2.0":
            raise EnvelopeFormatError(f"jsonrpc field must be '2.0'; got {_shown(body.get('jsonrpc'))}")
        if body.get("method") != METHOD:
            raise EnvelopeFormatError(f"method must be {METHOD!r}; got {_shown(body.get('method'))}")
        return from_a2a_jsonrpc(body)

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        verified: VerifiedCall = call.evidence
        slot = self._queues.slot(PairKey.from_envelope(verified.envelope), verified.envelope.sequence_no)
        verified.queue = slot.queue
        return slot

    async def admit(self, call: Call) -> Admission:
        verified: VerifiedCall = call.evidence
        accepted = verified.positions.accepted
        try:
            verified.accepted = check_chain(accepted, verified.envelope)
        except (ReplayDetectedError, ChainForkError) as refusal:
            return Admission(answered=await self._answer_again(verified, refusal))
        self._replies.require()
        if self._restored_at is not None:
            check_stamped_after(verified.envelope, self._restored_at)
        request = call.request
        if accepted.last_sequence_no == 0 and self._budget is not None and not request.caller.is_local:
            self._budget.spend_new_pair(request.caller.address)
        expected = request.size + SEAL_BYTES
        if self._quota is not None and not self._try_reserve(verified, self._quota, expected):
            await self._make_room(call, self._quota, expected)
        return _ADMITTED

    def knows(self, call: Call) -> bool:
        positions = call.evidence.queue.positions
        return positions is not None and positions.accepted.last_sequence_no > 0

    async def seal(self, call: Call, result: Any) -> HandlerResult:
        """`result` is the message of the reply."""
        verified: VerifiedCall = call.evidence
        request, positions, queue = verified.envelope, verified.positions, verified.queue
        reply = signed_reply(request, result, replied=positions.replied, key=self._key, now=self._now())
        plain = signed = to_a2a_message(reply)
        if verified.members or self._features.any_unasked:
            known = verified.accepted.last_sequence_no > 1
            peer = request.from_vacant_id
            signed = with_members(signed, await self._features.to_reply(peer, verified.members, known=known))
        message = strict_json.dumps(signed)
        kept = self._replies.seal(queue.calls, request.sequence_no, message)
        if self._quota is not None and not self._try_reserve(verified, self._quota, len(kept)):
            await self._make_room(call, self._quota, len(kept))
        queue.next = ChainPositions(verified.accepted, check_chain(positions.replied, reply))
        return HandlerResult(
            reply=message,
            operations=(self._stored(verified, kept, queue.next),),
            audit={
                "request_id_hash": f"blake2b:{request.compute_hash().hex()}",
                "content_hash": f"blake2b:{reply.compute_hash().hex()}",
            },
            checks=(place_check(queue, message if signed is not plain else None),),
        )

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        """Answer after another process has accepted an envelope of this pair while we worked on ours."""
        verified: VerifiedCall = call.evidence
        queue = verified.queue
        queue.positions, queue.next = await self._load(queue), None
        try:
            check_chain(queue.positions.accepted, verified.envelope)
        except (ReplayDetectedError, ChainForkError) as refusal:
            return await self._answer_again(verified, refusal)
        raise conflict

    def _try_reserve(self, verified: VerifiedCall, quota: Quota, size: int) -> bool:
        """Set aside what the reply needs: before the work, when nothing is known but the size of the request, and
        after it. False, and nothing was set aside: the pair is new, or the store has to be asked.
        """
        queue = verified.queue
        if queue.kept + size > self._pair_bytes or not verified.positions.accepted.last_sequence_no:
            return False
        return self._reserve(queue, quota, size, known=True)

    def _reserve(self, queue: PairQueue, quota: Quota, size: int, *, known: bool) -> bool:
        more = size - queue.reserved
        if more > 0:
            if not quota.try_reserve(queue.holder, more, known=known):
                return False
        else:
            quota.end_reservation(queue.holder, -more, stored=False)
        queue.reserved = size
        return True

    async def _make_room(self, call: Call, quota: Quota, size: int) -> None:
        """Reserve by asking the store. A call that does not fit is refused, for no reply that was promised may go (ruling
        10).
        """
        verified: VerifiedCall = call.evidence
        queue, known = verified.queue, verified.positions.accepted.last_sequence_no > 0
        if queue.kept + size > self._pair_bytes:
            await self._make_room_in_pair(verified, size)
        if not known:
            size += 2 * CHAIN_BYTES
            if not call.request.caller.is_local:
                queue.holder = quota.holder_of(call.request.caller.address)
        if not self._reserve(queue, quota, size, known=known):
            await quota.reserve(queue.holder, size - queue.reserved, known=known)
            queue.reserved = size

    async def _make_room_in_pair(self, verified: VerifiedCall, size: int) -> None:
        """Look what the pair has stored in truth: of more than 64 replies, one goes for each that comes."""
        queue, now = verified.queue, self._clock.monotonic()
        if now < queue.full_until:
            raise self._pair_is_full()
        before = self._clock.now() - KEPT_SECONDS
        await self._store.commit(PruneReplies(chain=queue.calls, keep=KEPT_REPLIES, before=before))
        queue.kept = (await self._store.kept(queue.calls)).bytes
        oldest = await self._store.reply(queue.calls, verified.envelope.sequence_no - KEPT_REPLIES)
        going = 0 if oldest is None else len(oldest.reply or b"")
        if queue.kept - going + size > self._pair_bytes:
            queue.full_until = now + _ASK_AGAIN
            raise self._pair_is_full()

    def _pair_is_full(self) -> StorageFullError:
        return StorageFullError(
            f"the replies stored for this pair would exceed {self._pair_bytes:,} bytes; the last {KEPT_REPLIES} are "
            "kept for a day, so try again later or ask for shorter ones"
        )

    def _release(self, queue: PairQueue, stored: bool) -> None:
        if self._quota is not None:
            self._quota.end_reservation(queue.holder, queue.reserved, stored=stored)
        queue.kept += queue.reserved if stored else 0
        queue.reserved = 0

    def _stored(self, verified: VerifiedCall, message: bytes, following: ChainPositions) -> Answer:
        queue, positions, now = verified.queue, verified.positions, self._clock.now()
        number = verified.envelope.sequence_no
        return Answer(
            calls=Advance(
                chain=queue.calls,
                expected=tip_of(positions.accepted),
                to=tip_of(following.accepted),
                holder=queue.holder,
            ),
            replies=Advance(
                chain=queue.replies,
                expected=tip_of(positions.replied),
                to=tip_of(following.replied),
                holder=queue.holder,
            ),
            reply=message,
            at=now,
            instead_of=number - KEPT_REPLIES if number > KEPT_REPLIES else None,
            keep=None if number % KEPT_REPLIES else KEPT_REPLIES,
            before=now - KEPT_SECONDS,
        )

    async def _answer_again(
        self, verified: VerifiedCall, refusal: ReplayDetectedError | ChainForkError
    ) -> HandlerResult:
        """Return the stored reply for the very same envelope; raise the refusal, with the way back, for any other."""
        envelope, queue, accepted = verified.envelope, verified.queue, verified.positions.accepted
        if envelope.sequence_no <= accepted.last_sequence_no:
            kept = await self._store.reply(queue.calls, envelope.sequence_no)
            if kept is not None and kept.reply is not None and kept.digest == envelope.compute_hash():
                return HandlerResult(
                    reply=self._replies.give(queue.calls, envelope.sequence_no, kept.reply),
                    audit={"request_id_hash": f"blake2b:{envelope.compute_hash().hex()}"},
                )
        statement = TipStatement.of(queue.pair, accepted, now=self._now()).signed(self._key)
        raise OutOfChainError(refusal.message, queue.pair, accepted, statement) from refusal

    async def _load(self, queue: PairQueue) -> ChainPositions:
        accepted, replied = await asyncio.gather(self._store.tip(queue.calls), self._store.tip(queue.replies))
        if self._quota is not None and accepted.seq:
            kept = await self._store.kept(queue.calls)
            queue.kept, queue.holder = kept.bytes, kept.holder
        return ChainPositions(state_of(accepted), state_of(replied))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)


class EnvelopeHandler(SignedHandler):
    name = "envelope"

    def __init__(
        self,
        *,
        behaviour: Behaviour,
        context_of: ContextOf | None = None,
        consent: CallConsent | None = None,
        **given: Unpack[SignedHandlerOptions],
    ) -> None:
        """`context_of` is for a behaviour that takes the context of its caller. Without `consent` everybody may call."""
        super().__init__(**given)
        self._consent = consent
        self._behaviour: Callable[..., Awaitable[A2AMessage]] = behaviour
        self._context_of = context_of if getattr(behaviour, "takes_context", False) else None

    def identify(self, request: Request) -> Identified:
        identified = super().identify(request)
        if self._consent is not None:
            verified: VerifiedCall = identified.evidence
            verified.consent = self._consent.to_call(
                identified.caller.id, request.listener, verified.envelope.compute_hash
            )
        return identified

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        """Let a call wait for those before it only if it may be answered."""
        return super().hold(call) if call.evidence.consent == "accept" else nullcontext()

    def admit(self, call: Call) -> Coroutine[Any, Any, Admission]:
        """Return the steps of a call that may be answered, or those that turn it away."""
        if call.evidence.consent == "accept" or self._consent is None:
            return super().admit(call)
        return self._turn_away(call, self._consent)

    async def _turn_away(self, call: Call, consent: CallConsent) -> Admission:
        verified: VerifiedCall = call.evidence
        envelope = verified.envelope
        if verified.consent == "hold" and verified.members:
            await self._features.take_introduction(envelope.from_vacant_id, verified.members)
        await consent.turn_away(
            verified.consent,
            call.caller,
            digest=envelope.compute_hash(),
            words=first_words(envelope.payload, MAX_WORDS),
            size=call.request.size,
            listener=call.request.listener,
        )

    def knows(self, call: Call) -> bool:
        return call.evidence.consent == "accept" and super().knows(call)

    async def handle(self, call: Call) -> A2AMessage:
        envelope = call.evidence.envelope
        try:
            if self._context_of is None:
                message: object = await self._behaviour(envelope)
            else:
                context = await self._context_of(envelope.from_vacant_id.hex())
                message = await self._behaviour(envelope, context)
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            log.exception("the agent failed on an envelope of %s", call.caller.id[:12])
            raise BehaviourError(
                "the agent failed on this message; nothing was recorded; call again"
            ) from fault
        if not isinstance(message, A2AMessage):  # the agent is somebody else's code
            log.error("the agent returned %s instead of an A2AMessage", type(message).__name__)
            raise BehaviourError("the agent gave no message; nothing was recorded")
        return message


def first_words(message: A2AMessage, most: int) -> str:
    """Return the beginning of its text."""
    return " ".join(part.text[:most] for part in message.parts[:most])[:most]


def _shown(value: Any) -> str:
    """Return it as the reference prints it, and never longer than a line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


class MessageSend:
    """Raw ASGI: every call of every peer comes through here."""

    def __init__(self, handler: Handler, pipeline: Pipeline, body_limit: int = BODY_LIMIT) -> None:
        self._handler = handler
        self._pipeline = pipeline
        self._body_limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await answer_json(send, {"detail": "use POST"}, 405, [(b"allow", b"POST")])
            return
        try:
            if content_type(scope) not in _CONTENT_TYPES:
                given = header(scope, b"content-type")
                detail = f"unsupported content-type {given!r}; expected application/json"
                self._pipeline.record.refuse(self._handler.name, "unsupported")
                await answer_json(send, {"detail": detail}, 415)
                return
            body = await read_body(scope, receive, self._body_limit)
            sent = strict_json.loads(body, unique_keys=True)
            request = Request(
                door="a2a",
                caller=caller_of(scope),
                body=sent,
                size=len(body),
                listener=scope.get(LISTENER, ""),
            )
            message: bytes = await self._pipeline.run(self._handler, request)
        except Disconnected:
            return
        except ComityError as refusal:
            self._pipeline.record.refuse_once(self._handler.name, refusal)
            await refuse(send, refusal)
            return
        reply = b'{"jsonrpc":"2.0","id":%b,"result":{"message":%b}}'
        await answer_at_once(scope, send, reply % (strict_json.dumps(sent.get("id")), message))


async def refuse(send: Send, refusal: ComityError) -> None:
    if isinstance(refusal, OutOfChainError):
        await answer_json(send, refusal.body(), 409)
        return
    body = {"detail": public_message(refusal)}
    if isinstance(
        refusal, ForbiddenError
    ):  # not of the contract, so a program needs a word that it can compare
        body["code"] = refusal.code
    await answer_json(send, body, http_status(refusal), when_to_retry(refusal))
