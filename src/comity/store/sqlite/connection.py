"""Opening the file, and saying in our own words what went wrong with it.

Pages carry checksums (the `cksmvfs` layer that apsw brings): a flipped bit is an error when its
page is read, never a wrong answer. A file made with them is not opened without them, because a
write that skips the checksum would look like damage later.
"""

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import apsw.sqlite_extra

from comity.wire.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)

# The tables, as a list of steps. `user_version` counts the steps a file has taken.

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
    # size themselves. The sums change with the rows, in the same transaction, whatever changes them.
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
    # What has 0 bytes is held no more.
    """
    CREATE TRIGGER held_no_more AFTER DELETE ON held BEGIN
        UPDATE holding SET bytes = bytes - OLD.bytes WHERE quota = OLD.quota AND holder = OLD.holder;
    END;
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
    """Return how far the file has come. Raise for one that is newer, or somebody else's."""
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


log = logging.getLogger("comity.store")

PAGE_BYTES = 4096
CHECKSUM_BYTES = 8
BUSY_MILLISECONDS = 15_000
WRITER_CACHE_KIB = 8 * 1024
STATEMENTS_KEPT = 200
CHECKSUMMED_VFS = "cksmvfs"

_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_RESERVED_OFFSET = 20  # of the database header: bytes kept free at the end of each page
_CHECKSUM_MISMATCH = apsw.SQLITE_IOERR_DATA

_BAD_CHECKSUM = "a page does not match its checksum"
_BAD_STRUCTURE = "its pages do not fit together"
_NO_DATABASE = "it does not begin as a database does"


def load_checksums() -> bool:
    """Register the checksum layer with SQLite, once per process. False where apsw lacks it."""
    if CHECKSUMMED_VFS in apsw.vfs_names():
        return True
    if not apsw.sqlite_extra.has("cksumvfs"):
        return False
    connection = apsw.Connection(":memory:")
    try:
        apsw.sqlite_extra.load(connection, "cksumvfs")
    finally:
        connection.close()
    return CHECKSUMMED_VFS in apsw.vfs_names()


def open_writer(path: Path) -> apsw.Connection:
    """Open a file to write. One that is not ours is refused before its first byte changes."""
    if not path.exists():
        _make(path)
    fresh = path.stat().st_size == 0
    if not fresh:
        _check_header(path)
    return _opened(path, fresh=fresh)


def _make(path: Path) -> None:
    """Make the file under another name and link it to its own: of several processes that start together one makes it,
    and nobody sees it half made. A process that saw an empty file would write its first pages without checksums.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _opened(draft, fresh=True).close()
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    finally:
        draft.unlink(missing_ok=True)


def _connected(path: Path, flags: int, statements: int = 100) -> apsw.Connection:
    vfs = CHECKSUMMED_VFS if load_checksums() else None
    connection = apsw.Connection(str(path), flags=flags, vfs=vfs, statementcachesize=statements)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


def _opened(path: Path, *, fresh: bool) -> apsw.Connection:
    connection = _connected(path, apsw.SQLITE_OPEN_READWRITE, STATEMENTS_KEPT)
    try:
        steps_taken(connection, path)
        if fresh:
            connection.pragma("page_size", PAGE_BYTES)
            if load_checksums():
                connection.reserve_bytes("main", CHECKSUM_BYTES)
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full")
        connection.pragma("cache_size", -WRITER_CACHE_KIB)
        connection.pragma("cell_size_check", value=True)
    except BaseException:
        connection.close()
        raise
    return connection


def open_checkpointer(path: Path) -> apsw.Connection:
    """Open a connection beside a writer, who has seen to it that the file is there and sound."""
    connection = _connected(path, apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("synchronous", "full")
    connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - before its first read it knows of no journal
    return connection


def open_reader(path: Path) -> apsw.Connection:
    connection = _connected(path, apsw.SQLITE_OPEN_READONLY)
    connection.pragma("cell_size_check", value=True)
    return connection


def read_foreign(file: Path, query: str, values: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """Return the rows of a query to a SQLite file of another program, which is only read."""
    with translated_errors(file):
        connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()


def check_integrity(connection: apsw.Connection, path: Path) -> None:
    """Read every page once. A damaged file is refused before it gives its first answer."""
    found = connection.execute("PRAGMA quick_check(1)").get
    if found != "ok":
        log.debug("SQLite on %s: %s", path, found)
        bad_page = f"error code={_CHECKSUM_MISMATCH}" in str(found)
        raise StoreCorruptError(_damaged(path, _BAD_CHECKSUM if bad_page else _BAD_STRUCTURE))


def _damaged(path: Path, finding: str) -> str:
    return f"{path} is damaged ({finding}); nothing was changed. Restore it from a backup"


def _check_header(path: Path) -> None:
    """Check what SQLite itself would overlook: a stump of a file it would take for a new one, a page cut short."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreCorruptError(_damaged(path, _NO_DATABASE))
    page_bytes = int.from_bytes(header[16:18], "big")
    recovering = path.with_name(path.name + "-wal").exists()
    if not recovering and path.stat().st_size % (page_bytes if page_bytes > 1 else 65536):
        raise StoreCorruptError(_damaged(path, "its last page is cut short"))
    if header[_RESERVED_OFFSET] == CHECKSUM_BYTES and not load_checksums():
        raise StoreUnavailableError(
            f"{path} carries page checksums and this build of apsw has none; install apsw from its wheel"
        )


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Turn what SQLite and the operating system say into a sentence and a remedy."""
    try:
        yield
    except apsw.Error as reason:
        raise translate(reason, path) from reason
    except OSError as reason:
        if reason.errno == errno.ENOSPC:
            raise StoreFullError(f"no space is left for {path}; free some and retry") from reason
        raise StoreUnavailableError(
            f"{path} cannot be opened ({reason.strerror}); check the folder and its permissions"
        ) from reason


def translate(reason: apsw.Error, path: Path) -> StoreError:
    """Return our error for one of SQLite, whose words stay with the cause, which COMITY_DEBUG=1 shows."""
    extended = getattr(reason, "extendedresult", 0)
    if extended == _CHECKSUM_MISMATCH:
        return StoreCorruptError(_damaged(path, _BAD_CHECKSUM))
    match reason:
        case apsw.NotADBError():
            return StoreCorruptError(_damaged(path, _NO_DATABASE))
        case apsw.CorruptError():
            return StoreCorruptError(_damaged(path, _BAD_STRUCTURE))
        case apsw.FullError():
            return StoreFullError(f"no space is left for {path}; free some and retry, nothing was lost")
        case apsw.BusyError() | apsw.LockedError():
            return StoreUnavailableError(f"{path} is locked by another process; stop it or retry")
        case apsw.CantOpenError():
            return StoreUnavailableError(f"{path} cannot be opened; check the folder and its permissions")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError():
            return StoreUnavailableError(f"{path} cannot be written; check its permissions")
        case apsw.IOError():
            return StoreUnavailableError(f"the disk under {path} failed; check it and restart")
        case apsw.TooBigError():
            return StoreError(f"a value is too large for {path}; store less at once")
        case _:
            return StoreError(f"{path} refused an operation; run it again with COMITY_DEBUG=1 to see why")


# What an owner does with the file now and then: copy it as it is at one moment, and give unused space back.

_BUSY_MILLISECONDS = 500


def copy_database(source: Path, copy: Path) -> None:
    """Make a new file `copy` of mode 0600, durable. The writer of the original never waits for it."""
    with translated_errors(copy):
        os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with translated_errors(source):
        reader = open_reader(source)
        try:
            steps_taken(reader, source)
            _copy(reader, copy)
        finally:
            reader.close()


def _copy(reader: apsw.Connection, copy: Path) -> None:
    checksums = load_checksums()
    with translated_errors(copy):
        target = apsw.Connection(str(copy), vfs=CHECKSUMMED_VFS if checksums else None)
    try:
        if checksums:
            # the layer adds checksums to a file that is already laid out for them
            target.pragma("page_size", PAGE_BYTES)
            target.reserve_bytes("main", CHECKSUM_BYTES)
            target.execute("CREATE TABLE laid_out (page)")
        with target.backup("main", reader, "main") as copying:
            copying.step(-1)
    finally:
        target.close()


def compact_database(path: Path) -> None:
    """Write the file anew without the space that nothing uses. No other process may have it open."""
    with translated_errors(path):
        writer = open_writer(path)
        try:
            writer.set_busy_timeout(_BUSY_MILLISECONDS)
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            writer.close()
