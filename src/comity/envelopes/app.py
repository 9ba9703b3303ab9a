"""A vacant as a Starlette application or router, to be served alone or mounted elsewhere.

Its handler and its pipeline are made when the first envelope comes. The store behind one of our replay stores is opened in
the loop that serves. A replay store of the program's own is driven as it is, with the reference's semantics. What is
embedded like this has no audit log; a node has.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Protocol, cast, runtime_checkable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from comity.envelopes.protocol.card import CapabilityCard, is_gone, serialize
from comity.envelopes.protocol.chain import (
    BehaviourError,
    OutOfChainError,
    PairKey,
    ReplayState,
    ReplayStore,
    TipStatement,
    VacantGoneError,
    signed_reply,
)
from comity.envelopes.protocol.envelope import (
    A2A_VACANT_METADATA_KEY,
    Behaviour,
    VacantEnvelope,
    to_a2a_message,
)
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.protocol.resident import ResidentForm
from comity.envelopes.server import EnvelopeHandler, MessageSend, StateProvider, refuse
from comity.http.asgi import Receive, Scope, Send
from comity.identity.protocol.keys import AnySigningKey, SigningKey, own_key
from comity.release import __version__
from comity.requests.handler import Admission, Call, HandlerResult
from comity.requests.pipeline import Pipeline
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConflictError, InvalidError
from comity.wire.machine import Clock

# What the vacant of this node offers, and whether it takes calls: `/card`, `/health` and the card of A2A.

AGENT_CARD_PATH = "/.well-known/agent-card.json"
CARD_PATHS = ("/card", "/health", AGENT_CARD_PATH)
CHAIN_RESET_PATH = "/a2a/chain/reset"
"""A later release of the reference forgets a chain there, so that all old envelopes can be sent again. We have no such
path, and say so to everybody: 404 (ruling 7)."""

MESSAGE_SEND_BINDING = "urn:comity:binding:a2a-message-send:v1"
A2A_VERSION = "1.0"

_TEXT = "text/plain"
_CACHED_SECONDS = 60


def card_routes(form: Callable[[], ResidentForm], name: str, freshness: float = 0.0) -> list[Route]:
    """`freshness`: how many seconds old an envelope may be; 0 if any age is accepted."""

    async def card(_request: Request) -> Response:
        held = form().capability_card
        if held is None:
            raise HTTPException(404)
        return _json(
            {
                "vacant_id": held.vacant_id.hex(),
                "capability_text": held.capability_text,
                "endpoint": held.endpoint,
                "halo_version": held.halo_version,
                "capability_card_blob_hex": serialize(held).hex(),
            }
        )

    async def health(_request: Request) -> Response:
        resident = form()
        return _json(
            {"vacant_id": resident.identity.hex(), "state": resident.runtime_state.value, "name": name}
        )

    async def agent_card(request: Request) -> Response:
        resident = form()
        held = resident.capability_card
        if held is None or held.endpoint is None:
            raise HTTPException(404)
        if is_gone(resident.runtime_state):
            raise VacantGoneError(f"vacant is {resident.runtime_state}; calls permanently rejected")
        body = strict_json.dumps(a2a_agent_card(held, name, freshness))
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": f"public, max-age={_CACHED_SECONDS}"}
        if tag in [known.strip() for known in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return [Route("/card", card), Route("/health", health), Route(AGENT_CARD_PATH, agent_card)]


def a2a_agent_card(card: CapabilityCard, name: str, freshness: float) -> dict[str, Any]:
    offer = card.capability_text or "answers signed messages"
    params: dict[str, Any] = {"vacantId": card.vacant_id.hex(), "alg": "Ed25519", "hash": "blake2b-256"}
    if freshness:
        params["maxSkewSeconds"] = freshness
    return {
        "name": name,
        "description": offer,
        "version": __version__,
        "supportedInterfaces": [
            {"url": card.endpoint, "protocolBinding": MESSAGE_SEND_BINDING, "protocolVersion": A2A_VERSION}
        ],
        "capabilities": {
            "extensions": [
                {
                    "uri": A2A_VACANT_METADATA_KEY,
                    "description": "Every message is a signed envelope, numbered and chained for each pair of agents.",
                    "required": True,
                    "params": params,
                }
            ]
        },
        "defaultInputModes": [_TEXT],
        "defaultOutputModes": [_TEXT],
        "skills": [{"id": "message", "name": name, "description": offer, "tags": ["signed-envelope"]}],
    }


def _json(value: Mapping[str, Any]) -> Response:
    return Response(strict_json.dumps(value), media_type="application/json")


# Signed envelopes on a replay store of another program's (ruling 41): the reference's own semantics.

log = logging.getLogger("comity.envelopes")

NO_STORE: Final = cast("Store", None)
"""The replay store keeps all the state there is: nothing is ever committed beside it."""


class ForeignStoreHandler(EnvelopeHandler):
    def __init__(
        self,
        replay_store: ReplayStore,
        *,
        key: SigningKey,
        behaviour: Behaviour,
        state_provider: StateProvider,
        clock: Clock,
    ) -> None:
        super().__init__(
            key=key, behaviour=behaviour, state_provider=state_provider, store=NO_STORE, clock=clock
        )
        self._replay_store = replay_store
        self._replying = asyncio.Lock()

    def hold(self, call: Call) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def knows(self, call: Call) -> bool:
        return False  # only the store knows

    async def admit(self, call: Call) -> Admission:
        envelope: VacantEnvelope = call.evidence.envelope
        try:
            await self._replay_store.check_and_advance(envelope)
        except Exception as refusal:
            raise await self._out_of_chain(envelope, refusal) from refusal
        return Admission(checks=("signature", "chain"))

    async def handle(self, call: Call) -> A2AMessage:
        try:
            return await super().handle(call)
        except BehaviourError as failure:
            raise BehaviourError(
                "the agent failed on this message; its number is used, so go on with the next one"
            ) from failure

    async def seal(self, call: Call, result: A2AMessage) -> HandlerResult:
        request: VacantEnvelope = call.evidence.envelope
        async with self._replying:  # the store reads and advances in two steps: nobody may come between
            reply = await chained_reply(
                self._replay_store, request=request, payload=result, key=self._key, now=self._now()
            )
        return HandlerResult(reply=strict_json.dumps(to_a2a_message(reply)))

    async def _out_of_chain(self, envelope: VacantEnvelope, refusal: Exception) -> ComityError:
        """Return what the store raised, as 409, whatever it was; with the way back where the store can say it."""
        if not isinstance(refusal, ComityError):
            log.warning("the replay store refused an envelope: %s: %s", type(refusal).__name__, refusal)
        detail = refusal.message if isinstance(refusal, ComityError) else str(refusal)
        pair = PairKey.from_envelope(envelope)
        try:
            state = _own_state(await self._replay_store.get(pair))
            statement = TipStatement.of(pair, state, now=self._now()).signed(self._key)
        except Exception:
            log.exception("the replay store does not say where a pair stands")
            return ConflictError(detail)
        return OutOfChainError(detail, pair, state, statement)


async def chained_reply(
    store: ReplayStore, *, request: VacantEnvelope, payload: A2AMessage, key: SigningKey, now: datetime
) -> VacantEnvelope:
    """Return the next signed link of the chain of replies to this caller, recorded before it is returned."""
    replied = _own_state(await store.get(PairKey(key.vacant_id, request.from_vacant_id)))
    reply = signed_reply(request, payload, replied=replied, key=key, now=now)
    await store.check_and_advance(reply)
    return reply


def _own_state(state: Any) -> ReplayState:
    return ReplayState(state.last_sequence_no, state.chain_tip)


@runtime_checkable
class OnStore(Protocol):
    """A replay store of Comity that can give us the `Store` below it."""

    async def open_once(self) -> Store: ...


class EmbeddedVacant:
    def __init__(
        self,
        *,
        self_form: ResidentForm,
        self_signing_key: AnySigningKey,
        behavior: Behaviour,
        replay_store: OnStore | ReplayStore,
        state_provider: StateProvider | None = None,
    ) -> None:
        if not isinstance(replay_store, OnStore | ReplayStore):
            raise InvalidError(
                "replay_store must be an InMemoryReplayStore, a SqliteReplayStore, or an object with the "
                "methods get and check_and_advance"
            )
        self.form = self_form
        self._key = key_of(self_form, self_signing_key)
        self._behavior = behavior
        self._replay_store = replay_store
        self._state = state_provider or (lambda: self_form.runtime_state)
        self._opening: asyncio.Task[tuple[EnvelopeHandler, Pipeline]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the `POST` of an envelope, as an ASGI application."""
        try:
            handler, pipeline = await self.open_once()
        except ComityError as refusal:
            await refuse(send, refusal)
            return
        await MessageSend(handler, pipeline)(scope, receive, send)

    async def open_once(self) -> tuple[EnvelopeHandler, Pipeline]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # the next envelope may find the store mended
            raise

    async def _open(self) -> tuple[EnvelopeHandler, Pipeline]:
        clock, replay_store = SystemClock(), self._replay_store
        handler: EnvelopeHandler
        if isinstance(replay_store, OnStore):
            store = await replay_store.open_once()
            handler = EnvelopeHandler(
                key=self._key, behaviour=self._behavior, state_provider=self._state, store=store, clock=clock
            )
        else:
            store = NO_STORE
            handler = ForeignStoreHandler(
                replay_store, key=self._key, behaviour=self._behavior, state_provider=self._state, clock=clock
            )
        record = Recorder(store, clock, audited=False)
        return handler, Pipeline(record, clock, budget=None)


def key_of(form: ResidentForm, key: AnySigningKey) -> SigningKey:
    """Return the key as ours, if it is the form's own."""
    own = own_key(key)
    if form.identity != own.vacant_id:
        raise InvalidError(
            f"the form is of {form.identity.short()}, the key of {own.vacant_id.short()}; "
            "give the form its own key"
        )
    return own


async def make_response_envelope(
    *,
    request: VacantEnvelope,
    response_payload: A2AMessage,
    self_signing_key: AnySigningKey,
    response_replay_store: ReplayStore,
    self_form: ResidentForm,
) -> VacantEnvelope:
    """Return the next signed link of the chain of replies to this caller, recorded before it is returned."""
    return await chained_reply(
        response_replay_store,
        request=request,
        payload=response_payload,
        key=key_of(self_form, self_signing_key),
        now=datetime.now(UTC),
    )


BehaviorHandler = Behaviour
"""The contract's name for what answers an envelope."""

_ASKED_FOR_BY_FASTAPI = frozenset({"_contains_router", "on_startup", "default_response_class", "prefix"})


class VacantRouter(Router):
    """A Starlette router. FastAPI's `include_router` takes only FastAPI's own routers; the error says so."""

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_FOR_BY_FASTAPI:
            raise AttributeError(
                "include_router takes FastAPI's own routers, and this is Starlette's; "
                'write app.mount("", build_a2a_router(...)) instead, as the last route of the application'
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def build_a2a_router(
    *,
    self_form: ResidentForm,
    self_signing_key: AnySigningKey,
    behavior: Behaviour,
    replay_store: OnStore | ReplayStore,
    state_provider: StateProvider | None = None,
    prefix: str = "/a2a",
) -> VacantRouter:
    """Make a router for `POST {prefix}/message/send`, answered by `behavior`."""
    vacant = EmbeddedVacant(
        self_form=self_form,
        self_signing_key=self_signing_key,
        behavior=behavior,
        replay_store=replay_store,
        state_provider=state_provider,
    )
    return VacantRouter([Route(f"{prefix}/message/send", vacant)])


def build_a2a_app(
    *,
    self_form: ResidentForm,
    self_signing_key: AnySigningKey,
    behavior: Behaviour,
    replay_store: OnStore | ReplayStore,
    state_provider: StateProvider | None = None,
) -> Starlette:
    """Return the router under `/a2a`, as an application."""
    router = build_a2a_router(
        self_form=self_form,
        self_signing_key=self_signing_key,
        behavior=behavior,
        replay_store=replay_store,
        state_provider=state_provider,
    )
    return Starlette(routes=router.routes)
