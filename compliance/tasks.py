"""Tools of the tasks extension: fast ones, slow ones, failing ones, and such that ask on their way."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Literal

from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import InputRequired, Json, McpError, ToolResult, said
from comity.wire.errors import InvalidError
from comity.wire.jsonrpc import INTERNAL_ERROR
from compliance.content import ROOM
from compliance.input_required import WHO, accepted
from compliance.questions import form


def greet(_context: Context, arguments: Json) -> ToolResult:
    return said(f"Hello, {arguments['name']}!")


async def slow_compute(_context: Context, arguments: Json) -> ToolResult:
    await asyncio.sleep(arguments["seconds"])
    return said(f"Computed {arguments.get('label', 'nothing in particular')}")


async def failing_job(_context: Context, _arguments: Json) -> ToolResult:
    raise InvalidError("This job fails always")


async def protocol_error_job(_context: Context, _arguments: Json) -> ToolResult:
    raise McpError(INTERNAL_ERROR, "This job breaks the protocol always")


async def confirm_delete(context: Context, arguments: Json) -> ToolResult:
    question = form(f"Delete {arguments['filename']}?", {"confirm": {"type": "boolean"}}, ("confirm",))
    answer = (await context.ask({"confirm": question}))["confirm"]
    agreed = answer.get("action") == "accept" and (answer.get("content") or {}).get("confirm") is True
    return said(f"{arguments['filename']} {'deleted' if agreed else 'kept'}")


async def multi_input(context: Context, _arguments: Json) -> ToolResult:
    answers = await context.ask({"first": WHO, "second": form("And who else?", {"name": {"type": "string"}})})
    names = [(answer.get("content") or {}).get("name") for answer in answers.values()]
    return said(f"Both: {names}")


def with_task(context: Context, _arguments: Json) -> InputRequired | Awaitable[ToolResult]:
    """Asks first; only what follows the answer is a task."""
    given = accepted(context, "user_name")
    return InputRequired({"user_name": WHO}) if given is None else _greet_later(str(given.get("name")))


async def _greet_later(name: str) -> ToolResult:
    await asyncio.sleep(0.05)
    return said(f"Hello, {name}!")


def task_tools() -> list[Tool]:
    def tool(
        name: str,
        handler: Any,
        description: str,
        task: Literal["forbidden", "optional", "required"],
        /,
        **properties: str,
    ) -> Tool:
        schema: Json = {
            "type": "object",
            "properties": {key: {"type": kind} for key, kind in properties.items()},
            "required": [key for key in properties if key != "label"],
        }
        return Tool(
            name=name, handler=handler, description=description, group=ROOM, input_schema=schema, task=task
        )

    return [
        tool("greet", greet, "Greets at once", "forbidden", name="string"),
        tool("slow_compute", slow_compute, "Takes its time", "optional", seconds="number", label="string"),
        tool("failing_job", failing_job, "Fails", "required"),
        tool("protocol_error_job", protocol_error_job, "Breaks the protocol", "required"),
        tool("confirm_delete", confirm_delete, "Asks before it acts", "optional", filename="string"),
        tool("multi_input", multi_input, "Asks two things at once", "optional"),
        tool("test_tool_with_task", with_task, "Asks, and then becomes a task", "required"),
    ]
