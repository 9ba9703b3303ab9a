"""`comity backup` and `comity restore`: a node in one file, and back.

- A backup is made beside a running node. Its work is done in a folder of its own in the data folder, which the next
  backup empties if this one is killed. The file appears under its name when it is whole and was read back.
- A restore works in a folder beside the data folder, which the next restore empties. It becomes the data folder in one
  step, when everything in it was checked. An existing folder is never overwritten.
- What a restore means for the chains stands in `comity.store.audit_log`.
"""

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, Final

import typer
from msgspec import Struct
from msgspec.structs import replace

from comity.identity.key_files import (
    KeptInKeyring,
    has_identity,
    identity_path,
    load_identity,
    needs_passphrase,
    read_identity,
    stored_vacant_id,
)
from comity.identity.passphrase import MAGIC, SealedReader, SealedWriter, SealingCost
from comity.identity.private_files import ensure_private_folder, publish_draft, sync_folder
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.succession_files import read_own_line
from comity.node.archive import DATABASE, WORK_FOLDER, Manifest, pack, unpack
from comity.release import __version__
from comity.requests.record import own_act
from comity.runtime.opening import SCHEMA, copy_store, has_database, reading
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import timestamp
from comity.store.audit_log import RESTORED, AuditReport, chains, keep_restored, verify_chain
from comity.store.audit_trail import HEADS, HeadFile, RestoreMark, Signers
from comity.terminal.help import HelpfulApp
from comity.terminal.open_target import own_id, refuse_memory, writing
from comity.terminal.options import (
    HomeOptions,
    Json,
    PassphraseFile,
    ask_new_passphrase,
    ask_passphrase,
    read_passphrase,
    settings_of,
)
from comity.terminal.output import counted, follow_up, note, print_fields, print_json, print_line, waiting
from comity.wire.errors import (
    ConflictError,
    MalformedError,
    NotFoundError,
    StoreCorruptError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)
from comity.wire.machine import size_words

try:
    import fcntl
except ImportError:  # Windows: two backups at once are then distinguished by their files alone
    fcntl = None  # type: ignore[assignment]

backup_app = HelpfulApp()
restore_app = HelpfulApp()

_PART: Final = ".part"


@backup_app.add("""
    comity backup ~/node.backup  ask for a passphrase and write the backup
    comity backup /srv/backups/node --passphrase-file pass.txt  from a script
    comity restore ~/node.backup --check  check that the backup can be restored
""")
def backup(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The new file to write.")],
    home: HomeOptions = HomeOptions(),
    passphrase_file: PassphraseFile = None,
    as_json: Json = False,
) -> None:
    """Write the whole data folder to one encrypted file. The node may be running.

    The backup holds the keys of the node, so a passphrase encrypts it. The command copies the database as it is at
    one moment, checks its pages and its audit record, writes the file, and reads it back to check it. An existing file is
    never overwritten.
    """
    settings = settings_of(home).settings
    refuse_memory(settings, "a backup needs a database")
    vacant_id = own_id(settings)
    if not has_database(settings):
        raise NotFoundError(f"there is no database at {settings.database}; start a node first: `comity up`")
    target = _full_path(file)
    _refuse_taken(target)
    passphrase = ask_new_passphrase() if passphrase_file is None else read_passphrase(passphrase_file)
    made = make_backup(settings, target, passphrase)
    if isinstance(read_identity(identity_path(settings.data)).secret, KeptInKeyring):
        note(
            "the secret key is in the keyring of this system and not in the backup; "
            "keep a copy of it: `comity id export --secret --to FILE`"
        )
    if as_json:
        facts = {"file": str(target), "bytes": made.bytes, "files": made.files, "audit_entries": made.entries}
        print_json({**facts, "vacant_id": vacant_id.hex()})
        return
    print_line(f"The backup of {vacant_id} is in {target}.")
    print_fields(
        (
            ("size", f"{size_words(made.bytes)}, {made.files} files, encrypted"),
            ("audit record", f"{counted(made.entries, 'entry', 'entries')}, sound"),
            ("restore", f"comity restore {target} --data NEW_FOLDER"),
        ),
        indent="  ",
    )
    print_line("Keep the passphrase. Without it nobody can restore the backup.")


@restore_app.add("""
    comity restore ~/node.backup --data ~/node  restore into a new folder
    comity restore ~/node.backup --check  only check the backup; nothing is changed
    comity restore node.backup --data /srv/node --passphrase-file pass.txt  from a script
""")
def restore(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The backup.")],
    home: HomeOptions = HomeOptions(),
    passphrase_file: PassphraseFile = None,
    identity_passphrase_file: Annotated[
        str | None,
        typer.Option(
            "--identity-passphrase-file",
            metavar="FILE",
            help="A file with the passphrase of the identity in the backup, if the identity has its own passphrase.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the backup completely, and restore nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Restore a backup into a data folder that does not exist or is empty.

    The node is then as it was when the backup was made. Messages that were signed before the restore are refused from
    then on, because the node cannot know which of them it has already accepted. The audit record gets an entry
    RESTORED. Never start the old node again: other agents would see two nodes with the same identity.
    """
    settings = settings_of(home).settings
    source = _full_path(file)
    if not source.is_file():
        raise NotFoundError(f"there is no file {source}; give the path of the backup")
    if not check:
        _refuse_occupied(settings.data)
    with source.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:  # before a passphrase is asked for
            raise MalformedError(f"{source} is not a backup made by Comity; name the right file")
    passphrase = ask_passphrase("the backup") if passphrase_file is None else read_passphrase(passphrase_file)
    done = restore_backup(settings, source, passphrase, identity_passphrase_file, check=check)
    if as_json:
        facts = {"made_at": done.manifest.created_at, "audit_entries": done.entries}
        place = {"checked": str(source)} if check else {"restored": str(settings.data)}
        print_json({**place, "vacant_id": done.manifest.vacant_id, **facts})
        return
    who = VacantId.from_hex(done.manifest.vacant_id)
    facts_shown = [
        ("made at", done.manifest.created_at),
        ("by", f"comity {done.manifest.release}"),
        ("audit record", f"{counted(done.entries, 'entry', 'entries')}, sound"),
    ]
    if check:
        print_line(f"The backup of {who} can be restored. Nothing was changed.")
        print_fields(facts_shown, indent="  ")
        return
    print_line(f"{who} is restored in {settings.data}.")
    print_fields([*facts_shown, ("start it", follow_up("comity up"))], indent="  ")
    print_line(
        "What happened after the backup is unknown to it: revoke again what you revoked since, and do not start "
        "the former node any more."
    )


class MadeBackup(Struct, frozen=True, kw_only=True):
    bytes: int
    files: int
    entries: int


class DoneRestore(Struct, frozen=True, kw_only=True):
    manifest: Manifest
    entries: int


def make_backup(
    settings: Settings, target: Path, passphrase: str, cost: SealingCost | None = None
) -> MadeBackup:
    """Copy, check, seal, read back, and only then give the file its name."""
    with _draft(target) as (draft, opened), _work_folder(settings.data) as work:
        with waiting("copying the database"):
            heads = work / "heads"
            heads.mkdir(mode=0o700)
            # the heads before the database, which may be ahead of them and never behind
            for head in settings.audit_heads.glob("*.head"):
                shutil.copy(head, heads)
            copy = work / DATABASE
            copy_store(settings, copy)
            own = stored_vacant_id(settings.data)
            signers = read_own_line(settings.data, own).publics
            schema, reports = asyncio.run(_check(replace(settings, data=work), signers, heads))
        _refuse_unsound(reports)
        manifest = Manifest(
            release=__version__,
            vacant_id=own.hex(),
            created_at=datetime.fromtimestamp(SystemClock().now(), UTC).isoformat(timespec="seconds"),
            schema=schema,
        )
        try:
            with waiting("encrypting"):
                sealed = SealedWriter(opened, passphrase, cost)
                files = pack(settings.data, copy, manifest, sealed)
                if stored_vacant_id(settings.data) != own:
                    raise ConflictError("the key of this node was replaced meanwhile; make the backup again")
                opened.flush()
                os.fsync(opened.fileno())
            with waiting("reading the backup back"):
                opened.seek(0)
                unpack(SealedReader(opened, str(target), key=sealed.key), None, str(target))
        except OSError as reason:
            raise StoreFullError(f"{target} cannot be written: {reason.strerror}; nothing was kept") from None
        try:
            publish_draft(draft, target)
        except FileExistsError:
            _refuse_taken(target)
        sync_folder(target.parent)
        return MadeBackup(
            bytes=target.stat().st_size, files=files, entries=sum(report.entries for report in reports)
        )


def restore_backup(
    settings: Settings, source: Path, passphrase: str, identity_file: str | None, *, check: bool
) -> DoneRestore:
    """Unpack beside the data folder, check everything, then put it in its place."""
    with _staging(settings.data, check=check) as folder:
        staged = replace(settings, data=folder)
        with waiting("unpacking"), source.open("rb") as opened:
            try:
                manifest = unpack(SealedReader(opened, str(source), passphrase), folder, str(source))
            except OSError as reason:
                raise StoreFullError(
                    f"the backup cannot be unpacked into {folder}: {reason.strerror}; nothing was restored"
                ) from None
        _refuse_strange(staged, manifest, source)
        with waiting("checking"):
            signers = read_own_line(folder, VacantId.from_hex(manifest.vacant_id)).publics
            _schema, reports = asyncio.run(_check(staged, signers, None))
        _refuse_unsound(reports)
        done = DoneRestore(manifest=manifest, entries=sum(report.entries for report in reports))
        key = load_identity(folder, passphrase=_of_identity(folder, identity_file))
        if check:
            return done
        asyncio.run(_prepare_restored(staged, key))
        _put_in_place(folder, settings.data)
        return done


def _of_identity(folder: Path, file: str | None) -> str | None:
    """Return the passphrase of the identity in the backup; None if it is not encrypted."""
    if file is not None:
        return read_passphrase(file)
    return ask_passphrase("the identity", "--identity-passphrase-file") if needs_passphrase(folder) else None


async def _check(copied: Settings, signers: Signers, heads: Path | None) -> tuple[int, list[AuditReport]]:
    """Read all pages of a copy of the database. Return its schema and the verdicts on its audit chains."""
    async with reading(copied, SystemClock()) as store:
        names = await chains(store)
        return await store.schema(), [await verify_chain(store, name, signers, heads) for name in names]


async def _prepare_restored(staged: Settings, key: SigningKey) -> None:
    """Write heads that fit the database, the tables of this release, and the moment from which messages count."""
    async with reading(staged, SystemClock()) as store:
        heads = {name: held.value for name, held in await store.scan(HEADS, limit=10_000)}
    for name, head in heads.items():
        file = HeadFile(staged.audit_heads / f"{name}.head")
        file.write(head)
        file.write(head)
        file.sync()
        file.close()
    now = SystemClock().now()
    async with writing(staged, key) as (_store, record, _chain):
        act = own_act(RESTORED, f"signed-after:{timestamp(now)}")
        await record.commit((keep_restored(RestoreMark(at=now, since=now)),), act)


def _put_in_place(folder: Path, data: Path) -> None:
    sync_folder(folder)
    _refuse_occupied(data)
    try:
        if os.name != "posix" and data.is_dir():
            data.rmdir()
        folder.rename(data)
    except OSError as reason:
        raise StoreUnavailableError(
            f"{data} cannot be put in its place: {reason.strerror}; name a new folder with --data"
        ) from None
    sync_folder(data.parent)


def _refuse_strange(staged: Settings, manifest: Manifest, source: Path) -> None:
    if manifest.schema > SCHEMA:
        raise StoreVersionError(
            f"{source} was made by a newer release (comity {manifest.release}, schema {manifest.schema}; this one knows "
            f"{SCHEMA}); upgrade comity to restore it"
        )
    if not has_identity(staged.data) or not has_database(staged):
        raise MalformedError(f"{source} lacks the identity or the database; use another copy")
    if stored_vacant_id(staged.data).hex() != manifest.vacant_id:
        raise MalformedError(f"{source} holds another identity than it says; it is refused")


def _refuse_unsound(reports: list[AuditReport]) -> None:
    bad = next((report for report in reports if not report.ok), None)
    if bad is not None:
        raise StoreCorruptError(
            f"the audit record is damaged (chain {bad.chain}, {bad.message}); "
            "find out why with `comity audit verify` before you rely on a backup"
        )


def _refuse_taken(target: Path) -> None:
    if os.path.lexists(target):
        raise ConflictError(f"{target} exists and is never overwritten; name another file")


def _refuse_occupied(data: Path) -> None:
    if os.path.lexists(data) and (not data.is_dir() or any(data.iterdir())):
        raise ConflictError(f"{data} exists and is never overwritten; name a new or empty folder with --data")


def _full_path(file: str) -> Path:
    return Path(os.path.abspath(Path(file).expanduser()))  # noqa: PTH100 - Path.resolve() follows links


@contextlib.contextmanager
def _draft(target: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """The file beside the target that becomes it. One that a killed backup left is used again."""
    draft = target.with_name(target.name + _PART)
    try:
        opened = os.fdopen(
            os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0), 0o600), "r+b"
        )
    except OSError as reason:
        raise StoreUnavailableError(
            f"{draft} cannot be written: {reason.strerror}; name another file"
        ) from None
    with opened:
        _lock(opened.fileno(), f"another backup is writing {draft}; wait for it")
        if opened.read(len(MAGIC)) not in {b"", MAGIC}:
            raise ConflictError(f"{draft} is not a backup that was left unfinished; move it away")
        opened.seek(0)
        opened.truncate()
        if os.name == "posix":
            os.fchmod(opened.fileno(), 0o600)
        try:
            yield draft, opened
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()


def _work_folder(data: Path) -> AbstractContextManager[Path]:
    return _own_folder(data / WORK_FOLDER, f"another backup of {data} is being made; wait for it")


def _staging(data: Path, *, check: bool) -> AbstractContextManager[Path]:
    """Beside the data folder; a check makes no folders for good, so it takes the nearest place that exists."""
    place = next(folder for folder in data.parents if folder.is_dir()) if check else data.parent
    staging = place / f".{data.name}.restoring"
    return _own_folder(staging, f"another restore into {data} is under way; wait for it")


@contextlib.contextmanager
def _own_folder(folder: Path, busy: str) -> Iterator[Path]:
    """A new folder for work in progress. What a killed process left there goes, and so does everything at the end."""
    ensure_private_folder(folder)
    with contextlib.ExitStack() as held:
        if fcntl is not None:
            opened = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            held.callback(os.close, opened)
            _lock(opened, busy)
        _remove_all(folder)
        made = folder.stat()
        try:
            yield folder
        finally:
            with contextlib.suppress(OSError):
                if os.path.samestat(folder.stat(), made):  # it may have become the data folder
                    _remove_all(folder)
                    folder.rmdir()


def _remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _lock(opened: int, busy: str) -> None:
    if fcntl is not None:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(busy) from None
