"""`POST /v1/rooms`: the `vdo_*` tools for the command line of this node's own user, and invites.

    {"tool": "vdo_send", "arguments": {…}, "client": "cli 7", "folder": "/home/me"}

The answer is the payload of the tool. A tool that waits for events ends when its client has gone. `client` names the reader
of events: each has its own place. `folder` is where the file is that a person named at a terminal: only callers who may name
files of this machine may say it.
"""

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from comity.http.asgi import Receive, Scope, while_connected
from comity.http.endpoint import Endpoint, read_json_body
from comity.http.guard import caller_of
from comity.requests.record import Recorder
from comity.wire.errors import ForbiddenError, InvalidError

if TYPE_CHECKING:
    from comity.rooms.tool_handlers import RoomTools

ROOMS_PATH: Final = "/v1/rooms"
_OF_THE_OWNER: Final = ("links", "export", "invites", "revoke")
_OF_A_READER: Final = ("peek", "acknowledge")
_WAITING: Final = ("peek", "vdo_receive", "vdo_state_watch")
BODY_LIMIT: Final = 1_048_576


class RoomRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Any] = {}
    client: str = "http"
    folder: str | None = None


Invite = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


def rooms_endpoint(tools: "Callable[[], Awaitable[RoomTools]]", invite: Invite, record: Recorder) -> Endpoint:
    async def take(scope: Scope, receive: Receive) -> dict[str, Any]:
        from comity.rooms.tool_handlers import ToolCaller

        body = await read_json_body(scope, receive, BODY_LIMIT, "the call of a tool")
        try:
            asked = _request.decode(body)
        except msgspec.MsgspecError as fault:
            raise InvalidError(f"the call of a tool cannot be read: {fault}") from None
        caller = caller_of(scope)
        if asked.folder is not None and not caller.may("files"):
            raise ForbiddenError(
                "only a command on the node's machine names a folder; without `folder`, files below `shared` and the "
                "folders of the setting peers.shared can be used"
            )
        if asked.tool == "invite":
            return await invite(asked.arguments)
        desk = await tools()
        if asked.tool in _OF_THE_OWNER:
            answer: dict[str, Any] = await getattr(desk, asked.tool)(asked.arguments)
            return answer
        client = f"http {asked.client[:100]}"
        if asked.tool in _OF_A_READER:
            return await _answer(asked.tool, receive, getattr(desk, asked.tool)(asked.arguments, client))
        who = ToolCaller(
            client=client,
            caller=caller,
            demands=desk.rooms.demands,
            profile="extended",
            folder=asked.folder,
            typed=asked.folder is not None,
        )
        return await _answer(asked.tool, receive, desk.call(asked.tool, asked.arguments, who))

    return Endpoint("POST", take, room="peers", record=record)


async def _answer(tool: str, receive: Receive, work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """A tool that waits does not take events for a client that has gone; what changes something is finished."""
    return await (while_connected(receive, work) if tool in _WAITING else work)


_request = msgspec.json.Decoder(RoomRequest)
