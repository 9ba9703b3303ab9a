"""The handler of the actions, and the actions as MCP tools: a call by the owner runs the pipeline like every other message.

Nothing is stored, so the call is audited without waiting; the text that was sent is in no audit entry.
The handler checks the input by the contract, so that the sentences are the same everywhere. What a tool refuses is an error
of the tool, which the model reads and can do better.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from comity.actions.protocol.action import plain
from comity.actions.protocol.calls import RegisteredAction, Registry, reply_schema
from comity.actions.runner import Runner, Tell, ignore_progress
from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import ToolResult, structured
from comity.requests.handler import Admission, Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.wire.errors import ActionError, UnauthenticatedError


class Invocation(Struct, frozen=True):
    """Which action, what was sent to it, which client of the caller sent it, and who hears how far it is."""

    action: str
    input: Any
    client: str = ""
    tell: Tell = ignore_progress


class ActionsHandler(HandlerDefaults):
    name = "actions"
    deadline: Final = 150.0  # the workers and the fetcher have their own, and tell more

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def identify(self, request: Request) -> Identified:
        if not (request.caller.may("act") or request.caller.may("mcp")):
            raise UnauthenticatedError(
                "an action needs this node's token; it is in the file `token` of the data folder"
            )
        return Identified(request.caller)

    async def admit(self, call: Call) -> Admission:
        if not isinstance(call.request.body.input, Mapping):
            raise ActionError("the input of an action is a JSON object; send one")
        return Admission(checks=("schema",))

    async def handle(self, call: Call) -> dict[str, Any]:
        asked: Invocation = call.request.body
        return await self._runner.call(asked.action, asked.input, call.caller, asked.client, asked.tell)

    async def seal(self, call: Call, result: dict[str, Any]) -> HandlerResult:
        return HandlerResult(reply=result, about=call.request.body.action)


_SHOWN_LEVELS: Final = 2
"""Of the output, its members and what they are; not what is in lists of findings."""
_READS_PAGES: Final = frozenset({"accessibility_audit"})


class ActionsDesk(NamedTuple):
    """Where calls are taken: the handler, and the pipeline to it."""

    handler: ActionsHandler
    pipeline: Pipeline


def action_tools(registry: Registry, desk: Callable[[], Awaitable[ActionsDesk]]) -> list[Tool]:
    return [_tool(entry, desk) for entry in registry.entries()]


def _tool(entry: RegisteredAction, desk: Callable[[], Awaitable[ActionsDesk]]) -> Tool:
    async def call(context: Context, arguments: dict[str, Any]) -> ToolResult:
        handler, pipeline = await desk()
        caller = context.client.caller
        # clients of the node's own user take turns with each other; a visitor is one caller, whatever its clients
        client = context.connection if caller.is_local else ""
        body = Invocation(entry.name, arguments, client, context.progress)
        return structured(await pipeline.run(handler, Request(door="mcp", caller=caller, body=body)))

    contract = entry.contract
    return Tool(
        name=entry.name,
        title=entry.name.replace("_", " ").capitalize(),
        description=f"{contract.description} Boundary: {contract.boundary}.".strip(),
        handler=call,
        group=ActionsHandler.name,
        input_schema=plain(contract.input_schema),
        output_schema=in_outline(reply_schema(entry)),
        annotations={
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": entry.name in _READS_PAGES,
        },
        audit="own",
        task="optional" if entry.action.slow else "forbidden",
        deadline=ActionsHandler.deadline,
        validator=lambda _arguments: None,  # left to the handler
    )


def in_outline(schema: Any, levels: int = _SHOWN_LEVELS) -> Any:
    """The schema without what stands deep in it: a list of tools has to stay short (ruling 52). Whatever keeps the
    whole schema keeps this one. The whole one is at /v1/actions.
    """
    if not isinstance(schema, Mapping):
        return schema
    if "properties" in schema and not levels:
        return {name: schema[name] for name in ("type", "description") if name in schema}
    outlined = {name: value for name, value in schema.items() if name not in ("properties", "items")}
    if "items" in schema:
        outlined["items"] = in_outline(schema["items"], levels)
    if "properties" in schema:
        outlined["properties"] = {
            name: in_outline(value, levels - 1) for name, value in schema["properties"].items()
        }
    return outlined
