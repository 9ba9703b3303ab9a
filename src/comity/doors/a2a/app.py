"""A vacant as a Starlette application or router, to be served alone or mounted elsewhere."""

from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route, Router

from comity.core.card.resident import ResidentForm
from comity.core.envelope.chain import ReplayStore
from comity.core.errors import ComityError
from comity.core.identity.keys import AnySigningKey
from comity.doors.a2a.embedded import EmbeddedVacant, OnStore
from comity.doors.a2a.message_send import MessageSend, refuse
from comity.doors.http.asgi import Receive, Scope, Send
from comity.pipeline.envelopes.room import Behaviour, StateProvider

BehaviorHandler = Behaviour
"""The contract's name for what answers an envelope."""

_ASKED_FOR_BY_FASTAPI = frozenset({"_contains_router", "on_startup", "default_response_class", "prefix"})


class _Served:
    def __init__(self, vacant: EmbeddedVacant) -> None:
        self._vacant = vacant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            room, walk = await self._vacant.open_once()
        except ComityError as refusal:
            await refuse(send, refusal)
            return
        await MessageSend(room, walk)(scope, receive, send)


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
    return VacantRouter([Route(f"{prefix}/message/send", _Served(vacant))])


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
