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
    from comity.pipeline.views import ViewPage, ViewQuery

_AT_REST = frozenset({"HIBERNATING", "SUNK", "ARCHIVED"})


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
        from comity.pipeline.views import View

        self._house = house
        self.views = [View("agent", "Agent", self._view), View("pairs", "Pairs", self._pairs)]
        self.resident = Resident(vacant_form(house.vacant_id), house.walk, None)
        self.state_room: StateRoom
        self.state_changed = Event()
        self._behaviour: Behaviour | None = None
        house.stack.push_async_callback(
            self._close
        )  # after the doors: their calls may still need the behaviour

    async def _view(self, _query: "ViewQuery") -> "ViewPage":
        from comity.pipeline.views import Fact, ViewPage

        house, form = self._house, self.resident.form
        card = form.capability_card
        facts = [Fact("Identity", form.identity.hex(), copy=True)]
        if self.resident.room is None or card is None:
            return ViewPage(facts=[*facts, Fact("Agent", "none; start the node with --agent")])
        state = form.runtime_state.value
        agent = house.settings.agent
        return ViewPage(
            facts=[
                *facts,
                Fact("State", state, mark="bad" if state in _AT_REST else "good"),
                Fact("Name", agent.name or form.identity.short()),
                Fact("Answers with", agent.behaviour),
                Fact("Offers", card.capability_text),
                Fact("Endpoint", card.endpoint or "none", copy=True),
                Fact("Version of the card", str(card.halo_version)),
                Fact("Card", house.url + "/.well-known/agent-card.json", copy=True),
                Fact("Call it", f"comity call {card.endpoint} hello", copy=True),
            ]
        )

    async def _pairs(self, query: "ViewQuery") -> "ViewPage":
        from asyncio import to_thread

        from comity.pipeline.views import Table, ViewPage, paged

        house = self._house
        columns = ("agent", "book", "requests", "replies", "tip of the requests", "tip of the replies")
        rows: list[tuple[str, ...]] = []
        if house.settings.store.engine == "sqlite":
            from comity.parts.pairs import read_pairs

            for peer in await to_thread(read_pairs, house.settings.database, house.vacant_id.hex()):
                for book, held in (("calls to us", peer.serve), ("calls by us", peer.call)):
                    if held is not None:
                        counts = f"{held.requests.seq:,}", f"{held.replies.seq:,}"
                        tips = held.requests.tip[:16], held.replies.tip[:16]
                        rows.append((peer.vacant_id[:16], book, *counts, *tips))
        shown, more = paged(rows, query)
        return ViewPage(tables=[Table(columns, shown, more=more, empty="no signed call yet")])

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

        agent, vcp = house.settings.agent, house.find_open(Vcp)
        self._behaviour = load_behaviour(
            agent.behaviour,
            system_prompt=agent.system_prompt,
            tell_context=agent.tell_context,
            key_variable=agent.key_variable,
            timeout=agent.deadline_seconds,
            limits=action_limits(house.settings.actions) if agent.behaviour == "actions" else None,
        )
        return EnvelopeRoom(
            key=house.key,
            behaviour=self._behaviour,
            context_of=None if vcp is None else vcp.service.context_of,
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
