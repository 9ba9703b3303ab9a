"""One node per data folder: a locked file that says where the node is.

The operating system releases the lock when the process ends, for any reason. If the file is not locked, its content is
out of date.
"""

import contextlib
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from comity.core.errors import StoreUnavailableError

try:
    import fcntl
except ImportError:  # Windows: an open file cannot be locked this way; the port is then the only witness
    fcntl = None  # type: ignore[assignment]

CLAIM_FILE = "node.json"
_LOOKERS_SECONDS = 1.0


class RunningNode(Struct, frozen=True, kw_only=True):
    """`mcp_socket` is where clients of this user join the node; empty where there is no such thing."""

    pid: int
    url: str
    vacant_id: str
    mcp_socket: str = ""


class FolderClaim:
    def __init__(self, folder: Path) -> None:
        """Take the folder, or say who has it."""
        self._path = folder / CLAIM_FILE
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as reason:
            raise StoreUnavailableError(
                f"{self._path} cannot be written ({reason.strerror}); check the folder's permissions"
            ) from None
        try:
            _lock(self._file)
        except BlockingIOError:
            other = _read(self._file)
            os.close(self._file)
            where = f" at {other.url} (process {other.pid})" if other else ""
            raise StoreUnavailableError(
                f"a node is already running on {folder}{where}; use it, stop it, or choose another --data"
            ) from None
        except OSError as reason:
            os.close(self._file)
            raise StoreUnavailableError(
                f"{self._path} cannot be locked ({reason.strerror}); choose a --data folder on a local disk"
            ) from None

    def announce(self, node: RunningNode) -> None:
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, msgspec.json.encode(node), 0)

    def withdraw(self) -> None:
        """Still ours, and nobody is to come any more."""
        os.ftruncate(self._file, 0)

    def release(self) -> None:
        file, self._file = self._file, -1  # a number that was closed may already be somebody else's file
        if file >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(file, 0)
            os.close(file)


def running_node(folder: Path) -> RunningNode | None:
    """The node that holds the folder now, once it has said where it is."""
    try:
        file = os.open(folder / CLAIM_FILE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if fcntl is not None:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # nobody holds it: what it says is history
        return _read(file)
    finally:
        os.close(file)


def _lock(file: int) -> None:
    """Whoever only looks shares the lock for a moment: wait for it to pass, not for another node."""
    patience = time.monotonic() + _LOOKERS_SECONDS
    while fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # refused as well: it is a node
            fcntl.flock(file, fcntl.LOCK_UN)
            if time.monotonic() > patience:
                raise
            time.sleep(0.001)
        else:
            return


def _read(file: int) -> RunningNode | None:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(os.pread(file, 4096, 0), type=RunningNode)
    return None
