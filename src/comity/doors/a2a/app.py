"""A vacant as a Starlette application or router, to be served alone or mounted elsewhere."""

from starlette.applications import Starlette
from starlette.routing import Route, Router

from comity.core.card.resident import ResidentForm
from comity.core.errors import ComityError
from comity.core.identity.keys import SigningKey
from comity.doors.a2a.embedded import EmbeddedVacant, OnStore
from comity.doors.a2a.message_send import MessageSend, refuse
from comity.doors.http.asgi import Receive, Scope, Send
from comity.pipeline.envelopes.room import Behaviour, StateProvider


class _Served:
    def __init__(self, vacant: EmbeddedVacant) -> None:
        self._vacant = vacant

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            room, walk = await self._vacant.opened()
        except ComityError as refusal:
            await refuse(send, refusal)
            return
        await MessageSend(room, walk)(scope, receive, send)


def build_a2a_router(
    *,
    self_form: ResidentForm,
    self_signing_key: SigningKey,
    behavior: Behaviour,
    replay_store: OnStore,
    state_provider: StateProvider | None = None,
    prefix: str = "/a2a",
) -> Router:
    """`POST {prefix}/message/send`, answered by `behavior`."""
    vacant = EmbeddedVacant(
        self_form=self_form,
        self_signing_key=self_signing_key,
        behavior=behavior,
        replay_store=replay_store,
        state_provider=state_provider,
    )
    return Router([Route(f"{prefix}/message/send", _Served(vacant))])


def build_a2a_app(
    *,
    self_form: ResidentForm,
    self_signing_key: SigningKey,
    behavior: Behaviour,
    replay_store: OnStore,
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
