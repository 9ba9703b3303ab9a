"""A vacant as two MCP tools: `vacant_call` takes a signed envelope, `vacant_describe` shows the card.

Both share the replay state of the HTTP door: a number used here is used there.
"""

from typing import Any

from comity.core.caller import OWN_PROCESS, Caller
from comity.core.card.resident import ResidentForm
from comity.core.envelope.carrier import METHOD
from comity.core.envelope.chain import ReplayStore
from comity.core.envelope.errors import EnvelopeFormatError
from comity.core.identity.keys import AnySigningKey
from comity.core.wire import strict_json
from comity.doors.a2a.embedded import EmbeddedVacant, OnStore
from comity.doors.mcp.vacant_tools import TOOLS
from comity.pipeline.envelopes.refusals import (
    MisdirectedError,
    OutOfChainError,
    VacantAsleepError,
    VacantGoneError,
)
from comity.pipeline.envelopes.room import Behaviour, EnvelopeRoom
from comity.pipeline.room import Arrival
from comity.pipeline.walk import Walk


class VacantAsMCPServer:
    def __init__(
        self,
        self_form: ResidentForm,
        self_signing_key: AnySigningKey,
        behavior: Behaviour,
        replay_store: OnStore | ReplayStore,
    ) -> None:
        self.self_form = self_form
        self.self_signing_key = self_signing_key
        self.behavior = behavior
        self.replay_store = replay_store
        self._vacant = EmbeddedVacant(
            self_form=self_form,
            self_signing_key=self_signing_key,
            behavior=behavior,
            replay_store=replay_store,
        )

    def list_tools(self) -> list[dict[str, Any]]:
        return [dict(tool) for tool in TOOLS]

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The tool's result. A bad format, signature or chain is raised, as the contract has it."""
        if name == "vacant_describe":
            return self._describe()
        if name == "vacant_call":
            return await self._call(arguments)
        return {"error": f"unknown tool {name!r}"}

    def _describe(self) -> dict[str, Any]:
        return describe(self.self_form)

    async def _call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        room, walk = await self._vacant.open_once()
        return await call(self.self_form, room, walk, arguments, OWN_PROCESS)


def describe(form: ResidentForm) -> dict[str, Any]:
    card = form.capability_card
    return {
        "vacant_id": form.identity.hex(),
        "capability_text": card.capability_text if card else None,
        "halo_version": card.halo_version if card else None,
        "endpoint": card.endpoint if card else None,
    }


async def call(
    form: ResidentForm,
    room: EnvelopeRoom,
    walk: Walk,
    arguments: dict[str, Any],
    caller: Caller,
) -> dict[str, Any]:
    """`caller` is the MCP client; who signed the envelope is another matter."""
    given = arguments.get("envelope") if isinstance(arguments, dict) else None
    if not isinstance(given, dict):
        raise EnvelopeFormatError("missing field: 'envelope'; give the JSON-RPC body of message/send")
    request = {"jsonrpc": "2.0", "method": METHOD, "params": given.get("params", {"message": given})}
    try:
        size = 0 if caller.is_local else len(strict_json.dumps(given))
        message: bytes = await walk.take(room, Arrival(door="mcp", caller=caller, body=request, size=size))
    except MisdirectedError as refusal:
        expected, got = form.identity.hex(), refusal.addressee.hex()
        return {"error": f"envelope_to_mismatch: expected {expected}, got {got}"}
    except (VacantGoneError, VacantAsleepError):
        return {"error": f"vacant {form.runtime_state.value}; not accepting calls"}
    except OutOfChainError as refusal:
        raise (refusal.__cause__ or refusal) from None
    return {"message": strict_json.loads(message)}
