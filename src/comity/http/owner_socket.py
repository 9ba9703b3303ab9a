"""The socket `owner.sock` in the data folder: HTTP for commands of the user that runs the node.

- The file has mode 0600, and the folder is open to its owner only. Besides that the system is asked which user is at the
  other end: it must be the one that runs the node, or root.
- Where the system cannot say that, there is no such socket, and commands use the token (Windows).
- An existing socket file is stale: the folder is claimed by this node.
"""

import contextlib
import hashlib
import os
import socket
import struct
import tempfile
from pathlib import Path
from typing import Final

OWNER_SOCKET_FILE: Final = "owner.sock"

_MAX_PATH: Final = 100  # the address of a socket has room for about this many bytes
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1
_XUCRED: Final = struct.Struct("=Ii")
_XUCRED_BYTES: Final = 76


def has_owner_socket() -> bool:
    """Return whether this system has sockets that name the user at the other end."""
    return hasattr(socket, "AF_UNIX") and (
        hasattr(socket, "SO_PEERCRED") or hasattr(socket, "LOCAL_PEERCRED")
    )


def socket_path(data: Path, name: str = OWNER_SOCKET_FILE) -> Path:
    """Return where the socket of that name is: in the data folder, or, if its path is too long for the system, in a folder
    of this user's own for such files.
    """
    path = data / name
    if len(os.fsencode(path)) <= _MAX_PATH:
        return path
    digest = hashlib.sha256(os.fsencode(data)).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"comity-{os.getuid()}" / f"{digest}-{name}"


def bind_private(path: Path) -> socket.socket:
    """Bind a Unix socket that only this user can open. The caller has checked that the folder is private."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(os.fsencode(path))
    path.chmod(0o600)  # until here its folder has kept others out
    listening.setblocking(False)
    return listening


def is_owner(connected: socket.socket) -> bool:
    """Return whether the process at the other end runs as this user, or as root."""
    return _user_of(connected) in (os.geteuid(), 0)


def _user_of(connected: socket.socket) -> int | None:
    try:
        if hasattr(socket, "SO_PEERCRED"):
            size = struct.calcsize("3i")
            _pid, user, _group = struct.unpack(
                "3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            )
            return int(user)
        version, user = _XUCRED.unpack_from(connected.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES))
    except (OSError, struct.error):
        return None
    return int(user) if version == 0 else None
