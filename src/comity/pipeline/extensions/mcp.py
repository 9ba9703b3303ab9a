"""The operations of the extensions as MCP tools (vcp 7.1, rulings 47 and 49).

A tool is listed while its extension is active. It answers what a model may see. `session_id` names another session of
the same owner: a modern client, whose requests stand alone, goes on with a session in that way. It may also tell its
context with each request, in `_meta` (vcp 7.6); a session that is named counts instead.

Names and summaries repeat those of the table of operations: a list of tools is made before any of that is loaded.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from comity.core.errors import ComityError, NotFoundError
from comity.core.mcp.catalog import VCP_SESSION, Tool
from comity.core.mcp.context import Context
from comity.core.mcp.results import ToolResult, structured, text
from comity.core.mcp.vcp_places import META_CONTEXT

if TYPE_CHECKING:
    from comity.core.negotiation.session import Session
    from comity.pipeline.extensions.service import ExtensionService
    from comity.pipeline.vcp.service import VcpServer

SEND_CONTEXT: Final = "vcp_send_context"

SUMMARIES: Final = {
    "vcp_set_personal_state": ("personal.set", "Declare signals; null takes one back"),
    "vcp_get_personal_state": (
        "personal.get",
        "What is left of the signals now; a model gets the protection level",
    ),
    "vcp_personal_preset": ("personal.preset", "Declare the signals of a preset"),
    "vcp_personal_pin": ("personal.pin", "Keep a signal from fading, or let it fade again"),
    "vcp_personal_engage": ("personal.engage", "Say that the person is here again"),
    "vcp_personal_purge": ("personal.purge", "Forget all signals at once"),
    "vcp_get_relational_context": ("relational.get", "Trust, standing, norms and self-model"),
    "vcp_relational_norm": ("relational.norm", "Keep or change a norm"),
    "vcp_relational_selfmodel": (
        "relational.selfmodel",
        "Report how the model sees itself, with what is uncertain",
    ),
    "vcp_relational_attest": ("relational.attest", "What may be said to others: levels, never content"),
    "vcp_relational_purge": ("relational.purge", "Forget trust, norms and self-models at once"),
    "vcp_consensus_open": ("consensus.open", "Open a deliberation on clauses with its stakeholders"),
    "vcp_consensus_join": ("consensus.join", "Fetch a deliberation that another node keeps"),
    "vcp_consensus_list": ("consensus.list", "Deliberations in which the caller takes part"),
    "vcp_consensus_add": ("consensus.add", "Add a stakeholder; for the author"),
    "vcp_consensus_act": (
        "consensus.act",
        "Endorse, amend, object to, abstain from or withdraw from a clause",
    ),
    "vcp_submit_ballot": ("consensus.ballot", "Rank the variants of a clause"),
    "vcp_consensus_advance": ("consensus.advance", "Move on to the next phase, or back to deliberation"),
    "vcp_consensus_vote": ("consensus.vote", "Accept or reject the whole text"),
    "vcp_consensus_welfare": ("consensus.welfare", "Say what weighs on an AI stakeholder"),
    "vcp_get_election_result": (
        "consensus.result",
        "Each clause, who said what of it, and how its variants rank",
    ),
    "vcp_consensus_record": ("consensus.record", "The provenance of rules that are active"),
    "vcp_generate_torch": ("torch.generate", "Hand a signed torch to the next session"),
    "vcp_receive_torch": ("torch.receive", "Take a torch that an earlier session handed over"),
    "vcp_torch_lineage": ("torch.lineage", "The torches before this session, oldest first"),
    "vcp_torch_purge": ("torch.purge", "Forget all torches at once"),
    "vcp_infer_intent": ("intent.infer", "What the person probably wants"),
    "vcp_correct_intent": ("intent.correct", "Say what it really is; null takes that back"),
}
"""By the name of the tool: its operation, and what it does."""

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


class ExtensionRooms(NamedTuple):
    """What the tools work with."""

    extensions: "ExtensionService"
    vcp: "VcpServer"


OpenedRooms = Callable[[], Awaitable[ExtensionRooms]]


def extension_tools(opened: OpenedRooms, room: str) -> list[Tool]:
    tools = [_tool(opened, name, op, summary, room) for name, (op, summary) in SUMMARIES.items()]

    async def send(context: Context, arguments: dict[str, Any]) -> ToolResult:
        rooms = await opened()
        return await _answered(_send_context(rooms, context, arguments))

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
            room=room,
            extension=VCP_SESSION,
            audit="own",
        ),
    ]


class _LaterSchema(Mapping[str, Any]):
    """The schema of a tool's arguments, made when somebody looks at it."""

    def __init__(self, op: str) -> None:
        self._op = op

    @cached_property
    def _schema(self) -> Mapping[str, Any]:
        from comity.core.extensions.operations import OPERATIONS, input_schema

        return input_schema(OPERATIONS[self._op])

    def __getitem__(self, name: str) -> Any:
        return self._schema[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schema)

    def __len__(self) -> int:
        return len(self._schema)


def _tool(opened: OpenedRooms, name: str, op: str, summary: str, room: str) -> Tool:
    async def handler(context: Context, arguments: dict[str, Any]) -> ToolResult:
        rooms = await opened()
        return await _answered(_perform(rooms, op, context, arguments))

    extension, _, verb = op.partition(".")
    return Tool(
        name=name,
        title=summary,
        description=f"{summary}.",
        handler=handler,
        input_schema=_LaterSchema(op),
        annotations={"readOnlyHint": verb in _READING, "openWorldHint": verb == "join"},
        room=room,
        extension=f"VCP-X-{extension.capitalize()}",
        audit="own",
    )


async def _perform(rooms: ExtensionRooms, op: str, context: Context, arguments: dict[str, Any]) -> Any:
    from comity.core.extensions.operations import OPERATIONS, tool_arguments
    from comity.pipeline.extensions.room import OperationRequest

    row = OPERATIONS[op]
    session = await _session(rooms, context, arguments if "session_id" in row.tool_members else {})
    ambient = context.meta.get(META_CONTEXT) if context.asker.modern else None
    if ambient is not None and session is context.asker.vcp:
        await _exchange(rooms, context, session, ambient)
    args = tool_arguments(row, arguments, rooms.extensions.facts(session))
    request = OperationRequest(op=op, args=args, session=session, audience="model")
    return await rooms.vcp.perform(request, context.asker.caller, "mcp")


async def _send_context(rooms: ExtensionRooms, context: Context, arguments: dict[str, Any]) -> Any:
    session = await _session(rooms, context, arguments)
    return await _exchange(rooms, context, session, arguments["context"])


async def _exchange(rooms: ExtensionRooms, context: Context, session: "Session", value: Any) -> Any:
    from comity.core.context.request import read_request
    from comity.core.negotiation.questions import ExchangeContext

    request = read_request(value, session, rooms.vcp.scan_threshold)
    question = ExchangeContext(session, request)
    return await rooms.vcp.exchange(question, context.asker.caller.address, "model")


async def _session(rooms: ExtensionRooms, context: Context, arguments: dict[str, Any]) -> "Session":
    """The session that a call is about: the one that asks, or another one of its owner."""
    asking = context.asker.vcp
    assert asking is not None, "the tool would not be there otherwise"
    named = arguments.get("session_id")
    if named is None or named == asking.id:
        return asking
    try:
        rooms.vcp.sessions.of(named, asking.identity)
    except NotFoundError:
        return await rooms.extensions.session_of(named, asking, is_live=False)
    return await rooms.extensions.session_of(named, asking, is_live=True)


async def _answered(running: Awaitable[Any]) -> ToolResult:
    """The result, or the refusal as an error of the tool: its code, what was wrong, and where."""
    import msgspec

    from comity.core.context.errors import ContextError
    from comity.core.extensions.refusals import ExtensionError

    try:
        result = await running
    except ExtensionError as refusal:
        return _refused(refusal.wire_code, refusal, refusal.field)
    except ContextError as refusal:
        return _refused(refusal.wire_code, refusal, refusal.field)
    return structured(msgspec.to_builtins(result))


def _refused(code: str, refusal: ComityError, field: str | None) -> ToolResult:
    told = {"error": refusal.message, "code": code, "field": field}
    return ToolResult([text(f"{code}: {refusal.message}")], told, is_error=True)
