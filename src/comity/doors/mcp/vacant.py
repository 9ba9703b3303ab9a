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
from comity.pipeline.envelopes.refusals import (
    MisdirectedError,
    OutOfChainError,
    VacantAsleepError,
    VacantGoneError,
)
from comity.pipeline.envelopes.room import Behaviour
from comity.pipeline.room import Arrival

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "vacant_call",
        "title": "Call this vacant",
        "description": "Send one signed envelope (the JSON-RPC body of message/send) and get the signed reply.",
        "inputSchema": {
            "type": "object",
            "properties": {"envelope": {"type": "object"}},
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
        card = self._form.capability_card
        return {
            "vacant_id": self._form.identity.hex(),
            "capability_text": card.capability_text if card else None,
            "halo_version": card.halo_version if card else None,
            "endpoint": card.endpoint if card else None,
        }

    async def _call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        given = arguments.get("envelope") if isinstance(arguments, dict) else None
        if not isinstance(given, dict):
            raise EnvelopeFormatError("missing field: 'envelope'; give the JSON-RPC body of message/send")
        request = {"jsonrpc": "2.0", "method": METHOD, "params": given.get("params", {"message": given})}
        envelope = from_a2a_jsonrpc(request)
        room, walk = await self._vacant.opened()
        try:
            message: bytes = await walk.take(room, Arrival(door="mcp", peer="mcp", body=request))
        except MisdirectedError:
            expected, got = self._form.identity.hex(), envelope.to_vacant_id.hex()
            return {"error": f"envelope_to_mismatch: expected {expected}, got {got}"}
        except (VacantGoneError, VacantAsleepError):
            return {"error": f"vacant {self._form.runtime_state.value}; not accepting calls"}
        except OutOfChainError as refusal:
            raise (refusal.__cause__ or refusal) from None
        return {"message": strict_json.loads(message)}
