"""Each operation in SQL. It runs inside a savepoint: a conflict raised half-way leaves nothing."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import apsw

from comity.store import interface as ops
from comity.store.interface import Lease, StoreConflict, Tip, expect_version
from comity.store.sqlite import reads

PURGE_ROWS = 500

_Row = TypeVar("_Row")

# Each statement that Python sends costs a turn at the interpreter's lock, which a busy loop gives away slowly. So
# what every batch holds many of is sent as few: all that an answer changes as one row, rows side by side.
_ROWS = (32, 16, 8, 4, 2, 1)  # few sizes, so that each is compiled once
_ANSWER = """
    CREATE TEMP VIEW answer AS SELECT
        NULL AS book, NULL AS sender, NULL AS receiver, NULL AS was, NULL AS was_hash, NULL AS seq, NULL AS hash,
        NULL AS reply_book, NULL AS reply_sender, NULL AS reply_receiver,
        NULL AS reply_was, NULL AS reply_was_hash, NULL AS reply_seq, NULL AS reply_hash,
        NULL AS reply, NULL AS at, NULL AS instead_of, NULL AS keep, NULL AS before,
        NULL AS log, NULL AS nth, NULL AS entry, NULL AS head_space, NULL AS head_key, NULL AS head;
    CREATE TEMP TRIGGER answer_all INSTEAD OF INSERT ON answer WHEN NEW.book IS NOT NULL BEGIN
        UPDATE chain SET seq = NEW.seq, hash = NEW.hash
            WHERE book = NEW.book AND sender = NEW.sender AND receiver = NEW.receiver
            AND seq = NEW.was AND hash = NEW.was_hash;
        SELECT RAISE(ABORT, 'moved') WHERE changes() = 0;
        UPDATE chain SET seq = NEW.reply_seq, hash = NEW.reply_hash
            WHERE book = NEW.reply_book AND sender = NEW.reply_sender AND receiver = NEW.reply_receiver
            AND seq = NEW.reply_was AND hash = NEW.reply_was_hash;
        SELECT RAISE(ABORT, 'moved') WHERE changes() = 0;
        UPDATE OR REPLACE reply SET seq = NEW.seq, digest = NEW.hash, reply = NEW.reply, at = NEW.at
            WHERE chain = {chain} AND seq = NEW.instead_of;
        INSERT INTO reply (chain, seq, digest, reply, at)
            VALUES ({chain}, NEW.seq, NEW.hash, NEW.reply, NEW.at)
            ON CONFLICT (chain, seq) DO UPDATE SET digest = NEW.hash, reply = NEW.reply, at = NEW.at
            WHERE digest <> NEW.hash OR reply IS NOT NEW.reply;
        DELETE FROM reply WHERE NEW.keep IS NOT NULL AND chain = {chain}
            AND seq < (SELECT seq FROM reply WHERE chain = {chain} ORDER BY seq DESC LIMIT 1)
            AND (at < NEW.before OR seq <= ifnull((
                SELECT seq FROM reply WHERE chain = {chain}
                ORDER BY seq DESC LIMIT 1 OFFSET ifnull(NEW.keep, 0)), 0));
    END;
    CREATE TEMP TRIGGER answer_audited INSTEAD OF INSERT ON answer WHEN NEW.log IS NOT NULL BEGIN
        INSERT INTO record (log, position, data)
            SELECT id, "end" + NEW.nth, NEW.entry FROM log WHERE name = NEW.log;
        SELECT RAISE(ABORT, 'new') WHERE changes() = 0;
        UPDATE log SET "end" = "end" + NEW.nth WHERE NEW.head IS NOT NULL AND name = NEW.log;
        INSERT OR REPLACE INTO value
            SELECT NEW.head_space, NEW.head_key, NEW.head, 0, NULL WHERE NEW.head IS NOT NULL;
    END;
""".replace(
    "{chain}",
    "(SELECT id FROM chain WHERE book = NEW.book AND sender = NEW.sender AND receiver = NEW.receiver)",
)
_ANSWER_COLUMNS = _ANSWER.count(" AS ") - 1  # all but that of the view itself
_NO_AUDIT = (None,) * 6
_NO_CHANGES = (None,) * (_ANSWER_COLUMNS - len(_NO_AUDIT))


def prepare(connection: apsw.Connection) -> None:
    """Set up what a connection needs before it writes; it is gone with the connection."""
    # what REPLACE deletes has to be seen by the triggers that add up what is held
    connection.pragma("recursive_triggers", True)
    connection.execute(_ANSWER)


def apply(connection: apsw.Connection, operation: ops.Operation, now: float) -> Any:
    return _APPLY[type(operation)](connection, operation, now)


def apply_together(
    connection: apsw.Connection, transactions: Iterable[Sequence[ops.Operation]], now: float
) -> list[tuple[Any, ...]]:
    """Return the results of each transaction, as `apply` gives them. Answers that follow each other are sent together."""
    outcomes = []
    answers: list[ops.Answer] = []
    for operations in transactions:
        results: list[Any] = []
        for operation in operations:
            if isinstance(operation, ops.Answer):
                answers.append(operation)
                results.append(None)
            else:
                _answer_all(connection, answers, now)
                answers = []
                results.append(apply(connection, operation, now))
        outcomes.append(tuple(results))
    _answer_all(connection, answers, now)
    return outcomes


def append(connection: apsw.Connection, log: str, data: bytes) -> int:
    number, position = connection.execute(
        'INSERT INTO log (name, "end") VALUES (?, 1) '
        'ON CONFLICT (name) DO UPDATE SET "end" = "end" + 1 RETURNING id, "end"',
        (log,),
    ).get
    connection.execute("INSERT INTO record VALUES (NULL, ?, ?, ?)", (number, position, data))
    return int(position)


def append_all(connection: apsw.Connection, log: str, records: Sequence[bytes]) -> None:
    """Append records side by side, at the price of one look at where the log ends."""
    number, end = connection.execute(
        'INSERT INTO log (name, "end") VALUES (?1, ?2) '
        'ON CONFLICT (name) DO UPDATE SET "end" = "end" + ?2 RETURNING id, "end"',
        (log, len(records)),
    ).get
    rows = [(None, number, position, data) for position, data in enumerate(records, end - len(records) + 1)]
    for some in _side_by_side(rows):
        connection.execute(_insert("record", some), [*itertools.chain.from_iterable(some)])


def keep_all(connection: apsw.Connection, kept: Iterable[ops.Put]) -> None:
    """Write the head of the trail and rows of its tree. Only one process writes them and nobody waits for them: their
    version is always 0.
    """
    for each in kept:
        connection.execute(
            "INSERT OR REPLACE INTO value VALUES (?, ?, ?, 0, NULL)", (each.space, each.key, each.value)
        )


def purge_expired(connection: apsw.Connection, now: float) -> None:
    """Remove some of what nobody can read any more; the rest next time."""
    connection.execute(
        "DELETE FROM value WHERE (space, key) IN "
        "(SELECT space, key FROM value WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
        (now, PURGE_ROWS),
    )


def _advance(connection: apsw.Connection, op: ops.Advance, _now: float) -> Tip:
    chain = op.chain
    connection.execute(
        "UPDATE chain SET seq = ?, hash = ? "
        "WHERE book = ? AND sender = ? AND receiver = ? AND seq = ? AND hash = ?",
        (op.to.seq, op.to.hash, chain.book, chain.sender, chain.receiver, op.expected.seq, op.expected.hash),
    )
    if connection.changes() == 0:
        current = reads.select_tip(connection, chain)
        if current != op.expected:
            raise StoreConflict(op, current)
        connection.execute(
            "INSERT INTO chain (book, sender, receiver, seq, hash, holder) VALUES (?, ?, ?, ?, ?, ?)",
            (chain.book, chain.sender, chain.receiver, op.to.seq, op.to.hash, op.holder),
        )
    return op.to


def _keep_reply(connection: apsw.Connection, op: ops.KeepReply, _now: float) -> None:
    chain = (op.chain.book, op.chain.sender, op.chain.receiver)
    insert = (
        "INSERT OR REPLACE INTO reply (chain, seq, digest, reply, at) SELECT id, ?, ?, ?, ? FROM chain "
        "WHERE book = ? AND sender = ? AND receiver = ?"
    )
    values = (op.seq, op.digest, op.reply, op.at, *chain)
    connection.execute(insert, values)
    if connection.changes() == 0:  # the first thing ever kept of this chain
        connection.execute("INSERT INTO chain (book, sender, receiver) VALUES (?, ?, ?)", chain)
        connection.execute(insert, values)


def answers_audited(
    answers: Sequence[ops.Answer | None], log: str, entries: Sequence[bytes], head: ops.Put
) -> tuple[str, list[Any]]:
    """Return a whole batch as one statement, which is a commit of its own: nothing but audit entries, each with its
    answer or None, and the head of the log. To run it raises apsw.ConstraintError when a chain is elsewhere, or
    anything is new; then nothing was done.
    """
    values: list[Any] = []
    for nth, op in enumerate(answers, 1):
        values += _NO_CHANGES if op is None else _changes(op)
        values += (log, nth, entries[nth - 1], None, None, None)
    values[-3:] = head.space, head.key, head.value
    return _insert_statement("answer", _ANSWER_COLUMNS, len(answers)), values


def _answer_all(connection: apsw.Connection, operations: Sequence[ops.Answer], now: float) -> None:
    for some in _side_by_side(operations):
        rows = [(*_changes(op), *_NO_AUDIT) for op in some]
        try:
            connection.execute(_insert("answer", rows), [*itertools.chain.from_iterable(rows)])
        except apsw.ConstraintError:  # a chain is new, or elsewhere: single steps show which
            for op in some:
                _answer(connection, op, now)


def _answer(connection: apsw.Connection, op: ops.Answer, now: float) -> None:
    for step in op.steps:
        apply(connection, step, now)


def _changes(op: ops.Answer) -> tuple[Any, ...]:
    calls, replies = op.calls, op.replies
    chain, was, to = calls.chain, calls.expected, calls.to
    back, back_was, back_to = replies.chain, replies.expected, replies.to
    return (
        *(chain.book, chain.sender, chain.receiver, was.seq, was.hash, to.seq, to.hash),
        *(back.book, back.sender, back.receiver, back_was.seq, back_was.hash, back_to.seq, back_to.hash),
        *(op.reply, op.at, op.instead_of, op.keep, op.before),
    )


def _side_by_side(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    at = 0
    for size in _ROWS:
        while len(rows) - at >= size:
            yield rows[at : at + size]
            at += size


def _insert(table: str, rows: Sequence[Sequence[Any]]) -> str:
    return _insert_statement(table, len(rows[0]), len(rows))


@cache
def _insert_statement(table: str, columns: int, rows: int) -> str:
    row = f"({', '.join('?' * columns)})"
    return f"INSERT INTO {table} VALUES {', '.join([row] * rows)}"  # noqa: S608 - the names are ours


def _drop_reply(connection: apsw.Connection, op: ops.DropReply, _now: float) -> bool:
    connection.execute(
        "DELETE FROM reply WHERE seq = ? AND chain = "
        "(SELECT id FROM chain WHERE book = ? AND sender = ? AND receiver = ?)",
        (op.seq, op.chain.book, op.chain.sender, op.chain.receiver),
    )
    return connection.changes() > 0


def _prune_replies(connection: apsw.Connection, op: ops.PruneReplies, _now: float) -> int:
    number = connection.execute(
        "SELECT id FROM chain WHERE book = ? AND sender = ? AND receiver = ?",
        (op.chain.book, op.chain.sender, op.chain.receiver),
    ).get
    newest = "(SELECT seq FROM reply WHERE chain = ?1 ORDER BY seq DESC LIMIT 1)"
    first_beyond = "(SELECT seq FROM reply WHERE chain = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)"
    connection.execute(
        f"DELETE FROM reply WHERE chain = ?1 AND seq < {newest} "  # noqa: S608 - both parts are ours
        f"AND (at < ?3 OR seq <= ifnull({first_beyond}, 0))",
        (number, op.keep, op.before),
    )
    return connection.changes()


def _forget_replies(connection: apsw.Connection, op: ops.ForgetReplies, _now: float) -> int | None:
    last = connection.execute(
        "SELECT max(number) FROM (SELECT number FROM reply WHERE number > ? ORDER BY number LIMIT ?)",
        (op.after, op.rows),
    ).get
    if last is None:
        return None
    connection.execute(
        "DELETE FROM reply WHERE number > ? AND number <= ? AND at < ?", (op.after, last, op.before)
    )
    return int(last)


def _hold(connection: apsw.Connection, op: ops.Hold, _now: float) -> None:
    if not op.bytes:
        connection.execute("DELETE FROM held WHERE quota = ? AND item = ?", (op.quota, op.item))
        return
    connection.execute(
        "INSERT INTO held VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET bytes = excluded.bytes",
        (op.quota, op.item, op.holder, op.bytes),
    )


def _next_version(connection: apsw.Connection) -> int:
    return int(
        connection.execute("UPDATE counter SET value = value + 1 WHERE name = 'version' RETURNING value").get
    )


def _put(connection: apsw.Connection, op: ops.Put, now: float) -> int:
    if op.expect is not None:
        expect_version(op, reads.select_value(connection, now, op.space, op.key))
    version = _next_version(connection)
    connection.execute(
        "INSERT OR REPLACE INTO value VALUES (?, ?, ?, ?, ?)",
        (op.space, op.key, op.value, version, op.expires_at),
    )
    return version


def _delete(connection: apsw.Connection, op: ops.Delete, now: float) -> bool:
    current = reads.select_value(connection, now, op.space, op.key)
    expect_version(op, current)
    connection.execute("DELETE FROM value WHERE space = ? AND key = ?", (op.space, op.key))
    return current is not None


def _append(connection: apsw.Connection, op: ops.Append, _now: float) -> int:
    if op.expect_end is not None:
        end = reads.select_end(connection, op.log)
        if end != op.expect_end:
            raise StoreConflict(op, end)
    return append(connection, op.log, op.data)


def _trim(connection: apsw.Connection, op: ops.Trim, _now: float) -> int:
    found = connection.execute('SELECT id, start, "end" FROM log WHERE name = ?', (op.log,)).get
    if found is None:
        return 0
    number, start, end = found
    through = min(op.through, end)
    if through <= start:
        return 0
    connection.execute("DELETE FROM record WHERE log = ? AND position <= ?", (number, through))
    connection.execute("UPDATE log SET start = ? WHERE id = ?", (through, number))
    return int(through - start)


def _put_document(connection: apsw.Connection, op: ops.PutDocument, _now: float) -> int:
    current = reads.select_document(connection, op.collection, op.id)
    expect_version(op, current)
    version = _next_version(connection)
    number = connection.execute(
        "INSERT INTO document (collection, id, body, version) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (collection, id) DO UPDATE SET body = excluded.body, version = excluded.version "
        "RETURNING number",
        (op.collection, op.id, op.body, version),
    ).get
    _forget_index(connection, number)
    connection.execute("INSERT INTO document_text (rowid, text) VALUES (?, ?)", (number, op.text))
    connection.executemany(
        "INSERT INTO document_key VALUES (?, ?, ?, ?)",
        ((op.collection, name, value, number) for name, value in dict.fromkeys(op.keys)),
    )
    return version


def _delete_document(connection: apsw.Connection, op: ops.DeleteDocument, _now: float) -> bool:
    current = reads.select_document(connection, op.collection, op.id)
    expect_version(op, current)
    if current is None:
        return False
    number = connection.execute(
        "DELETE FROM document WHERE collection = ? AND id = ? RETURNING number", (op.collection, op.id)
    ).get
    _forget_index(connection, number)
    return True


def _forget_index(connection: apsw.Connection, number: int) -> None:
    connection.execute("DELETE FROM document_text WHERE rowid = ?", (number,))
    connection.execute("DELETE FROM document_key WHERE number = ?", (number,))


def _reseal(connection: apsw.Connection, op: ops.Reseal, _now: float) -> bool:
    columns, data = reads.SEALED_COLUMNS[op.table]
    place = " AND ".join(f"{column} = ?" for column in columns)
    connection.execute(
        f"UPDATE {op.table} SET {data} = ? WHERE {place} AND {data} = ?",  # noqa: S608 - the names are ours
        (op.to, *op.place, op.was),
    )
    return connection.changes() > 0


def _acquire(connection: apsw.Connection, op: ops.Acquire, now: float) -> Lease:
    held = reads.select_lease(connection, now, op.name)
    if held is not None and held.holder != op.holder:
        raise StoreConflict(op, held)
    last = connection.execute("SELECT token FROM lease WHERE name = ?", (op.name,)).get or 0
    lease = Lease(op.name, op.holder, held.token if held else last + 1, now + op.ttl)
    connection.execute(
        "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)",
        (lease.name, lease.holder, lease.token, lease.expires_at),
    )
    return lease


def _release(connection: apsw.Connection, op: ops.Release, now: float) -> bool:
    connection.execute(
        "UPDATE lease SET expires_at = ? WHERE name = ? AND token = ? AND expires_at > ?",
        (now, op.name, op.token, now),
    )
    return connection.changes() > 0


def _fence(connection: apsw.Connection, op: ops.Fence, now: float) -> None:
    held = reads.select_lease(connection, now, op.name)
    if held is None or held.token != op.token:
        raise StoreConflict(op, held)


_APPLY: dict[type[ops.Operation], Callable[[apsw.Connection, Any, float], Any]] = {
    ops.Advance: _advance,
    ops.KeepReply: _keep_reply,
    ops.Answer: _answer,
    ops.DropReply: _drop_reply,
    ops.PruneReplies: _prune_replies,
    ops.ForgetReplies: _forget_replies,
    ops.Hold: _hold,
    ops.Put: _put,
    ops.Delete: _delete,
    ops.Append: _append,
    ops.Trim: _trim,
    ops.PutDocument: _put_document,
    ops.DeleteDocument: _delete_document,
    ops.Reseal: _reseal,
    ops.Acquire: _acquire,
    ops.Release: _release,
    ops.Fence: _fence,
}
