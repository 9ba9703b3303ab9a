"""One node per data folder: the folder itself is locked, and a file in it says where the node is.

The operating system releases the lock when the process ends, for any reason. While the folder is not locked, the
content of the file is out of date. Removing the file does not remove the lock. If the folder is
moved, the lock moves with it, and the node notices that (`is_in_place`).
"""

import contextlib
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from comity.wire.errors import StoreUnavailableError

try:
    import fcntl
except ImportError:  # Windows: a folder cannot be locked this way; the port is then the only witness
    fcntl = None  # type: ignore[assignment]

CLAIM_FILE = "node.json"
_HAS_LOCKS = fcntl is not None
_SHARED_LOCK_SECONDS = 1.0


class RunningNode(Struct, frozen=True, kw_only=True):
    """`mcp_socket` is where MCP clients of this user join the node, `owner_socket` where commands do; empty where there is
    no such thing. `pin` is the hash of the key that the node shows at an https `url`.
    """

    pid: int
    url: str
    vacant_id: str
    mcp_socket: str = ""
    owner_socket: str = ""
    pin: str = ""


class FolderClaim:
    def __init__(self, folder: Path) -> None:
        """Take the folder, or say who has it."""
        self._folder = folder
        self._path = folder / CLAIM_FILE
        self._announced = b""
        self._lock = -1
        try:
            if fcntl is not None:
                self._lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
                _lock(self._lock)
            self._write(b"")
        except BlockingIOError:
            self._unlock()
            other = _read(self._path)
            where = f" at {other.url} (process {other.pid})" if other else ""
            raise StoreUnavailableError(
                f"a node is already running on {folder}{where}; use it, stop it with `comity stop`, "
                "or choose another --data"
            ) from None
        except OSError as reason:
            self._unlock()
            if reason.filename is None:
                raise StoreUnavailableError(
                    f"{folder} cannot be locked ({reason.strerror}); choose a --data folder on a local disk"
                ) from None
            raise StoreUnavailableError(
                f"{self._path} cannot be written ({reason.strerror}); check the folder's permissions"
            ) from None

    def announce(self, node: RunningNode) -> None:
        self._announced = msgspec.json.encode(node)
        self._write(self._announced)

    def announce_again(self) -> None:
        """Put back what the file says, where somebody removed or changed it."""
        if self._announced and _content(self._path) != self._announced:
            self._write(self._announced)

    def is_in_place(self) -> bool:
        """Return whether the folder that is locked is still the one at its path."""
        if self._lock < 0:
            return self._folder.is_dir()
        try:
            return os.path.samestat(os.fstat(self._lock), self._folder.stat())
        except OSError:
            return False

    def withdraw(self) -> None:
        """Keep the folder, and let nobody come any more."""
        self._announced = b""
        if self.is_in_place():
            with contextlib.suppress(OSError):
                self._write(b"")

    def release(self) -> None:
        if self._lock >= 0:
            self.withdraw()
        self._unlock()

    def _write(self, content: bytes) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, content)
        finally:
            os.close(file)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, -1  # a number that was closed may already be somebody else's file
        if lock >= 0:
            os.close(lock)


def running_node(folder: Path) -> RunningNode | None:
    """Return the node that holds the folder now, once it has said where it is."""
    return _read(folder / CLAIM_FILE) if is_claimed(folder) else None


def is_claimed(folder: Path) -> bool:
    """Return whether a node, or a command that keeps nodes away, holds the folder now."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return not _HAS_LOCKS and _read(folder / CLAIM_FILE) is not None
    try:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(opened)
    return False


def _lock(file: int) -> None:
    """Lock the folder. A process that only looks shares the lock for a moment: wait for that, not for another node."""
    patience = time.monotonic() + _SHARED_LOCK_SECONDS
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


def _content(path: Path) -> bytes:
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(4096)
    return b""


def _read(path: Path) -> RunningNode | None:
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        return msgspec.json.decode(_content(path), type=RunningNode)
    return None
