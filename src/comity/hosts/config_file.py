"""The settings file of a client, and the records of how it was before our changes.

- A new text is written beside the old one, synced, and renamed over it; symbolic links are followed. Mode and owner stay; a
  file that will hold a secret loses the rights of group and others.
- A file that changed since it was read is not replaced.
- A folder is locked while a file in it is changed.
"""

import contextlib
import hashlib
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from comity.identity.private_files import ensure_private_folder, sync_folder
from comity.runtime.toml_edit import KeyPath
from comity.wire.errors import ConflictError, ForbiddenError, MalformedError, TooLargeError

try:
    import fcntl
except ImportError:  # Windows: a change of the file is noticed before it is replaced, which must be enough
    fcntl = None  # type: ignore[assignment]

SIZE_LIMIT = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_HAS_MODES = os.name == "posix"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_PRIVATE = 0o600


class ConfigFile(Struct, frozen=True, kw_only=True):
    """`data` is None when there is no file."""

    path: Path
    data: bytes | None
    mode: int = _PRIVATE

    @property
    def text(self) -> str:
        """The text without a byte order mark."""
        try:
            return (self.data or b"").removeprefix(_BOM).decode("utf-8")
        except UnicodeDecodeError as fault:
            raise MalformedError(
                f"{self.path}: byte {fault.start + 1} is not UTF-8; save it as UTF-8"
            ) from None

    def encoded(self, text: str) -> bytes:
        """Encode a text, with a byte order mark if the file has one."""
        return (_BOM if (self.data or b"").startswith(_BOM) else b"") + text.encode("utf-8")


def real_path(path: Path) -> Path:
    """Follow symbolic links, whether or not the file exists."""
    return Path(os.path.realpath(path))


def look(path: Path) -> ConfigFile:
    real = real_path(path)
    try:
        status = real.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(path=real, data=None)
    if not stat.S_ISREG(status.st_mode):
        raise MalformedError(f"{real} is not a regular file; move it away")
    if status.st_size > SIZE_LIMIT:
        raise TooLargeError(str(real), SIZE_LIMIT)
    return ConfigFile(path=real, data=real.read_bytes(), mode=stat.S_IMODE(status.st_mode))


def refuse_read_only(found: ConfigFile) -> None:
    """Check the mode bits: root may write anyway, and a rename ignores them."""
    if found.data is not None and not found.mode & stat.S_IWUSR:
        raise ForbiddenError(
            f"{found.path} is read-only; if it may be changed, run: chmod u+w {shlex.quote(str(found.path))}"
        )


def replace(found: ConfigFile, data: bytes, *, mode: int) -> None:
    """Write the file. Missing folders are made."""
    refuse_read_only(found)
    made = missing_folders(found.path.parent)
    found.path.parent.mkdir(parents=True, exist_ok=True)
    draft = found.path.with_name(f".{found.path.name}.{secrets.token_hex(8)}.new")
    try:
        with os.fdopen(os.open(draft, _CREATE, _PRIVATE), "wb") as file:
            file.write(data)
            file.flush()
            if _HAS_MODES:
                _keep_owner(file.fileno(), found.path)
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        _refuse_changed(found)
        draft.replace(found.path)
        sync_folder(found.path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        remove_folders(made)
        raise


def remove(found: ConfigFile, folders: list[Path]) -> None:
    """Remove the file, and those of the folders that are empty then."""
    refuse_read_only(found)
    _refuse_changed(found)
    found.path.unlink(missing_ok=True)
    remove_folders(folders)


def remove_folders(folders: list[Path]) -> None:
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def locked(*folders: Path) -> Iterator[None]:
    """Lock these folders, or the nearest ones above them that exist, always in the same order."""
    with contextlib.ExitStack() as held:
        for folder in sorted({_existing(real_path(each)) for each in folders}) if fcntl else ():
            opened = os.open(folder, os.O_RDONLY)
            held.callback(os.close, opened)
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield


def _existing(folder: Path) -> Path:
    return next(each for each in (folder, *folder.parents) if each.is_dir())


def missing_folders(folder: Path) -> list[Path]:
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _keep_owner(file: int, former: Path) -> None:
    with contextlib.suppress(OSError):
        status = former.stat()
        os.fchown(file, status.st_uid, status.st_gid)


def _refuse_changed(found: ConfigFile) -> None:
    if look(found.path).data != found.data:
        raise ConflictError(f"{found.path} was changed by another program just now; run this again")


FOLDER = "installed"


class InstalledEntry(Struct, frozen=True, kw_only=True):
    """`made` is how many keys above it were missing before, `replaced` the former entry or None."""

    client: str
    scope: str
    path: KeyPath
    made: int = 0
    replaced: Any = None


class Record(Struct, frozen=True, kw_only=True):
    """`before` and `after` are the SHA-256 of the copy and of the file as we left it. `mode` is its former mode."""

    file: str
    existed: bool
    mode: int
    folders: tuple[str, ...] = ()
    before: str
    after: str
    entries: tuple[InstalledEntry, ...]

    def entry(self, path: KeyPath) -> InstalledEntry | None:
        return next((entry for entry in self.entries if entry.path == path), None)

    def without(self, path: KeyPath) -> tuple[InstalledEntry, ...]:
        return tuple(entry for entry in self.entries if entry.path != path)


class Records:
    def __init__(self, data: Path) -> None:
        self.data = data
        self._folder = data / FOLDER

    def copy_of(self, file: Path) -> Path:
        return self._named(file, "before")

    def read(self, file: Path) -> Record | None:
        path = self._named(file, "json")
        data = look(path).data
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Record)
        except msgspec.MsgspecError:
            raise MalformedError(
                f"{path} is damaged; the former content of {file} cannot be restored from it. Compare {self.copy_of(file)}, "
                f"then move the record away"
            ) from None

    def before(self, record: Record) -> bytes | None:
        """Return the copy, or None if it is not the one that we made."""
        data = look(self.copy_of(Path(record.file))).data
        return data if fingerprint(data) == record.before else None

    def keep(self, record: Record, before: bytes | None = None) -> None:
        """Store the record, and before it the copy if there is a new one."""
        file = Path(record.file)
        if before is not None:
            self._write(self.copy_of(file), before)
            record = msgspec.structs.replace(record, before=fingerprint(before))
        self._write(self._named(file, "json"), msgspec.json.format(msgspec.json.encode(record), indent=2))

    def keep_entries(self, record: Record) -> None:
        """Store the record, or forget it if it has no entries."""
        if record.entries:
            self.keep(record)
        else:
            self.forget(Path(record.file))

    def forget(self, file: Path) -> None:
        for path in (self._named(file, "json"), self.copy_of(file)):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _named(self, file: Path, ending: str) -> Path:
        digest = hashlib.sha256(str(file).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        return self._folder / f"{file.name.lstrip('.')}-{digest}.{ending}"

    def _write(self, path: Path, data: bytes) -> None:
        ensure_private_folder(self.data)
        ensure_private_folder(self._folder)
        replace(look(path), data, mode=0o600)


def fingerprint(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
