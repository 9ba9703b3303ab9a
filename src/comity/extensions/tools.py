"""The operations of the extensions as MCP tools (vcp 7.1, rulings 47 and 49).

A tool is listed while its extension is active, and returns what a model may see. `session_id` names another session of
the same owner: a modern client, whose requests stand alone, continues a session with it. Such a client may also send its
context with each request, in `_meta` (vcp 7.6), unless it names a session.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from comity.extensions.protocol.operations import OTHER_SESSION, input_schema, tool_arguments
from comity.extensions.service import ExtensionService
from comity.mcp.protocol.catalog import VCP_SESSION, Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import ToolResult, structured, text
from comity.vcp.extension_host import OperationRequest
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.built_in import operations
from comity.vcp.protocol.context import read_request
from comity.vcp.protocol.extension_calls import ExtensionError, ExtensionOperation
from comity.vcp.protocol.mcp_places import META_CONTEXT
from comity.vcp.protocol.negotiation import ExchangeContext
from comity.vcp.protocol.signals import ContextError
from comity.vcp.service import VcpServer
from comity.wire.errors import NotFoundError

SEND_CONTEXT: Final = "vcp_send_context"

_DESTRUCTIVE: Final = frozenset({"purge", "set", "preset", "selfmodel"})
"""Verbs that delete or replace."""
_REPEATABLE: Final = frozenset(
    {"purge", "set", "preset", "pin", "norm", "selfmodel", "correct", "join", "vote", "ballot"}
)

_CONTEXT_INPUT: Final = {
    "type": "object",
    "properties": {
        "context": {
            "type": "object",
            "description": "A VCP context request: categorical, generation_preferences, personal, extensions, "
            "constitution",
        },
        "session_id": {"type": "string", "description": OTHER_SESSION},
    },
    "required": ["context"],
    "additionalProperties": False,
}


class ExtensionTools(NamedTuple):
    """What the tools work with."""

    extensions: ExtensionService
    vcp: VcpServer


OpenedServices = Callable[[], Awaitable[ExtensionTools]]


def extension_tools(opened: OpenedServices, group: str) -> list[Tool]:
    tools = [_tool(opened, operation, group) for operation in operations().values()]

    async def send(context: Context, arguments: dict[str, Any]) -> ToolResult:
        services = await opened()
        session = await _session(services, context, arguments)
        return await _answered(_exchange(services, context, session, arguments["context"]))

    return [
        *tools,
        Tool(
            name=SEND_CONTEXT,
            title="Send a VCP context",
            description="Tell this session about the situation and what is wished for; "
            "the answer says what was accepted.",
            handler=send,
            input_schema=_CONTEXT_INPUT,
            annotations={
                "readOnlyHint": False,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
            group=group,
            extension=VCP_SESSION,
            audit="own",
        ),
    ]


def _tool(opened: OpenedServices, operation: ExtensionOperation, group: str) -> Tool:
    async def handler(context: Context, arguments: dict[str, Any]) -> ToolResult:
        services = await opened()
        return await _answered(_perform(services, operation, context, arguments))

    return Tool(
        name=operation.tool,
        title=operation.summary,
        description=f"{operation.summary}.",
        handler=handler,
        input_schema=input_schema(operation),
        annotations=_hints(operation),
        group=group,
        extension=operation.extension,
        audit="own",
    )


def _hints(operation: ExtensionOperation) -> dict[str, bool]:
    verb = operation.name.partition(".")[2]
    return {
        "readOnlyHint": operation.only_reads,
        "destructiveHint": verb in _DESTRUCTIVE,
        "idempotentHint": operation.only_reads or verb in _REPEATABLE,
        "openWorldHint": operation.calls_nodes,
    }


async def _perform(
    services: ExtensionTools, operation: ExtensionOperation, context: Context, arguments: dict[str, Any]
) -> Any:
    named = arguments if "session_id" in operation.tool_members else {}
    session = await _session(services, context, named)
    ambient = context.meta.get(META_CONTEXT) if context.client.modern else None
    if ambient is not None and session is context.client.attached:
        await _exchange(services, context, session, ambient)
    args = tool_arguments(operation, arguments, services.extensions.facts(session))
    request = OperationRequest(op=operation.name, args=args, session=session, audience="model")
    return await services.vcp.perform(request, context.client.caller, "mcp")


async def _exchange(services: ExtensionTools, context: Context, session: Session, value: Any) -> Any:
    request = read_request(value, session, services.vcp.scan_threshold)
    question = ExchangeContext(session, request)
    return await services.vcp.exchange(question, context.client.caller.address, "model")


async def _session(services: ExtensionTools, context: Context, arguments: dict[str, Any]) -> Session:
    """Return the session that a call is about: the one that asks, or another one of its owner."""
    asking: Session | None = context.client.attached
    assert asking is not None, "the tool would not be there otherwise"
    named = arguments.get("session_id")
    if named is None or named == asking.id:
        return asking
    try:
        services.vcp.sessions.of(named, asking.identity)
    except NotFoundError:
        await services.extensions.refuse_others(named, asking)
    return replace(asking, id=named)


async def _answered(running: Awaitable[Any]) -> ToolResult:
    """Return the result, or a refusal as an error of the tool: code, message and field."""
    try:
        result = await running
    except (ExtensionError, ContextError) as refusal:
        fields = {"error": refusal.message, "code": refusal.wire_code, "field": refusal.field}
        return ToolResult([text(f"{refusal.wire_code}: {refusal.message}")], fields, is_error=True)
    return structured(msgspec.to_builtins(result))
