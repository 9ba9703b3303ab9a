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
from collections.abc import Iterator
from pathlib import Path

import apsw
import apsw.sqlite_extra

from comity.store.sqlite.schema import steps_taken
from comity.wire.errors import StoreCorruptError, StoreError, StoreFullError, StoreUnavailableError

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
    """A file that is not ours to open is refused before its first byte changes."""
    if not path.exists():
        _make(path)
    fresh = path.stat().st_size == 0
    if not fresh:
        _check_header(path)
    return _opened(path, fresh=fresh)


def _make(path: Path) -> None:
    """Make the file under another name and link it to its own: of several processes that start together one makes it,
    and nobody sees it half made. Whoever looked at an empty file would write its first pages without checksums.
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
    """Beside a writer, who has seen to it that the file is there and sound."""
    connection = _connected(path, apsw.SQLITE_OPEN_READWRITE)
    connection.pragma("synchronous", "full")
    connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - before its first read it knows of no journal
    return connection


def open_reader(path: Path) -> apsw.Connection:
    connection = _connected(path, apsw.SQLITE_OPEN_READONLY)
    connection.pragma("cell_size_check", value=True)
    return connection


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
    """What SQLite itself would overlook: a stump of a file it would take for a new one, a page cut short."""
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
def our_words(path: Path) -> Iterator[None]:
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
    """The words of SQLite stay with the cause, which COMITY_DEBUG=1 shows."""
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
