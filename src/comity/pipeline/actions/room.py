"""The room of the actions: a call by the owner takes the walk like every other message.

Nothing is stored, so the call is audited without waiting; the text that was sent is in no audit entry.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from comity.core.errors import ActionError, UnauthenticatedError
from comity.pipeline.actions.runner import Runner, Tell, tell_nobody
from comity.pipeline.room import Admission, Arrival, Call, Identified, PlainRoom, Sealed

_MAY_CALL: Final = ("local", "oauth")


class Invocation(Struct, frozen=True):
    """Which action, what was sent to it, which client of the caller sent it, and who hears how far it is."""

    action: str
    input: Any
    client: str = ""
    tell: Tell = tell_nobody


class ActionsRoom(PlainRoom):
    name = "actions"
    deadline: Final = 150.0  # the workers and the fetcher have their own, and tell more

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def identify(self, arrival: Arrival) -> Identified:
        if arrival.caller.kind not in _MAY_CALL:
            raise UnauthenticatedError(
                "an action needs this node's token; it is in the file `token` of the data folder"
            )
        return Identified(arrival.caller)

    async def admit(self, call: Call) -> Admission:
        if not isinstance(call.arrival.body.input, Mapping):
            raise ActionError("the input of an action is a JSON object; send one")
        return Admission(checks=("schema",))

    async def handle(self, call: Call) -> dict[str, Any]:
        asked: Invocation = call.arrival.body
        return await self._runner.call(asked.action, asked.input, call.caller, asked.client, asked.tell)

    async def seal(self, call: Call, result: dict[str, Any]) -> Sealed:
        return Sealed(reply=result, about=call.arrival.body.action)
