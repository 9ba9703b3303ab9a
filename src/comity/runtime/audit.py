"""The upkeep of the audit record: refusals written by the minute, old entries forgotten, a failed store tried again."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from comity.identity.protocol.rights import Right
from comity.runtime.part import Chore, Part
from comity.runtime.views import Fact, Table, View, ViewPage, ViewQuery
from comity.wire.errors import ComityError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from comity.runtime.node_runtime import House
    from comity.store.audit_log import AuditReport

_REFUSALS_EVERY = 60.0
_TRY_STORE_EVERY = 5.0
_PRUNE_EVERY = 3600.0


class Verification:
    """What is verified in the background, one thing at a time."""

    def __init__(self) -> None:
        self.what = ""
        self.checked = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self, what: str, work: Callable[[Callable[[int], None]], Coroutine[Any, Any, None]]) -> bool:
        """Whether it was begun: not while another one is under way. `work` is given what to tell its progress to."""
        if self.is_running:
            return False
        self.what, self.checked = what, 0
        self._task = asyncio.create_task(work(self._seen))
        return True

    def _seen(self, entries: int) -> None:
        self.checked += entries

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class Audit(Part):
    name = "audit"
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({"/v1/audit/verify": "act"})

    async def open(self, house: "House") -> None:
        self._house = house
        self.verification = Verification()
        self._verified: AuditReport | None = None
        self._fault = ""
        self.views = [View("audit", "Audit", self._view, "verify")]
        house.stack.push_async_callback(self.verification.stop)
        self.chores = [
            Chore(_REFUSALS_EVERY, self._write_refusals),
            Chore(_PRUNE_EVERY, self._prune),
            Chore(_TRY_STORE_EVERY, self._try_store_again),
        ]

    async def serve(self, house: "House") -> None:
        from starlette.routing import Route

        from comity.http.endpoint import Endpoint

        async def verify(_scope: object, _receive: object) -> dict[str, bool]:
            return {"started": self.verification.begin("audit", self._verify)}

        self.routes = [Route("/v1/audit/verify", Endpoint("POST", verify, room="audit", record=house.record))]

    @property
    def heads(self) -> "Path | None":
        """Where the signed heads outside the database are; a store in memory has none."""
        settings = self._house.settings
        return settings.audit_heads if settings.store.engine == "sqlite" else None

    async def _verify(self, seen: Callable[[int], None]) -> None:
        from comity.store.audit_log import verify_chain

        house = self._house
        self._verified, self._fault = None, ""
        try:
            self._verified = await verify_chain(
                house.store, house.chain, house.vacant_id.public, self.heads, seen
            )
        except ComityError as fault:
            self._fault = fault.message

    async def _view(self, query: ViewQuery) -> ViewPage:
        from comity.store.audit_log import newest
        from comity.store.audit_trail import log_of

        house = self._house
        before = int(query.after) if query.after.isdecimal() else None
        entries = await newest(house.store, house.chain, before, query.limit)
        rows = [
            (
                str(entry.chain_position),
                entry.created_at,
                entry.verification_result,
                next((check[7:] for check in entry.checks_passed if check.startswith("caller:")), ""),
                next((check[6:] for check in entry.checks_passed if check.startswith("count:")), "1"),
                entry.failed_step or "",
                entry.entry_hash[:16],
            )
            for entry in entries
        ]
        columns = ("entry", "when", "what", "who", "times", "failed at", "hash")
        more = rows[-1][0] if rows and int(rows[-1][0]) > 1 and len(rows) == query.limit else ""
        facts = [Fact("Entries", f"{await house.store.end(log_of(house.chain)):,}"), self._verdict()]
        return ViewPage(facts=facts, tables=[Table(columns, rows, more=more)])

    def _verdict(self) -> Fact:
        if self.verification.is_running and self.verification.what == "audit":
            return Fact("Verified", f"under way, {self.verification.checked:,} entries checked")
        if self._fault:
            return Fact("Verified", self._fault, mark="bad")
        report = self._verified
        if report is None:
            return Fact("Verified", "not since the node started")
        if report.ok:
            return Fact("Verified", f"sound, {report.entries:,} entries", mark="good")
        return Fact("Verified", f"entry {report.position}: {report.message}", mark="bad")

    async def _write_refusals(self) -> None:
        self._house.record.close_minute()

    async def _prune(self) -> None:
        from comity.requests.record import own_act
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
