"""What others may ask of this node and make it store: the budget's figures, and the quotas of stored bytes."""

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from comity.runtime.part import CheckResult, Chore, Panel, Part
from comity.runtime.settings import Settings
from comity.runtime.views import Fact, Table, View, ViewPage, ViewQuery
from comity.wire.errors import ComityError

if TYPE_CHECKING:
    from comity.requests.metrics import Metric
    from comity.requests.storage import Quota
    from comity.runtime.node_runtime import House

_LOOK_EVERY = 60.0
_FORGET_EVERY = 3600.0


class Limits(Part):
    name = "limits"

    async def open(self, house: "House") -> None:
        from comity.requests.storage import Quota

        self._house = house
        self.views = [View("limits", "Limits", self._view)]
        self.replies, self.cards = (
            Quota(house.store, house.clock, name=name, total=total, has_share=house.budget.limits)
            for name, total in _totals(house.settings).items()
        )
        await self._look()
        self.chores = [Chore(_LOOK_EVERY, self._look), Chore(_FORGET_EVERY, self._forget_replies)]

    @property
    def quotas(self) -> "tuple[Quota, ...]":
        return self.replies, self.cards

    def metrics(self) -> "Iterator[Metric]":
        from comity.requests.budget import KINDS
        from comity.requests.metrics import Metric

        yield Metric(
            "comity_budget_refused",
            "Messages that found an empty budget, or waited for one.",
            {kind: self._house.budget.refused[kind] for kind in KINDS},
            "kind",
            "counter",
        )
        held = {quota.name: quota.held for quota in self.quotas}
        most = {quota.name: quota.total for quota in self.quotas}
        yield Metric("comity_stored_bytes", "Bytes stored for others.", held, "quota")
        yield Metric("comity_stored_limit_bytes", "Bytes that may be stored for others.", most, "quota")

    async def _view(self, _query: ViewQuery) -> ViewPage:
        from comity.requests.budget import KINDS

        stored = [
            (quota.name, _mebibytes(quota.held), _mebibytes(quota.total), f"{quota.held / quota.total:.0%}")
            for quota in self.quotas
        ]
        refused = [(kind.replace("_", " "), f"{self._house.budget.refused[kind]:,}") for kind in KINDS]
        rate = self._house.settings.rate
        allowed = f"{rate.requests:,} requests and {_mebibytes(rate.bytes)} in {rate.per_seconds:g} s"
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
            [(f"of {_mebibytes(quota.total)} {quota.name}", _mebibytes(quota.held)) for quota in self.quotas],
        )

    async def _look(self) -> None:
        for quota in self.quotas:
            await quota.look()

    async def _forget_replies(self) -> None:
        """Where much is stored, those that were kept for a day: their callers may have gone for good."""
        from comity.requests.storage import KEPT_SECONDS
        from comity.store.operations import ForgetReplies

        if self.replies.held < self.replies.total // 2:
            return
        before = self._house.clock.now() - KEPT_SECONDS
        after: int | None = 0
        while after is not None:
            (after,) = await self._house.store.commit(ForgetReplies(before=before, after=after))

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        return check_storage(settings), check_budget(settings)


def check_storage(settings: Settings) -> CheckResult:
    """What is stored for others, and how much more of it there may be."""
    from comity.runtime.opening import reading
    from comity.runtime.system_clock import SystemClock

    totals = _totals(settings)

    async def look() -> dict[str, int] | None:
        async with reading(settings, SystemClock()) as store:
            return {name: await store.held(name) for name in totals} if await store.is_current() else None

    name = "quotas"
    try:
        held = asyncio.run(look()) if settings.database.exists() else dict.fromkeys(totals, 0)
        places = (settings.data, *settings.data.parents)
        free = shutil.disk_usage(next(place for place in places if place.is_dir())).free
    except (ComityError, OSError):
        return CheckResult(
            name, "warn", "not known, for the database cannot be read", "see the check of the database"
        )
    if held is None:
        return CheckResult(name, "ok", "not counted yet; the next start of the node does")
    shown = ", ".join(f"{_mebibytes(held[one])} of {_mebibytes(most)} {one}" for one, most in totals.items())
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
    """Who is told apart by the budget: behind a proxy that is not named, everybody is one."""
    proxies, rate = settings.http.trusted_proxies, settings.rate
    budget = (
        f"{rate.requests:,} requests and {_mebibytes(rate.bytes)} in {rate.per_seconds:g} s for each address"
    )
    if proxies:
        return CheckResult("budget", "ok", f"{budget}, told by the proxies {', '.join(proxies)}")
    if settings.agent.endpoint and not rate.limit_loopback:
        return CheckResult(
            "budget",
            "warn",
            f"{budget}, but agent.endpoint names another address, and what a proxy here passes on has no limit",
            "name the proxy in http.trusted_proxies",
        )
    return CheckResult("budget", "ok", budget)


def _totals(settings: Settings) -> dict[str, int]:
    """How many bytes there may be, by quota."""
    from comity.requests.storage import CARDS
    from comity.store.operations import REPLIES

    return {REPLIES: settings.storage.replies_bytes, CARDS: settings.storage.cards_bytes}


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:,.1f} MiB"
