"""What happens on the node, for whoever watches: the page at `/`, its views, and `/v1/events`.

The HTTP server of the node serves the page, for it shows all parts. Where this part is switched off, there is no page, and no
events are kept.
"""

from typing import TYPE_CHECKING

from comity.runtime.part import Part

if TYPE_CHECKING:
    from comity.runtime.node_runtime import House


class Watching(Part):
    name = "watching"
    paths = ("/v1/events", "/v1/views")
    open_paths = ("/", "/enter", "/assets")

    async def serve(self, house: "House") -> None:
        from comity.node.event_stream import EVENTS_PATH, EventsEndpoint

        assert house.events is not None, "events are kept where this part is wanted"
        self.hot = {EVENTS_PATH: EventsEndpoint(house.events, house.record, house.stopping)}
