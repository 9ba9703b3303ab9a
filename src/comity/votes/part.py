"""Votes between nodes: the door of those that this node hosts, and the party that takes part in others."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from comity.runtime.lazy import late
from comity.runtime.part import Chore, Matrix, Panel, Part, Table, View, ViewPage, ViewQuery, paged
from comity.runtime.upkeep import Limits
from comity.wire.errors import KeyRefusedError

if TYPE_CHECKING:
    from comity.requests import metrics
    from comity.runtime.node_runtime import NodeRuntime
    from comity.votes import extension, host, party
    from comity.votes.protocol import log, operations, vote
else:
    extension = late("comity.votes.extension")
    metrics = late("comity.requests.metrics")
    host = late("comity.votes.host")
    party = late("comity.votes.party")
    log = late("comity.votes.protocol.log")
    operations = late("comity.votes.protocol.operations")
    vote = late("comity.votes.protocol.vote")

_COUNTED_SECONDS = 5.0


class Votes(Part):
    name = "deliberations"
    open_paths = ("/v1/deliberations",)

    async def open(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        seconds = settings.dispatch.timeout_seconds
        self.party = party.open_party(
            settings,
            store=runtime.store,
            vault=runtime.current_vault,
            record=runtime.record,
            clock=runtime.clock,
            key=runtime.key,
            http=runtime.open_http(seconds),
            public_http=runtime.open_public_http(seconds),
            holder=runtime.chain,
        )
        self.ledger = self.party.ledger
        self._runtime = runtime
        self._count_again = 0.0
        self._self = runtime.vacant_id.hex()
        self.views = [View("deliberations", "Votes", self._view)]
        self._here = self._elsewhere = self._waiting = self._conflicts = 0
        self.chores = [Chore(settings.deliberations.retry_seconds, self._send)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        handler = host.VoteHostHandler(
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
            book=host.HOST_BOOK,
        )
        door = host.VotesDoor(handler, runtime.pipeline, settings.http.body_limit, runtime.vacant_id)
        self.hot = {log.VOTES_PATH: door}
        self.public = {log.VOTES_PATH}
        with contextlib.suppress(KeyRefusedError):  # a request about a vote reports the missing key
            await self.count()

    def operation_runner(self) -> "extension.VoteOperations":
        return extension.VoteOperations(self.party)

    def metrics(self) -> "Iterator[metrics.Metric]":
        where = {"here": self._here, "elsewhere": self._elsewhere}
        yield metrics.Metric("comity_deliberations", "Votes, by where they are hosted.", where, "kept")
        yield metrics.Metric("comity_deliberation_acts_waiting", "Votes not delivered yet.", self._waiting)
        yield metrics.Metric(
            "comity_deliberation_frauds",
            "Votes with conflicting records: the host has signed two entries with one number.",
            self._conflicts,
        )

    async def _view(self, query: ViewQuery) -> ViewPage:
        known = await self.ledger.all()
        rows = [
            (
                stored.id,
                stored.vote.title,
                stored.vote.phase,
                str(len(stored.vote.stakeholders)),
                f"{stored.head.tip.number:,}",
                "this node" if stored.vote.host == self._self else stored.vote.host[:12],
                "" if stored.conflict is None else "conflicting records",
            )
            for stored in known
        ]
        shown, more = paged(rows, query)
        ids = {row[0] for row in shown}
        reports = [
            (stored.vote.title, operations.clause_report(stored.vote, clause))
            for stored in known
            if stored.id in ids
            for clause in stored.vote.clauses.values()
        ]
        matrices = [
            Matrix(
                f"{title[:60]}, clause {report.clause.id}: {report.winner} wins ({vote.COPIES} for each ballot)",
                report.candidates,
                report.pairwise_matrix,
            )
            for title, report in reports
            if len(report.candidates) > 1 and report.winner is not None
        ]
        columns = ("id", "title", "phase", "parties", "entries", "host", "trouble")
        empty = "none yet; how to open one: `comity vote open --help`"
        return ViewPage(tables=[Table(columns, shown, more=more, empty=empty)], matrices=matrices)

    async def panel(self) -> Panel:
        now = self._runtime.clock.monotonic()
        if now >= self._count_again:
            self._count_again = now + _COUNTED_SECONDS
            await self.count()
        rows = [
            ("hosted here", f"{self._here:,}"),
            ("hosted elsewhere", f"{self._elsewhere:,}"),
            ("votes not delivered yet", f"{self._waiting:,}"),
            ("conflicting records", f"{self._conflicts:,}"),
        ]
        return Panel("Votes", rows)

    async def _send(self) -> None:
        await self.count()
        if self._waiting:
            await self.party.send_waiting()
            await self.count()

    async def count(self) -> None:
        """Update the figures of the panel and of the metrics."""
        known = await self.ledger.all()
        self._here = sum(stored.vote.host == self._self for stored in known)
        self._elsewhere = len(known) - self._here
        self._conflicts = sum(stored.conflict is not None for stored in known)
        self._waiting = sum(not act.refusal for act in await self.ledger.waiting())
