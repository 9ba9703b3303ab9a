"""Which files the tools of a room may read and write (ruling 63).

- Only those below a folder that is allowed: `shared` in the data folder, those of the settings, and the folder that the
  client was started in.
- The folder of a client allows nothing if it contains the home folder. It never allows what is in `/etc`, `/proc`,
  `/sys`, `/dev`, an entry of the home folder that begins with a dot, or the data folder of another node. The owner allows
  such a place by naming it in the settings, or by typing the path of the file in a command.
- The node's own files are always refused, under every name: keys, tokens, the database, the spool.
- A file is opened step by step beneath its folder, and a symbolic link on the way is refused. Each folder and file is
  compared by inode after it is opened. So its spelling does not matter, and nothing can be exchanged between the check
  and the opening.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from comity.identity.key_files import IDENTITY_FILE, RECOVERY_FILE
from comity.identity.secrets import READ_TOKEN_FILE, TOKEN_FILE, VAULT_KEY_FILE
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.store.claim import CLAIM_FILE

SHARED: Final = "shared"
DATABASE: Final = "comity.db"
SYSTEM_FOLDERS: Final = ("/etc", "/proc", "/sys", "/dev")
_MARKS: Final = (IDENTITY_FILE, RECOVERY_FILE, TOKEN_FILE, READ_TOKEN_FILE, VAULT_KEY_FILE, CLAIM_FILE)
_OPEN_FOLDER: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_FOLDER: Final = _OPEN_FOLDER | getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LINKS: Final = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


Inode = tuple[int, int]


class FilePaths:
    def __init__(
        self,
        data: Path,
        folders: Iterable[str] = (),
        home: Path | None = None,
        *,
        others: Iterable[Path] = (),
        keys: Iterable[Path] = (),
    ) -> None:
        """`home`: None for the home folder of this user. `others` are data folders of other nodes that are known by their
        place. `keys` are files of the node that are not in its data folder.
        """
        home = home or Path(os.path.expanduser("~"))  # noqa: PTH111 - there may be none
        self.data = Path(os.path.realpath(data))
        self.home = Path(os.path.realpath(home))
        self.others = [other for other in map(_real, others) if other != self.data]
        self.keys = [_real(key) for key in keys]
        self._folders = [self.data / SHARED, *map(_real, folders)]

    @property
    def shared(self) -> Path:
        return self._folders[0]

    @property
    def remedy(self) -> str:
        return f"move it below {self.shared}, or name its folder in the setting peers.shared"

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
        folder, refused = self._of_client(start, typed=typed)
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
                    by_owner = typed or self._is_named(base / inner)
                    return AllowedPath(base, inner, self, by_owner=by_owner)
        why = f"; the client's folder {start} {refused}" if refused else ""
        raise VdoToolError(f"path not allowed: {wanted}{why}; {self.remedy}")

    def _of_client(self, start: str | None, *, typed: bool) -> tuple[Path | None, str]:
        """Return the folder of the client, or None and the reason why it allows nothing."""
        if start is None or not Path(start).is_absolute() or "\0" in start:
            return None, ""
        folder = _real(start)
        if typed or self._is_named(folder):
            return folder, ""
        try:
            opened = os.open(folder, _OPEN_FOLDER)
        except OSError as why:
            return None, f"cannot be opened: {(why.strerror or str(why)).lower()}"
        try:
            refused = ProtectedFiles(self, by_owner=False).reason_against(opened)
        except OSError as why:
            refused = f"cannot be checked: {(why.strerror or str(why)).lower()}"
        finally:
            os.close(opened)
        return (None, refused) if refused else (folder, "")

    def _is_named(self, path: Path) -> bool:
        """Return whether the owner has allowed the place in the settings, or it is in `shared`."""
        return any(path.is_relative_to(folder) for folder in (*self._folders, _real(self.shared)))

    def _refuse_own(self, path: Path) -> None:
        if path.is_relative_to(self.data) and not path.is_relative_to(self.shared):
            raise VdoToolError(f"path not allowed: {path} belongs to the node itself")


class ProtectedFiles:
    """What no path may lead to, as it is on the disk at this moment. `by_owner`: the owner has allowed the place, so only
    the node's own files are protected.
    """

    def __init__(self, paths: FilePaths, *, by_owner: bool) -> None:
        self._paths = paths
        self._data = _inode_at(paths.data)
        self._own = {*_files_of(paths.data), *filter(None, map(_inode_at, paths.keys))}
        self._places: dict[Inode, str] = {}
        self._above_home: set[Inode] = set()
        if not by_owner:
            self._places = dict(_protected_places(paths))
            self._above_home = {
                inode for place in (paths.home, *paths.home.parents) if (inode := _inode_at(place))
            }
        self._by_owner = by_owner

    def check_folder(self, opened: int, path: Path) -> None:
        """Raise VdoToolError if nothing in this opened folder may be used."""
        shared = _inode_at(self._paths.shared)  # it may have been made just now
        for _, inode in _upwards(opened):
            if inode == shared:
                break
            if inode == self._data:
                raise VdoToolError(f"path not allowed: {path} belongs to the node itself")
        if refused := self.reason_against(opened):
            raise VdoToolError(f"path not allowed: {path}: its folder {refused}; {self._paths.remedy}")

    def reason_against(self, opened: int) -> str:
        """Return why a client may use nothing in this opened folder; empty if it may."""
        if self._by_owner:
            return ""
        for place, inode in _upwards(opened):
            if place == "." and inode in self._above_home:
                return "contains the home folder"
            if inode in self._places:
                return f"is protected ({self._places[inode]})"
            if _is_data_folder(opened, place):
                return "is protected (the data folder of a Comity node)"
        return ""

    def check_file(self, status: os.stat_result, path: Path) -> None:
        """Raise VdoToolError if this is a protected file under another name."""
        inode = _inode(status)
        if inode in self._own:
            raise VdoToolError(f"path not allowed: {path} is a file of the node itself, under another name")
        if inode in self._places:
            raise VdoToolError(
                f"path not allowed: {path} is {self._places[inode]} under another name; {self._paths.remedy}"
            )


class AllowedPath:
    """A path beneath an allowed folder. Nothing here follows a symbolic link."""

    def __init__(self, base: Path, inner: Path, paths: FilePaths, *, by_owner: bool) -> None:
        self._base = base
        self._inner = inner
        self._paths = paths
        self._by_owner = by_owner

    @property
    def path(self) -> Path:
        return self._base / self._inner

    def open_file(self) -> BinaryIO:
        """Raise VdoToolError."""
        protected = self._protected()
        try:
            with self._parent(protected, make=False) as (folder, name):
                opened = os.open(name, _FILE, dir_fd=folder)
        except OSError as why:
            raise VdoToolError(self._sentence(why, "stat")) from None
        try:
            self._check_source(os.fstat(opened), protected)
        except BaseException:
            os.close(opened)
            raise
        return os.fdopen(opened, "rb", buffering=0)

    def _check_source(self, status: os.stat_result, protected: ProtectedFiles) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise VdoToolError(f"file path is not a regular file: {self.path}")
        protected.check_file(status, self.path)

    def make_folder(self) -> Path:
        """Make the folder at this path where it is missing. Raise VdoToolError."""
        protected = self._protected()
        try:
            with self._parent(protected, make=True) as (folder, name):
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                made = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    protected.check_folder(made, self.path)
                finally:
                    os.close(made)
        except OSError as why:
            raise VdoToolError(self._sentence(why, "open")) from None
        return self.path

    def write_file(self, source: BinaryIO, *, overwrite: bool) -> int:
        """Write all of `source`, as a file that is there whole or not at all. Raise VdoToolError."""
        protected = self._protected()
        try:
            with self._parent(protected, make=True) as (folder, name):
                self._check_replaced(_status_of(name, folder), protected, overwrite=overwrite)
                return self._write(source, folder, name, overwrite=overwrite)
        except FileExistsError:
            raise VdoToolError(f"output exists: {self.path}") from None
        except OSError as why:
            raise VdoToolError(self._sentence(why, "open")) from None

    def _check_replaced(
        self, status: os.stat_result | None, protected: ProtectedFiles, *, overwrite: bool
    ) -> None:
        if status is None:
            return
        if not overwrite:
            raise FileExistsError
        protected.check_file(status, self.path)

    def _write(self, source: BinaryIO, folder: int, name: str, *, overwrite: bool) -> int:
        draft = f".{secrets.token_hex(8)}.part"
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

    def _protected(self) -> ProtectedFiles:
        return ProtectedFiles(self._paths, by_owner=self._by_owner)

    @contextlib.contextmanager
    def _parent(self, protected: ProtectedFiles, *, make: bool) -> Iterator[tuple[int, str]]:
        """Open the folder that the file is in; yield it and the name there. Nothing is made in a folder that is protected."""
        *folders, name = self._inner.parts
        if make:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
        opened = os.open(self._base, _OPEN_FOLDER)
        try:
            protected.check_folder(opened, self.path)
            for part in folders:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=opened)
                inner = os.open(part, _FOLDER, dir_fd=opened)
                os.close(opened)
                opened = inner
                protected.check_folder(opened, self.path)
            yield opened, name
        finally:
            os.close(opened)

    def _sentence(self, why: OSError, verb: str) -> str:
        """Return the sentence of the reference, by the name of the error (peers 1.6)."""
        if why.errno in _LINKS:
            return f"path not allowed: there is a symbolic link, or no folder, on the way to {self.path}"
        name = errno.errorcode.get(why.errno or 0, "EIO")
        return f"{name}: {(why.strerror or 'the file cannot be used').lower()}, {verb} '{self.path}'"


def _status_of(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _protected_places(paths: FilePaths) -> Iterator[tuple[Inode, str]]:
    """Yield what a client may not use, each by inode and as a refusal names it."""
    for folder in SYSTEM_FOLDERS:
        if inode := _inode_at(folder):
            yield inode, folder
    with contextlib.suppress(OSError), os.scandir(paths.home) as entries:
        for entry in entries:
            if entry.name.startswith(".") and (inode := _inode_at(entry.path)):
                yield inode, f"~/{entry.name}"
    for other in paths.others:
        if inode := _inode_at(other):
            yield inode, "the data folder of another Comity node"
        for inode in _files_of(other):
            yield inode, "a file of another Comity node"


def _is_data_folder(opened: int, place: str) -> bool:
    """Return whether a node keeps its data there. One file with a common name says that only of the folder that it is in: a copy
    of an identity in the home folder does not make everything below that a data folder.
    """
    if _exists(f"{place}/{DATABASE}", opened):
        return True
    found = sum(_exists(f"{place}/{mark}", opened) for mark in _MARKS)
    return found > 1 or (place == "." and _exists(IDENTITY_FILE, opened))


def _upwards(opened: int) -> Iterator[tuple[str, Inode]]:
    """Yield the opened folder and each folder above it: the way there from the first one, and the inode."""
    root = _inode(os.stat("/"))  # noqa: PTH116 - as below
    place, below = ".", None
    while not (inode := _inode(os.stat(place, dir_fd=opened))) == below == root:
        yield place, inode
        place, below = f"{place}/..", inode


def _files_of(data: Path) -> Iterator[Inode]:
    """Yield the files in a data folder, without those in `shared`."""
    for folder, folders, files in os.walk(data):
        if folder == str(data) and SHARED in folders:
            folders.remove(SHARED)
        for name in files:
            if inode := _inode_at(os.path.join(folder, name)):  # noqa: PTH118 - there may be many
                yield inode


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _inode(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def _inode_at(path: str | Path) -> Inode | None:
    """Return None where there is nothing that can be looked at."""
    try:
        return _inode(os.stat(path))  # noqa: PTH116 - of a text as well
    except (OSError, ValueError):
        return None


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))
