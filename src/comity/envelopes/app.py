"""A vacant as a Starlette application or router, to be served alone or mounted elsewhere.

Its room and its walk are made when the first envelope comes. The store behind one of our replay stores is opened in
the loop that serves. A replay store of the program's own is driven as it is, with the reference's semantics. What is
embedded like this has no audit log; a node has.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable

from starlette.applications import Starlette
from starlette.routing import Route, Router

from comity.envelopes.doors import MessageSend, refuse
from comity.envelopes.foreign import NO_STORE, ForeignStoreRoom, chained_reply
from comity.envelopes.protocol.chain import ReplayStore
from comity.envelopes.protocol.envelope import VacantEnvelope
from comity.envelopes.protocol.message import A2AMessage
from comity.envelopes.protocol.resident import ResidentForm
from comity.envelopes.server import Behaviour, EnvelopeRoom, StateProvider
from comity.http.asgi import Receive, Scope, Send
from comity.identity.protocol.keys import AnySigningKey, SigningKey, own_key
from comity.requests.pipeline import Walk
from comity.requests.record import Recorder
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store
from comity.wire.errors import ComityError, InvalidError


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
        self._opening: asyncio.Task[tuple[EnvelopeRoom, Walk]] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As an ASGI application: `POST` of an envelope."""
        try:
            room, walk = await self.open_once()
        except ComityError as refusal:
            await refuse(send, refusal)
            return
        await MessageSend(room, walk)(scope, receive, send)

    async def open_once(self) -> tuple[EnvelopeRoom, Walk]:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # the next envelope may find the store mended
            raise

    async def _open(self) -> tuple[EnvelopeRoom, Walk]:
        clock, replay_store = SystemClock(), self._replay_store
        room: EnvelopeRoom
        if isinstance(replay_store, OnStore):
            store = await replay_store.open_once()
            room = EnvelopeRoom(
                key=self._key,
                behaviour=self._behavior,
                state_provider=self._state,
                store=store,
                clock=clock,
            )
        else:
            store = NO_STORE
            room = ForeignStoreRoom(
                replay_store,
                key=self._key,
                behaviour=self._behavior,
                state_provider=self._state,
                clock=clock,
            )
        record = Recorder(store, clock, audited=False)
        return room, Walk(record, clock, budget=None)


def key_of(form: ResidentForm, key: AnySigningKey) -> SigningKey:
    """The key as ours, if it is the form's own."""
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
    """The next signed link of the chain of replies to this caller, recorded before it is returned."""
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
    """A Starlette router. FastAPI's `include_router` takes FastAPI's own routers only, and is told so."""

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
    """`POST {prefix}/message/send`, answered by `behavior`."""
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
    """The router under `/a2a`, as an application."""
    router = build_a2a_router(
        self_form=self_form,
        self_signing_key=self_signing_key,
        behavior=behavior,
        replay_store=replay_store,
        state_provider=state_provider,
    )
    return Starlette(routes=router.routes)
