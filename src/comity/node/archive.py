"""What is in a backup: the data folder as a tar archive, in a stream that a passphrase seals.

- The database is a copy of one moment (`copy_database`); all other files are read as they are. What belongs to a
  running node, and what is rebuilt from the database, is left out.
- The first member, `backup.json`, says what the rest is.
- Names from an archive are checked before anything is written: the file may be forged.
"""

import contextlib
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Literal, cast

import msgspec
from msgspec import Struct

from comity.identity.passphrase import FRAME_BYTES, SealedReader, SealedWriter
from comity.wire.errors import ConflictError, MalformedError

MANIFEST: Final = "backup.json"
DATABASE: Final = "comity.db"
WORK_FOLDER: Final = ".backup"
"""In the data folder, while a backup is made."""

_LEFT_OUT: Final = frozenset({f"{DATABASE}-wal", f"{DATABASE}-shm", "node.json", MANIFEST})
_MANIFEST_LIMIT: Final = 64 * 1024


class Manifest(Struct, frozen=True, kw_only=True):
    """`schema` is how many steps the tables of the database have taken."""

    format: Literal["comity backup"] = "comity backup"
    version: int = 1
    release: str
    vacant_id: str
    created_at: str
    schema: int


class _ArchivePreface(Struct, frozen=True):
    format: str = ""
    version: int = 0


def pack(data: Path, database: Path, manifest: Manifest, sealed: SealedWriter) -> int:
    """Write the folder, with `database` in the place of its own. Returns how many files there are."""
    count = 0
    with tarfile.open(mode="w|", fileobj=cast("Any", sealed), bufsize=FRAME_BYTES) as archive:
        _add(archive, MANIFEST, io.BytesIO(text := msgspec.json.encode(manifest)), len(text))
        for name, path in [*_files(data), (DATABASE, database)]:
            try:
                opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
            except FileNotFoundError:  # removed since it was listed
                continue
            with os.fdopen(opened, "rb") as file:
                size = os.fstat(opened).st_size
                try:
                    _add(archive, name, file, size)
                except OSError as reason:
                    if reason.errno is not None:
                        raise
                    raise ConflictError(f"{path} became shorter while it was copied; try again") from None
            count += 1
    sealed.finish()
    return count


def unpack(sealed: SealedReader, folder: Path | None, name: str) -> Manifest:
    """Put the files into an empty folder; with None only check that all of them are there."""
    manifest: Manifest | None = None
    try:
        with tarfile.open(mode="r|", fileobj=cast("Any", sealed), bufsize=FRAME_BYTES) as archive:
            for member in archive:
                # a sparse member is a file of any size in a few bytes: it would fill the disk
                plain = member.isreg() and not member.issparse()
                content = archive.extractfile(member) if plain else None
                if content is None:
                    raise MalformedError(
                        f"{name} holds {member.name[:60]!r}, which is not a plain file; it is refused"
                    )
                if manifest is None:
                    manifest = _manifest(member, content, name)
                else:
                    _put(content, member, folder, name)
    except tarfile.TarError:
        raise MalformedError(f"{name} holds no archive that can be read; use another copy") from None
    sealed.finish()
    if manifest is None:
        raise MalformedError(f"{name} holds nothing; use another copy")
    return manifest


def _files(data: Path) -> Iterator[tuple[str, Path]]:
    """Return the files of the folder by their names in the archive, without the database."""
    for path in sorted(data.rglob("*")):
        name = path.relative_to(data).as_posix()
        top = PurePosixPath(name).parts[0]
        if top == WORK_FOLDER or name in _LEFT_OUT or name == DATABASE or _is_head(name) or _is_draft(name):
            continue
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISREG(path.lstat().st_mode):
                yield name, path


def _is_head(name: str) -> bool:
    """Return whether it is a head, which is rebuilt from the database."""
    return name.startswith("audit/") and name.endswith(".head")


def _is_draft(name: str) -> bool:
    last = PurePosixPath(name).name
    return last.startswith(".") and last.endswith(".new")


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    archive.addfile(member, content)


def _manifest(member: tarfile.TarInfo, content: IO[bytes], name: str) -> Manifest:
    if member.name == MANIFEST and member.size <= _MANIFEST_LIMIT:
        text = content.read()
        try:
            preface = msgspec.json.decode(text, type=_ArchivePreface)
            if preface.format == "comity backup" and preface.version > 1:
                raise MalformedError(
                    f"{name} has version {preface.version}, this release knows up to 1; upgrade comity to restore it"
                )
            return msgspec.json.decode(text, type=Manifest)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            pass
    raise MalformedError(f"{name} is not a backup of a node; name the right file")


def _put(content: IO[bytes], member: tarfile.TarInfo, folder: Path | None, name: str) -> None:
    pure = PurePosixPath(member.name)
    if (
        pure.is_absolute()
        or ".." in pure.parts
        or not pure.parts
        or "\\" in member.name
        or "\0" in member.name
    ):
        raise MalformedError(f"{name} holds a file that would lie outside of the data folder; it is refused")
    if folder is None:
        while content.read(1024 * 1024):
            pass
        return
    path = folder
    for part in pure.parts[:-1]:
        path /= part
        path.mkdir(mode=0o700, exist_ok=True)
    path /= pure.parts[-1]
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise MalformedError(f"{name} holds {member.name[:60]!r} twice; it is refused") from None
    with os.fdopen(opened, "wb") as file:
        shutil.copyfileobj(content, file, 1024 * 1024)
        file.flush()
        os.fsync(opened)
