"""`/v1/deliberations`: who this node is (GET), and signed envelopes about deliberations (POST)."""

from comity.core.identity.keys import VacantId
from comity.doors.a2a.message_send import MessageSend
from comity.doors.http.asgi import Receive, Scope, Send, answer_json
from comity.pipeline.room import Room
from comity.pipeline.walk import Walk

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
