"""The durable default: one SQLite file, one writing thread, a few readers.

Every page carries a checksum that is verified when it is read, every commit is synced before it is
acknowledged, and several processes may share the file.
"""

from comity.store.sqlite.engine import SqliteStore

__all__ = ["SqliteStore"]
