"""What happens on the node, for whoever watches: `/v1/events`."""

from typing import TYPE_CHECKING

from comity.parts.part import Part

if TYPE_CHECKING:
    from comity.parts.house import House


class Watching(Part):
    name = "watching"

    async def serve(self, house: "House") -> None:
        from comity.doors.events import EVENTS_PATH, EventsEndpoint

        self.hot = {EVENTS_PATH: EventsEndpoint(house.events, house.record, house.stopping)}
