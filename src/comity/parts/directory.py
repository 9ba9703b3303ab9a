"""The directory: others publish the cards of their agents here, and find them."""

from typing import TYPE_CHECKING

from comity.config import Settings
from comity.parts.limits import Limits
from comity.parts.part import Part

if TYPE_CHECKING:
    from comity.parts.house import House


class Directory(Part):
    name = "directory"

    @classmethod
    def is_wanted(cls, settings: Settings) -> bool:
        return settings.directory.serve

    async def serve(self, house: "House") -> None:
        from comity.doors.directory import (
            DIRECTORY_PUBLIC_PATHS,
            DIRECTORY_PUBLIC_PREFIXES,
            directory_routes,
        )

        self.routes = directory_routes(
            walk=house.walk,
            store=house.store,
            clock=house.clock,
            body_limit=house.settings.http.body_limit,
            quota=house.find(Limits).cards,
        )
        self.public, self.public_prefixes = DIRECTORY_PUBLIC_PATHS, DIRECTORY_PUBLIC_PREFIXES
