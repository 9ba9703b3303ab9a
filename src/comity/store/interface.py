"""The Store: durable state.

All methods are called from one event loop. A write returns when it is durable, together with its audit entries. Reads see
every write that has returned. All engines give the same answers: one conformance suite runs on all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from comity.store.audit_chain import AuditDraft
from comity.wire.errors import ConflictError, StoreError

# What can be asked of a store, as data.

NO_HASH = bytes(32)
REPLIES = "replies"
"""The quota that stored replies count on, and each chain with `CHAIN_BYTES` for itself."""
SEALED_PREFIX = b"enc:"
"""What a value of the vault begins with."""
TABLES = ("value", "reply", "record", "document")
"""Every table that has bytes of a caller in it, and so may have values of the vault."""
CHAIN_BYTES = 512


class ChainKey(Struct, frozen=True):
    """A directed pair within a book. A→B and B→A are two chains; so are calls and answers."""

    book: str
    sender: str
    receiver: str


class Tip(Struct, frozen=True):
    """The last accepted number of a chain and the hash it ended on."""

    seq: int = 0
    hash: bytes = NO_HASH


class StoredChain(Struct, frozen=True):
    """A chain and its tip; how many answers are kept for it, and how many of its numbers are being worked on."""

    chain: ChainKey
    tip: Tip
    replies: int
    pending: int


class StoredReply(Struct, frozen=True):
    """The answer kept for one number of a chain; `reply` is None while it is being worked on."""

    seq: int
    digest: bytes
    reply: bytes | None
    at: float


class KeptReplies(Struct, frozen=True):
    """What the stored replies of a chain add up to, and on whose account they are."""

    bytes: int = 0
    holder: str = ""


class HeldItem(Struct, frozen=True):
    """One thing that counts on a quota: on whose account, and with how many bytes."""

    holder: str
    bytes: int


class Versioned(Struct, frozen=True):
    """A value, the version it was written as, and the moment after which it is gone."""

    value: bytes
    version: int
    expires_at: float | None = None


class LogRecord(Struct, frozen=True):
    position: int
    data: bytes


class SealedRow(Struct, frozen=True):
    """Bytes of a table and their place in it. `names` say the place in the same words on every engine."""

    place: tuple[str | int, ...]
    data: bytes
    names: tuple[str | int, ...] = ()


def place_of(table: str, *names: str | int) -> bytes:
    """Return the place to which the vault binds a value: of a reply book, sender, receiver and number; of a value space
    and key.
    """
    return "\0".join((table, *map(str, names))).encode()


class StoredDocument(Struct, frozen=True):
    id: str
    body: bytes
    version: int


class Lease(Struct, frozen=True):
    """Held by one holder until it expires. `token` grows with every new holder: a fence."""

    name: str
    holder: str
    token: int
    expires_at: float


class Operation(Struct, frozen=True, kw_only=True):
    """Base of what a transaction is made of."""


class Advance(Operation, frozen=True, kw_only=True):
    """Move a chain from `expected` to `to`. Result: the new Tip. Conflict: the current Tip. The chain and its
    replies count on the account of the `holder` that it began with.
    """

    chain: ChainKey
    expected: Tip
    to: Tip
    holder: str = ""


class KeepReply(Operation, frozen=True, kw_only=True):
    """Keep the answer to one number of a chain (None: pending), replacing what was kept."""

    chain: ChainKey
    seq: int
    digest: bytes
    reply: bytes | None
    at: float


class DropReply(Operation, frozen=True, kw_only=True):
    chain: ChainKey
    seq: int


class PruneReplies(Operation, frozen=True, kw_only=True):
    """Forget the answers beyond the newest `keep` of the chain, and those from before `before`; the
    newest one always stays. Result: how many were forgotten.
    """

    chain: ChainKey
    keep: int
    before: float


class ForgetReplies(Operation, frozen=True, kw_only=True):
    """Forget answers from before `before`, of whatever chain, among the next `rows` that were kept `after` a
    place. Result: the place to go on from, None when all were looked at.
    """

    before: float
    after: int = 0
    rows: int = 500


class Hold(Operation, frozen=True, kw_only=True):
    """Say with how many bytes a thing counts on a quota from now on. The `holder` on whose account it is stays
    the one that it began with. With 0 bytes it is forgotten.
    """

    quota: str
    item: str
    holder: str
    bytes: int


class Answer(Operation, frozen=True, kw_only=True):
    """All that changes when a call is answered, in one step: the chain of the calls moves, that of the
    replies moves, and the reply is kept for the call's number and hash. It may be kept `instead_of` the
    reply to an earlier number; with `keep`, replies of the chain are then forgotten as `PruneReplies` does.
    Conflict: that of the chain that stands elsewhere.
    """

    calls: Advance
    replies: Advance
    reply: bytes
    at: float
    instead_of: int | None = None
    keep: int | None = None
    before: float = 0.0

    @property
    def steps(self) -> tuple[Operation, ...]:
        """Return what it is made of."""
        call = self.calls
        steps: list[Operation] = [call, self.replies]
        if self.instead_of is not None:
            steps.append(DropReply(chain=call.chain, seq=self.instead_of))
        steps.append(
            KeepReply(chain=call.chain, seq=call.to.seq, digest=call.to.hash, reply=self.reply, at=self.at)
        )
        if self.keep is not None:
            steps.append(PruneReplies(chain=call.chain, keep=self.keep, before=self.before))
        return tuple(steps)


class Put(Operation, frozen=True, kw_only=True):
    """Set a key. `expect` is the version it must have (0: must not exist; None: any).
    Result: the new version. Conflict: the current Versioned or None.
    """

    space: str
    key: str
    value: bytes
    expect: int | None = None
    expires_at: float | None = None


class Delete(Operation, frozen=True, kw_only=True):
    """Remove a key. Result: whether it was there."""

    space: str
    key: str
    expect: int | None = None


class Append(Operation, frozen=True, kw_only=True):
    """Add to a log. `expect_end` is the position its last record must have. Result: the position.
    Conflict: the current last position.
    """

    log: str
    data: bytes
    expect_end: int | None = None


class Trim(Operation, frozen=True, kw_only=True):
    """Forget the records of a log up to and including `through`; positions never start again."""

    log: str
    through: int


class PutDocument(Operation, frozen=True, kw_only=True):
    """Store a body that can be found by words of `text` and by secondary `keys`.
    Result: the new version. Conflict: the current StoredDocument or None.
    """

    collection: str
    id: str
    body: bytes
    text: str = ""
    keys: tuple[tuple[str, str], ...] = ()
    expect: int | None = None


class DeleteDocument(Operation, frozen=True, kw_only=True):
    collection: str
    id: str
    expect: int | None = None


class Reseal(Operation, frozen=True, kw_only=True):
    """Write `to` in a place of one of the `TABLES` if the bytes there are still `was`. Version, position and expiry
    stay. Result: whether it was written.
    """

    table: str
    place: tuple[str | int, ...]
    was: bytes
    to: bytes


class Acquire(Operation, frozen=True, kw_only=True):
    """Take or extend a lease. Result: the Lease. Conflict: the Lease somebody else holds."""

    name: str
    holder: str
    ttl: float


class Release(Operation, frozen=True, kw_only=True):
    """Give a lease back if it is still ours. Result: whether it was."""

    name: str
    token: int


class Fence(Operation, frozen=True, kw_only=True):
    """Fail the transaction unless the lease is still held under `token`."""

    name: str
    token: int


class StoreConflict(ConflictError):  # noqa: N818 - the word of the protocol
    """`operation` expected something else than `current`; nothing of its transaction was done."""

    def __init__(self, operation: Operation, current: Any) -> None:
        super().__init__(
            f"{type(operation).__name__.lower()} conflicts with what is stored; read it and retry"
        )
        self.operation = operation
        self.current = current


def expect_version(
    op: Put | Delete | PutDocument | DeleteDocument, current: Versioned | StoredDocument | None
) -> None:
    """Raise StoreConflict where the operation names another version than the stored one has."""
    if op.expect is not None and op.expect != (current.version if current else 0):
        raise StoreConflict(op, current)


_PAGE = 256


class Store(Protocol):
    @property
    def failure(self) -> StoreError | None:
        """Return why the last commit could not be made; None when it was made."""
        ...

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft] = ()
    ) -> asyncio.Future[tuple[Any, ...]]:
        """Hand over one transaction; the future holds one result per operation, or the refusal. It cannot be
        cancelled, for what was handed over is not called off: a caller that is cancelled while waiting gets the
        cancellation when it is done.
        """
        ...

    async def commit(self, *operations: Operation, audit: Sequence[AuditDraft] = ()) -> tuple[Any, ...]:
        """Submit, and wait until it is durable."""
        ...

    async def tip(self, chain: ChainKey) -> Tip: ...

    async def chains(self, party: str) -> list[StoredChain]:
        """Return every chain in which `party` sends or receives, the oldest first."""
        ...

    async def reply(self, chain: ChainKey, seq: int) -> StoredReply | None: ...

    async def kept(self, chain: ChainKey) -> KeptReplies: ...

    async def held(self, quota: str, holder: str | None = None) -> int:
        """Return how many bytes count on a quota: those of one holder, or of all."""
        ...

    async def held_item(self, quota: str, item: str) -> HeldItem | None: ...

    async def get(self, space: str, key: str) -> Versioned | None: ...

    async def scan(
        self, space: str, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[tuple[str, Versioned]]:
        """Return keys in order, those that begin with `prefix` and come after `after`."""
        ...

    async def read(self, log: str, after: int = 0, limit: int = 1000) -> list[LogRecord]: ...

    async def end(self, log: str) -> int:
        """Return the position of the last record ever appended, 0 for a log that never was."""
        ...

    async def document(self, collection: str, id: str) -> StoredDocument | None: ...  # noqa: A002

    async def find(
        self, collection: str, *, words: str = "", keys: Sequence[tuple[str, str]] = (), limit: int = 20
    ) -> list[StoredDocument]:
        """Return documents that hold all `words` (best match first) and all `keys`; without words, oldest first."""
        ...

    async def lease(self, name: str) -> Lease | None: ...

    async def logs(self, prefix: str = "") -> list[str]: ...

    async def sealed(
        self, table: str, after: tuple[str | int, ...] | None = None, *, plain: bool = False
    ) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
        """Return the rows of one of the `TABLES` that begin with `SEALED_PREFIX`, or with `plain` those that do not, some
        at a time, and the place to go on after; None at the end.
        """
        ...

    async def close(self) -> None: ...


async def scan_all(store: Store, space: str, prefix: str = "") -> AsyncIterator[tuple[str, Versioned]]:
    """Return every key that begins with `prefix`, in order, read page by page."""
    after = ""
    while page := await store.scan(space, prefix, after, _PAGE):
        for each in page:
            yield each
        after = page[-1][0]
