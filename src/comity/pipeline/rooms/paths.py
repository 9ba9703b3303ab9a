"""Which files the tools of a room may read and write (ruling 63).

- Only those below a folder that is allowed: `shared` in the data folder, those of the settings, and the folder that the
  client was started in, unless that is the root or the home folder.
- The node's own files are always refused: keys, tokens, the database, the spool.
- A file is opened step by step beneath its folder, and a symbolic link on the way is refused. So nothing can be
  exchanged between the check and the opening.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from comity.core.peering.tool_arguments import VdoToolError

SHARED: Final = "shared"
_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LINKS: Final = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class FilePaths:
    def __init__(self, data: Path, folders: Iterable[str] = (), home: Path | None = None) -> None:
        """`home`: None for the home folder of this user."""
        home = home or Path(os.path.expanduser("~"))  # noqa: PTH111 - there may be none
        self._data = Path(os.path.realpath(data))
        self._folders = [self._data / SHARED, *(Path(os.path.realpath(folder)) for folder in folders)]
        self._home = Path(os.path.realpath(home))

    @property
    def shared(self) -> Path:
        return self._folders[0]

    def locate(self, path: str, start: str | None, *, typed: bool = False) -> "AllowedPath":
        """`start` is the folder of the client; `typed`: a person named this very file, whatever folder it is in.
        Raises VdoToolError for a path that is not allowed.
        """
        if "\0" in path:
            raise VdoToolError("invalid path: it has a NUL character in it")
        if os.open not in os.supports_dir_fd:
            raise VdoToolError(
                "paths cannot be opened safely on this system; use vdo_file_send and vdo_file_receive"
            )
        folder = self._of_client(start, typed=typed)
        # `~` is the home folder, as at a shell, and stays as it is where nobody has that name
        typed_path = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises there
        wanted = Path(os.path.abspath((folder or self.shared) / typed_path))  # noqa: PTH100 - no links are resolved
        allowed = [*self._folders, *([] if folder is None else [folder])]
        for base in allowed:
            # the folder may be named by another way to it, such as /tmp for /private/tmp
            for spelling in {base, *([Path(start)] if start is not None and base == folder else [])}:
                if wanted.is_relative_to(spelling) and wanted != spelling:
                    inner = wanted.relative_to(spelling)
                    self._refuse_own(base / inner)
                    return AllowedPath(base, inner)
        raise VdoToolError(
            f"path not allowed: {wanted}; move it below {self.shared}, or name its folder in the setting peers.shared"
        )

    def _of_client(self, start: str | None, *, typed: bool) -> Path | None:
        if start is None or not Path(start).is_absolute():
            return None
        folder = Path(os.path.realpath(start))
        if not typed and folder in (Path(folder.anchor), self._home):
            return None
        return folder

    def _refuse_own(self, path: Path) -> None:
        if path.is_relative_to(self._data) and not path.is_relative_to(self.shared):
            raise VdoToolError(f"path not allowed: {path} belongs to the node itself")


class AllowedPath:
    """A path beneath an allowed folder. Nothing here follows a symbolic link."""

    def __init__(self, base: Path, inner: Path) -> None:
        self._base = base
        self._inner = inner

    @property
    def path(self) -> Path:
        return self._base / self._inner

    def open_file(self) -> BinaryIO:
        """Raises VdoToolError."""
        try:
            with self._parent(make=False) as (folder, name):
                opened = os.open(name, _FILE, dir_fd=folder)
        except OSError as why:
            raise VdoToolError(self._sentence(why, "stat")) from None
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise VdoToolError(f"file path is not a regular file: {self.path}")
        return os.fdopen(opened, "rb", buffering=0)

    def make_folder(self) -> Path:
        """A folder at this path, made where it is missing. Raises VdoToolError."""
        try:
            with self._parent(make=True) as (folder, name):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                os.close(os.open(name, _FOLDER, dir_fd=folder))
        except OSError as why:
            raise VdoToolError(self._sentence(why, "open")) from None
        return self.path

    def write_file(self, source: BinaryIO, *, overwrite: bool) -> int:
        """All of `source`, as a file that is there whole or not at all. Raises VdoToolError."""
        try:
            with self._parent(make=True) as (folder, name):
                return self._write(source, folder, name, overwrite=overwrite)
        except FileExistsError:
            raise VdoToolError(f"output exists: {self.path}") from None
        except OSError as why:
            raise VdoToolError(self._sentence(why, "open")) from None

    def _write(self, source: BinaryIO, folder: int, name: str, *, overwrite: bool) -> int:
        draft = f".{secrets.token_hex(8)}.part"
        if not overwrite and _is_there(name, folder):
            raise FileExistsError
        written = 0
        try:
            with os.fdopen(os.open(draft, _NEW, 0o600, dir_fd=folder), "wb") as file:
                while data := source.read(1 << 20):
                    file.write(data)
                    written += len(data)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            else:
                os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=folder)
        return written

    @contextlib.contextmanager
    def _parent(self, *, make: bool) -> Iterator[tuple[int, str]]:
        """The folder that the file is in, opened, and its name there."""
        *folders, name = self._inner.parts
        if make:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(self._base, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            for part in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=opened)
                inner = os.open(part, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = inner
            yield opened, name
        finally:
            os.close(opened)

    def _sentence(self, why: OSError, verb: str) -> str:
        """As the reference tells it, by the name of the error (peers 1.6)."""
        if why.errno in _LINKS:
            return f"path not allowed: there is a symbolic link, or no folder, on the way to {self.path}"
        name = errno.errorcode.get(why.errno or 0, "EIO")
        return f"{name}: {(why.strerror or 'the file cannot be used').lower()}, {verb} '{self.path}'"


def _is_there(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
