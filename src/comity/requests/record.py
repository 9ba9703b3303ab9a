"""The record: one outcome per act becomes its audit entry, its metric, its event and its log line.

- A change of state and its entry are one commit (`commit`). The caller waits for it, and the event follows it. An act that
  changes nothing is written in the same group commit without waiting (`note`).
- Refusals of unknown callers are counted in groups by minute, feature and reason (`refuse`). Equal calls that change nothing are
  counted in groups by the moment (`tally`). Each group has one entry and one event, with the number among the checks, so
  that the hash covers it (rulings 22, 23), and with the sum of the times. So such requests cannot fill the disk.
- The last checks of an entry are the caller and the request: `caller:<kind>:<short>`, `request:<hash>`. A group of acts of
  several requests has no request.
- If an entry cannot be written, the error goes to the log and not to the caller.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from comity.requests.caller import OWN_PROCESS, UNKNOWN, Caller
from comity.requests.handler import NO_REQUEST, RequestIds, RequestMark, current_request, request_check
from comity.store.audit_chain import AuditDraft, AuditLevel, privacy_hash, timestamp
from comity.store.interface import Operation
from comity.wire.errors import ComityError
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.requests.events import Events
    from comity.requests.metrics import Metrics

log = logging.getLogger("comity.record")

MOMENT: Final = 0.05
REQUEST_IDS: Final = RequestIds(secrets.token_hex(5))
_MINUTE: Final = 60
_NAMING: Final = ("session_id_hash", "request_id_hash", "content_hash")
_SHORT: Final = 16


class EntryStore(Protocol):
    """Where entries go: a store, or the stand-in for one that is not open yet."""

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft]
    ) -> "asyncio.Future[tuple[Any, ...]]": ...


class Act(Struct, frozen=True, kw_only=True, dict=True):
    """`result` is the kind of the entry, such as ENVELOPE_OK. `about` names the subject for events, by name or hash; if it
    is empty, the hashes do. `hashes` are further fields of the entry.
    """

    feature: str
    result: str
    caller: Caller = UNKNOWN
    checks: tuple[str, ...] = ()
    failed_step: str | None = None
    seconds: float = 0.0
    about: str = ""
    hashes: Mapping[str, Any] = {}

    @property
    def subject(self) -> str:
        """Return the subject by name or short hash."""
        return self.about or _short_hash(self.hashes)

    @cached_property
    def group_key(self) -> tuple[str | tuple[str, ...] | None, ...]:
        """Return a key that is equal for acts that are counted together."""
        return self.feature, self.result, self.failed_step, self.about, self.checks, self.caller.owner


class _Group:
    """Acts with one key, counted together. `request` is that of all of them, or none if they belong to several."""

    __slots__ = ("act", "count", "request", "seconds")

    def __init__(self, act: Act, request: RequestMark, seconds: float = 0) -> None:
        self.act = act
        self.request = request
        self.count = 0
        self.seconds = seconds

    def add(self, seconds: float, request: RequestMark) -> None:
        self.count += 1
        self.seconds += seconds
        if self.request is not request:
            self.request = NO_REQUEST

    def as_act(self) -> Act:
        checks = (*self.act.checks, f"count:{self.count}")
        return replace(self.act, checks=checks, seconds=self.seconds)


class Recorder:
    def __init__(
        self,
        store: EntryStore,
        clock: Clock,
        *,
        metrics: "Metrics | None" = None,
        events: "Events | None" = None,
        level: AuditLevel = "standard",
        audited: bool = True,
    ) -> None:
        """`audited` is False only inside another program, on a store without a trail."""
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._events = events
        self._level = level
        self._audited = audited
        self._minute = 0
        self._refusals: dict[tuple[str, str], _Group] = {}
        self._calls: dict[tuple[str | tuple[str, ...] | None, ...], _Group] = {}
        self._calls_due: asyncio.TimerHandle | None = None

    def entry(self, act: Act, request: RequestMark | None = None) -> AuditDraft:
        """Make the entry of an act. `request` is by default the current one."""
        caller = act.caller
        if request is None:
            request = current_request()
        named = (caller.label, request_check(request.id)) if request.id else (caller.label,)
        return AuditDraft(
            verification_result=act.result,
            checks_passed=act.checks + named,
            failed_step=act.failed_step,
            issuer_hash=_issuer_hash(caller.owner),
            duration_ms=round(act.seconds * 1000, 3),
            audit_level=self._level,
            created_at=timestamp(self._clock.now()),
            **act.hashes,
        )

    async def commit(self, operations: Sequence[Operation], act: Act) -> tuple[Any, ...]:
        """Change the state durably and return one result for each operation. A cancellation waits for the commit."""
        written = self._submit(operations, act)
        if await self._wait_commit(written, act):
            raise asyncio.CancelledError
        return written.result()

    async def commit_counted(self, operations: Sequence[Operation], act: Act) -> tuple[Any, ...]:
        """Commit an act that is no call to this node, and count it; the pipeline counts calls."""
        results = await self.commit(operations, act)
        if self._metrics is not None:
            self._metrics.count_act(act.feature, act.result)
        return results

    def commit_shielded(self, operations: Sequence[Operation], act: Act) -> Awaitable[bool]:
        """Commit, and return True if this task was cancelled meanwhile."""
        return self._wait_commit(self._submit(operations, act), act)

    def _submit(self, operations: Sequence[Operation], act: Act) -> "asyncio.Future[tuple[Any, ...]]":
        return self._store.submit(operations, [self.entry(act)] if self._audited else [])

    async def _wait_commit(self, written: "asyncio.Future[tuple[Any, ...]]", act: Act) -> bool:
        cancelled = False
        try:
            await written
        except asyncio.CancelledError:
            await wait_uncancelled(written)
            if written.exception() is not None:
                raise
            cancelled = True
        self._notify(act)
        return cancelled

    def note(self, act: Act) -> "asyncio.Future[tuple[Any, ...]] | None":
        """Record an act without waiting."""
        self._notify(act)
        return self._write([self.entry(act)])

    def measure(self, feature: str, outcome: str, seconds: float) -> None:
        """Count a call, and how long it took."""
        if self._metrics is not None:
            self._metrics.observe(feature, outcome, seconds)

    def count(self, feature: str, outcome: str) -> None:
        """Count an outcome without a duration."""
        if self._metrics is not None:
            self._metrics.count(feature, outcome)

    def refuse(self, feature: str, code: str) -> None:
        """Count the refusal of an unknown caller."""
        self.count(feature, code)
        self.audit_refusal(feature, code)

    def audit_refusal(self, feature: str, code: str) -> None:
        """Count a refusal for the record that the metrics have already."""
        self.flush_refusals()
        request = current_request()
        group = self._refusals.get((feature, code))
        if group is None:
            act = Act(feature=feature, result="REFUSED", failed_step=f"{feature}:{code}", about=code)
            group = self._refusals[feature, code] = _Group(act, request, _MINUTE)
        group.add(0, request)

    def refuse_once(self, feature: str, refusal: ComityError) -> None:
        """Count a refusal, unless that was done already."""
        if not refusal.recorded:
            refusal.recorded = True
            self.refuse(feature, refusal.code)

    def tally(self, act: Act) -> None:
        """Count a call that changed nothing."""
        request = current_request()
        group = self._calls.get(act.group_key)
        if group is None:
            group = self._calls[act.group_key] = _Group(act, request)
        group.add(act.seconds, request)
        if self._calls_due is None:
            self._calls_due = asyncio.get_running_loop().call_later(MOMENT, self.flush_calls)

    def tally_mcp(self, what: str, caller: Caller, outcome: str) -> None:
        """Count an MCP request that changed nothing."""
        self.count("mcp", outcome)
        self.tally(_mcp_act(what, caller, outcome))

    def flush_refusals(self, *, anyway: bool = False) -> None:
        """Record the refusals of a minute that is over."""
        minute = int(self._clock.now() // _MINUTE)
        if minute == self._minute and not anyway:
            return
        self._minute = minute
        groups, self._refusals = self._refusals, {}
        self._write_groups(groups[name] for name in sorted(groups))

    def flush_calls(self) -> None:
        """Record the calls counted so far."""
        if self._calls_due is not None:
            self._calls_due.cancel()
            self._calls_due = None
        groups, self._calls = self._calls, {}
        self._write_groups(groups.values())

    def flush(self) -> None:
        """Record everything that was counted so far."""
        self.flush_calls()
        self.flush_refusals(anyway=True)

    def _write_groups(self, groups: "Iterable[_Group]") -> None:
        """Record groups, whose request need not be the current one."""
        entries = []
        for group in groups:
            act = group.as_act()
            self._notify(act, group.count, group.request)
            entries.append(self.entry(act, group.request))
        self._write(entries)

    def _write(self, entries: Sequence[AuditDraft]) -> "asyncio.Future[tuple[Any, ...]] | None":
        if not entries or not self._audited:
            return None
        written = self._store.submit((), entries)
        written.add_done_callback(_report)
        return written

    def _notify(self, act: Act, count: int = 1, request: RequestMark | None = None) -> None:
        if self._events is not None:
            if request is None:
                request = current_request()
            self._events.add(
                self._clock.now(),
                act.feature,
                act.result,
                who=act.caller.short,
                what=act.subject,
                request=request.id,
                trace=request.traceparent,
                failed=act.failed_step or "",
                count=count,
            )


def own_act(result: str, content: str = "", *, feature: str = "node") -> Act:
    """Return an act of the node or a command itself. `content` is what the entry says of it."""
    hashes = {"content_hash": content} if content else {}
    return Act(feature=feature, result=result, caller=OWN_PROCESS, about=content, hashes=hashes)


async def wait_uncancelled(future: "asyncio.Future[Any]") -> None:
    """Wait until the future is done, also while this task is cancelled. Ignore its outcome."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])


@lru_cache(4096)  # clients repeat their calls
def _mcp_act(what: str, caller: Caller, outcome: str) -> Act:
    well = outcome in ("ok", "asked")
    return Act(
        feature="mcp",
        result=f"MCP_{what.upper()}_{'OK' if well else 'FAILED'}",
        caller=caller,
        checks=("rate", "identity"),
        failed_step=None if well else outcome,
        about=what,
    )


@lru_cache(4096)  # same
def _issuer_hash(owner: str) -> str:
    return privacy_hash(owner)


def _short_hash(hashes: Mapping[str, Any]) -> str:
    for name in _NAMING:
        found: str | None = hashes.get(name)
        if found is not None:
            return found.partition(":")[2][:_SHORT]
    return ""


def _report(written: "asyncio.Future[tuple[Any, ...]]") -> None:
    if not written.cancelled() and (failure := written.exception()) is not None:
        log.error("an audit entry could not be written: %s", failure)
