"""Writing an audit chain.

Each process that writes has a chain of its own. Entries are linked in the order of the commits. The head of the chain is
signed once per commit and stored in the same commit. After the commit is durable, the head is also written to a file
outside the database. It names the size and the root of the tree over the entries, which grows in the same commits.

At the start, the last entry, the stored head and the head file must agree. The head file may be older than the database
by the last commits before a crash. It is never newer: if it is, the database was cut or rolled back, and is refused.
"""

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from comity.identity.private_files import sync_folder
from comity.identity.protocol.keys import SigningKey, verify
from comity.store import audit_chain as audit
from comity.store.audit_chain import AuditDraft, AuditHead, LogBeginning
from comity.store.audit_tree import TREES, GrowingTree, TreeEdge, read_edge
from comity.store.interface import Put
from comity.wire.errors import StoreCorruptError, StoreUnavailableError

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind; one process per chain is then a promise
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger("comity.store")

HEADS = "audit-head"
CHECKPOINTS = "audit-checkpoint"
_SLOT = 512
_CATCH_UP = 4096
"""Entries that are added to the tree at the start. Where more are missing, they are added while the node runs."""

Signers = bytes | tuple[bytes, ...]
"""The public key of the node; or that key and those that it replaced. What a former key signed stays good."""

_REMEDY = "If you restored a backup on purpose, run `comity audit adopt`"


class SignedHead(Struct, frozen=True, kw_only=True):
    """A head, or a checkpoint, with the signature of the node that wrote the chain."""

    head: AuditHead
    signature: str

    def proven(self, signers: Signers, *, checkpoint: bool = False) -> bool:
        said = (audit.checkpoint_bytes if checkpoint else audit.head_bytes)(self.head)
        try:
            signature = bytes.fromhex(self.signature)
        except ValueError:
            return False
        if (
            signature.hex() != self.signature
        ):  # capital letters would say the same, and be an alteration nevertheless
            return False
        publics = (signers,) if isinstance(signers, bytes) else signers
        return any(verify(public, said, signature) for public in publics)


def sign_head(head: AuditHead, key: SigningKey) -> bytes:
    return _encode(SignedHead(head=head, signature=key.sign(audit.head_bytes(head)).hex()))


def sign_checkpoint(head: AuditHead, key: SigningKey) -> bytes:
    return _encode(SignedHead(head=head, signature=key.sign(audit.checkpoint_bytes(head)).hex()))


class SignedBeginning(Struct, frozen=True, kw_only=True):
    """The statement with which a log begins, signed by the node."""

    beginning: LogBeginning
    signature: str

    def proven(self, public: bytes) -> bool:
        try:
            return verify(public, audit.beginning_bytes(self.beginning), bytes.fromhex(self.signature))
        except ValueError:
            return False


def read_beginning(data: bytes | None) -> SignedBeginning | None:
    """Return the statement with which a log began; None if there is none that can be read."""
    try:
        return None if data is None else msgspec.json.decode(data, type=SignedBeginning)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def beginning_key(chain: str, log_name: str) -> str:
    """Return where the statement is in the space of the trees."""
    return f"{chain}/{log_name}/began"


class RestoreMark(Struct, frozen=True, kw_only=True):
    """What a store remembers of its last restore. `at`: nothing signed before moves a chain; `started`: a node has run since,
    and it stays what it is. `since` is when the restore was; each chain begins a new log after it.
    """

    at: float
    started: bool = False
    since: float = 0.0


RESTORE_SPACE = "restored"
RESTORE_KEY = "moment"


def read_restore_mark(data: bytes | None) -> RestoreMark | None:
    try:
        return None if data is None else msgspec.json.decode(data, type=RestoreMark)
    except msgspec.MsgspecError:
        raise StoreCorruptError(
            "what is stored about the last restore cannot be read; restore the database from a backup"
        ) from None


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


def read_head_file(path: Path, signers: Signers) -> AuditHead | None:
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
    heads = [slot.head for slot in slots if slot is not None and slot.proven(signers)]
    if not heads:
        raise StoreCorruptError(f"{path} holds no head signed by this node: it was altered. {_REMEDY}")
    return max(heads, key=lambda head: head.position)


class Mark(NamedTuple):
    """Where a trail stands: the position and the hash of its last entry, and its tree."""

    position: int
    hash: str | None
    tree: tuple[Any, ...] | None


class AuditTrail:
    def __init__(
        self, chain: str, key: SigningKey, head_file: HeadFile | None = None, *, signers: Signers = ()
    ) -> None:
        """`signers` may have signed the chain so far; by default only `key`."""
        self.chain = chain
        self.log = log_of(chain)
        self._key = key
        self._signers = signers or key.vacant_id.public
        self._head_file = head_file
        self._position = 0
        self._hash: str | None = None
        self._published = b""
        self.tree: GrowingTree | None = None
        self._built: GrowingTree | None = None
        self._since: list[str] = []
        self.resumed_at = 0

    def resume(self, stored: TrailView, now: float, *, adopt: bool = False) -> None:
        """Go on where the store ends, if it ends where it was left.

        `adopt` takes the store as it is: for an operator who restored a backup.
        """
        last = stored.entry(self.log)
        if last is not None:
            entry = audit.decode(last)
            self._position, self._hash = entry.chain_position, entry.entry_hash
        self.resumed_at = self._position
        if not adopt:
            self._compare_with_stored_head(stored)
            self._compare_with_head_file(stored)
        self._resume_tree(stored, now, adopt=adopt)
        self._published = self.sealed_head(now)
        self._publish_for_good()

    def link(self, drafts: Sequence[AuditDraft]) -> list[bytes]:
        """Give each draft its place; the caller stores the entries in the same commit."""
        entries, hashes = [], []
        for position, draft in enumerate(drafts, self._position + 1):
            entry, self._hash = audit.chained(draft, position=position, previous_hash=self._hash)
            self._position = position
            entries.append(entry)
            hashes.append(self._hash)
        if self.tree is not None:
            self.tree.add(*hashes)
        else:
            self._since += hashes
        return entries

    def mark(self) -> Mark:
        return Mark(self._position, self._hash, None if self.tree is None else self.tree.mark())

    def go_back(self, mark: Mark) -> None:
        """Forget what was linked since `mark`: its commit did not happen."""
        self._position, self._hash, tree = mark
        if self.tree is None:
            del self._since[self._position - self.resumed_at :]
        elif tree is not None:
            self.tree.go_back(tree)

    def take_rows(self) -> list[Put]:
        """Return what has to be stored of the tree in the commit of what was linked."""
        return [] if self.tree is None else self.tree.take_rows()

    @property
    def lacks_tree(self) -> bool:
        """Return whether the chain was written without a tree, and none was offered yet."""
        return self.tree is None and self._built is None

    def offer_tree(self, tree: GrowingTree) -> None:
        """Give the tree up to the entry at `resumed_at`, of a chain that was written without one. It is taken after the
        next commit.
        """
        self._built = tree

    def sealed_head(self, now: float) -> bytes:
        tree = self.tree
        head = AuditHead(
            chain=self.chain,
            position=self._position,
            entry_hash=self._hash or "",
            at=audit.timestamp(now),
            log=None if tree is None else tree.log,
            size=None if tree is None else tree.size,
            root=None if tree is None else tree.root().hex(),
        )
        return sign_head(head, self._key)

    def publish(self, sealed: bytes) -> None:
        """Keep a sealed head outside, now that its commit is durable.

        What is committed stays committed: a head that cannot be written lags behind, and the log says so.
        """
        self._published = sealed
        if self._built is not None:
            self._take_built_tree(self._built)
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

    def _take_built_tree(self, tree: GrowingTree) -> None:
        """Go on with the tree that was built meanwhile. Only now, when nothing is linked that could be undone."""
        tree.add(*self._since)
        self.tree, self._built, self._since = tree, None, []

    def _resume_tree(self, stored: TrailView, now: float, *, adopt: bool) -> None:
        head = read_signed_head(stored.value(HEADS, self.chain))
        former = head.head if head is not None and head.proven(self._signers) else None
        restored = read_restore_mark(stored.value(RESTORE_SPACE, RESTORE_KEY))
        edge = None if adopt else read_edge(stored.value(TREES, self.chain))
        if adopt:
            self._begin_log("adopted", former, now)
        elif self._position and restored is not None and restored.since > (edge.at if edge else 0.0):
            self._begin_log("restored", former, max(now, restored.since))
        elif former is not None and former.size is not None:
            self._continue_tree(stored, former, edge)
        else:
            self._begin_tree(stored, former, edge, now)

    def _continue_tree(self, stored: TrailView, head: AuditHead, edge: TreeEdge | None) -> None:
        tree = GrowingTree(self.chain, edge)
        self._catch_up(stored, tree)
        if (tree.log, tree.size, tree.root().hex()) != (head.log, head.size, head.root):
            raise StoreCorruptError(
                f"the tree over audit chain {self.chain!r} is not the one that its signed head names: it was altered. "
                f"{_REMEDY}"
            )
        self.tree = tree

    def _begin_tree(
        self, stored: TrailView, former: AuditHead | None, edge: TreeEdge | None, now: float
    ) -> None:
        """Begin the tree of a chain that has none, or go on where an earlier release did not."""
        checkpoint = read_signed_head(stored.value(CHECKPOINTS, self.chain))
        first = 1 if checkpoint is None else checkpoint.head.position + 1
        if edge is not None and edge.first + edge.size < first:
            self._begin_log("rebuilt", former, now)
        elif self._position - (edge.first + edge.size if edge else first) < _CATCH_UP:
            tree = GrowingTree(self.chain, edge or TreeEdge(at=now, first=first))
            self._catch_up(stored, tree)
            tree.keep_edge()
            self.tree = tree

    def _catch_up(self, stored: TrailView, tree: GrowingTree) -> None:
        while tree.position < self._position:
            entry = stored.entry(self.log, tree.position + 1)
            if entry is None:
                raise StoreCorruptError(
                    f"audit chain {self.chain!r} lacks entry {tree.position + 1}: entries were cut. {_REMEDY}"
                )
            tree.add(audit.decode(entry).entry_hash)

    def _begin_log(
        self, reason: Literal["restored", "adopted", "rebuilt"], former: AuditHead | None, now: float
    ) -> None:
        """Begin a new tree after the last entry, with a signed statement that says why."""
        beginning = LogBeginning(
            chain=self.chain,
            at=audit.timestamp(now),
            reason=reason,
            position=self._position,
            entry_hash=self._hash or "",
            former=former,
        )
        signature = self._key.sign(audit.beginning_bytes(beginning)).hex()
        log_name = audit.log_name(beginning)
        tree = self.tree = GrowingTree(self.chain, TreeEdge(log=log_name, at=now, first=self._position + 1))
        tree.keep_edge()
        tree.keep(f"{log_name}/began", _encode(SignedBeginning(beginning=beginning, signature=signature)))

    def _publish_for_good(self) -> None:
        if self._head_file is not None:
            self._head_file.write(self._published)
            self._head_file.write(self._published)
            self._head_file.sync()

    def _compare_with_stored_head(self, stored: TrailView) -> None:
        head = read_signed_head(stored.value(HEADS, self.chain))
        if head is None and self._position == 0:
            return
        if head is None or not head.proven(self._signers):
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
        outside = read_head_file(self._head_file.path, self._signers)
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
