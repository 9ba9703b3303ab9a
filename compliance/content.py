"""Tools that show the kinds of content, and what a call can say while it runs."""

import asyncio
from typing import Any, Final

from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import Json, ToolResult, said, text
from comity.wire.errors import InvalidError

ROOM: Final = "fixtures"
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC"
_SILENCE: Final = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQQAAACAgICA"
_STEP: Final = 0.05

IMAGE: Final[Json] = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
_AUDIO: Final[Json] = {"type": "audio", "data": _SILENCE, "mimeType": "audio/wav"}

_SCHEMA_2020_12: Final[Json] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def embedded(uri: str, mime_type: str, words: str) -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


def simple_text(_context: Context, _arguments: Json) -> ToolResult:
    return said("This is a simple text response for testing.")


def image(_context: Context, _arguments: Json) -> ToolResult:
    return ToolResult([IMAGE])


def audio(_context: Context, _arguments: Json) -> ToolResult:
    return ToolResult([_AUDIO])


def resource(_context: Context, _arguments: Json) -> ToolResult:
    return ToolResult(
        [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    )


def mixed(_context: Context, _arguments: Json) -> ToolResult:
    data = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolResult([text("Multiple content types test:"), IMAGE, data])


def error(_context: Context, _arguments: Json) -> ToolResult:
    raise InvalidError("This tool intentionally returns an error for testing")


def contact(_context: Context, arguments: Json) -> ToolResult:
    return said(f"Reached by {arguments.get('contactMethod', 'email')}")


async def logging(context: Context, _arguments: Json) -> ToolResult:
    context.log("info", "Tool execution started")
    await asyncio.sleep(_STEP)
    context.log("info", "Tool processing data")
    await asyncio.sleep(_STEP)
    context.log("info", "Tool execution completed")
    return said("Tool with logging executed")


async def progress(context: Context, _arguments: Json) -> ToolResult:
    context.progress(0, 100)
    await asyncio.sleep(_STEP)
    context.progress(50, 100)
    await asyncio.sleep(_STEP)
    context.progress(100, 100)
    return said("Tool with progress executed")


async def reconnection(context: Context, _arguments: Json) -> ToolResult:
    await context.release_stream()
    await asyncio.sleep(_STEP)
    return said("Said after the stream was closed")


def content_tools() -> list[Tool]:
    def tool(name: str, handler: Any, description: str, **more: Any) -> Tool:
        return Tool(name=name, handler=handler, description=description, group=ROOM, **more)

    return [
        tool("test_simple_text", simple_text, "Gives a text"),
        tool("test_image_content", image, "Gives an image"),
        tool("test_audio_content", audio, "Gives a sound"),
        tool("test_embedded_resource", resource, "Gives a resource"),
        tool("test_multiple_content_types", mixed, "Gives a text, an image and a resource"),
        tool("test_error_handling", error, "Fails always"),
        tool("test_tool_with_logging", logging, "Logs three times"),
        tool("test_logging_tool", logging, "Logs when the request wants it"),
        tool("test_tool_with_progress", progress, "Tells its progress three times"),
        tool("test_reconnection", reconnection, "Closes its stream and answers later"),
        tool("json_schema_2020_12_tool", contact, "Takes what 2020-12 can say", input_schema=_SCHEMA_2020_12),
    ]
