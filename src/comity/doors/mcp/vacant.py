"""A vacant as two MCP tools: `vacant_call` takes a signed envelope, `vacant_describe` shows the card.

Both share the replay state of the HTTP door: a number used here is used there.
"""

from typing import Any

from comity.core.card.resident import ResidentForm
from comity.core.envelope.carrier import METHOD, from_a2a_jsonrpc
from comity.core.envelope.errors import EnvelopeFormatError
from comity.core.identity.keys import SigningKey
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
        self_signing_key: SigningKey,
        behavior: Behaviour,
        replay_store: OnStore,
    ) -> None:
        self._form = self_form
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
        return describe(self._form)

    async def _call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        room, walk = await self._vacant.opened()
        return await call(self._form, room, walk, arguments, peer="", owner=True)


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
    *,
    peer: str,
    owner: bool,
) -> dict[str, Any]:
    """`peer` is the address of the MCP client; `owner` says that it is the node's own user."""
    given = arguments.get("envelope") if isinstance(arguments, dict) else None
    if not isinstance(given, dict):
        raise EnvelopeFormatError("missing field: 'envelope'; give the JSON-RPC body of message/send")
    request = {"jsonrpc": "2.0", "method": METHOD, "params": given.get("params", {"message": given})}
    envelope = from_a2a_jsonrpc(request)
    try:
        size = 0 if owner else len(strict_json.dumps(given))
        arrival = Arrival(door="mcp", peer=peer, body=request, size=size, owner=owner)
        message: bytes = await walk.take(room, arrival)
    except MisdirectedError:
        expected, got = form.identity.hex(), envelope.to_vacant_id.hex()
        return {"error": f"envelope_to_mismatch: expected {expected}, got {got}"}
    except (VacantGoneError, VacantAsleepError):
        return {"error": f"vacant {form.runtime_state.value}; not accepting calls"}
    except OutOfChainError as refusal:
        raise (refusal.__cause__ or refusal) from None
    return {"message": strict_json.loads(message)}
