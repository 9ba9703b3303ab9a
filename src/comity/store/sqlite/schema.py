"""The tables, as a list of steps. `user_version` counts the steps a file has taken.

A released step is never edited; a change is a new step. A file with more steps than this release knows is refused and
not changed.
"""

from pathlib import Path

import apsw

from comity.wire.errors import StoreCorruptError, StoreVersionError

APPLICATION_ID = 0x436F6D69  # "Comi"

STEPS = (
    """
    CREATE TABLE chain (
        id INTEGER PRIMARY KEY,
        book TEXT NOT NULL,
        sender TEXT NOT NULL,
        receiver TEXT NOT NULL,
        seq INTEGER NOT NULL DEFAULT 0,
        hash BLOB NOT NULL DEFAULT (zeroblob(32)),
        UNIQUE (book, sender, receiver)
    ) STRICT;
    CREATE TABLE reply (
        number INTEGER PRIMARY KEY,
        chain INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        digest BLOB NOT NULL,
        reply BLOB,
        at REAL NOT NULL,
        UNIQUE (chain, seq)
    ) STRICT;
    CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    INSERT INTO counter VALUES ('version', 0);
    CREATE TABLE value (
        space TEXT NOT NULL,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        version INTEGER NOT NULL,
        expires_at REAL,
        PRIMARY KEY (space, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX value_expiry ON value (expires_at) WHERE expires_at IS NOT NULL;
    CREATE TABLE log (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        start INTEGER NOT NULL DEFAULT 0,
        "end" INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE record (
        log INTEGER NOT NULL,
        position INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (log, position)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE document (
        number INTEGER PRIMARY KEY,
        collection TEXT NOT NULL,
        id TEXT NOT NULL,
        body BLOB NOT NULL,
        version INTEGER NOT NULL,
        UNIQUE (collection, id)
    ) STRICT;
    CREATE TABLE document_key (
        collection TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (collection, name, value, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX document_key_number ON document_key (number);
    CREATE VIRTUAL TABLE document_text USING fts5 (
        text, content='', contentless_delete=1, tokenize="unicode61 remove_diacritics 2"
    );
    CREATE TABLE blob (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, data BLOB NOT NULL) STRICT;
    CREATE TABLE lease (
        name TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        token INTEGER NOT NULL,
        expires_at REAL NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    # Records in the order in which they came, whatever log they are of: a new one is written at the end of the
    # table, and large ones do not make it deep, as they do where they are part of the key's tree.
    """
    CREATE TABLE appended (
        number INTEGER PRIMARY KEY,
        log INTEGER NOT NULL,
        position INTEGER NOT NULL,
        data BLOB NOT NULL,
        UNIQUE (log, position)
    ) STRICT;
    INSERT INTO appended (log, position, data) SELECT log, position, data FROM record ORDER BY log, position;
    DROP TABLE record;
    ALTER TABLE appended RENAME TO record;
    """,
    # What others make us store, added up by whom: replies and the chains they are of, and things that say their
    # size themselves. The sums change with the rows, in the same transaction, whoever changes them.
    """
    ALTER TABLE chain ADD COLUMN holder TEXT NOT NULL DEFAULT '';
    CREATE TABLE holding (
        quota TEXT NOT NULL,
        holder TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (quota, holder)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE held (
        quota TEXT NOT NULL,
        item TEXT NOT NULL,
        holder TEXT NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (quota, item)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO holding SELECT 'replies', '',
        512 * (SELECT count(*) FROM chain) + ifnull((SELECT sum(length(reply)) FROM reply), 0);
    CREATE TRIGGER chain_begun AFTER INSERT ON chain BEGIN
        INSERT INTO holding VALUES ('replies', NEW.holder, 512)
            ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER reply_kept AFTER INSERT ON reply WHEN NEW.reply IS NOT NULL BEGIN
        UPDATE holding SET bytes = bytes + length(NEW.reply)
            WHERE quota = 'replies' AND holder = (SELECT holder FROM chain WHERE id = NEW.chain);
    END;
    CREATE TRIGGER reply_changed AFTER UPDATE OF reply ON reply
    WHEN ifnull(length(NEW.reply), 0) <> ifnull(length(OLD.reply), 0) BEGIN
        UPDATE holding SET bytes = bytes + ifnull(length(NEW.reply), 0) - ifnull(length(OLD.reply), 0)
            WHERE quota = 'replies' AND holder = (SELECT holder FROM chain WHERE id = NEW.chain);
    END;
    CREATE TRIGGER reply_forgotten AFTER DELETE ON reply WHEN OLD.reply IS NOT NULL BEGIN
        UPDATE holding SET bytes = bytes - length(OLD.reply)
            WHERE quota = 'replies' AND holder = (SELECT holder FROM chain WHERE id = OLD.chain);
    END;
    CREATE TRIGGER held_first AFTER INSERT ON held BEGIN
        INSERT INTO holding VALUES (NEW.quota, NEW.holder, NEW.bytes)
            ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes;
    END;
    CREATE TRIGGER held_again AFTER UPDATE OF bytes ON held BEGIN
        UPDATE holding SET bytes = bytes + NEW.bytes - OLD.bytes
            WHERE quota = NEW.quota AND holder = NEW.holder;
    END;
    INSERT INTO held SELECT 'cards', id, '', length(body) + ifnull((
            SELECT sum(length(data)) FROM record JOIN log ON log.id = record.log
            WHERE log.name = 'directory.events/' || document.id), 0)
        FROM document WHERE collection IN ('directory.found', 'directory.kept');
    """,
)


def migrate(connection: apsw.Connection, path: Path, steps: tuple[str, ...] = STEPS) -> None:
    """Bring the file to this release's tables, all steps or none."""
    if steps_taken(connection, path, steps) == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")  # another process may be migrating the same file
    try:
        for step in steps[steps_taken(connection, path, steps) :]:
            connection.execute(step)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def steps_taken(connection: apsw.Connection, path: Path, steps: tuple[str, ...] = STEPS) -> int:
    """How far the file has come. Raises for one that is newer, or somebody else's."""
    with connection:  # as of one moment: another process may be making the tables
        taken = connection.pragma("user_version")
        application = connection.pragma("application_id")
        has_tables = _has_tables(connection)
    if application not in (0, APPLICATION_ID) or (application == 0 and has_tables):
        raise StoreCorruptError(f"{path} is a database of another program; choose another data folder")
    if taken > len(steps):
        raise StoreVersionError(
            f"{path} was written by a newer release (schema {taken}, this one knows {len(steps)}); "
            "upgrade comity to open it"
        )
    return int(taken)


def _has_tables(connection: apsw.Connection) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema").get)
