"""Deliberations between nodes: the door of the keeper, and the desk of those who take part from here."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from comity.runtime.part import Chore, Matrix, Panel, Part, Table, View, ViewPage, ViewQuery, paged
from comity.runtime.upkeep import Limits
from comity.wire.errors import KeyRefusedError

if TYPE_CHECKING:
    from comity.requests.metrics import Metric
    from comity.runtime.node_runtime import NodeRuntime
    from comity.votes.extension import DeliberationOperations


_COUNTED_SECONDS = 5.0


class Deliberations(Part):
    name = "deliberations"
    open_paths = ("/v1/deliberations",)

    async def open(self, runtime: "NodeRuntime") -> None:
        from comity.votes.client import VoteHostClient
        from comity.votes.logs import Ledger
        from comity.votes.party import VoteParty

        settings = runtime.settings
        own = settings.deliberations
        seconds = settings.dispatch.timeout_seconds
        self.ledger = Ledger(runtime.store, runtime.current_vault, log_bytes=own.log_bytes)
        self.desk = VoteParty(
            store=runtime.store,
            ledger=self.ledger,
            record=runtime.record,
            clock=runtime.clock,
            key=runtime.key,
            post=VoteHostClient(
                runtime.store,
                runtime.key,
                runtime.clock,
                runtime.open_http(seconds),
                public_http=runtime.open_public_http(seconds),
                holder=runtime.chain,
                patience=seconds,
                record=runtime.record,
            ),
            holder=runtime.chain,
        )
        self._runtime = runtime
        self._count_again = 0.0
        self._self = runtime.vacant_id.hex()
        self.views = [View("deliberations", "Deliberations", self._view)]
        self._kept = self._joined = self._waiting = self._frauds = 0
        self.chores = [Chore(own.retry_seconds, self._send)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        from comity.votes.host import DELIBERATIONS_PATH, KEEPER_BOOK, DeliberationsDoor, VoteHostHandler

        settings = runtime.settings
        handler = VoteHostHandler(
            ledger=self.ledger,
            key=runtime.key,
            state_provider=lambda: "ACTIVE",
            store=runtime.store,
            clock=runtime.clock,
            freshness=settings.agent.freshness_seconds or None,
            restored_at=runtime.restored_at,
            budget=runtime.budget,
            quota=runtime.find(Limits).replies,
            pair_bytes=settings.storage.pair_bytes,
            sole_writer=True,  # the folder is claimed by this process
            book=KEEPER_BOOK,
        )
        self.hot = {
            DELIBERATIONS_PATH: DeliberationsDoor(
                handler, runtime.pipeline, settings.http.body_limit, runtime.vacant_id
            )
        }
        self.public = {DELIBERATIONS_PATH}
        with contextlib.suppress(KeyRefusedError):  # a request for a deliberation reports the missing key
            await self.count()

    def operation_runner(self) -> "DeliberationOperations":
        from comity.votes.extension import DeliberationOperations

        return DeliberationOperations(self.desk)

    def metrics(self) -> "Iterator[Metric]":
        from comity.requests.metrics import Metric

        where = {"here": self._kept, "elsewhere": self._joined}
        yield Metric("comity_deliberations", "Deliberations, by where they are kept.", where, "kept")
        yield Metric("comity_deliberation_acts_waiting", "Acts that wait for their keeper.", self._waiting)
        yield Metric(
            "comity_deliberation_frauds",
            "Deliberations whose keeper is proven to have signed two entries with one number.",
            self._frauds,
        )

    async def _view(self, query: ViewQuery) -> ViewPage:
        from comity.votes.protocol.operations import clause_report
        from comity.votes.protocol.vote import COPIES

        known = await self.ledger.all()
        rows = [
            (
                kept.id,
                kept.deliberation.title,
                kept.deliberation.phase,
                str(len(kept.deliberation.stakeholders)),
                f"{kept.head.tip.number:,}",
                "this node" if kept.deliberation.keeper == self._self else kept.deliberation.keeper[:12],
                "FRAUD of the keeper" if kept.fraud is not None else "",
            )
            for kept in known
        ]
        shown, more = paged(rows, query)
        columns = ("id", "title", "phase", "parties", "entries", "kept by", "trouble")
        ids = {row[0] for row in shown}
        matrices = [
            Matrix(
                f"{kept.deliberation.title[:60]}, clause {report.clause.id}: {report.winner} wins ({COPIES} for each ballot)",
                report.candidates,
                report.pairwise_matrix,
            )
            for kept in known
            if kept.id in ids
            for report in (
                clause_report(kept.deliberation, one) for one in kept.deliberation.clauses.values()
            )
            if len(report.candidates) > 1 and report.winner is not None
        ]
        table = Table(
            columns, shown, more=more, empty="none yet; how to begin one: `comity vote open --help`"
        )
        return ViewPage(tables=[table], matrices=matrices)

    async def panel(self) -> Panel:
        now = self._runtime.clock.monotonic()
        if now >= self._count_again:
            self._count_again = now + _COUNTED_SECONDS
            await self.count()
        rows = [
            ("kept here", f"{self._kept:,}"),
            ("kept elsewhere", f"{self._joined:,}"),
            ("acts waiting for a keeper", f"{self._waiting:,}"),
            ("frauds of keepers", f"{self._frauds:,}"),
        ]
        return Panel("Deliberations", rows)

    async def _send(self) -> None:
        await self.count()
        if self._waiting:
            await self.desk.send_waiting()
            await self.count()

    async def count(self) -> None:
        """Bring the figures up to date."""
        known = await self.ledger.all()
        self._kept = sum(kept.deliberation.keeper == self._self for kept in known)
        self._joined = len(known) - self._kept
        self._frauds = sum(kept.fraud is not None for kept in known)
        self._waiting = sum(not act.refusal for act in await self.ledger.waiting())
