"""The smallest room: it replies with the name under which the node knows the caller. It tests the walk end to end."""

from typing import Any

from comity.requests.handler import Admission, Arrival, Call, Identified, PlainRoom
from comity.wire.errors import InvalidError, UnauthenticatedError

NONCE_LIMIT = 256


class PingRoom(PlainRoom):
    name = "ping"
    deadline = 5.0

    def identify(self, arrival: Arrival) -> Identified:
        if not arrival.caller.is_local:
            raise UnauthenticatedError(
                "a ping needs this node's token; it is in the file `token` of the data folder"
            )
        return Identified(arrival.caller)

    async def admit(self, call: Call) -> Admission:
        nonce = call.arrival.body.get("nonce", "") if isinstance(call.arrival.body, dict) else None
        if not isinstance(nonce, str) or len(nonce) > NONCE_LIMIT:
            raise InvalidError(
                f'a ping is {{"nonce": text of at most {NONCE_LIMIT} characters}}; the nonce may be left out'
            )
        return Admission(checks=("schema",))

    async def handle(self, call: Call) -> dict[str, Any]:
        return {"pong": call.arrival.body.get("nonce", ""), "principal": call.caller.family, "at": call.at}
