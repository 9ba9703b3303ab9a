"""The `vdo_*` tools as MCP lists them, and what the opening line of a connection says to them. Light to import: what the
tools do is loaded with the first call.
"""

import secrets
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from comity.mcp.protocol.catalog import Selection, Tool, ToolHandler
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.fence import NONCE_BYTES, Origin, fence
from comity.mcp.protocol.results import ToolResult, structured
from comity.mcp.socket import Opening, malformed_opening
from comity.rooms.protocol.tool_table import TOOLS, TOOLS_OF, Demands, VdoTool, read_profile
from comity.rooms.protocol.tool_texts import TITLES, annotations, with_descriptions
from comity.runtime.lazy import late
from comity.wire import strict_json
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from comity.rooms import tool_handlers
    from comity.rooms.protocol import tool_answers
else:
    tool_answers = late("comity.rooms.protocol.tool_answers")
    tool_handlers = late("comity.rooms.tool_handlers")

DEADLINE: Final = 660.0
"""Longer than a tool waits by itself."""

_SIGNED: Final = "yes, the message is signed by the node of this id; the name is its own choice"
_PROVEN: Final = "yes, it came from the node of this id; the name is its own choice"

OpenTools = Callable[[], Awaitable["tool_handlers.RoomTools"]]
"""Opens the node where that has not been done."""


class _OfRooms(Struct, frozen=True):
    """The same member as in the line, so that an error names its place there."""

    demands: Demands


def select(of_node: Demands, opening: Opening) -> Selection:
    """Read what a connection is opened for: its profile, and demands that go on top of those of the node."""
    try:
        asked = msgspec.convert({"demands": opening.demands}, _OfRooms).demands
    except msgspec.MsgspecError as fault:
        raise malformed_opening(fault) from None
    demands = of_node.tightened(asked)
    demands.check()
    return opening.selection(read_profile(opening.profile), demands)


def vdo_tools(open_tools: "OpenTools", group: str) -> Iterator[Tool]:
    for tool in TOOLS.values():
        profiles = frozenset(profile for profile, names in TOOLS_OF.items() if tool.name in names)
        kinds = [profiles]
        if tool.schema("full") != tool.schema("extended"):
            kinds = [profiles - {"extended"}, frozenset(("extended",))]
        for kind in kinds:
            yield Tool(
                name=tool.name,
                title=TITLES[tool.name],
                description=tool.description,
                annotations=annotations(tool.name),
                handler=_handler(tool, open_tools),
                group=group,
                right="rooms",
                input_schema=with_descriptions(tool.name, tool.schema(min(kind))),
                profiles=kind,
                task="optional" if tool.is_task else "forbidden",
                deadline=DEADLINE,
                validator=_accept_all,
            )


def _with_fences(received: dict[str, Any]) -> dict[str, Any]:
    """Add the messages of others once more, each in a block that says whose words they are. The members of the contract
    stay as they are.
    """
    messages = [event for event in received["events"] if event["type"] == "data_received"]
    if not messages:
        return received
    return {**received, "fenced": "\n\n".join(map(_fenced, messages))}


def _fenced(event: dict[str, Any]) -> str:
    node, data = event.get("vacant_id"), event["data"]
    proof = _PROVEN if node else ""
    origin = Origin(
        id=node or str(event["uuid"]),
        name=event["streamID"] or "",
        proof=_SIGNED if event.get("signed") else proof,
        seconds=datetime.fromisoformat(event["ts"]).timestamp(),
        delivery=event.get("message_id", ""),
    )
    if event["binaryBase64"] is not None:
        words = event["binaryBase64"]
    else:
        words = data if isinstance(data, str) else strict_json.dumps(data).decode()
    return fence(words, origin, secrets.token_hex(NONCE_BYTES))


def _accept_all(_arguments: Any) -> None:
    """The contract is lenient, and refuses in its own words."""


def _handler(tool: VdoTool, open_tools: "OpenTools") -> ToolHandler:
    async def call(context: Context, arguments: Any) -> ToolResult:
        room_context = tool_handlers.ToolContext(
            client=context.connection,
            caller=context.client.caller,
            demands=context.demands or Demands(),
            profile=context.profile,
            folder=context.folder,
            progress=context.progress,
        )
        try:
            answer = await (await open_tools()).call(tool.name, arguments, room_context)
            return structured(_with_fences(answer) if tool.name == "vdo_receive" else answer)
        except ComityError as why:
            return structured(tool_answers.failed_payload(tool.name, why.message), error=True)

    return call
