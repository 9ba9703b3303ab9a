"""The reading half: a few threads, each with a connection of its own.

A reader sees the newest durable commit and never waits for the writer. On a damaged page it stops
for good: it answers nothing any more.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from comity.store.audit_chain import AuditDraft
from comity.store.operations import (
    ChainKey,
    HeldItem,
    KeptReplies,
    Lease,
    LogRecord,
    Operation,
    SealedRow,
    StoredDocument,
    StoredReply,
    Tip,
    Versioned,
)
from comity.store.sqlite import reads
from comity.store.sqlite.connection import check_integrity, open_reader, our_words
from comity.store.sqlite.schema import STEPS, steps_taken
from comity.wire.clock import Clock
from comity.wire.errors import StoreCorruptError, StoreError, StoreUnavailableError

READERS = 2

P = ParamSpec("P")
R = TypeVar("R")


class SqliteReader:
    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._broken: StoreError | None = None
        self.failure: StoreError | None = None
        self._closed = False
        self._local = threading.local()
        self._readers: list[apsw.Connection] = []
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="comity-read")

    @classmethod
    async def open_for_reading(cls, path: Path, clock: Clock) -> "SqliteReader":
        """Look at a file that a node may be writing to. It is checked, and never written."""
        if not await asyncio.to_thread(path.is_file):
            raise StoreUnavailableError(f"there is no database at {path}; start a node first: `comity up`")
        reader = SqliteReader(path, clock)
        try:
            await reader._ask(_check, path)
        except BaseException:
            await reader.close()
            raise
        return reader

    async def is_current(self) -> bool:
        """Whether the file has the tables of this release, and not of an earlier one."""
        return await self.schema() == len(STEPS)

    async def schema(self) -> int:
        """How many steps the tables of the file have taken."""
        return await self._ask(steps_taken, self.path)

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft] = ()
    ) -> asyncio.Future[tuple[Any, ...]]:
        raise StoreUnavailableError(f"{self.path} was opened for reading; open the store to write")

    async def commit(self, *operations: Operation, audit: Sequence[AuditDraft] = ()) -> tuple[Any, ...]:
        return await self.submit(operations, audit)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await self._close_readers()

    async def _close_readers(self) -> None:
        await asyncio.to_thread(self._pool.shutdown)
        for reader in self._readers:
            reader.close()

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

    async def kept(self, chain: ChainKey) -> KeptReplies:
        return await self._ask(reads.kept, chain)

    async def held(self, quota: str, holder: str | None = None) -> int:
        return await self._ask(reads.held, quota, holder)

    async def held_item(self, quota: str, item: str) -> HeldItem | None:
        return await self._ask(reads.held_item, quota, item)

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

    async def sealed(
        self, table: str, after: tuple[str | int, ...] | None = None
    ) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
        return await self._ask(reads.sealed, table, after, self._clock.now())

    async def document(self, collection: str, id: str) -> StoredDocument | None:  # noqa: A002 - the protocol's word
        return await self._ask(reads.document, collection, id)

    async def find(
        self, collection: str, *, words: str = "", keys: Sequence[tuple[str, str]] = (), limit: int = 20
    ) -> list[StoredDocument]:
        return await self._ask(reads.find, collection, words, keys, limit)

    async def blob(self, id: str, offset: int = 0, length: int | None = None) -> bytes | None:  # noqa: A002 - the protocol's word
        return await self._ask(reads.blob, id, offset, length)

    async def lease(self, name: str) -> Lease | None:
        return await self._ask(reads.lease, name, self._clock.now())


def _check(connection: apsw.Connection, path: Path) -> None:
    check_integrity(connection, path)
    steps_taken(connection, path)
