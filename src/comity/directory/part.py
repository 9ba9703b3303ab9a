"""The directory: others publish the cards of their agents here, and find them."""

from typing import TYPE_CHECKING

from comity.runtime.lazy import late
from comity.runtime.part import Part, Table, View, ViewPage, ViewQuery
from comity.runtime.settings import Settings
from comity.runtime.upkeep import Limits

if TYPE_CHECKING:
    from comity.directory import cards, doors, reviews, superseding
    from comity.envelopes import successions
    from comity.runtime.node_runtime import NodeRuntime
else:
    cards = late("comity.directory.cards")
    doors = late("comity.directory.doors")
    reviews = late("comity.directory.reviews")
    superseding = late("comity.directory.superseding")
    successions = late("comity.envelopes.successions")


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
        "/v1/reviews",
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
        rows = [
            (
                match.vacant_id[:12],
                match.capability_card.capability_text,
                match.capability_card.endpoint or "",
                str(match.visibility).lower(),
                _review_words(await reviews.reviewed(store, match.vacant_id)),
            )
            for match in found
        ]
        columns = ("agent", "offers", "endpoint", "seen by", "reviews")
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
            superseding=superseding.Superseding(
                runtime.store,
                successions.Successions(runtime.store, runtime.record, runtime.key, runtime.line),
            ),
        )
        self.public, self.public_prefixes = doors.DIRECTORY_PUBLIC_PATHS, doors.DIRECTORY_PUBLIC_PREFIXES


def _review_words(found: "reviews.Reviewed") -> str:
    return f"{found.score:.2f} ({found.reviews})" if found.reviews else "none"
