"""Each question in SQL. A reader sees the newest durable commit."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from comity.store.audit_chain import AuditDraft
from comity.store.interface import (
    SEALED_PREFIX,
    ChainKey,
    HeldItem,
    KeptReplies,
    Lease,
    LogRecord,
    Operation,
    SealedRow,
    StoredChain,
    StoredDocument,
    StoredReply,
    Tip,
    Versioned,
)
from comity.store.sqlite.connection import STEPS, check_integrity, open_reader, steps_taken, translated_errors
from comity.wire.errors import StoreCorruptError, StoreError, StoreUnavailableError
from comity.wire.machine import Clock

_LAST = "\U0010ffff"
SEALED_COLUMNS = {
    "value": (("space", "key"), "value"),
    "reply": (("number",), "reply"),
    "record": (("number",), "data"),
    "document": (("number",), "body"),
}
"""Where each table has bytes of a caller: the columns of the place, and that of the bytes."""
_ROWS_LOOKED_AT = 2000
_SEALED_BYTES = 4 * 1024 * 1024


def select_tip(connection: apsw.Connection, chain: ChainKey) -> Tip:
    row = connection.execute(
        "SELECT seq, hash FROM chain WHERE book = ? AND sender = ? AND receiver = ?",
        (chain.book, chain.sender, chain.receiver),
    ).get
    return Tip(*row) if row else Tip()


def select_chains(connection: apsw.Connection, party: str) -> list[StoredChain]:
    rows = connection.execute(
        "SELECT book, sender, receiver, seq, hash, "
        "(SELECT count(reply) FROM reply WHERE chain = chain.id), "
        "(SELECT count(*) - count(reply) FROM reply WHERE chain = chain.id) "
        "FROM chain WHERE sender = ?1 OR receiver = ?1 ORDER BY id",
        (party,),
    )
    return [
        StoredChain(ChainKey(*key), Tip(seq, hashed), replies, pending)
        for *key, seq, hashed, replies, pending in rows
    ]


def select_reply(connection: apsw.Connection, chain: ChainKey, seq: int) -> StoredReply | None:
    row = connection.execute(
        "SELECT reply.seq, digest, reply, at FROM chain JOIN reply ON reply.chain = chain.id "
        "WHERE book = ? AND sender = ? AND receiver = ? AND reply.seq = ?",
        (chain.book, chain.sender, chain.receiver, seq),
    ).get
    return StoredReply(*row) if row else None


def select_kept(connection: apsw.Connection, chain: ChainKey) -> KeptReplies:
    row = connection.execute(
        "SELECT (SELECT ifnull(sum(length(reply)), 0) FROM reply WHERE chain = chain.id), holder FROM chain "
        "WHERE book = ? AND sender = ? AND receiver = ?",
        (chain.book, chain.sender, chain.receiver),
    ).get
    return KeptReplies(*row) if row else KeptReplies()


def select_held(connection: apsw.Connection, quota: str, holder: str | None = None) -> int:
    return int(
        connection.execute(
            "SELECT ifnull(sum(bytes), 0) FROM holding WHERE quota = ?1 AND holder = ifnull(?2, holder)",
            (quota, holder),
        ).get
    )


def select_held_item(connection: apsw.Connection, quota: str, item: str) -> HeldItem | None:
    row = connection.execute("SELECT holder, bytes FROM held WHERE quota = ? AND item = ?", (quota, item)).get
    return HeldItem(*row) if row else None


def select_value(connection: apsw.Connection, now: float, space: str, key: str) -> Versioned | None:
    row = connection.execute(
        "SELECT value, version, expires_at FROM value "
        "WHERE space = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)",
        (space, key, now),
    ).get
    return Versioned(*row) if row else None


def select_values(
    connection: apsw.Connection, now: float, space: str, prefix: str = "", after: str = "", limit: int = 100
) -> list[tuple[str, Versioned]]:
    rows = connection.execute(
        "SELECT key, value, version, expires_at FROM value WHERE space = ? AND key >= ? AND key < ? AND key > ? "
        "AND (expires_at IS NULL OR expires_at > ?) ORDER BY key LIMIT ?",
        (space, prefix, prefix + _LAST, after, now, limit),
    )
    return [(key, Versioned(*held)) for key, *held in rows]


def select_records(
    connection: apsw.Connection, log: str, after: int = 0, limit: int = 1000
) -> list[LogRecord]:
    rows = connection.execute(
        "SELECT position, data FROM record WHERE log = (SELECT id FROM log WHERE name = ?) "
        "AND position > ? ORDER BY position LIMIT ?",
        (log, after, limit),
    )
    return [LogRecord(*row) for row in rows]


def select_end(connection: apsw.Connection, log: str) -> int:
    return int(connection.execute('SELECT "end" FROM log WHERE name = ?', (log,)).get or 0)


def select_logs(connection: apsw.Connection, prefix: str = "") -> list[str]:
    rows = connection.execute(
        "SELECT name FROM log WHERE name >= ? AND name < ? ORDER BY name", (prefix, prefix + _LAST)
    )
    return [name for (name,) in rows]


def select_sealed(
    connection: apsw.Connection,
    now: float,
    table: str,
    after: tuple[str | int, ...] | None = None,
    *,
    plain: bool = False,
) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
    """Look at some rows, at fewer where their bytes are many."""
    columns, data = SEALED_COLUMNS[table]
    place = ", ".join(columns)
    live = "(expires_at IS NULL OR expires_at > ?1)" if table == "value" else "?1 NOTNULL"
    beyond = "" if after is None else f"AND ({place}) > ({', '.join('?' * len(columns))})"
    begins = "<>" if plain else "="
    rows = connection.execute(
        f"SELECT {place}, CASE WHEN {live} AND substr({data}, 1, {len(SEALED_PREFIX)}) {begins} ?2 THEN {data} END "  # noqa: S608 - the names are ours
        f"FROM {table} WHERE 1 {beyond} ORDER BY {place} LIMIT {_ROWS_LOOKED_AT}",
        (now, SEALED_PREFIX, *(after or ())),
    )
    found: list[SealedRow] = []
    looked_at = size = 0
    for *at, content in rows:
        looked_at += 1
        after = tuple(at)
        if content is not None:
            found.append(SealedRow(after, content, _names_of(connection, table, after)))
            size += len(content)
            if size > _SEALED_BYTES:
                return found, after
    return found, after if looked_at == _ROWS_LOOKED_AT else None


def _names_of(connection: apsw.Connection, table: str, place: tuple[str | int, ...]) -> tuple[str | int, ...]:
    if table != "reply":
        return place
    names: tuple[str | int, ...] = connection.execute(
        "SELECT book, sender, receiver, reply.seq FROM reply JOIN chain ON chain.id = chain WHERE number = ?",
        place,
    ).get
    return names


def select_document(connection: apsw.Connection, collection: str, id: str) -> StoredDocument | None:  # noqa: A002 - the protocol's word
    row = connection.execute(
        "SELECT id, body, version FROM document WHERE collection = ? AND id = ?", (collection, id)
    ).get
    return StoredDocument(*row) if row else None


def select_documents(
    connection: apsw.Connection,
    collection: str,
    *,
    words: str = "",
    keys: Sequence[tuple[str, str]] = (),
    limit: int = 20,
) -> list[StoredDocument]:
    """Find documents by their words, or else by the first key; the other keys are looked up for each."""
    values: list[str | int] = []
    if words.strip():
        query = [
            "SELECT document.id, body, document.version FROM document_text",
            "CROSS JOIN document ON document.number = document_text.rowid",
            "WHERE document_text MATCH ? AND document.collection = ?",
        ]
        values += [_match(words), collection]
        order = "document_text.rank"
    elif keys:
        (name, wanted), *keys = keys
        query = [
            "SELECT document.id, body, document.version FROM document_key AS leading",
            "CROSS JOIN document ON document.number = leading.number",
            "WHERE leading.collection = ? AND leading.name = ? AND leading.value = ?",
        ]
        values += [collection, name, wanted]
        order = "leading.number"
    else:
        query = ["SELECT id, body, version FROM document WHERE collection = ?"]
        values.append(collection)
        order = "number"
    for name, wanted in keys:
        query.append(
            "AND EXISTS (SELECT 1 FROM document_key WHERE collection = ? AND name = ? AND value = ? "
            "AND number = document.number)"
        )
        values += [collection, name, wanted]
    query.append(f"ORDER BY {order} LIMIT ?")
    values.append(limit)
    return [StoredDocument(*row) for row in connection.execute(" ".join(query), values)]


def _match(words: str) -> str:
    """Quote each word, so that nothing in it is read as query syntax, and take it as a beginning."""
    return " ".join('"' + word.replace('"', '""').replace("\0", " ") + '"*' for word in words.split())


def select_lease(connection: apsw.Connection, now: float, name: str) -> Lease | None:
    row = connection.execute(
        "SELECT name, holder, token, expires_at FROM lease WHERE name = ? AND expires_at > ?", (name, now)
    ).get
    return Lease(*row) if row else None


# The reading half: a few threads, each with a connection of its own.

READERS = 2

P = ParamSpec("P")
R = TypeVar("R")


def _asked(
    question: Callable[Concatenate[apsw.Connection, P], R],
) -> Callable[Concatenate["SqliteReader", P], Coroutine[Any, Any, R]]:
    """Make a method of a query."""

    def ask(self: "SqliteReader", /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._ask(question, *args, **named)

    return ask


def _asked_now(
    question: Callable[Concatenate[apsw.Connection, float, P], R],
) -> Callable[Concatenate["SqliteReader", P], Coroutine[Any, Any, R]]:
    """Make a method of a query that sees nothing that has expired."""

    def ask(self: "SqliteReader", /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        return self._ask(question, self._clock.now(), *args, **named)

    return ask


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
    async def open_for_reading(cls, path: Path, clock: Clock, *, check: bool = True) -> "SqliteReader":
        """Read a file that a node may be writing to. `check` reads all of it once; nothing is ever written."""
        if not await asyncio.to_thread(path.is_file):
            raise StoreUnavailableError(f"there is no database at {path}; start a node first: `comity up`")
        reader = SqliteReader(path, clock)
        try:
            await reader._ask(_check if check else steps_taken, path)
        except BaseException:
            await reader.close()
            raise
        return reader

    async def is_current(self) -> bool:
        """Return whether the file has the tables of this release, and not of an earlier one."""
        return await self.schema() == len(STEPS)

    async def schema(self) -> int:
        """Return how many steps the tables of the file have taken."""
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
        """Ask on a reader thread, with a connection of its own."""
        with translated_errors(self.path):
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = open_reader(self.path)
                self._readers.append(connection)
            return question(connection, *args, **named)

    tip = _asked(select_tip)
    chains = _asked(select_chains)
    reply = _asked(select_reply)
    kept = _asked(select_kept)
    held = _asked(select_held)
    held_item = _asked(select_held_item)
    get = _asked_now(select_value)
    scan = _asked_now(select_values)
    read = _asked(select_records)
    end = _asked(select_end)
    logs = _asked(select_logs)
    sealed = _asked_now(select_sealed)
    document = _asked(select_document)
    find = _asked(select_documents)
    lease = _asked_now(select_lease)


def _check(connection: apsw.Connection, path: Path) -> None:
    check_integrity(connection, path)
    steps_taken(connection, path)
