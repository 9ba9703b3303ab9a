"""The engine: one thread writes in group commits, a few threads read.

A transaction that conflicts is undone alone; its neighbours in the batch go on. When the disk is
full or fails, the whole batch is refused and nothing of it was done. A damaged file stops the
store for good: it answers nothing any more.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from comity.core.clock import Clock
from comity.core.errors import StoreCorruptError, StoreError, StoreUnavailableError
from comity.core.guard.audit import AuditDraft
from comity.store.audit_trail import HEADS, AuditTrail
from comity.store.group_commit import GroupCommit, Outcome, Work
from comity.store.operations import (
    ChainKey,
    Document,
    Lease,
    LogRecord,
    Operation,
    Put,
    StoreConflict,
    StoredReply,
    Tip,
    Versioned,
)
from comity.store.sqlite import reads, writes
from comity.store.sqlite.connection import check_integrity, open_reader, open_writer, our_words, translate
from comity.store.sqlite.schema import migrate

READERS = 2
PURGE_EVERY_SECONDS = 60.0

P = ParamSpec("P")
R = TypeVar("R")


class SqliteStore:
    def __init__(
        self,
        path: Path,
        clock: Clock,
        trail: AuditTrail | None = None,
        *,
        adopt: bool = False,
    ) -> None:
        """Open or create the file, check it, resume the audit trail. Blocking; raises StoreError.

        `adopt` takes a restored database as it is (see `AuditTrail.resume`).
        """
        self.path = path
        self._clock = clock
        self._trail = trail
        self._broken: StoreError | None = None
        self._closed = False
        self._purged_at = clock.monotonic()
        with our_words(path):
            self._writer = open_writer(path)
            try:
                check_integrity(self._writer, path)
                migrate(self._writer, str(path))
                if trail is not None:
                    trail.resume(_TrailView(self._writer), clock.now(), adopt=adopt)
            except BaseException:
                self._writer.close()
                raise
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="comity-read")
        self._commits = GroupCommit(self._write, name="comity-write")

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
        await asyncio.to_thread(self._pool.shutdown)
        for reader in self._readers:
            reader.close()
        with contextlib.suppress(apsw.Error):  # another process may be reading: it checkpoints later
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._writer.close()
        if self._trail is not None:
            self._trail.close()

    def _write(self, batch: Sequence[Work]) -> Sequence[Outcome]:
        """On the writer thread: every transaction of the batch, then one durable commit."""
        if self._broken is not None:
            return [self._broken] * len(batch)
        mark = self._trail.mark() if self._trail is not None else None
        try:
            return self._write_durably(batch)
        except (apsw.Error, StoreError) as reason:
            refusal = reason if isinstance(reason, StoreError) else translate(reason, self.path)
            self._undo(mark)
            if isinstance(refusal, StoreCorruptError):
                self._broken = refusal
            return [refusal] * len(batch)

    def _write_durably(self, batch: Sequence[Work]) -> Sequence[Outcome]:
        now = self._clock.now()
        self._writer.execute("BEGIN IMMEDIATE")
        outcomes = [self._run(work, now) for work in batch]
        if self._trail is not None and self._trail.moved:
            head = Put(space=HEADS, key=self._trail.chain, value=self._trail.sealed_head(now))
            writes.apply(self._writer, head, now)
        self._purge(now)
        self._writer.execute("COMMIT")
        if self._trail is not None and self._trail.moved:
            self._trail.publish()
        return outcomes

    def _run(self, work: Work, now: float) -> Outcome:
        self._writer.execute("SAVEPOINT work")
        try:
            results = tuple(writes.apply(self._writer, operation, now) for operation in work.operations)
            if work.audit:
                self._append_audit(work.audit)
        except (StoreConflict, StoreError) as refusal:
            self._drop_savepoint()
            return refusal
        except (apsw.TooBigError, apsw.MismatchError, apsw.ConstraintError) as refusal:
            self._drop_savepoint()
            return translate(refusal, self.path)
        except (TypeError, ValueError, OverflowError) as refusal:  # a value that SQL cannot hold
            self._drop_savepoint()
            return StoreError(f"the store cannot hold this value: {refusal}")
        self._writer.execute("RELEASE work")
        return results

    def _append_audit(self, drafts: Sequence[AuditDraft]) -> None:
        if self._trail is None:
            raise StoreError("this store was opened without an audit trail; open it with one")
        for entry in self._trail.link(drafts):
            writes.append(self._writer, self._trail.log, entry)

    def _drop_savepoint(self) -> None:
        self._writer.execute("ROLLBACK TO work")
        self._writer.execute("RELEASE work")

    def _undo(self, mark: tuple[int, str | None] | None) -> None:
        if self._trail is not None and mark is not None:
            self._trail.go_back(mark)
        with contextlib.suppress(apsw.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _purge(self, now: float) -> None:
        if self._clock.monotonic() - self._purged_at >= PURGE_EVERY_SECONDS:
            self._purged_at = self._clock.monotonic()
            writes.purge_expired(self._writer, now)

    async def _ask(
        self, question: Callable[Concatenate[apsw.Connection, P], R], *args: P.args, **named: P.kwargs
    ) -> R:
        if self._broken is not None:
            raise self._broken
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, self._read, question, args, named)
        except StoreCorruptError as damage:
            self._broken = damage
            raise
        except RuntimeError as closed:
            raise StoreUnavailableError("the store is closed; open it again before reading") from closed

    def _read(self, question: Callable[..., R], args: tuple[Any, ...], named: dict[str, Any]) -> R:
        """On a reader thread, with a connection of its own."""
        with our_words(self.path):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = open_reader(self.path)
                self._readers.append(connection)
            return question(connection, *args, **named)

    async def tip(self, chain: ChainKey) -> Tip:
        return await self._ask(reads.tip, chain)

    async def reply(self, chain: ChainKey, seq: int) -> StoredReply | None:
        return await self._ask(reads.reply, chain, seq)

    async def get(self, space: str, key: str) -> Versioned | None:
        return await self._ask(reads.value, space, key, self._clock.now())

    async def scan(
        self, space: str, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[tuple[str, Versioned]]:
        return await self._ask(reads.scan, space, prefix, after, limit, self._clock.now())

    async def read(self, log: str, after: int = 0, limit: int = 1000) -> list[LogRecord]:
        return await self._ask(reads.read, log, after, limit)

    async def end(self, log: str) -> int:
        return await self._ask(reads.end, log)

    async def logs(self, prefix: str = "") -> list[str]:
        return await self._ask(reads.logs, prefix)

    async def document(self, collection: str, id: str) -> Document | None:  # noqa: A002 - the protocol's word
        return await self._ask(reads.document, collection, id)

    async def find(
        self, collection: str, *, words: str = "", keys: Sequence[tuple[str, str]] = (), limit: int = 20
    ) -> list[Document]:
        return await self._ask(reads.find, collection, words, keys, limit)

    async def blob(self, id: str, offset: int = 0, length: int | None = None) -> bytes | None:  # noqa: A002 - the protocol's word
        return await self._ask(reads.blob, id, offset, length)

    async def lease(self, name: str) -> Lease | None:
        return await self._ask(reads.lease, name, self._clock.now())


class _TrailView:
    """What the audit trail needs to see of the file in order to resume."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def entry(self, log: str, position: int | None = None) -> bytes | None:
        wanted = reads.end(self._connection, log) if position is None else position
        found = reads.read(self._connection, log, wanted - 1, 1)
        return found[0].data if found and found[0].position == wanted else None

    def value(self, space: str, key: str) -> bytes | None:
        held = reads.value(self._connection, space, key, 0.0)
        return held.value if held else None
