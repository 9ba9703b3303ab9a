"""Many transactions, one durable commit.

Transactions that are submitted in one iteration of the event loop form a batch. While a batch is written, the next one is
collected; it is handed over when the callers of the last batch have their results and the loop has run once more. So a
single caller never waits for others, and sixty-four callers share one sync. An iteration that lasts longer than `LONG` hands over
what it has if the writer thread has nothing to do: otherwise the disk would wait for the loop, and then the loop for the
disk. A caller gets its result only after its batch is durable.

Two threads cannot run Python at the same time. So the event loop prepares as much of a batch as it can while the writer
thread waits for the disk, and the writer thread does little more than write.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from comity.store.audit_chain import AuditDraft
from comity.store.interface import Operation
from comity.wire.errors import OverloadedError, StoreError, StoreUnavailableError

log = logging.getLogger("comity.store")

BATCH_OPERATIONS = 256
LONG = 0.004
BACKLOG = 16_384

Outcome = tuple[Any, ...] | Exception


class Written(asyncio.Future[tuple[Any, ...]]):
    """The outcome of a transaction. What was handed over is not called off: a caller that is cancelled while
    waiting gets the cancellation when it is done.
    """

    def cancel(self, msg: Any = None) -> bool:
        return False


class PendingTransaction:
    """One transaction on its way to the disk."""

    __slots__ = ("audit", "future", "operations")

    def __init__(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.operations = operations
        self.audit = audit
        self.future = Written(loop=loop)

    @property
    def weight(self) -> int:
        return len(self.operations) + len(self.audit)

    def resolve(self, outcome: Outcome) -> None:
        if self.future.done():  # the store is gone, and the caller knows
            return
        if isinstance(outcome, Exception):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)


Prepare = Callable[[Sequence[PendingTransaction]], Any]
WriteBatch = Callable[[Sequence[PendingTransaction], Any], Sequence[Outcome]]
"""Is given the batch and what was made ready for it, if anything was."""


class GroupCommit:
    """Runs `write` on one thread of its own, batch after batch, in the order of submission."""

    def __init__(
        self,
        write: WriteBatch,
        *,
        name: str,
        prepare: Prepare = lambda _batch: None,
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        """`prepare` runs on the loop's thread and never while a batch is written; what it returns is given to
        `write`. `afterwards` runs on the writing thread when the callers of a batch get their results.
        """
        self._write = write
        self._prepare = prepare
        self._afterwards = afterwards
        self._handing_over = threading.Lock()
        self._handed = self._written = 0
        self._waiting = 0
        self._gathered: list[PendingTransaction] = []
        self._due = 0.0
        self._busy_for: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._handed_over: queue.SimpleQueue[_HandedOver | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft]
    ) -> asyncio.Future[tuple[Any, ...]]:
        loop = asyncio.get_running_loop()
        work = PendingTransaction(operations, audit, loop)
        if self._closed:
            work.resolve(StoreUnavailableError("the store is closed; open it again before writing"))
        elif self._waiting >= BACKLOG:
            work.resolve(
                OverloadedError(f"{self._waiting:,} writes are waiting for the disk; retry in a moment")
            )
        else:
            self._waiting += 1
            self._gathered.append(work)
            if len(self._gathered) == 1:
                self._due = monotonic() + LONG
                if self._busy_for is not loop:
                    loop.call_soon(self._hand_over_next, loop)
            elif not self._is_writing and monotonic() >= self._due:
                self._hand_over(loop)
        return work.future

    async def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        if self._closed:
            return
        self._closed = True
        self._hand_over(asyncio.get_running_loop())
        self._handed_over.put(None)
        await asyncio.to_thread(self._thread.join)

    @property
    def _is_writing(self) -> bool:
        return self._handed != self._written

    def _hand_over_next(self, loop: asyncio.AbstractEventLoop) -> None:
        # else it is handed over when that batch has its results
        if self._busy_for is not loop or not self._is_writing:
            self._hand_over(loop)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        self._busy_for = None
        if self._gathered:
            self._busy_for = loop
            gathered, self._gathered = self._gathered, []
            batches = _batches(gathered)
            with self._handing_over:
                ready = self._ready(batches[0]) if len(batches) == 1 else None
                self._handed += 1
                self._handed_over.put((loop, batches, ready))

    def _ready(self, batch: Sequence[PendingTransaction]) -> Any:
        if self._is_writing:  # a batch of another loop, or the one before the store closes
            return None
        try:
            return self._prepare(batch)
        except Exception:
            log.exception("a batch of %d transactions could not be made ready", len(batch))
            return None

    def _run(self) -> None:
        while self._write_next():
            pass

    def _write_next(self) -> bool:
        """Write the next batches. What was handed over goes back with the outcomes. So the loop frees it, and does
        not wait while this thread does.
        """
        handed_over = self._handed_over.get()
        if handed_over is None:
            return False
        loop, batches, ready = handed_over
        for batch in batches:
            outcomes = self._outcomes(batch, ready)
            last = batch is batches[-1]
            self._written += last
            # The loop may be closed under us when the process is being torn down.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._resolve, batch, outcomes, handed_over if last else None)
            self._finish_batch()
        return True

    def _finish_batch(self) -> None:
        try:
            self._afterwards()
        except Exception:
            log.exception("what comes after a batch failed")

    def _outcomes(self, batch: Sequence[PendingTransaction], ready: Any) -> Sequence[Outcome]:
        """Write a batch. Whatever goes wrong, every caller gets an error and the thread goes on."""
        try:
            return self._write(batch, ready)
        except Exception as fault:
            log.exception("a batch of %d transactions failed", len(batch))
            refusal = StoreError("the store failed on this batch; its log says why, ask it what it holds")
            refusal.__cause__ = fault
            return [refusal] * len(batch)

    def _resolve(
        self, batch: Sequence[PendingTransaction], outcomes: Sequence[Outcome], done: "_HandedOver | None"
    ) -> None:
        """`done` is what was handed over, once all of it is written."""
        self._waiting -= len(batch)
        for work, outcome in zip(batch, outcomes, strict=True):
            work.resolve(outcome)
        if done is not None:
            # callers with results, and what came in meanwhile, have their turn first: batches cost more than calls
            loop = done[0]
            loop.call_soon(loop.call_soon, self._hand_over_next, loop)


_HandedOver = tuple[asyncio.AbstractEventLoop, list[list[PendingTransaction]], Any]


def _batches(works: list[PendingTransaction]) -> list[list[PendingTransaction]]:
    batches: list[list[PendingTransaction]] = [[]]
    weight = 0
    for work in works:
        weight += work.weight
        if batches[-1] and weight > BATCH_OPERATIONS:
            batches.append([])
            weight = work.weight
        batches[-1].append(work)
    return batches
