"""The upkeep of the audit record: refusals written by the minute, old entries forgotten, a failed store tried again."""

import contextlib
from typing import TYPE_CHECKING

from comity.core.errors import StoreError
from comity.parts.part import Chore, Part

if TYPE_CHECKING:
    from comity.parts.house import House

_REFUSALS_EVERY = 60.0
_TRY_STORE_EVERY = 5.0
_PRUNE_EVERY = 3600.0
_DAY = 86_400.0


class Audit(Part):
    name = "audit"

    async def open(self, house: "House") -> None:
        self._house = house
        self.chores = [
            Chore(_REFUSALS_EVERY, self._write_refusals),
            Chore(_PRUNE_EVERY, self._prune),
            Chore(_TRY_STORE_EVERY, self._try_store_again),
        ]

    async def _write_refusals(self) -> None:
        self._house.record.close_minute()

    async def _prune(self) -> None:
        from comity.core.guard.audit import timestamp
        from comity.parts.house import own_act
        from comity.store.audit_log import prune

        house = self._house
        days = house.settings.audit.retention_days
        if days:
            before = timestamp(house.clock.now() - days * _DAY)
            pruned = house.record.entry(own_act("AUDIT_PRUNED"))
            await prune(house.store, house.chain, house.key, before=before, pruned=pruned)

    async def _try_store_again(self) -> None:
        """After a commit that failed, so that an idle node is ready again as soon as it can be."""
        if self._house.store.failure is not None:
            with contextlib.suppress(StoreError):
                await self._house.note("STORE_WRITTEN_AGAIN")
