"""`/v1/deliberations`: who this node is (GET), and signed envelopes about deliberations (POST)."""

from comity.envelopes.doors import MessageSend
from comity.http.asgi import Receive, Scope, Send, answer_json
from comity.identity.protocol.keys import VacantId
from comity.requests.handler import Room
from comity.requests.pipeline import Walk

DELIBERATIONS_PATH = "/v1/deliberations"


class DeliberationsDoor:
    def __init__(self, room: Room, walk: Walk, body_limit: int, identity: VacantId) -> None:
        self._send = MessageSend(room, walk, body_limit)
        self._identity = identity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] in {"GET", "HEAD"}:
            await answer_json(send, {"vacant_id": self._identity.hex()})
            return
        await self._send(scope, receive, send)
