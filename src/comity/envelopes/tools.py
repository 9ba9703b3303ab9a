"""A vacant as two MCP tools: `vacant_call` takes a signed envelope, `vacant_describe` shows the card.

Both share the replay state of the HTTP door: a number used here is used there. What the work needs is loaded with the
first call.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from comity.envelopes.protocol.errors import EnvelopeFormatError
from comity.mcp.protocol.catalog import Tool
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.fence import NONCE_BYTES, Origin, fence
from comity.mcp.protocol.results import ToolResult, structured
from comity.requests.caller import Caller
from comity.requests.handler import Request
from comity.runtime.lazy import late
from comity.wire import strict_json
from comity.wire.errors import ForbiddenError, NotFoundError

if TYPE_CHECKING:
    from comity.envelopes.protocol import chain, envelope
    from comity.envelopes.protocol.resident import ResidentForm
    from comity.envelopes.server import EnvelopeHandler
    from comity.requests.pipeline import Pipeline
else:
    chain = late("comity.envelopes.protocol.chain")
    envelope = late("comity.envelopes.protocol.envelope")

_PATIENCE = 120.0
"""Seconds; the handler that answers has a deadline of its own."""

_SIGNED = "yes, this node signed it as its own agent"

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "vacant_call",
        "title": "Call this vacant",
        "description": "Send one signed envelope (the JSON-RPC body of message/send) and get the signed reply.",
        "inputSchema": {
            "type": "object",
            "properties": {"envelope": {"type": "object", "description": "the signed envelope"}},
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


class Resident(NamedTuple):
    """The vacant of a node. `handler` is None where no agent answers."""

    form: "ResidentForm"
    pipeline: "Pipeline"
    handler: "EnvelopeHandler | None"


def vacant_tools(resident: Callable[[], Awaitable[Resident]]) -> list[Tool]:
    async def answer(context: Context, arguments: dict[str, Any]) -> ToolResult:
        vacant = await resident()
        if vacant.handler is None:
            raise NotFoundError("no agent answers calls here; start the node with `comity up --agent …`")
        caller = context.client.caller
        answered = await call(vacant.form, vacant.handler, vacant.pipeline, arguments, caller)
        if "message" in answered:
            words = "\n".join(part["text"] for part in answered["message"]["parts"])
            origin = Origin(id=vacant.form.identity.hex(), proof=_SIGNED)
            answered["fenced"] = fence(words, origin, secrets.token_hex(NONCE_BYTES))
        return structured(answered, error="error" in answered)

    async def show(_context: Context, _arguments: dict[str, Any]) -> ToolResult:
        return structured(describe((await resident()).form))

    def tool(shown: dict[str, Any], **given: Any) -> Tool:
        named = {name: shown[name] for name in ("name", "title", "description")}
        return Tool(**named, input_schema=shown["inputSchema"], group="vacant", deadline=_PATIENCE, **given)

    calling, describing = TOOLS
    return [
        tool(
            calling,
            handler=answer,
            audit="own",
            # an envelope that was answered is answered with the same reply
            annotations=_hints(reads=False),
        ),
        tool(describing, handler=show, audit="tally", annotations=_hints(reads=True)),
    ]


def _hints(*, reads: bool) -> dict[str, bool]:
    return {
        "readOnlyHint": reads,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def describe(form: "ResidentForm") -> dict[str, Any]:
    card = form.capability_card
    return {
        "vacant_id": form.identity.hex(),
        "capability_text": card.capability_text if card else None,
        "halo_version": card.halo_version if card else None,
        "endpoint": card.endpoint if card else None,
    }


async def call(
    form: "ResidentForm",
    handler: "EnvelopeHandler",
    pipeline: "Pipeline",
    arguments: dict[str, Any],
    caller: Caller,
) -> dict[str, Any]:
    """`caller` is the MCP client; who signed the envelope is another matter."""
    given = arguments.get("envelope") if isinstance(arguments, dict) else None
    if not isinstance(given, dict):
        raise EnvelopeFormatError("missing field: 'envelope'; give the JSON-RPC body of message/send")
    request = {"jsonrpc": "2.0", "method": envelope.METHOD, "params": given.get("params", {"message": given})}
    try:
        size = 0 if caller.is_local else len(strict_json.dumps(given))
        message: bytes = await pipeline.run(
            handler, Request(door="mcp", caller=caller, body=request, size=size)
        )
    except chain.MisdirectedError as refusal:
        expected, got = form.identity.hex(), refusal.addressee.hex()
        return {"error": f"envelope_to_mismatch: expected {expected}, got {got}"}
    except (chain.VacantGoneError, chain.VacantAsleepError):
        return {"error": f"vacant {form.runtime_state.value}; not accepting calls"}
    except chain.OutOfChainError as refusal:
        raise (refusal.__cause__ or refusal) from None
    except ForbiddenError as refusal:
        return {"error": refusal.message}
    return {"message": strict_json.loads(message)}
