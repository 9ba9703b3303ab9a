"""Votes between nodes: the door of those that this node hosts, and the party that takes part in others."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from comity.envelopes.part import witnesses_of
from comity.runtime.lazy import late
from comity.runtime.part import Chore, Matrix, Panel, Part, Table, View, ViewPage, ViewQuery, paged
from comity.runtime.upkeep import Limits
from comity.wire.errors import KeyRefusedError

if TYPE_CHECKING:
    from comity.envelopes import features, server
    from comity.requests import metrics
    from comity.runtime.node_runtime import NodeRuntime
    from comity.votes import extension, host, logs, opening
    from comity.votes.protocol import log, operations, rules, vote
else:
    extension = late("comity.votes.extension")
    metrics = late("comity.requests.metrics")
    features = late("comity.envelopes.features")
    server = late("comity.envelopes.server")
    host = late("comity.votes.host")
    opening = late("comity.votes.opening")
    log = late("comity.votes.protocol.log")
    logs = late("comity.votes.logs")
    rules = late("comity.votes.protocol.rules")
    operations = late("comity.votes.protocol.operations")
    vote = late("comity.votes.protocol.vote")

_COUNTED_SECONDS = 5.0
_GRACE_SECONDS = 120.0
"""How long after a deadline, and after its own start, the host waits for acts that were signed in time."""
_LOOK_SECONDS = 300.0
"""How often the node reads on in a vote elsewhere that is not over: more often soon after its deadline, then ever less."""


class Votes(Part):
    name = "deliberations"
    open_paths = ("/v1/deliberations",)

    async def open(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        seconds = settings.dispatch.timeout_seconds
        self.party = opening.open_party(
            settings,
            store=runtime.store,
            vault=runtime.current_vault,
            record=runtime.record,
            clock=runtime.clock,
            key=runtime.key,
            http=runtime.open_http(seconds),
            public_http=runtime.open_public_http(seconds),
            holder=runtime.chain,
            features=features.Features(witnesses_of(runtime)),
        )
        self.ledger = self.party.ledger
        self._runtime = runtime
        self._count_again = 0.0
        self._self = runtime.vacant_id.hex()
        self.views = [View("deliberations", "Votes", self._view)]
        self._here = self._elsewhere = self._waiting = self._conflicts = self._disputed = 0
        self._opened = runtime.clock.monotonic()
        self._look_at: dict[str, float] = {}
        every = settings.deliberations.retry_seconds
        self.chores = [Chore(every, self._send), Chore(every, self._close), Chore(every, self._look)]

    async def serve(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        handler = host.VoteHostHandler(
            ledger=self.ledger,
            book=host.HOST_BOOK,
            features=features.Features(witnesses_of(runtime)),
            **server.node_options(runtime, lambda: "ACTIVE", runtime.find(Limits).replies),
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
        known, acts = await self.ledger.all(), await self.ledger.waiting()
        own = {self._self, *self.party.former}
        rows = [
            (
                stored.id,
                stored.vote.title,
                operations.state_of(stored.vote, logs.is_superseded(stored, known)),
                rules.deadline_text(stored.vote),
                str(len(stored.vote.stakeholders)),
                f"{stored.head.tip.number:,}",
                "this node" if stored.vote.host in own else stored.vote.host[:12],
                _trouble(stored, acts),
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
        columns = ("id", "title", "phase", "until", "parties", "entries", "host", "trouble")
        empty = "none yet; how to ask a question: `comity vote ask --help`"
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
            ("disputed results", f"{self._disputed:,}"),
        ]
        return Panel("Votes", rows)

    async def _send(self) -> None:
        await self.count()
        if self._waiting:
            await self.party.send_waiting()
            await self.count()

    async def _close(self) -> None:
        if self._runtime.clock.monotonic() - self._opened >= _GRACE_SECONDS:
            await self.party.close_due(_GRACE_SECONDS)

    async def _look(self) -> None:
        """Read on in the votes elsewhere that are not over, so that their results are known here."""
        now, clock = self._runtime.clock.now(), self._runtime.clock.monotonic()
        own = {self._self, *self.party.former}
        for stored in await self.ledger.all():
            vote = stored.vote
            if vote.host in own or vote.is_over or stored.conflict is not None:
                self._look_at.pop(vote.id, None)
            elif self._look_at.get(vote.id, 0.0) <= clock:
                left = vote.deadline - now + _GRACE_SECONDS if vote.deadline else _LOOK_SECONDS
                wait = min(left, _LOOK_SECONDS) if left > 0 else min(-left / 10, 12 * _LOOK_SECONDS)
                self._look_at[vote.id] = clock + max(wait, _LOOK_SECONDS / 5)
                await self.party.look(vote.id)

    async def count(self) -> None:
        """Update the figures of the panel and of the metrics."""
        known = await self.ledger.all()
        self._here = sum(stored.vote.host in {self._self, *self.party.former} for stored in known)
        self._elsewhere = len(known) - self._here
        self._conflicts = sum(stored.conflict is not None for stored in known)
        acts = await self.ledger.waiting()
        self._waiting = sum(not act.refusal for act in acts)
        self._disputed = sum(bool(logs.dispute_of(stored, acts)) for stored in known)


def _trouble(stored: "logs.StoredVote", acts: "Iterable[logs.WaitingAct]") -> str:
    if stored.conflict is not None:
        return "conflicting records"
    return "disputed" if logs.dispute_of(stored, acts) else ""
