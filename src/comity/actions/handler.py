"""The handler of the actions, and the actions as MCP tools.

Nothing is stored, so the audit entry of a call is written without waiting; it does not contain the text that was sent.
The handler checks the input by the contract, so the error messages are the same in every door. A refusal is an error of the
tool, so that the model can read it and send a better input.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from msgspec import Struct

from comity.actions.protocol.action import plain
from comity.actions.protocol.calls import RegisteredAction, Registry, reply_schema
from comity.actions.runner import Progress, Runner, ignore_progress
from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import ToolResult, structured
from comity.requests.handler import Admission, Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.requests.pipeline import Pipeline
from comity.wire.errors import ActionError, UnauthenticatedError


class Invocation(Struct, frozen=True):
    """A call of an action. `client` is the program of the caller, if each has its own turns."""

    action: str
    input: Any
    client: str = ""
    progress: Progress = ignore_progress


class ActionsHandler(HandlerDefaults):
    name = "actions"
    deadline: Final = 150.0  # the workers and the fetcher have shorter ones, with better messages

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
        body: Invocation = call.request.body
        return await self._runner.call(body.action, body.input, call.caller, body.client, body.progress)

    async def seal(self, call: Call, result: dict[str, Any]) -> HandlerResult:
        return HandlerResult(reply=result, about=call.request.body.action)


_MAX_SCHEMA_LEVELS: Final = 2
"""The members of the output and their types, but not the members of lists of findings."""
_WORDS: Final = {
    "mode": "how to work",
    "level": "the level of WCAG to check",
    "urls": "pages to fetch",
    "pages": "pages that were fetched already, as url and html",
    "locale": "a language tag, such as en or es-MX",
    "intensity": "how heated it is",
    "tone": "how the new message should sound",
    "support_mode": "what kind of support fits",
}
_READS_PAGES: Final = frozenset({"accessibility_audit"})

OpenActions = Callable[[], Awaitable[tuple[ActionsHandler, Pipeline]]]
"""Opens the node, and returns the handler of its actions and its pipeline."""


def action_tools(registry: Registry, opened: OpenActions) -> list[Tool]:
    return [_tool(entry, opened) for entry in registry.entries()]


def _tool(entry: RegisteredAction, opened: OpenActions) -> Tool:
    async def call(context: Context, arguments: dict[str, Any]) -> ToolResult:
        handler, pipeline = await opened()
        caller = context.client.caller
        # the clients of the owner take turns with each other; all clients of a visitor are one caller
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
        input_schema=_described(plain(contract.input_schema)),
        output_schema=outline(reply_schema(entry)),
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


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an input schema with words for arguments that have none of their own."""
    properties = {
        name: {"description": _WORDS[name], **one} if name in _WORDS else one
        for name, one in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties} if properties else schema


def outline(schema: Any, levels: int = _MAX_SCHEMA_LEVELS) -> Any:
    """Return the schema without its deep levels: a list of tools has to stay short (ruling 52). What fits the whole schema
    fits this one. The whole one is at /v1/actions.
    """
    if not isinstance(schema, Mapping):
        return schema
    if "properties" in schema and not levels:
        return {name: schema[name] for name in ("type", "description") if name in schema}
    outlined = {name: value for name, value in schema.items() if name not in ("properties", "items")}
    if "items" in schema:
        outlined["items"] = outline(schema["items"], levels)
    if "properties" in schema:
        outlined["properties"] = {
            name: outline(value, levels - 1) for name, value in schema["properties"].items()
        }
    return outlined
