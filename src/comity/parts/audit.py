"""The upkeep of the audit record: refusals written by the minute, old entries forgotten, a failed store tried again."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from comity.core.errors import ComityError, StoreError
from comity.parts.part import Chore, Part

if TYPE_CHECKING:
    from comity.parts.house import House
    from comity.pipeline.views import Fact, ViewPage, ViewQuery
    from comity.store.audit_log import AuditReport

_REFUSALS_EVERY = 60.0
_TRY_STORE_EVERY = 5.0
_PRUNE_EVERY = 3600.0


class Audit(Part):
    name = "audit"

    async def open(self, house: "House") -> None:
        from comity.pipeline.views import View

        self._house = house
        self._verifying: asyncio.Task[None] | None = None
        self._verified: AuditReport | None = None
        self._checked, self._fault = 0, ""
        self.views = [View("audit", "Audit", self._view, "verify")]
        house.stack.push_async_callback(self._stop_verifying)
        self.chores = [
            Chore(_REFUSALS_EVERY, self._write_refusals),
            Chore(_PRUNE_EVERY, self._prune),
            Chore(_TRY_STORE_EVERY, self._try_store_again),
        ]

    async def serve(self, house: "House") -> None:
        from starlette.routing import Route

        from comity.doors.http.endpoint import Endpoint

        async def verify(_scope: object, _receive: object) -> dict[str, bool]:
            return {"started": self._begin_verifying()}

        self.routes = [Route("/v1/audit/verify", Endpoint("POST", verify, room="audit", record=house.record))]

    def _begin_verifying(self) -> bool:
        """In the background, one at a time."""
        if self._verifying is not None and not self._verifying.done():
            return False
        self._verified, self._checked = None, 0
        self._verifying = asyncio.create_task(self._verify())
        return True

    async def _verify(self) -> None:
        from comity.store.audit_log import verify_chain

        house = self._house
        heads = house.settings.audit_heads if house.settings.store.engine == "sqlite" else None

        def seen(entries: int) -> None:
            self._checked += entries

        try:
            self._verified = await verify_chain(house.store, house.chain, house.vacant_id.public, heads, seen)
        except ComityError as fault:
            self._fault = fault.message

    async def _stop_verifying(self) -> None:
        if self._verifying is not None:
            self._verifying.cancel()
            await asyncio.wait([self._verifying])

    async def _view(self, query: "ViewQuery") -> "ViewPage":
        from comity.pipeline.views import Fact, Table, ViewPage
        from comity.store.audit_log import newest
        from comity.store.audit_trail import log_of

        house = self._house
        before = int(query.after) if query.after.isdecimal() else None
        entries = await newest(house.store, house.chain, before, query.limit)
        rows = [
            (
                str(entry.chain_position),
                entry.created_at[:19].replace("T", " "),
                entry.verification_result,
                next((check[7:] for check in entry.checks_passed if check.startswith("caller:")), ""),
                next((check[6:] for check in entry.checks_passed if check.startswith("count:")), "1"),
                entry.failed_step or "",
                entry.entry_hash[:16],
            )
            for entry in entries
        ]
        columns = ("entry", "when (UTC)", "what", "who", "times", "failed at", "hash")
        more = rows[-1][0] if rows and int(rows[-1][0]) > 1 and len(rows) == query.limit else ""
        facts = [Fact("Entries", f"{await house.store.end(log_of(house.chain)):,}"), self._verdict()]
        return ViewPage(facts=facts, tables=[Table(columns, rows, more=more)])

    def _verdict(self) -> "Fact":
        from comity.pipeline.views import Fact

        if self._verifying is None:
            return Fact("Verified", "not since the node started")
        if not self._verifying.done():
            return Fact("Verified", f"under way, {self._checked:,} entries checked")
        report = self._verified
        if report is None:
            return Fact("Verified", self._fault or "could not be verified", mark="bad")
        if report.ok:
            return Fact("Verified", f"sound, {report.entries:,} entries", mark="good")
        return Fact("Verified", f"entry {report.position}: {report.message}", mark="bad")

    async def _write_refusals(self) -> None:
        self._house.record.close_minute()

    async def _prune(self) -> None:
        from comity.pipeline.record import own_act
        from comity.store.audit_log import pruning

        house = self._house
        days = house.settings.audit.retention_days
        if days:
            operations = await pruning(house.store, house.chain, house.key, house.clock.now(), days)
            if operations:
                await house.record.commit_counted(operations, own_act("AUDIT_PRUNED"))

    async def _try_store_again(self) -> None:
        """After a commit that failed, so that an idle node is ready again as soon as it can be."""
        if self._house.store.failure is not None:
            with contextlib.suppress(StoreError):
                await self._house.note("STORE_WRITTEN_AGAIN")
