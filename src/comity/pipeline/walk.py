"""The walk: who?, budget, admit, handle, seal. Every message takes it, through whichever door it came.

- Nothing stored is read for a stranger before the proof. The door's guard has charged the address of a message;
  the walk charges who proved to have sent it.
- Admission is durable before the work begins; the reply leaves only after its own commit.
- A state change and its audit entry are one transaction, and are waited for. A call that changes
  nothing is audited through the same group commit without waiting for it.
- Work that fails, takes too long or is cancelled gives its admission back, and the caller hears why.
- A commit that was begun is seen through, whoever cancels meanwhile: its outcome says what to do next.
- What goes wrong inside is told to the log; the caller gets a code and a sentence.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from comity.core.clock import Clock
from comity.core.errors import (
    ComityError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidError,
    MalformedError,
    NotFoundError,
    RateLimitedError,
    StorageFullError,
)
from comity.core.guard.audit import AuditDraft, AuditLevel, privacy_hash, timestamp
from comity.pipeline.budget import Budget
from comity.pipeline.refusals import RefusalTally
from comity.pipeline.room import Admission, Arrival, Call, Room, Sealed
from comity.store.operations import Operation, StoreConflict
from comity.store.protocol import Store

log = logging.getLogger("comity.walk")

_REFUSALS = (
    MalformedError,
    InvalidError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    RateLimitedError,
    StorageFullError,
)

GiveBack = Callable[[Call], Awaitable[Sequence[Operation]]]
Observe = Callable[[str, str, float], None]
"""Told of each call: the room, the outcome's code, the seconds it took."""


class Walk:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        budget: Budget | None,
        audit_level: AuditLevel = "standard",
        audited: bool = True,
        observe: Observe = lambda _room, _outcome, _seconds: None,
    ) -> None:
        """Without a `budget`, and not `audited`, is only a walk embedded in another program, on a store without
        a trail.
        """
        self._store = store
        self._clock = clock
        self._budget = budget
        self._level = audit_level
        self._audited = audited
        self._observe = observe
        self._refusals = RefusalTally(audit_level)

    async def take(self, room: Room, arrival: Arrival) -> Any:
        """From the door to the reply. Raises the ComityError that the door then speaks."""
        began = self._clock.monotonic()
        outcome = "ok"
        try:
            call = self._let_in(room, arrival)
            return await self._carry_out(room, call, began)
        except ComityError as refusal:
            outcome = refusal.code
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as fault:
            outcome = "internal"
            log.exception("%s failed", room.name)
            raise ComityError(f"{room.name} failed on our side; the log of this node says why") from fault
        finally:
            self._observe(room.name, outcome, self._clock.monotonic() - began)

    def count_refusal(self, room: str, code: str) -> None:
        """Of a stranger, before anything was known of him."""
        self.note(self._refusals.count(room, code, self._clock.now()))

    def close_minute(self) -> None:
        """Write down the refusals of a minute that is over."""
        self.note(self._refusals.close_minute(self._clock.now()))

    def flush(self) -> None:
        """Write down the refusals counted so far."""
        self.note(self._refusals.close_minute(self._clock.now(), anyway=True))

    def _let_in(self, room: Room, arrival: Arrival) -> Call:
        now = self._clock.now()
        try:
            principal = room.identify(arrival)
            if self._budget is not None and principal.kind == "vacant" and not arrival.owner:
                self._budget.spend_identity(f"vacant:{principal.id}", arrival.peer, arrival.size)
        except ComityError as refusal:
            self.count_refusal(room.name, refusal.code)
            raise
        return Call(arrival=arrival, principal=principal, at=now)

    async def _carry_out(self, room: Room, call: Call, began: float) -> Any:
        undo: GiveBack | None = None
        cancelled = False
        async with room.turn(call):
            try:
                admission = await room.admit(call)
                if admission.operations:
                    entry = self._draft(room, call, "ADMITTED", began, admission.checks, {})
                    cancelled = await self._durably(admission.operations, entry)
                    undo = room.give_back
                    if cancelled:
                        raise asyncio.CancelledError  # noqa: TRY301 - as if it had come just now
                sealed = admission.answered or await room.seal(call, await self._in_time(room, call))
                sealed, cancelled = await self._commit(room, call, began, admission, sealed)
            except BaseException as failure:
                entry = self._draft(room, call, "FAILED", began, (), {"failed_step": _code_of(failure)})
                if undo is None:
                    self._note_failure(room, call, entry, failure)
                else:
                    await _to_the_end(asyncio.ensure_future(self._undo(call, entry, undo)))
                raise
        if cancelled:
            raise asyncio.CancelledError
        return sealed.reply

    async def _commit(
        self, room: Room, call: Call, began: float, admission: Admission, sealed: Sealed
    ) -> tuple[Sealed, bool]:
        """The answer to give, and whether we were cancelled once it was stored."""
        entry = self._draft(room, call, "OK", began, admission.checks, sealed.audit)
        if sealed.operations:
            try:
                return sealed, await self._durably(sealed.operations, entry)
            except StoreConflict as conflict:
                sealed = await room.overtaken(call, conflict)
                entry = self._draft(room, call, "OK", began, admission.checks, sealed.audit)
        self.note([entry])
        return sealed, False

    async def _durably(self, operations: Sequence[Operation], entry: AuditDraft) -> bool:
        """Commit. True when it is done and we were cancelled meanwhile."""
        written = self._store.submit(operations, self._kept(entry))
        try:
            await written
        except asyncio.CancelledError:
            await _to_the_end(written)
            if written.exception() is not None:
                raise
            return True
        return False

    async def _in_time(self, room: Room, call: Call) -> Any:
        work = room.handle(call)
        try:
            waits_for = work.send(None)
        except StopIteration as done:  # it had to wait for nothing, and needs no timer
            return done.value
        try:
            async with asyncio.timeout(room.deadline) as limit:
                return await _GoOn(work, waits_for)
        except TimeoutError:
            if not limit.expired():  # the work's own, and its fault
                raise
            raise DeadlineError(
                f"{room.name} took longer than {room.deadline:g} seconds; try again later"
            ) from None

    def _note_failure(self, room: Room, call: Call, entry: AuditDraft, failure: BaseException) -> None:
        """Write it down; a refusal of a stranger is only counted, and so are more of others than their address has
        entries for (ruling 22).
        """
        if isinstance(failure, _REFUSALS) and call.principal.kind != "local":
            share = self._budget is None or self._budget.take_entry(call.arrival.peer)
            if not share or not room.knows(call):
                self.count_refusal(room.name, failure.code)
                return
        self.note([entry])

    async def _undo(self, call: Call, entry: AuditDraft, undo: GiveBack) -> None:
        try:
            await self._store.commit(*await undo(call), audit=self._kept(entry))
        except Exception:  # the caller hears of the first failure, not of this one
            log.exception("a failed call could not give its admission back")
            self.note([entry])

    def _draft(
        self,
        room: Room,
        call: Call,
        outcome: str,
        began: float,
        checks: Sequence[str],
        extra: Mapping[str, Any],
    ) -> AuditDraft:
        return AuditDraft(
            verification_result=f"{room.name.upper()}_{outcome}",
            checks_passed=("rate", "identity", *checks),
            issuer_hash=_issuer_hash(call.principal.kind, call.principal.id),
            duration_ms=round((self._clock.monotonic() - began) * 1000, 3),
            audit_level=self._level,
            created_at=timestamp(self._clock.now()),
            **extra,
        )

    def _kept(self, entry: AuditDraft) -> list[AuditDraft]:
        return [entry] if self._audited else []

    def note(self, drafts: Sequence[AuditDraft]) -> None:
        """Audit without waiting; a failure to do so is for the log, not for the caller."""
        if drafts and self._audited:
            self._store.submit((), drafts).add_done_callback(_report)


class _GoOn:
    """Awaits the rest of a coroutine that was begun by hand and now waits for something."""

    def __init__(self, begun: Coroutine[Any, Any, Any], waits_for: Any) -> None:
        self._begun = begun
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        begun, waits_for = self._begun, self._waits_for
        while True:
            try:
                try:
                    sent = yield waits_for
                except BaseException as thrown:  # noqa: BLE001 - all of it is the coroutine's
                    waits_for = begun.throw(thrown)
                else:
                    waits_for = begun.send(sent)
            except StopIteration as done:
                return done.value


async def _to_the_end(future: asyncio.Future[Any]) -> None:
    """Wait until it is done, whoever cancels us meanwhile. Its outcome is not looked at."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([future])


def _code_of(failure: BaseException) -> str:
    if isinstance(failure, asyncio.CancelledError):
        return "cancelled"
    return failure.code if isinstance(failure, ComityError) else "internal"


@lru_cache(4096)  # whoever calls once calls again
def _issuer_hash(kind: str, principal: str) -> str:
    return privacy_hash(f"{kind}:{principal}")


def _report(written: asyncio.Future[tuple[Any, ...]]) -> None:
    if not written.cancelled() and (failure := written.exception()) is not None:
        log.error("an audit entry could not be written: %s", failure)
