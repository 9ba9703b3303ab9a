"""What an owner does with the file now and then: copy it as it is at one moment, and give unused space back.

A node may be writing to the file while it is copied. The copy carries page checksums as the original does, which a
copy by another SQLite tool would not.
"""

import os
from pathlib import Path

import apsw

from comity.store.sqlite.connection import (
    CHECKSUM_BYTES,
    CHECKSUMMED_VFS,
    PAGE_BYTES,
    load_checksums,
    open_reader,
    open_writer,
    our_words,
)
from comity.store.sqlite.schema import steps_taken

_BUSY_MILLISECONDS = 500


def copy_database(source: Path, copy: Path) -> None:
    """Make a new file `copy` of mode 0600, durable. The writer of the original never waits for it."""
    with our_words(copy):
        os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with our_words(source):
        reader = open_reader(source)
        try:
            steps_taken(reader, source)
            _copy(reader, copy)
        finally:
            reader.close()


def _copy(reader: apsw.Connection, copy: Path) -> None:
    checksums = load_checksums()
    with our_words(copy):
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
    with our_words(path):
        writer = open_writer(path)
        try:
            writer.set_busy_timeout(_BUSY_MILLISECONDS)
            writer.execute("VACUUM")
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            writer.close()
