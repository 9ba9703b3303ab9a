"""The node publishes its agent in a directory by itself: `comity up --directory URL`, or `directory.publish`."""

import logging
from typing import TYPE_CHECKING

from comity.agents.part import Agent
from comity.requests.caller import OWN_PROCESS
from comity.requests.handler import Arrival
from comity.runtime.part import Panel, Part
from comity.runtime.settings import Settings

if TYPE_CHECKING:
    from comity.directory.publishing import PublicationReport
    from comity.envelopes.protocol.card import CapabilityCard
    from comity.runtime.node_runtime import House

log = logging.getLogger("comity.publication")


class Publishing(Part):
    name = "publishing"

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        return super().is_wanted(settings) and settings.directory.publish and bool(settings.agent.behaviour)

    async def serve(self, house: "House") -> None:
        from comity.directory.client import DirectoryClient
        from comity.directory.publishing import KeptPublication
        from comity.runtime.node_runtime import running

        self._house = house
        settings, agent = house.settings, house.find(Agent)
        http = house.open_http(settings.dispatch.timeout_seconds)
        form = agent.resident.form
        card: CapabilityCard | None = form.capability_card
        assert card is not None, "an agent that is served has a card"
        url = settings.directory.url.rstrip("/")
        self.kept = KeptPublication(
            DirectoryClient(http, url, clock=house.clock, key=house.key),
            url,
            house.clock,
            card=card,
            state=lambda: form.runtime_state,
            changed=agent.state_changed,
            activate=self._activate,
            told=self._tell,
        )
        await house.stack.enter_async_context(running(self.kept.run()))

    async def panel(self) -> Panel:
        report = self.kept.report
        rows = [("directory", report.directory), ("published", report.in_words())]
        return Panel("Publication", rows)

    async def _activate(self) -> None:
        from comity.envelopes.protocol.lifecycle import RuntimeState

        body = {"state": RuntimeState.ACTIVE.value}
        arrival = Arrival(door="node", caller=OWN_PROCESS, body=body)
        await self._house.walk.take(self._house.find(Agent).state_room, arrival)

    def _tell(self, report: "PublicationReport") -> None:
        """Write it down, for the audit trail and for whoever watches."""
        from comity.requests.record import Act

        if report.problem:
            log.warning("the card is not up to date in %s: %s", report.directory, report.problem)
        self._house.record.note(
            Act(
                room="directory",
                result="CARD_NOT_PUBLISHED" if report.problem else "CARD_PUBLISHED",
                caller=OWN_PROCESS,
                failed_step="directory" if report.problem else None,
                about=report.directory,
            )
        )
