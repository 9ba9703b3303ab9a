"""The request pipeline: identify, budget, admit, handle, seal. Every message of every transport uses it.

- No stored state is read before the caller is authenticated. The guard of the door has charged the address, and charges
  it for a refusal too, unless the pipeline excuses the request. The pipeline charges the authenticated identity.
- Admission is durable before the work starts. The reply is sent only after its own commit.
- A state change and its audit entry are one transaction, and the reply waits for it. A call that changes nothing is
  recorded without waiting, and counted with others like it where its entry would say nothing of its own.
- If the work fails, takes too long or is cancelled, its admission is undone, and the caller gets the reason.
- Internal errors go to the log; the caller gets a code and a sentence.
"""

import asyncio
import logging
from collections.abc import Coroutine, Generator, Sequence
from typing import Any

from comity.requests.budget import Budget
from comity.requests.handler import Admission, Call, Handler, HandlerResult, Request, excuse_request
from comity.requests.record import Act, Recorder, wait_uncancelled
from comity.store.interface import StoreConflict
from comity.wire.errors import (
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
from comity.wire.machine import Clock

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
_CHECKS = ("rate", "identity")
_ATTEMPTS = 32
"""How often a call may conflict with a change of another process."""


class Pipeline:
    def __init__(self, record: Recorder, clock: Clock, *, budget: Budget | None) -> None:
        """Only a pipeline embedded in another program has no `budget`."""
        self.record = record
        self._clock = clock
        self._budget = budget

    async def run(self, handler: Handler, request: Request) -> Any:
        """Return the reply. Raise the ComityError that the door then answers."""
        began = self._clock.monotonic()
        call = self._identify(handler, request)
        outcome = "ok"
        try:
            return await self._run_steps(handler, call, began)
        except ComityError as refusal:
            refusal.recorded = True
            outcome = refusal.code
            if isinstance(refusal, NotFoundError):
                excuse_request()
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as fault:
            outcome = "internal"
            log.exception("%s failed", handler.name)
            failure = ComityError(f"{handler.name} failed on our side; the log of this node says why")
            failure.recorded = True
            raise failure from fault
        finally:
            self.record.measure(handler.name, outcome, self._clock.monotonic() - began)

    def _identify(self, handler: Handler, request: Request) -> Call:
        now = self._clock.now()
        try:
            caller, evidence = handler.identify(request)
            if caller.proof != "none" and not caller.is_local:  # the owner is not charged
                excuse_request()
            if self._budget is not None and caller.kind == "vacant" and not request.caller.is_local:
                self._budget.spend_identity(caller.owner, request.caller.address, request.size)
        except ComityError as refusal:
            self.record.refuse_once(handler.name, refusal)
            raise
        except Exception as fault:
            log.exception("%s could not identify the caller", handler.name)
            self.record.count(handler.name, "internal")
            raise ComityError(f"{handler.name} failed on our side; the log of this node says why") from fault
        return Call(request=request, caller=caller, evidence=evidence, at=now)

    async def _run_steps(self, handler: Handler, call: Call, began: float) -> Any:
        admitted = cancelled = False
        async with handler.hold(call):
            try:
                admission = await handler.admit(call)
                if admission.operations:
                    act = self._act(handler, call, "ADMITTED", began, admission.checks)
                    cancelled = await self.record.commit_shielded(admission.operations, act)
                    admitted = True
                    if cancelled:
                        raise asyncio.CancelledError  # noqa: TRY301 - as if it had come just now
                sealed = admission.answered or await handler.seal(call, await self._handle(handler, call))
                sealed, cancelled = await self._commit(handler, call, began, admission, sealed)
            except BaseException as failure:
                act = self._act(handler, call, "FAILED", began, failed_step=code_of(failure))
                if admitted:
                    await wait_uncancelled(asyncio.ensure_future(self._undo(handler, call, act)))
                else:
                    self._note_failure(handler, call, act, failure)
                raise
        if cancelled:
            raise asyncio.CancelledError
        return sealed.reply

    async def _commit(
        self, handler: Handler, call: Call, began: float, admission: Admission, sealed: HandlerResult
    ) -> tuple[HandlerResult, bool]:
        """Return the answer to give, and whether this task was cancelled while it was stored."""
        attempts = 0
        while True:
            act = self._act(handler, call, "OK", began, admission.checks, sealed)
            if not sealed.operations:
                if sealed.audit:
                    self.record.note(act)
                else:
                    self.record.tally(act)
                return sealed, False
            try:
                return sealed, await self.record.commit_shielded(sealed.operations, act)
            except StoreConflict as conflict:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise
                sealed = await handler.answer_conflict(call, conflict)

    async def _handle(self, handler: Handler, call: Call) -> Any:
        """Run the handler's own work within its deadline."""
        work = handler.handle(call)
        try:
            waits_for = work.send(None)
        except StopIteration as done:  # it never waited, and needs no timer
            return done.value
        try:
            async with asyncio.timeout(handler.deadline) as limit:
                return await _Continued(work, waits_for)
        except TimeoutError:
            if not limit.expired():  # the work's own, and its fault
                raise
            raise DeadlineError(
                f"{handler.name} took longer than {handler.deadline:g} seconds; try again later"
            ) from None

    def _note_failure(self, handler: Handler, call: Call, act: Act, failure: BaseException) -> None:
        """Record a failure. A refusal of an unknown caller is only counted, and so is what exceeds the entries of an address
        (ruling 22).
        """
        if isinstance(failure, _REFUSALS) and not call.caller.is_local:
            share = self._budget is None or self._budget.take_entry(call.request.caller.address)
            if not share or not handler.knows(call):
                self.record.audit_refusal(handler.name, failure.code)
                return
        self.record.note(act)

    async def _undo(self, handler: Handler, call: Call, act: Act) -> None:
        try:
            await self.record.commit(await handler.undo(call), act)
        except Exception:  # the caller gets the first failure, not this one
            log.exception("a failed call could not undo its admission")
            self.record.note(act)

    def _act(
        self,
        handler: Handler,
        call: Call,
        outcome: str,
        began: float,
        checks: Sequence[str] = (),
        sealed: HandlerResult | None = None,
        failed_step: str | None = None,
    ) -> Act:
        return Act(
            feature=handler.name,
            result=f"{handler.name.upper()}_{outcome}",
            caller=call.caller,
            checks=(*_CHECKS, *checks) if sealed is None else (*_CHECKS, *checks, *sealed.checks),
            failed_step=failed_step,
            seconds=self._clock.monotonic() - began,
            about="" if sealed is None else sealed.about,
            hashes={} if sealed is None else sealed.audit,
        )


class _Continued:
    """Await the rest of a coroutine that was started by hand."""

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


def code_of(failure: BaseException) -> str:
    if isinstance(failure, asyncio.CancelledError):
        return "cancelled"
    return failure.step if isinstance(failure, ComityError) else "internal"
