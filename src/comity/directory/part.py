"""The directory: others publish the cards of their agents here, and find them."""

from typing import TYPE_CHECKING

from comity.runtime.lazy import late
from comity.runtime.part import Part, Table, View, ViewPage, ViewQuery
from comity.runtime.settings import Settings
from comity.runtime.upkeep import Limits

if TYPE_CHECKING:
    from comity.directory import cards, doors
    from comity.runtime.node_runtime import NodeRuntime
else:
    cards = late("comity.directory.cards")
    doors = late("comity.directory.doors")


class Directory(Part):
    name = "directory"
    open_paths = (
        "/v1/halo",
        "/v1/query_capability",
        "/v1/capability_card",
        "/v1/event_log",
        "/v1/event",
        "/v1/lineage",
        "/v1/revocation_list",
    )
    switch = "set `directory.serve` to true"

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        return settings.directory.serve

    async def _view(self, query: ViewQuery) -> ViewPage:
        store = self._store
        found = await cards.search_capability(
            store=store, query=query.text, limit=min(query.limit, 50), include_local=True
        )
        oracle = cards.StoredReputation(store)
        rows = [
            (
                match.vacant_id[:12],
                match.capability_card.capability_text,
                match.capability_card.endpoint or "",
                str(match.visibility).lower(),
                f"{await oracle.score(match.vacant_id, cards.RANKED_BY):.2f}",
            )
            for match in found
        ]
        columns = ("agent", "offers", "endpoint", "seen by", "reputation")
        empty = (
            "no agent was found"
            if query.text
            else "no agent is published here yet; publish yours: `comity card publish`"
        )
        return ViewPage(tables=[Table(columns, rows, empty=empty)])

    async def serve(self, runtime: "NodeRuntime") -> None:
        self._store = runtime.store
        self.views = [View("directory", "Directory", self._view, "search")]
        self.routes = doors.directory_routes(
            pipeline=runtime.pipeline,
            store=runtime.store,
            clock=runtime.clock,
            body_limit=runtime.settings.http.body_limit,
            quota=runtime.find(Limits).cards,
        )
        self.public, self.public_prefixes = doors.DIRECTORY_PUBLIC_PATHS, doors.DIRECTORY_PUBLIC_PREFIXES
