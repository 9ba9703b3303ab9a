"""Writing an audit chain.

Each process that writes has a chain of its own. Entries are linked in the order of the commits. The head of the chain is
signed once per commit and stored in the same commit. After the commit is durable, the head is also written to a file
outside the database.

At the start, the last entry, the stored head and the head file must agree. The head file may be older than the database
by the last commits before a crash. It is never newer: if it is, the database was cut or rolled back, and is refused.
"""

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from comity.identity.private_files import sync_folder
from comity.identity.protocol.keys import SigningKey, verify
from comity.store import audit_chain as audit
from comity.store.audit_chain import AuditDraft, AuditHead
from comity.wire.errors import StoreCorruptError, StoreUnavailableError

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind; one process per chain is then a promise
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("comity.store")

HEADS = "audit-head"
CHECKPOINTS = "audit-checkpoint"
_SLOT = 512
_REMEDY = "If you restored a backup on purpose, run `comity audit adopt`"


class SignedHead(Struct, frozen=True, kw_only=True):
    """A head, or a checkpoint, with the signature of the node that wrote the chain."""

    head: AuditHead
    signature: str

    def proven(self, public: bytes, *, checkpoint: bool = False) -> bool:
        form = audit.checkpoint_bytes if checkpoint else audit.head_bytes
        try:
            return verify(public, form(self.head), bytes.fromhex(self.signature))
        except ValueError:
            return False


def sign_head(head: AuditHead, key: SigningKey) -> bytes:
    return _encode(SignedHead(head=head, signature=key.sign(audit.head_bytes(head)).hex()))


def sign_checkpoint(head: AuditHead, key: SigningKey) -> bytes:
    return _encode(SignedHead(head=head, signature=key.sign(audit.checkpoint_bytes(head)).hex()))


def read_signed_head(data: bytes | None) -> SignedHead | None:
    if data is None:
        return None
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def log_of(chain: str) -> str:
    return f"audit:{chain}"


class TrailView(Protocol):
    """What a store shows of itself while a trail resumes."""

    def entry(self, log: str, position: int | None = None) -> bytes | None:
        """Return one stored entry, the last one when no position is named."""
        ...

    def value(self, space: str, key: str) -> bytes | None: ...


class HeadFile:
    """Two slots written in turn, so that a torn write leaves the older head readable.

    The open file is locked: one process, one chain.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = 0
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # an empty one is new, or its maker died before the name was durable
        self._is_new = os.fstat(self._file).st_size == 0
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(self._file)
                raise StoreUnavailableError(
                    f"{path.name} is in use by another process; stop it or use another data folder"
                ) from None

    def write(self, head: bytes) -> None:
        os.pwrite(self._file, head.ljust(_SLOT - 1) + b"\n", self._turn * _SLOT)
        self._turn = 1 - self._turn

    def sync(self) -> None:
        """Make the content durable; of a new file the name, too."""
        os.fsync(self._file)
        if self._is_new:
            sync_folder(self.path.parent)
            sync_folder(self.path.parent.parent)
            self._is_new = False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)


def read_head_file(path: Path, public: bytes) -> AuditHead | None:
    """Return the newest head that the node really signed. None: no file was ever written."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise StoreUnavailableError(
            f"{path} cannot be read ({reason.strerror}); mend its permissions"
        ) from None
    if not data:
        return None
    slots = (read_signed_head(data[at : at + _SLOT].strip()) for at in (0, _SLOT))
    heads = [slot.head for slot in slots if slot is not None and slot.proven(public)]
    if not heads:
        raise StoreCorruptError(f"{path} holds no head signed by this node: it was altered. {_REMEDY}")
    return max(heads, key=lambda head: head.position)


Mark = tuple[int, str | None]
"""Where a trail stands: the position and the hash of its last entry."""


class AuditTrail:
    def __init__(self, chain: str, key: SigningKey, head_file: HeadFile | None = None) -> None:
        self.chain = chain
        self.log = log_of(chain)
        self._key = key
        self._head_file = head_file
        self._position = 0
        self._hash: str | None = None
        self._published = b""

    def resume(self, stored: TrailView, now: float, *, adopt: bool = False) -> None:
        """Go on where the store ends, if it ends where it was left.

        `adopt` takes the store as it is: for an operator who restored a backup.
        """
        last = stored.entry(self.log)
        if last is not None:
            entry = audit.decode(last)
            self._position, self._hash = entry.chain_position, entry.entry_hash
        if not adopt:
            self._compare_with_stored_head(stored)
            self._compare_with_head_file(stored)
        self._published = self.sealed_head(now)
        self._publish_for_good()

    def link(self, drafts: Sequence[AuditDraft]) -> list[bytes]:
        """Give each draft its place; the caller stores the entries in the same commit."""
        entries = []
        for draft in drafts:
            position = self._position + 1
            entry, self._hash = audit.chained(draft, position=position, previous_hash=self._hash)
            self._position = position
            entries.append(entry)
        return entries

    def mark(self) -> Mark:
        return self._position, self._hash

    def go_back(self, mark: Mark) -> None:
        """Forget what was linked since `mark`: its commit did not happen."""
        self._position, self._hash = mark

    def sealed_head(self, now: float) -> bytes:
        head = AuditHead(
            chain=self.chain, position=self._position, entry_hash=self._hash or "", at=audit.timestamp(now)
        )
        return sign_head(head, self._key)

    def publish(self, sealed: bytes) -> None:
        """Keep a sealed head outside, now that its commit is durable.

        What is committed stays committed: a head that cannot be written lags behind, and the log says so.
        """
        self._published = sealed
        if self._head_file is not None:
            try:
                self._head_file.write(sealed)
            except OSError as reason:
                log.error("the audit head cannot be kept in %s: %s", self._head_file.path, reason)  # noqa: TRY400 - a sentence, no fault of ours

    def close(self) -> None:
        if self._head_file is not None:
            if self._published:
                self._publish_for_good()
            self._head_file.close()
            self._head_file = None

    def _publish_for_good(self) -> None:
        if self._head_file is not None:
            self._head_file.write(self._published)
            self._head_file.write(self._published)
            self._head_file.sync()

    def _compare_with_stored_head(self, stored: TrailView) -> None:
        head = read_signed_head(stored.value(HEADS, self.chain))
        if head is None and self._position == 0:
            return
        if head is None or not head.proven(self._key.vacant_id.public):
            raise StoreCorruptError(
                f"the head of audit chain {self.chain!r} is not signed by this node: the log was altered or "
                f"belongs to another identity. {_REMEDY}"
            )
        if (head.head.position, head.head.entry_hash) != (self._position, self._hash or ""):
            raise StoreCorruptError(
                f"audit chain {self.chain!r} ends at entry {self._position}, its signed head is at "
                f"{head.head.position}: entries were cut or added. {_REMEDY}"
            )

    def _compare_with_head_file(self, stored: TrailView) -> None:
        if self._head_file is None:
            return
        outside = read_head_file(self._head_file.path, self._key.vacant_id.public)
        if outside is None:
            if self._position:
                raise StoreCorruptError(
                    f"{self._head_file.path} is missing or empty while audit chain {self.chain!r} has "
                    f"{self._position} entries: a rolled-back database could not be noticed. {_REMEDY}"
                )
            return
        if outside.position > self._position:
            raise StoreCorruptError(
                f"audit chain {self.chain!r} ends at entry {self._position}, {self._head_file.path.name} has seen "
                f"entry {outside.position}: the database was cut or rolled back. {_REMEDY}"
            )
        if outside.position == 0:
            return
        entry = stored.entry(self.log, outside.position)
        if entry is None:
            checkpoint = read_signed_head(stored.value(CHECKPOINTS, self.chain))
            if checkpoint is not None and checkpoint.head.position >= outside.position:
                return
        elif audit.decode(entry).entry_hash == outside.entry_hash:
            return
        raise StoreCorruptError(
            f"entry {outside.position} of audit chain {self.chain!r} is not the one {self._head_file.path.name} "
            f"has seen: the log was rewritten. {_REMEDY}"
        )


def open_head_file(folder: Path, chain: str, chains: int = 64) -> tuple[str, HeadFile]:
    """Return the first chain of this name that no other process is writing: main, main-2, main-3 …"""
    for number in range(1, chains + 1):
        name = chain if number == 1 else f"{chain}-{number}"
        with contextlib.suppress(StoreUnavailableError):
            return name, HeadFile(folder / f"{name}.head")
    raise StoreUnavailableError(
        f"all {chains} audit chains named {chain!r} in {folder} are in use; stop a process"
    )


_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(SignedHead)
