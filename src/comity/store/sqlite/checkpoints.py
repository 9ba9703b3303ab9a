"""Checkpoints: copying the write-ahead log into the database, while the writer goes on.

A checkpoint copies pages and syncs twice. If the writer did it, every caller would wait for tens of milliseconds, several
times a second under load. So a thread with a connection of its own does it, each time the log has grown by `SOME_PAGES`.
The log can start again from its beginning only after all of it is copied, and a busy writer is always a little ahead. So
when the log has `MOST_PAGES`, the writer copies the small rest itself.
"""

import logging
import threading
from pathlib import Path

import apsw

from comity.store.sqlite.connection import open_checkpointer

log = logging.getLogger("comity.store")

SOME_PAGES = 2_000
MOST_PAGES = 16_000


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

    def look(self) -> None:
        """On the writer's thread, after a commit."""
        pages = self._pages()
        if _between(self._begun, pages) >= MOST_PAGES:
            # While it is as long as that, after each commit: a reader may keep it from beginning again.
            length = min(_carry_over(self._writer), MOST_PAGES - 1)
            self._begun, self._carried = pages - length, pages
        elif _between(self._carried, pages) >= SOME_PAGES:
            self._carried = pages
            self._due.set()

    def _pages(self) -> int:
        """How many this connection has written to the journal, as a counter of 32 bits."""
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
    """As far as readers allow. Tells how many pages the journal has. What is committed is durable without it: a failure
    is for the log, and the next commit meets it anyway.
    """
    try:
        length, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:  # another process is carrying it over just now
        return MOST_PAGES
    except apsw.Error as reason:
        log.warning("the journal could not be carried over into the database: %s", reason)
        return MOST_PAGES
    return length
