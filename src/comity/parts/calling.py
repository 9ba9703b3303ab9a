"""Calls from this node to agents of other owners: the tools `find_agents` and `call_agent`, and the prompts."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from comity.parts.part import OpenHouse, Part

if TYPE_CHECKING:
    from comity.core.mcp.catalog import Prompt, Tool
    from comity.parts.house import House
    from comity.pipeline.calling.tools import AgentsDesk


class Calling(Part):
    name = "calling"
    room = "agents"

    @classmethod
    def tools(cls, house: OpenHouse) -> "Iterable[Tool]":
        from comity.pipeline.calling.tools import agent_tools

        return agent_tools(lambda: cls._desk(house))

    @classmethod
    def prompts(cls, house: OpenHouse) -> "Iterable[Prompt]":
        from comity.pipeline.calling.prompts import node_prompts

        return node_prompts(lambda: cls._desk(house))

    @classmethod
    async def _desk(cls, house: OpenHouse) -> "AgentsDesk":
        from comity.pipeline.calling.tools import AgentsDesk

        opened = await house()
        return AgentsDesk(opened.find(cls).agents, opened.walk)

    async def open(self, house: "House") -> None:
        from comity.clients.agent_desk import AgentDesk
        from comity.clients.dispatcher import Dispatcher
        from comity.pipeline.calling.room import AgentsRoom
        from comity.pipeline.calling.tools import LONGEST_CALL

        settings = house.settings
        own = house.open_http(LONGEST_CALL)
        dispatcher = Dispatcher(
            house.store, house.key, house.clock, own, holder=house.chain, record=house.record
        )
        self.agents = AgentsRoom(
            AgentDesk(
                house.store,
                house.key,
                house.clock,
                dispatcher=dispatcher,
                http=own,
                visitors=house.open_public_http(LONGEST_CALL),
                directory=settings.directory.url,
                seconds=settings.dispatch.timeout_seconds,
            )
        )
