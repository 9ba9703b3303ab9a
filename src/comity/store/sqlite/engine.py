"""The engine: one thread writes in group commits, a few threads read.

A transaction that conflicts is undone alone; its neighbours in the batch go on. When the disk is full or fails, the
whole batch is refused and nothing of it was done. A damaged file stops the store for good: it answers nothing any more.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from comity.store.audit_chain import AuditDraft
from comity.store.audit_trail import HEADS, AuditTrail, Mark
from comity.store.group_commit import GroupCommit, Outcome, PendingTransaction
from comity.store.interface import Answer, Operation, Put, StoreConflict
from comity.store.sqlite import reads, writes
from comity.store.sqlite.connection import (
    check_integrity,
    migrate,
    open_checkpointer,
    open_writer,
    translate,
    translated_errors,
)
from comity.store.sqlite.reads import SqliteReader
from comity.wire.errors import StoreCorruptError, StoreError
from comity.wire.machine import Clock

# Checkpoints: copying the write-ahead log into the database, while the writer goes on.

log = logging.getLogger("comity.store")

SOME_PAGES = 2_000
MAX_PAGES = 16_000


class Checkpoints:
    """Watches over the journal of `writer` until it is closed."""

    def __init__(self, path: Path, writer: apsw.Connection) -> None:
        writer.wal_autocheckpoint(0)  # this is what we are here for
        self._writer = writer
        self._connection = open_checkpointer(path)
        self._carried = self._pages()
        # a process that was killed may have left much
        self._begun = self._carried - _carry_over(self._connection)
        self._due = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="comity-checkpoint", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._due.set()
        self._thread.join()
        self._connection.close()

    def check(self) -> None:
        """Begin a checkpoint if one is due. Called on the writer's thread, after a commit."""
        pages = self._pages()
        if _between(self._begun, pages) >= MAX_PAGES:
            # While it is as long as that, after each commit: a reader may keep it from beginning again.
            length = min(_carry_over(self._writer), MAX_PAGES - 1)
            self._begun, self._carried = pages - length, pages
        elif _between(self._carried, pages) >= SOME_PAGES:
            self._carried = pages
            self._due.set()

    def _pages(self) -> int:
        """Return how many this connection has written to the journal, as a counter of 32 bits."""
        written, _ = self._writer.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)
        return written

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._closed:
                return
            self._due.clear()
            _carry_over(self._connection)


def _between(earlier: int, later: int) -> int:
    return (later - earlier) % 2**32


def _carry_over(connection: apsw.Connection) -> int:
    """Copy the journal into the database, as far as readers allow, and return how many pages it has. What is committed
    is durable without it: a failure is for the log, and the next commit meets it anyway.
    """
    try:
        length, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:  # another process is carrying it over just now
        return MAX_PAGES
    except apsw.Error as reason:
        log.warning("the journal could not be carried over into the database: %s", reason)
        return MAX_PAGES
    return length


PURGE_EVERY_SECONDS = 60.0
ANSWERS_AT_ONCE = 64  # statements of so many sizes are kept compiled

# What is wrong with one transaction alone: a conflict, or a value that SQL cannot hold.
_REFUSALS = (
    StoreConflict,
    StoreError,
    apsw.TooBigError,
    apsw.MismatchError,
    apsw.ConstraintError,
    TypeError,
    ValueError,
    OverflowError,
)


class SqliteStore(SqliteReader):
    def __init__(
        self, path: Path, clock: Clock, trail: AuditTrail | None = None, *, adopt: bool = False
    ) -> None:
        """Open or create the file, check it, resume the audit trail. Blocking; raises StoreError.

        The trail is ours from here on, also when opening fails. `adopt` takes a restored database as it is (see `AuditTrail.resume`).
        """
        super().__init__(path, clock)
        self._trail = trail
        self._purged_at = clock.monotonic()
        with translated_errors(path), contextlib.ExitStack() as undone:
            if trail is not None:
                undone.callback(trail.close)
            self._writer = open_writer(path)
            undone.callback(self._writer.close)
            check_integrity(self._writer, path)
            migrate(self._writer, path)
            writes.prepare(self._writer)
            if trail is not None:
                trail.resume(_SqliteTrailView(self._writer), clock.now(), adopt=adopt)
            self._checkpoints = Checkpoints(path, self._writer)
            undone.pop_all()
        self._durable = self._mark()  # where the trail stood after the last commit
        self._commits = GroupCommit(
            self._write, name="comity-write", prepare=self._prepare, afterwards=self._checkpoints.check
        )

    @classmethod
    async def open(
        cls, path: Path, clock: Clock, trail: AuditTrail | None = None, *, adopt: bool = False
    ) -> "SqliteStore":
        return await asyncio.to_thread(cls, path, clock, trail, adopt=adopt)

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft] = ()
    ) -> asyncio.Future[tuple[Any, ...]]:
        return self._commits.submit(operations, audit)

    async def commit(self, *operations: Operation, audit: Sequence[AuditDraft] = ()) -> tuple[Any, ...]:
        return await self._commits.submit(operations, audit)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._commits.close()
        await self._close_readers()
        await asyncio.to_thread(self._checkpoints.close)
        with contextlib.suppress(apsw.Error):  # another process may be at work: it checkpoints later
            self._writer.set_busy_timeout(0)  # while it waited for a reader, nobody could write
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.close()
        if self._trail is not None:
            self._trail.close()

    def _prepare(self, batch: Sequence[PendingTransaction]) -> "_Prepared | None":
        """Return a batch of nothing but answers and audit entries, as one statement: what most batches of a busy node
        are, and all that a refused peer can add to them. On the loop's thread, while the writer sleeps.
        """
        trail = self._trail
        if trail is None or self._purge_is_due():
            return None
        answers: list[Answer | None] = []
        drafts: list[AuditDraft] = []
        for work in batch:
            answer = work.operations[0] if work.operations else None
            if len(work.operations) > 1 or not (answer is None or isinstance(answer, Answer)):
                return None
            if not work.audit or (answer is not None and len(work.audit) != 1):
                return None
            answers += [answer] * len(work.audit)
            drafts += work.audit
        if len(drafts) > ANSWERS_AT_ONCE:
            return None
        before = trail.mark()
        entries = trail.link(drafts)
        head = trail.sealed_head(self._clock.now())
        statement = writes.answers_audited(answers, trail.log, entries, _kept_head(trail, head))
        return _Prepared(statement, head, before, trail.take_rows())

    def _write(self, batch: Sequence[PendingTransaction], prepared: "_Prepared | None") -> Sequence[Outcome]:
        """Write every transaction of the batch, then commit once. Called on the writer thread."""
        if self._broken is not None:
            return [self._broken] * len(batch)
        try:
            outcomes = self._answer(batch, prepared) or self._write_durably(batch)
        except (apsw.Error, StoreError) as reason:
            refusal = reason if isinstance(reason, StoreError) else translate(reason, self.path)
            self._undo()
            self._fail(refusal)
            if isinstance(refusal, StoreCorruptError):
                self._broken = refusal
            return [refusal] * len(batch)
        except BaseException:
            self._undo()
            self._fail(StoreError(f"{self.path} could not be written; the log says why"))
            raise
        if self.failure is not None:
            self.failure = None
            log.warning("the store can be written to again")
        return outcomes

    def _fail(self, refusal: StoreError) -> None:
        if self.failure is None:  # later failures go to their callers only, and they are many
            log.error("the store cannot be written to: %s", refusal)
        self.failure = refusal

    def _answer(
        self, batch: Sequence[PendingTransaction], prepared: "_Prepared | None"
    ) -> Sequence[Outcome] | None:
        """Write what was made ready. None where nothing was, or where a chain is elsewhere or anything is new: then
        nothing was done.
        """
        if prepared is None or prepared.before != self._durable:
            self._undo()  # whatever was made ready in vain
            return None
        try:
            if prepared.rows:
                self._writer.execute("BEGIN IMMEDIATE")
            self._writer.execute(*prepared.statement)
            if prepared.rows:
                writes.keep_all(self._writer, prepared.rows)
                self._writer.execute("COMMIT")
        except _REFUSALS:
            self._undo()
            return None
        self._committed(prepared.head)
        return [(None,) * len(work.operations) for work in batch]

    def _write_durably(self, batch: Sequence[PendingTransaction]) -> Sequence[Outcome]:
        now = self._clock.now()
        outcomes = self._run_together(batch, now) or self._run_apart(batch, now)
        head = None
        if self._trail is not None and self._trail.mark() != self._durable:
            head = self._trail.sealed_head(now)
            writes.keep_all(self._writer, [_kept_head(self._trail, head), *self._trail.take_rows()])
        self._purge(now)
        self._writer.execute("COMMIT")
        self._committed(head)
        return outcomes

    def _committed(self, head: bytes | None) -> None:
        """Publish while the loop waits for it: later the two threads would fight for the interpreter."""
        if self._trail is not None and head is not None:
            self._trail.publish(head)
        self._durable = self._mark()

    def _mark(self) -> Mark | None:
        return self._trail.mark() if self._trail is not None else None

    def _run_together(self, batch: Sequence[PendingTransaction], now: float) -> Sequence[Outcome] | None:
        """Run all of them together, which is how nearly every batch goes. None: one was refused, and
        nothing was done.
        """
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            outcomes = writes.apply_together(self._writer, (work.operations for work in batch), now)
            self._append_audit([draft for work in batch for draft in work.audit])
        except _REFUSALS:
            self._undo()
            return None
        return outcomes

    def _run_apart(self, batch: Sequence[PendingTransaction], now: float) -> Sequence[Outcome]:
        """Run each in a savepoint of its own, so that one that is refused is undone alone."""
        self._writer.execute("BEGIN IMMEDIATE")
        return [self._run(work, now) for work in batch]

    def _run(self, work: PendingTransaction, now: float) -> Outcome:
        mark = self._mark()
        self._writer.execute("SAVEPOINT work")
        try:
            results = tuple(writes.apply(self._writer, operation, now) for operation in work.operations)
            self._append_audit(work.audit)
        except _REFUSALS as refusal:
            self._writer.execute("ROLLBACK TO work")
            self._writer.execute("RELEASE work")
            self._go_back(mark)
            return self._store_error(refusal)
        self._writer.execute("RELEASE work")
        return results

    def _store_error(self, refusal: Exception) -> Exception:
        if isinstance(refusal, StoreConflict | StoreError):
            return refusal
        if isinstance(refusal, apsw.Error):
            return translate(refusal, self.path)
        return StoreError(f"the store cannot hold this value: {refusal}")

    def _append_audit(self, drafts: Sequence[AuditDraft]) -> None:
        if not drafts:
            return
        if self._trail is None:
            raise StoreError("this store was opened without an audit trail; open it with one")
        writes.append_all(self._writer, self._trail.log, self._trail.link(drafts))

    def _go_back(self, mark: Mark | None) -> None:
        if self._trail is not None and mark is not None:
            self._trail.go_back(mark)

    def _undo(self) -> None:
        """Undo the whole batch."""
        self._go_back(self._durable)
        with contextlib.suppress(apsw.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _purge_is_due(self) -> bool:
        return self._clock.monotonic() - self._purged_at >= PURGE_EVERY_SECONDS

    def _purge(self, now: float) -> None:
        if self._purge_is_due():
            self._purged_at = self._clock.monotonic()
            writes.purge_expired(self._writer, now)


class _Prepared(NamedTuple):
    """A statement with its values; the head of the audit trail that goes with it; where the trail stood before; rows of
    its tree.
    """

    statement: tuple[str, list[Any]]
    head: bytes
    before: Mark
    rows: Sequence[Put]


def _kept_head(trail: AuditTrail, head: bytes) -> Put:
    return Put(space=HEADS, key=trail.chain, value=head)


class _SqliteTrailView:
    """What the audit trail needs to see of the file in order to resume."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def entry(self, log: str, position: int | None = None) -> bytes | None:
        wanted = reads.select_end(self._connection, log) if position is None else position
        found = reads.select_records(self._connection, log, wanted - 1, 1)
        return found[0].data if found and found[0].position == wanted else None

    def value(self, space: str, key: str) -> bytes | None:
        held = reads.select_value(self._connection, 0.0, space, key)
        return held.value if held else None
