"""The `vdo_*` tools as MCP lists them. Light to import: what they do is loaded with the first call."""

from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from comity.mcp.protocol.catalog import Tool, ToolHandler
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import ToolResult, structured
from comity.rooms.protocol.tool_table import TOOL_DESCRIPTIONS, TOOLS_OF, Demands, profiles_with, schema_of
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from comity.rooms.tool_handlers import RoomTools

DEADLINE: Final = 660.0
"""Longer than a tool of this room waits by itself."""

_TASKS: Final = frozenset(("vdo_file_send", "vdo_file_send_path", "vdo_file_resume", "vdo_request"))


def vdo_tools(tools: "Callable[[], Awaitable[RoomTools]]", room: str) -> Iterator[Tool]:
    """`tools` opens the node where that has not been done."""
    for name in TOOLS_OF["extended"]:
        profiles = profiles_with(name)
        kinds = [profiles]
        if schema_of(name, "full") != schema_of(name, "extended"):
            kinds = [profiles - {"extended"}, frozenset(("extended",))]
        for kind in kinds:
            yield Tool(
                name=name,
                description=TOOL_DESCRIPTIONS[name],
                handler=_handler(name, tools),
                group=room,
                right="rooms",
                input_schema=schema_of(name, min(kind)),
                profiles=kind,
                task="optional" if name in _TASKS else "forbidden",
                deadline=DEADLINE,
                validator=_accept_all,
            )


def _accept_all(_arguments: Any) -> None:
    """The contract is lenient, and refuses in its own words."""


def _handler(name: str, tools: "Callable[[], Awaitable[RoomTools]]") -> ToolHandler:
    async def call(context: Context, arguments: Any) -> ToolResult:
        from comity.rooms.protocol.tool_answers import failed_payload
        from comity.rooms.tool_handlers import ToolCaller

        who = ToolCaller(
            client=context.connection,
            caller=context.client.caller,
            demands=context.demands or Demands(),
            profile=context.profile,
            folder=context.folder,
            progress=context.progress,
        )
        try:
            return structured(await (await tools()).call(name, arguments, who))
        except ComityError as why:
            return structured(failed_payload(name, why.message), error=True)

    return call
