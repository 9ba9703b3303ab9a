"""A vacant as two MCP tools: `vacant_call` takes a signed envelope, `vacant_describe` shows the card.

Both share the replay state of the HTTP door: a number used here is used there.
"""

from typing import Any

from comity.envelopes.app import EmbeddedVacant, OnStore
from comity.envelopes.protocol.chain import ReplayStore
from comity.envelopes.protocol.resident import ResidentForm
from comity.envelopes.server import Behaviour
from comity.envelopes.tools import TOOLS, call, describe
from comity.identity.protocol.keys import AnySigningKey
from comity.requests.caller import MODEL


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
            return describe(self.self_form)
        if name == "vacant_call":
            room, walk = await self._vacant.open_once()
            return await call(self.self_form, room, walk, arguments, MODEL)
        return {"error": f"unknown tool {name!r}"}
