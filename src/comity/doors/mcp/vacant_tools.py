"""The two tools of a vacant in the catalogue of a node; what the contract's object raises is an error of the tool.

The table is here and what does the work is loaded with the first call.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from comity.core.errors import NotFoundError
from comity.core.mcp.catalog import Tool
from comity.core.mcp.context import Context
from comity.core.mcp.results import ToolResult, structured

if TYPE_CHECKING:
    from comity.core.card.resident import ResidentForm
    from comity.pipeline.envelopes.room import EnvelopeRoom
    from comity.pipeline.walk import Walk

_PATIENCE = 120.0
"""Seconds; the room that answers has a deadline of its own."""

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "vacant_call",
        "title": "Call this vacant",
        "description": "Send one signed envelope (the JSON-RPC body of message/send) and get the signed reply.",
        "inputSchema": {
            "type": "object",
            "properties": {"envelope": {"type": "object"}},
            "required": ["envelope"],
        },
    },
    {
        "name": "vacant_describe",
        "title": "Describe this vacant",
        "description": "Show the id, the capability and the endpoint of this vacant.",
        "inputSchema": {"type": "object", "properties": {}},
    },
)


class Resident:
    """The vacant of a node. `room` is None where no agent answers."""

    def __init__(self, form: "ResidentForm", walk: "Walk", room: "EnvelopeRoom | None") -> None:
        self.form = form
        self.walk = walk
        self.room = room


def vacant_tools(resident: Callable[[], Awaitable[Resident]]) -> list[Tool]:
    async def call(context: Context, arguments: dict[str, Any]) -> ToolResult:
        from comity.doors.mcp.vacant import call as call_vacant

        vacant = await resident()
        if vacant.room is None:
            raise NotFoundError("no agent answers calls here; start the node with `comity up --agent …`")
        caller = context.asker.caller
        answer = await call_vacant(vacant.form, vacant.room, vacant.walk, arguments, caller)
        return structured(answer, error="error" in answer)

    async def describe(_context: Context, _arguments: dict[str, Any]) -> ToolResult:
        from comity.doors.mcp.vacant import describe as describe_vacant

        return structured(describe_vacant((await resident()).form))

    declared = {
        "vacant_call": (call, "own", {"readOnlyHint": False, "idempotentHint": True}),
        "vacant_describe": (describe, "tally", {"readOnlyHint": True}),
    }
    return [
        Tool(
            name=tool["name"],
            title=tool["title"],
            description=tool["description"],
            input_schema=tool["inputSchema"],
            handler=declared[tool["name"]][0],
            audit=declared[tool["name"]][1],  # type: ignore[arg-type]
            annotations=declared[tool["name"]][2],
            room="vacant",
            deadline=_PATIENCE,
        )
        for tool in TOOLS
    ]
