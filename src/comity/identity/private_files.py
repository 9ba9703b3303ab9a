"""Files and folders that only their owner may touch.

- A secret is read only from a regular file that belongs to us and gives no rights to group and others. The mode bits of
  the opened file are checked, because root can open every file.
- A secret is written to a new file, synced, and then linked to its name. So no reader sees half of it, and it is durable
  before its name exists. If the name exists already, that file is not changed.
- On systems without owners and mode bits (Windows), the access list of the folder protects it.
- Every refusal is one sentence with the command or the step that repairs it.
"""

import contextlib
import errno
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from comity.wire.errors import KeyRefusedError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SECRET_LIMIT = 64 * 1024

_HAS_MODES = os.name == "posix"
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def ensure_private_folder(path: Path) -> None:
    """Have a folder of ours with mode 0700; make it when it is missing.

    One that others may read is closed to them. One that others may write is refused: they may
    already have put something there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        status = path.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise KeyRefusedError(f"{path} is not a folder; name another one or move it away")
        if not _HAS_MODES:
            return
        _refuse_foreign(path, status)
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o022:
            raise KeyRefusedError(
                f"{path} may be written by others (mode {mode:04o}); look at what is in it, "
                f"then run: chmod 700 {_quoted(path)}"
            )
        if mode != 0o700:
            path.chmod(0o700)
    except (OSError, ValueError) as reason:
        raise KeyRefusedError(
            f"the folder {path} cannot be used: {_cause(reason)}; name another one"
        ) from None


def read_private(path: Path) -> bytes:
    """Return the content of a secret file that passes every check."""
    try:
        opened = os.open(path, _READ)
    except FileNotFoundError:
        raise KeyRefusedError(f"{path} does not exist; create it, or give another path") from None
    except (OSError, ValueError) as reason:
        if isinstance(reason, OSError) and reason.errno in (errno.ELOOP, errno.EMLINK):
            raise KeyRefusedError(f"{path} is a symbolic link; put the file itself there") from None
        raise KeyRefusedError(f"{path} cannot be opened: {_cause(reason)}") from None
    try:
        _refuse_exposed(path, os.fstat(opened))
        with os.fdopen(opened, "rb", closefd=False) as file:
            data = file.read(SECRET_LIMIT + 1)
    except (OSError, ValueError) as reason:
        raise KeyRefusedError(f"{path} cannot be read: {_cause(reason)}") from None
    finally:
        os.close(opened)
    if len(data) > SECRET_LIMIT:
        raise KeyRefusedError(
            f"{path} is larger than {SECRET_LIMIT:,} bytes and holds no secret of ours; move it away"
        )
    return data


def create_private(path: Path, data: bytes) -> None:
    """Write a new secret file with mode 0600. An existing one is never touched."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        _write_draft(draft, data)
        publish_draft(draft, path)
        sync_folder(path.parent)
    except FileExistsError:
        raise KeyRefusedError(f"{path} exists and is never overwritten; move it away first") from None
    except (OSError, ValueError) as reason:
        raise KeyRefusedError(f"{path} cannot be written: {_cause(reason)}") from None
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink()


def replace_private(path: Path, data: bytes) -> None:
    """Write a secret file with mode 0600 in the place of the one that is there: whole, or not at all."""
    try:
        replace_whole(path, data)
    except (OSError, ValueError) as reason:
        raise KeyRefusedError(f"{path} cannot be written: {_cause(reason)}") from None


def replace_whole(path: Path, data: bytes) -> None:
    """Replace a file that is no secret, in the same way. Raise OSError."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        _write_draft(draft, data)
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError, ValueError):
            draft.unlink()


def _write_draft(draft: Path, data: bytes) -> None:
    with os.fdopen(os.open(draft, _CREATE, 0o600), "wb") as file:
        if _HAS_MODES:
            os.fchmod(file.fileno(), 0o600)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Let one process at a time into this block. On Windows there is nothing to lock with."""
    opened = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def read_or_create_private(path: Path, make: Callable[[], bytes]) -> bytes:
    """Return the content of a secret file, made first when it is missing. Of two who start together, one makes it."""
    if not os.path.lexists(path):
        try:
            create_private(path, make())
        except KeyRefusedError:
            if not os.path.lexists(path):
                raise
    return read_private(path)


def publish_draft(draft: Path, path: Path) -> None:
    """Give a finished file its name. Raises FileExistsError where the name is taken."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:
        # a file system without hard links: claim the name, then move the finished file over the claim
        os.close(os.open(path, _CREATE, 0o600))
        draft.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in the folder durable."""
    if not _HAS_MODES:
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _refuse_exposed(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise KeyRefusedError(f"{path} is not a regular file; move it away")
    if not _HAS_MODES:
        return
    _refuse_foreign(path, status)
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise KeyRefusedError(
            f"{path} is open to others (mode {mode:04o}), so its secret may be known; "
            f"run: chmod 600 {_quoted(path)}"
        )


def _refuse_foreign(path: Path, status: os.stat_result) -> None:
    user = os.geteuid()
    if status.st_uid != user:
        raise KeyRefusedError(
            f"{path} belongs to user {status.st_uid} and not to {user}, who runs this; run as its owner, "
            f"or run: chown {user} {_quoted(path)}"
        )


def _cause(reason: OSError | ValueError) -> str:
    return str(getattr(reason, "strerror", None) or reason).lower()


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
