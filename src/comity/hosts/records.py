"""How each file was before we came: what makes taking back exact.

One record and one copy per file, in the folder `installed` of the data folder, mode 0600, because the files
of clients hold secrets of others. While a file is as we left it, taking the last entry back restores the copy
byte for byte. When somebody has changed it since, only our key is taken out; a later installation makes a
new copy of what is left then.
"""

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from comity.hosts import config_file
from comity.identity.private_files import ensure_private_folder
from comity.runtime.surgery import KeyPath
from comity.wire.errors import MalformedError

FOLDER = "installed"


class InstalledEntry(Struct, frozen=True, kw_only=True):
    """`made` of the keys above it were missing before; `replaced` is what stood there, or None."""

    client: str
    scope: str
    path: KeyPath
    made: int = 0
    replaced: Any = None


class Record(Struct, frozen=True, kw_only=True):
    """`before` and `after` are the SHA-256 of the copy and of the file as we left it. `mode` is its former one."""

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
        data = config_file.look(path).data
        if data is None:
            return None
        try:
            return msgspec.json.decode(data, type=Record)
        except msgspec.MsgspecError:
            raise MalformedError(
                f"{path} is damaged; what {file} was before cannot be told from it. Compare {self.copy_of(file)}, "
                f"then move the record away"
            ) from None

    def before(self, record: Record) -> bytes | None:
        """The copy; None when it is not the one that we made."""
        data = config_file.look(self.copy_of(Path(record.file))).data
        return data if fingerprint(data) == record.before else None

    def keep(self, record: Record, before: bytes | None = None) -> None:
        """Store the record, and the copy when there is a new one: the copy first."""
        file = Path(record.file)
        if before is not None:
            self._write(self.copy_of(file), before)
            record = msgspec.structs.replace(record, before=fingerprint(before))
        self._write(self._named(file, "json"), msgspec.json.format(msgspec.json.encode(record), indent=2))

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
        config_file.replace(config_file.look(path), data, mode=0o600)


def fingerprint(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()
