"""Tools about the server itself: lists that change on demand, and an argument that HTTP repeats in a header."""

from typing import Final

from comity.mcp.protocol.catalog import Catalog, Prompt, Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import Json, ToolResult, said
from compliance.content import ROOM, simple_text
from compliance.prompts import simple

_COMES_AND_GOES: Final = "test_comes_and_goes"


def header(_context: Context, arguments: Json) -> ToolResult:
    return said(f"Region: {arguments.get('region')}")


def changing_tools(catalog: Catalog) -> list[Tool]:
    def change_tools(_context: Context, _arguments: Json) -> ToolResult:
        catalog.add_tools(
            [Tool(name=_COMES_AND_GOES, handler=simple_text, description="Gone already", group=ROOM)]
        )
        catalog.remove_tools([_COMES_AND_GOES])
        return said("The list of tools has changed")

    def change_prompts(_context: Context, _arguments: Json) -> ToolResult:
        catalog.add_prompts(Prompt(name=_COMES_AND_GOES, handler=simple, group=ROOM))
        catalog.remove_prompts(_COMES_AND_GOES)
        return said("The list of prompts has changed")

    region: Json = {"type": "string", "description": "Where", "x-mcp-header": "Region"}
    return [
        Tool(
            name="test_trigger_tool_change",
            handler=change_tools,
            description="Changes the tools",
            group=ROOM,
        ),
        Tool(
            name="test_trigger_prompt_change",
            handler=change_prompts,
            description="Changes the prompts",
            group=ROOM,
        ),
        Tool(
            name="test_x_mcp_header",
            handler=header,
            description="Wants its region in a header too",
            group=ROOM,
            input_schema={"type": "object", "properties": {"region": region}, "required": ["region"]},
        ),
    ]
