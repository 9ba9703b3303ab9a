"""Every action as an MCP tool: its own schema and its own words for a bad input, the data of the reply as structured
content. Like HTTP and envelopes, tools are enhanced.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from comity.core.actions.registry import Entry, Registry
from comity.core.actions.validation import plain
from comity.core.mcp.catalog import Tool
from comity.core.mcp.context import Context
from comity.core.mcp.results import ToolResult, failed, structured

if TYPE_CHECKING:
    from comity.pipeline.actions.runner import Runner

ROOM: Final = "actions"
_PATIENCE: Final = 150.0  # the workers and the fetcher have their own deadlines, and tell more


def action_tools(registry: Registry, opened: Callable[[], Awaitable["Runner"]]) -> list[Tool]:
    return [_tool(entry, opened) for entry in registry.entries()]


def _tool(entry: Entry, opened: Callable[[], Awaitable["Runner"]]) -> Tool:
    name, contract = entry.name, entry.contract

    async def call(_context: Context, arguments: dict[str, Any]) -> ToolResult:
        return structured(await (await opened()).call(name, arguments))

    def complain(arguments: Any) -> str | None:
        if not isinstance(arguments, Mapping):
            return "the input of an action is a JSON object; send one"
        return "; ".join(entry.check(arguments)) or None

    return Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=f"{contract.description} {contract.boundary}.".strip(),
        handler=call,
        input_schema=plain(contract.input_schema),
        output_schema=_data_schema(contract.output_schema),
        annotations={"readOnlyHint": True, "idempotentHint": True, "openWorldHint": entry.action.slow},
        room=ROOM,
        deadline=_PATIENCE,
        validator=complain,
        render_invalid=lambda faults: failed(f"Input validation failed for action '{name}': {faults}"),
    )


def _data_schema(output: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            "boundaryNotice": {"type": "string"},
            "uncertainty": {"enum": ["low", "medium", "high"]},
            "assumptions": {"type": "array", "items": {"type": "string"}},
            "output": plain(output),
        },
        "required": ["action", "boundaryNotice", "uncertainty", "assumptions", "output"],
    }
