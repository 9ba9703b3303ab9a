"""The operations of the extensions as MCP tools (vcp 7.1, rulings 47 and 49).

A tool is listed while its extension is active. It answers what a model may see. `session_id` names another session of
the same owner: a modern client, whose requests stand alone, goes on with a session in that way. It may also tell its
context with each request, in `_meta` (vcp 7.6); a session that is named counts instead.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec.structs import replace

from comity.extensions.protocol.summaries import SUMMARIES
from comity.mcp.protocol.catalog import VCP_SESSION, Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import ToolResult, structured, text
from comity.vcp.protocol.mcp_places import META_CONTEXT
from comity.wire.errors import NotFoundError

if TYPE_CHECKING:
    from comity.extensions.service import ExtensionService
    from comity.vcp.protocol.agreement import Session
    from comity.vcp.service import VcpServer

SEND_CONTEXT: Final = "vcp_send_context"

_READING: Final = frozenset(("get", "attest", "list", "result", "record", "lineage", "infer"))
_CONTEXT_INPUT: Final = {
    "type": "object",
    "properties": {
        "context": {
            "type": "object",
            "description": "A VCP context request: categorical, generation_preferences, personal, extensions, "
            "constitution",
        },
        "session_id": {"type": "string"},
    },
    "required": ["context"],
    "additionalProperties": False,
}


class ExtensionTools(NamedTuple):
    """What the tools work with."""

    extensions: "ExtensionService"
    vcp: "VcpServer"


OpenedServices = Callable[[], Awaitable[ExtensionTools]]


def extension_tools(opened: OpenedServices, group: str) -> list[Tool]:
    tools = [_tool(opened, name, op, summary, group) for name, (op, summary) in SUMMARIES.items()]

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
            annotations={"readOnlyHint": False, "openWorldHint": False},
            group=group,
            extension=VCP_SESSION,
            audit="own",
        ),
    ]


class _LaterSchema(Mapping[str, Any]):
    """The schema of the arguments of a tool, built at the first access."""

    def __init__(self, op: str) -> None:
        self._op = op

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        from comity.extensions.protocol.operations import OPERATIONS, input_schema

        return input_schema(OPERATIONS[self._op])

    def __getitem__(self, name: str) -> Any:
        return self._schema[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


def _tool(opened: OpenedServices, name: str, op: str, summary: str, group: str) -> Tool:
    async def handler(context: Context, arguments: dict[str, Any]) -> ToolResult:
        services = await opened()
        return await _answered(_perform(services, op, context, arguments))

    extension, _, verb = op.partition(".")
    return Tool(
        name=name,
        title=summary,
        description=f"{summary}.",
        handler=handler,
        input_schema=_LaterSchema(op),
        annotations={"readOnlyHint": verb in _READING, "openWorldHint": verb == "join"},
        group=group,
        extension=f"VCP-X-{extension.capitalize()}",
        audit="own",
    )


async def _perform(services: ExtensionTools, op: str, context: Context, arguments: dict[str, Any]) -> Any:
    from comity.extensions.handler import OperationRequest
    from comity.extensions.protocol.operations import OPERATIONS, tool_arguments

    row = OPERATIONS[op]
    session = await _session(services, context, arguments if "session_id" in row.tool_members else {})
    ambient = context.meta.get(META_CONTEXT) if context.client.modern else None
    if ambient is not None and session is context.client.attached:
        await _exchange(services, context, session, ambient)
    args = tool_arguments(row, arguments, services.extensions.facts(session))
    request = OperationRequest(op=op, args=args, session=session, audience="model")
    return await services.vcp.perform(request, context.client.caller, "mcp")


async def _exchange(services: ExtensionTools, context: Context, session: "Session", value: Any) -> Any:
    from comity.vcp.protocol.context import read_request
    from comity.vcp.protocol.negotiation import ExchangeContext

    request = read_request(value, session, services.vcp.scan_threshold)
    question = ExchangeContext(session, request)
    return await services.vcp.exchange(question, context.client.caller.address, "model")


async def _session(services: ExtensionTools, context: Context, arguments: dict[str, Any]) -> "Session":
    """The session that a call is about: the one that asks, or another one of its owner."""
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
    """The result, or the refusal as an error of the tool: its code, what was wrong, and where."""
    import msgspec

    from comity.vcp.protocol.extension_calls import ExtensionError
    from comity.vcp.protocol.signals import ContextError

    try:
        result = await running
    except (ExtensionError, ContextError) as refusal:
        told = {"error": refusal.message, "code": refusal.wire_code, "field": refusal.field}
        return ToolResult([text(f"{refusal.wire_code}: {refusal.message}")], told, is_error=True)
    return structured(msgspec.to_builtins(result))
