"""The agent of this node: signed calls, its card and its state, and its tools of MCP."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from comity.parts.actions import action_limits
from comity.parts.limits import Limits
from comity.parts.part import OpenHouse, Part
from comity.parts.vcp import Vcp

if TYPE_CHECKING:
    from comity.agents.behaviour import Behaviour
    from comity.core.card.resident import ResidentForm
    from comity.core.mcp.catalog import Tool
    from comity.parts.house import House
    from comity.pipeline.envelopes.room import EnvelopeRoom
    from comity.pipeline.envelopes.tools import Resident
    from comity.pipeline.residence import StateRoom


class Agent(Part):
    name = "agent"
    room = "vacant"

    @classmethod
    def tools(cls, house: OpenHouse) -> "Iterable[Tool]":
        from comity.pipeline.envelopes.tools import vacant_tools

        async def resident() -> "Resident":
            return (await house()).find(cls).resident

        return vacant_tools(resident)

    async def open(self, house: "House") -> None:
        from asyncio import Event

        from comity.pipeline.envelopes.tools import Resident
        from comity.pipeline.residence import vacant_form

        self.resident = Resident(vacant_form(house.vacant_id), house.walk, None)
        self.state_room: StateRoom
        self.state_changed = Event()
        self._behaviour: Behaviour | None = None
        house.stack.push_async_callback(
            self._close
        )  # after the doors: their calls may still need the behaviour

    async def serve(self, house: "House") -> None:
        from starlette.routing import Route

        from comity.doors.a2a.card import AGENT_CARD_PATH, CARD_PATHS, CHAIN_RESET_PATH, card_routes
        from comity.doors.a2a.message_send import MESSAGE_SEND_PATH, MessageSend
        from comity.doors.http.app import RoomRoute
        from comity.pipeline.envelopes.tools import Resident
        from comity.pipeline.residence import StateRoom, resident_form

        agent, limit = house.settings.agent, house.settings.http.body_limit
        self.public = {AGENT_CARD_PATH, CHAIN_RESET_PATH}  # 404 to everybody where they do not exist
        if not agent.behaviour:
            return
        endpoint = agent.endpoint or house.url + MESSAGE_SEND_PATH
        form = await resident_form(house.store, house.key, agent.offer, endpoint)
        room = self._room(house, form)
        self.state_room = StateRoom(form, house.store, self.state_changed.set)
        self.resident = Resident(form, house.walk, room)
        self.hot = {MESSAGE_SEND_PATH: MessageSend(room, house.walk, limit)}
        self.routes = [
            Route("/v1/state", RoomRoute(self.state_room, house.walk, limit)),
            *card_routes(lambda: form, agent.name or form.identity.short(), agent.freshness_seconds),
        ]
        self.public |= {MESSAGE_SEND_PATH, *CARD_PATHS}

    def _room(self, house: "House", form: "ResidentForm") -> "EnvelopeRoom":
        from comity.agents.load import load_behaviour
        from comity.pipeline.envelopes.room import EnvelopeRoom

        agent = house.settings.agent
        self._behaviour = load_behaviour(
            agent.behaviour,
            system_prompt=agent.system_prompt,
            key_variable=agent.key_variable,
            timeout=agent.deadline_seconds,
            limits=action_limits(house.settings.actions),
        )
        return EnvelopeRoom(
            key=house.key,
            behaviour=self._behaviour,
            context_of=house.find(Vcp).service.context_of,
            state_provider=lambda: form.runtime_state,
            store=house.store,
            clock=house.clock,
            deadline=agent.deadline_seconds,
            freshness=agent.freshness_seconds or None,
            restored_at=house.restored_at,
            budget=house.budget,
            quota=house.find(Limits).replies,
            pair_bytes=house.settings.storage.pair_bytes,
            sole_writer=True,  # the folder is claimed by this process
        )

    async def _close(self) -> None:
        from comity.agents.behaviour import close_behaviour

        if self._behaviour is not None:
            await close_behaviour(self._behaviour)
