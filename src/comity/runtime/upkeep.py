"""The parts `audit` and `limits`: the upkeep of the audit record, the figures of the budget, quotas of stored bytes."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from comity.identity.protocol.rights import Right
from comity.runtime.lazy import late
from comity.runtime.part import CheckResult, Chore, Fact, Panel, Part, Table, View, ViewPage, ViewQuery
from comity.runtime.settings import Settings
from comity.wire.errors import ComityError, StoreError
from comity.wire.machine import size_words

if TYPE_CHECKING:
    from pathlib import Path

    from starlette import routing

    from comity.http import asgi
    from comity.requests import budget as budgets
    from comity.requests import metrics as metric_text
    from comity.requests import record as request_record
    from comity.requests.budget import Quota
    from comity.requests.metrics import Metric
    from comity.runtime import opening, system_clock
    from comity.runtime.node_runtime import NodeRuntime
    from comity.store import audit_log, audit_proofs, audit_trail
    from comity.store import interface as store_interface
    from comity.store import vault as store_vault
    from comity.store.audit_log import AuditReport
else:
    asgi = late("comity.http.asgi")
    budgets = late("comity.requests.budget")
    metric_text = late("comity.requests.metrics")
    request_record = late("comity.requests.record")
    opening = late("comity.runtime.opening")
    system_clock = late("comity.runtime.system_clock")
    audit_log = late("comity.store.audit_log")
    audit_proofs = late("comity.store.audit_proofs")
    audit_trail = late("comity.store.audit_trail")
    store_interface = late("comity.store.interface")
    store_vault = late("comity.store.vault")
    routing = late("starlette.routing")

# The audit record: refusals are written each minute, old entries deleted, a failed store tried again.


_REFUSALS_EVERY = 60.0
_TRY_STORE_EVERY = 5.0
_PRUNE_EVERY = 3600.0
_TREE_EVERY = 60.0
_HEADS_EVERY = 60.0


class Verification:
    """A verification in the background, one at a time."""

    def __init__(self) -> None:
        self.what = ""
        self.checked = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self, what: str, work: Callable[[Callable[[int], None]], Coroutine[Any, Any, None]]) -> bool:
        """Begin, and return True, unless another one is running. `work` is called with a function that reports progress."""
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

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        self.verification = Verification()
        self._verified: AuditReport | None = None
        self._fault = ""
        self.views = [View("audit", "Audit", self._view, "verify")]
        runtime.stack.push_async_callback(self.verification.stop)
        self.chores = [
            Chore(_REFUSALS_EVERY, self._write_refusals),
            Chore(_PRUNE_EVERY, self._prune),
            Chore(_TRY_STORE_EVERY, self._try_store_again),
            Chore(_TREE_EVERY, self._build_tree),
            Chore(_HEADS_EVERY, self._note_heads),
        ]
        self._noted: dict[str, str] = {}

    async def serve(self, runtime: "NodeRuntime") -> None:
        async def verify(_scope: object, _receive: object) -> dict[str, bool]:
            return {"started": self.verification.begin("audit", self._verify)}

        self.routes = [
            routing.Route(
                "/v1/audit/verify", asgi.Endpoint("POST", verify, feature="audit", record=runtime.record)
            )
        ]

    @property
    def heads(self) -> "Path | None":
        """Return where the signed heads outside the database are; a volatile store has none."""
        settings = self._runtime.settings
        return None if settings.store.is_volatile else settings.audit_heads

    async def _verify(self, seen: Callable[[int], None]) -> None:
        runtime = self._runtime
        self._verified, self._fault = None, ""
        try:
            self._verified = await audit_log.verify_chain(
                runtime.store, runtime.chain, runtime.line.publics, self.heads, seen
            )
        except ComityError as fault:
            self._fault = fault.message

    async def _view(self, query: ViewQuery) -> ViewPage:
        runtime = self._runtime
        before = int(query.after) if query.after.isdecimal() else None
        entries = await audit_log.newest(runtime.store, runtime.chain, before, query.limit)
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
        facts = [
            Fact("Entries", f"{await runtime.store.end(audit_trail.log_of(runtime.chain)):,}"),
            self._verdict(),
        ]
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
        self._runtime.record.flush_refusals()

    async def _prune(self) -> None:
        runtime = self._runtime
        days = runtime.settings.audit.retention_days
        if days:
            operations = await audit_log.pruning(
                runtime.store, runtime.chain, runtime.key, runtime.clock.now(), days
            )
            if operations:
                await runtime.record.commit_counted(operations, request_record.own_act("AUDIT_PRUNED"))

    async def _build_tree(self) -> None:
        """Build the tree of a chain that an earlier release wrote, once."""
        runtime = self._runtime
        if runtime.trail.lacks_tree:
            tree = await audit_proofs.build_tree(runtime.store, runtime.chain, runtime.trail.resumed_at)
            runtime.trail.offer_tree(tree)
            await runtime.note("AUDIT_TREE_BUILT")

    async def _note_heads(self) -> None:
        """Enter the heads of the other chains of this node into its own, so that whoever holds a head of it holds them."""
        runtime = self._runtime
        for chain, head in await audit_log.heads(runtime.store):
            if chain != runtime.chain and self._noted.get(chain) != head.entry_hash:
                said = f"{chain}:{head.position}:{head.entry_hash}"
                await runtime.record.commit_counted((), request_record.own_act("AUDIT_HEAD", said))
                self._noted[chain] = head.entry_hash

    async def _try_store_again(self) -> None:
        """Commit after a failure, so that an idle node is ready again as soon as possible."""
        if self._runtime.store.failure is not None:
            with contextlib.suppress(StoreError):
                await self._runtime.note("STORE_WRITTEN_AGAIN")


_REFRESH_EVERY = 60.0
_FORGET_EVERY = 3600.0


class Limits(Part):
    name = "limits"

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        self.views = [View("limits", "Limits", self._view)]
        self.replies, self.cards = (
            budgets.Quota(
                runtime.store, runtime.clock, name=name, total=total, has_share=runtime.budget.limits
            )
            for name, total in _totals(runtime.settings).items()
        )
        await self._refresh()
        self.chores = [Chore(_REFRESH_EVERY, self._refresh), Chore(_FORGET_EVERY, self._tend_replies)]

    @property
    def quotas(self) -> "tuple[Quota, ...]":
        return self.replies, self.cards

    def metrics(self) -> "Iterator[Metric]":
        yield metric_text.Metric(
            "comity_budget_refused",
            "Messages that found an empty budget, or waited for one.",
            {kind: self._runtime.budget.refused[kind] for kind in budgets.KINDS},
            "kind",
            "counter",
        )
        held = {quota.name: quota.held for quota in self.quotas}
        most = {quota.name: quota.total for quota in self.quotas}
        yield metric_text.Metric("comity_stored_bytes", "Bytes stored for others.", held, "quota")
        yield metric_text.Metric(
            "comity_stored_limit_bytes", "Bytes that may be stored for others.", most, "quota"
        )

    async def _view(self, _query: ViewQuery) -> ViewPage:
        stored = [
            (quota.name, size_words(quota.held), size_words(quota.total), f"{quota.held / quota.total:.0%}")
            for quota in self.quotas
        ]
        refused = [
            (kind.replace("_", " "), f"{self._runtime.budget.refused[kind]:,}") for kind in budgets.KINDS
        ]
        rate = self._runtime.settings.rate
        allowed = f"{rate.requests:,} requests and {size_words(rate.bytes)} in {rate.per_seconds:g} s"
        return ViewPage(
            facts=[Fact("Each address may send", allowed)],
            tables=[
                Table(("stored for others", "held", "at most", "used"), stored),
                Table(("refused or held back by the budget of", "messages"), refused),
            ],
        )

    async def panel(self) -> Panel:
        return Panel(
            "Stored for others",
            [(quota.name, f"{size_words(quota.held)} of {size_words(quota.total)}") for quota in self.quotas],
        )

    async def _refresh(self) -> None:
        for quota in self.quotas:
            await quota.refresh()

    async def _tend_replies(self) -> None:
        await store_vault.seal_plain_replies(self._runtime.store, self._runtime.current_vault())
        await self._forget_replies()

    async def _forget_replies(self) -> None:
        """Delete replies that were kept for a day, if the quota is half used."""
        if self.replies.held < self.replies.total // 2:
            return
        before = self._runtime.clock.now() - budgets.KEPT_SECONDS
        after: int | None = 0
        while after is not None:
            (after,) = await self._runtime.store.commit(
                store_interface.ForgetReplies(before=before, after=after)
            )

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        return check_storage(settings), check_budget(settings)


def check_storage(settings: Settings) -> CheckResult:
    """Check how much is stored for others, and how much room is left."""
    totals = _totals(settings)

    async def inspect() -> dict[str, int] | None:
        async with opening.reading(settings, system_clock.SystemClock()) as store:
            return {name: await store.held(name) for name in totals} if await store.is_current() else None

    name = "quotas"
    try:
        held = asyncio.run(inspect()) if settings.database.exists() else dict.fromkeys(totals, 0)
        places = (settings.data, *settings.data.parents)
        free = shutil.disk_usage(next(place for place in places if place.is_dir())).free
    except (ComityError, OSError):
        return CheckResult(
            name, "warn", "not known, for the database cannot be read", "see the check of the database"
        )
    if held is None:
        return CheckResult(name, "ok", "not counted yet; the next start of the node does")
    shown = ", ".join(f"{size_words(held[one])} of {size_words(most)} {one}" for one, most in totals.items())
    # what comes next may not fit although a little is left
    full = [one for one, most in totals.items() if held[one] >= 0.95 * (most - most // 4)]
    if full:
        keys = " and ".join(f"storage.{one}_bytes" for one in full)
        return CheckResult(
            name,
            "warn",
            f"{shown}; newcomers are refused, or soon will be",
            f"raise {keys} if the disk has room for more",
        )
    if sum(totals.values()) - sum(held.values()) > free:
        return CheckResult(
            name, "warn", f"{shown}; more than the disk has room for", "lower storage.replies_bytes"
        )
    return CheckResult(name, "ok", shown)


def check_budget(settings: Settings) -> CheckResult:
    """Check whether the budget can distinguish callers: behind an unnamed proxy all have one address."""
    proxies, rate = settings.http.trusted_proxies, settings.rate
    budget = (
        f"{rate.requests:,} requests and {size_words(rate.bytes)} in {rate.per_seconds:g} s for each address"
    )
    if proxies:
        return CheckResult("budget", "ok", f"{budget}, as named by the proxies {', '.join(proxies)}")
    if settings.agent.endpoint and not rate.limit_loopback:
        return CheckResult(
            "budget",
            "warn",
            f"{budget}, but agent.endpoint names another address, and what a proxy here passes on has no limit",
            "name the proxy in http.trusted_proxies",
        )
    return CheckResult("budget", "ok", budget)


def _totals(settings: Settings) -> dict[str, int]:
    """Return how many bytes there may be, by quota."""
    return {
        store_interface.REPLIES: settings.storage.replies_bytes,
        budgets.CARDS: settings.storage.cards_bytes,
    }
