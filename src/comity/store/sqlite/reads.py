"""Each question in SQL. A reader sees the newest durable commit."""

from collections.abc import Sequence

import apsw

from comity.store.operations import (
    SEALED_PREFIX,
    ChainKey,
    HeldItem,
    KeptReplies,
    Lease,
    LogRecord,
    SealedRow,
    StoredDocument,
    StoredReply,
    Tip,
    Versioned,
)

_LAST = "\U0010ffff"
SEALED_COLUMNS = {
    "value": (("space", "key"), "value"),
    "reply": (("number",), "reply"),
    "record": (("number",), "data"),
    "document": (("number",), "body"),
    "blob": (("number",), "data"),
}
"""Where each table has bytes of a caller: the columns of the place, and that of the bytes."""
_ROWS_LOOKED_AT = 2000
_SEALED_BYTES = 4 * 1024 * 1024


def tip(connection: apsw.Connection, chain: ChainKey) -> Tip:
    row = connection.execute(
        "SELECT seq, hash FROM chain WHERE book = ? AND sender = ? AND receiver = ?",
        (chain.book, chain.sender, chain.receiver),
    ).get
    return Tip(*row) if row else Tip()


def reply(connection: apsw.Connection, chain: ChainKey, seq: int) -> StoredReply | None:
    row = connection.execute(
        "SELECT reply.seq, digest, reply, at FROM chain JOIN reply ON reply.chain = chain.id "
        "WHERE book = ? AND sender = ? AND receiver = ? AND reply.seq = ?",
        (chain.book, chain.sender, chain.receiver, seq),
    ).get
    return StoredReply(*row) if row else None


def kept(connection: apsw.Connection, chain: ChainKey) -> KeptReplies:
    row = connection.execute(
        "SELECT (SELECT ifnull(sum(length(reply)), 0) FROM reply WHERE chain = chain.id), holder FROM chain "
        "WHERE book = ? AND sender = ? AND receiver = ?",
        (chain.book, chain.sender, chain.receiver),
    ).get
    return KeptReplies(*row) if row else KeptReplies()


def held(connection: apsw.Connection, quota: str, holder: str | None) -> int:
    return int(
        connection.execute(
            "SELECT ifnull(sum(bytes), 0) FROM holding WHERE quota = ?1 AND holder = ifnull(?2, holder)",
            (quota, holder),
        ).get
    )


def held_item(connection: apsw.Connection, quota: str, item: str) -> HeldItem | None:
    row = connection.execute("SELECT holder, bytes FROM held WHERE quota = ? AND item = ?", (quota, item)).get
    return HeldItem(*row) if row else None


def value(connection: apsw.Connection, space: str, key: str, now: float) -> Versioned | None:
    row = connection.execute(
        "SELECT value, version, expires_at FROM value "
        "WHERE space = ? AND key = ? AND (expires_at IS NULL OR expires_at > ?)",
        (space, key, now),
    ).get
    return Versioned(*row) if row else None


def scan(
    connection: apsw.Connection, space: str, prefix: str, after: str, limit: int, now: float
) -> list[tuple[str, Versioned]]:
    rows = connection.execute(
        "SELECT key, value, version, expires_at FROM value WHERE space = ? AND key >= ? AND key < ? AND key > ? "
        "AND (expires_at IS NULL OR expires_at > ?) ORDER BY key LIMIT ?",
        (space, prefix, prefix + _LAST, after, now, limit),
    )
    return [(key, Versioned(*held)) for key, *held in rows]


def read(connection: apsw.Connection, log: str, after: int, limit: int) -> list[LogRecord]:
    rows = connection.execute(
        "SELECT position, data FROM record WHERE log = (SELECT id FROM log WHERE name = ?) "
        "AND position > ? ORDER BY position LIMIT ?",
        (log, after, limit),
    )
    return [LogRecord(*row) for row in rows]


def end(connection: apsw.Connection, log: str) -> int:
    return int(connection.execute('SELECT "end" FROM log WHERE name = ?', (log,)).get or 0)


def logs(connection: apsw.Connection, prefix: str) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM log WHERE name >= ? AND name < ? ORDER BY name", (prefix, prefix + _LAST)
    )
    return [name for (name,) in rows]


def sealed(
    connection: apsw.Connection, table: str, after: tuple[str | int, ...] | None, now: float
) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
    """Look at so many rows, or at fewer where their bytes are many."""
    columns, data = SEALED_COLUMNS[table]
    place = ", ".join(columns)
    live = "(expires_at IS NULL OR expires_at > ?1)" if table == "value" else "?1 NOTNULL"
    beyond = "" if after is None else f"AND ({place}) > ({', '.join('?' * len(columns))})"
    rows = connection.execute(
        f"SELECT {place}, CASE WHEN {live} AND substr({data}, 1, {len(SEALED_PREFIX)}) = ?2 THEN {data} END "  # noqa: S608 - the names are ours
        f"FROM {table} WHERE 1 {beyond} ORDER BY {place} LIMIT {_ROWS_LOOKED_AT}",
        (now, SEALED_PREFIX, *(after or ())),
    )
    found: list[SealedRow] = []
    looked_at = size = 0
    for *at, content in rows:
        looked_at += 1
        after = tuple(at)
        if content is not None:
            found.append(SealedRow(after, content))
            size += len(content)
            if size > _SEALED_BYTES:
                return found, after
    return found, after if looked_at == _ROWS_LOOKED_AT else None


def document(connection: apsw.Connection, collection: str, id: str) -> StoredDocument | None:  # noqa: A002 - the protocol's word
    row = connection.execute(
        "SELECT id, body, version FROM document WHERE collection = ? AND id = ?", (collection, id)
    ).get
    return StoredDocument(*row) if row else None


def find(
    connection: apsw.Connection, collection: str, words: str, keys: Sequence[tuple[str, str]], limit: int
) -> list[StoredDocument]:
    """The words lead to the documents, or else the first key does; the other keys are looked up for each."""
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
    """Each word quoted, so that nothing in it is read as query syntax, and taken as a beginning."""
    return " ".join('"' + word.replace('"', '""').replace("\0", " ") + '"*' for word in words.split())


def blob(connection: apsw.Connection, id: str, offset: int, length: int | None) -> bytes | None:  # noqa: A002 - the protocol's word
    number = connection.execute("SELECT number FROM blob WHERE id = ?", (id,)).get
    if number is None:
        return None
    held = connection.blob_open("main", "blob", "data", number, False)
    try:
        start = min(offset, held.length())
        held.seek(start)
        return held.read(-1 if length is None else length)
    finally:
        held.close()


def lease(connection: apsw.Connection, name: str, now: float) -> Lease | None:
    row = connection.execute(
        "SELECT name, holder, token, expires_at FROM lease WHERE name = ? AND expires_at > ?", (name, now)
    ).get
    return Lease(*row) if row else None
