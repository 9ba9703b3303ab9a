"""Reading the audit chains: verify one, read its last entries, prune it.

Verification needs no secret, only the node's public keys, the store and the head files. The head files are read first,
because the log can grow during the verification but never shrinks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from comity.identity.protocol.keys import SigningKey
from comity.store import audit_chain as audit
from comity.store.audit_chain import AuditEntry, AuditHead
from comity.store.audit_proofs import edge_at
from comity.store.audit_trail import (
    CHECKPOINTS,
    HEADS,
    RESTORE_KEY,
    RESTORE_SPACE,
    RestoreMark,
    Signers,
    log_of,
    read_head_file,
    read_restore_mark,
    read_signed_head,
    sign_checkpoint,
)
from comity.store.audit_tree import TREES, GrowingTree, TreeEdge, read_edge
from comity.store.interface import LogRecord, Operation, Put, Store, Trim, scan_all
from comity.wire.errors import MalformedError

_PAGE = 2000
_PIECE = 25
"""Entries that are checked at a stretch, under a millisecond: a node answers calls while its chain is verified."""
_DAY = 86_400.0


class AuditReport(Struct, frozen=True, kw_only=True):
    """`position` is where the first fault lies; `entries` is how many were read and found sound."""

    chain: str
    ok: bool
    entries: int
    position: int | None = None
    message: str | None = None


async def chains(store: Store) -> list[str]:
    return [log.removeprefix("audit:") for log in await store.logs("audit:")]


def chains_outside(heads_folder: Path | None) -> list[str]:
    """Return the chains of which there is a head outside the database."""
    return [] if heads_folder is None else [path.stem for path in heads_folder.glob("*.head")]


async def heads(store: Store) -> list[tuple[str, AuditHead]]:
    """Return the stored head of each chain that has entries."""
    found = []
    async for chain, held in scan_all(store, HEADS):
        signed = read_signed_head(held.value)
        if signed is not None and signed.head.position:
            found.append((chain, signed.head))
    return found


async def verify_chain(
    store: Store,
    chain: str,
    signers: Signers,
    heads_folder: Path | None = None,
    seen: Callable[[int], None] = lambda _entries: None,
    each: Callable[[AuditEntry], None] = lambda _entry: None,
) -> AuditReport:
    """Check one chain from its beginning (or its signed checkpoint) to its signed head.

    `seen` is called with the number of entries read since its last call; `each` gets every entry that is sound. Where
    the chain is pruned meanwhile, it is read again from its new beginning.
    """
    while True:
        before = await store.get(CHECKPOINTS, chain)
        report = await _verify_once(store, chain, signers, heads_folder, seen, each)
        if report.ok or await store.get(CHECKPOINTS, chain) == before:
            return report


async def _verify_once(
    store: Store,
    chain: str,
    signers: Signers,
    heads_folder: Path | None,
    seen: Callable[[int], None],
    each: Callable[[AuditEntry], None],
) -> AuditReport:
    outside = None if heads_folder is None else read_head_file(heads_folder / f"{chain}.head", signers)
    sealed = await store.get(HEADS, chain)
    head = read_signed_head(sealed.value if sealed else None)
    reading = _ChainReading(chain, outside, each)

    stored_checkpoint = await store.get(CHECKPOINTS, chain)
    if stored_checkpoint is not None:
        checkpoint = read_signed_head(stored_checkpoint.value)
        if checkpoint is None or not checkpoint.proven(signers, checkpoint=True):
            return reading.fault(1, "the checkpoint before it is not signed by this node")
        reading.start_after(checkpoint.head)

    held = await store.get(TREES, chain)
    reading.watch_tree(read_edge(held.value if held else None))
    last = None if head is None else head.head.position
    while page := await _next_page(store, chain, reading.position, last):
        seen(len(page))
        for at, record in enumerate(page):
            if at % _PIECE == 0:
                await asyncio.sleep(0)
            if fault := reading.take(record.position, record.data):
                return fault
    if head is None and reading.untouched:  # claimed by a process that never wrote
        return AuditReport(chain=chain, ok=True, entries=0)
    if head is None or not head.proven(signers):
        return reading.fault(reading.position, "the head of the chain is not signed by this node")
    return reading.finish(head.head, unsigned=await _is_unsigned(store, chain, head.head.position, signers))


async def _next_page(store: Store, chain: str, after: int, last: int | None) -> list[LogRecord]:
    """Return the next entries up to `last`, the place of the head. Later ones were added since, or are forged."""
    if last is not None and after >= last:
        return []
    page = await store.read(log_of(chain), after=after, limit=_PAGE)
    return [record for record in page if last is None or record.position <= last]


async def _is_unsigned(store: Store, chain: str, position: int, signers: Signers) -> bool:
    """Return whether there are entries after `position`, and still no signed head that is further."""
    log = log_of(chain)
    if await store.end(log) <= position and not await store.read(log, after=position, limit=1):
        return False
    sealed = await store.get(HEADS, chain)
    newer = read_signed_head(sealed.value if sealed else None)
    return newer is None or newer.head.position <= position or not newer.proven(signers)


class _ChainReading:
    """One pass over a chain, entry by entry."""

    def __init__(self, chain: str, outside: AuditHead | None, each: Callable[[AuditEntry], None]) -> None:
        self.position = 0
        self._each = each
        self._chain = chain
        self._outside = outside
        self._entries = 0
        self._prior: AuditEntry | AuditHead | None = None
        self._tree: GrowingTree | None = None
        self._seen_outside = outside is None or outside.position == 0

    @property
    def untouched(self) -> bool:
        """Return whether the log is empty, and nothing outside has seen an entry."""
        return self.position == 0 and self._seen_outside

    def watch_tree(self, edge: TreeEdge | None) -> None:
        """Work the tree out again, if its first entry will be read."""
        first = edge or TreeEdge()
        if first.first > self.position:
            self._tree = GrowingTree(self._chain, TreeEdge(log=first.log, first=first.first))

    def start_after(self, checkpoint: AuditHead) -> None:
        self._prior, self.position = checkpoint, checkpoint.position
        self._seen_outside |= self._outside is not None and self._outside.position < checkpoint.position
        self._compare(checkpoint.position, checkpoint.entry_hash)

    def take(self, position: int, data: bytes) -> AuditReport | None:
        expected = self.position + 1
        if position != expected:
            return self.fault(expected, "is missing")
        try:
            entry = audit.decode(data, exact=True)
        except MalformedError as reason:
            return self.fault(expected, reason.message)
        verdict = audit.verify([entry], prior=self._prior)
        if not verdict.ok:
            return self.fault(expected, verdict.message or "is wrong")
        if not self._compare(position, entry.entry_hash):
            return self.fault(expected, "is not the entry that the head file has seen")
        self._prior, self.position = entry, position
        self._entries += 1
        if self._tree is not None and position == self._tree.position + 1:
            self._tree.add(entry.entry_hash)
        self._each(entry)
        return None

    def finish(self, head: AuditHead, *, unsigned: bool) -> AuditReport:
        ending = self._prior.entry_hash if self._prior is not None else ""
        if head.position > self.position:
            return self.fault(self.position + 1, f"is missing: the signed head is at {head.position}")
        if not self._seen_outside and self._outside is not None:
            return self.fault(
                self.position + 1,
                f"is missing: the head file has seen entry {self._outside.position}, the log was cut or rolled back",
            )
        if head.size is not None and not self._has_tree_of(head):
            return self.fault(head.position, "the tree over the entries is not the one that the head names")
        if unsigned or (head.position, head.entry_hash) != (self.position, ending):
            return self.fault(head.position + 1, f"stands beyond the signed head at {head.position}")
        return AuditReport(chain=self._chain, ok=True, entries=self._entries)

    def _has_tree_of(self, head: AuditHead) -> bool:
        tree = self._tree
        if tree is None or head.position != self.position:
            return True
        return (tree.log, tree.size, tree.root().hex()) == (head.log, head.size, head.root)

    def fault(self, position: int, message: str) -> AuditReport:
        sentence = message if message.startswith("audit entry") else f"audit entry {position}: {message}"
        return AuditReport(
            chain=self._chain, ok=False, entries=self._entries, position=position, message=sentence
        )

    def _compare(self, position: int, entry_hash: str) -> bool:
        if self._outside is None or position != self._outside.position:
            return True
        self._seen_outside = True
        return entry_hash == self._outside.entry_hash


async def tail(store: Store, chain: str, count: int) -> AsyncIterator[AuditEntry]:
    end = await store.end(log_of(chain))
    position = max(0, end - count)
    while page := await store.read(log_of(chain), after=position, limit=min(count, _PAGE)):
        for record in page:
            yield audit.decode(record.data)
        position = page[-1].position


async def newest(store: Store, chain: str, before: int | None, limit: int) -> list[AuditEntry]:
    """Return the last entries, or the last before a position; the newest first."""
    end = await store.end(log_of(chain))
    last = end if before is None else min(end, before - 1)
    page = await store.read(log_of(chain), after=max(0, last - limit), limit=min(limit, max(last, 0)))
    return [audit.decode(record.data) for record in reversed(page) if record.position <= last]


async def pruning(
    store: Store, chain: str, key: SigningKey, now: float, days: float
) -> tuple[Put | Trim, ...]:
    """Return what deletes the entries that are older than `days`; a signed checkpoint says what the chain then starts
    from. The last entry always stays, and so does the tree over all of them. Nothing, where no entry is that old.
    """
    before = audit.timestamp(now - days * _DAY)
    last_old: AuditEntry | None = None
    position = 0
    end = await store.end(log_of(chain))
    while page := await store.read(log_of(chain), after=position, limit=_PAGE):
        position = page[-1].position
        old = [
            entry
            for record in page
            if record.position < end and (entry := audit.decode(record.data)).created_at < before
        ]
        if old:
            last_old = old[-1]
        if len(old) < len(page):
            break
    if last_old is None:
        return ()
    checkpoint = AuditHead(
        chain=chain, position=last_old.chain_position, entry_hash=last_old.entry_hash, at=audit.timestamp(now)
    )
    return (
        Put(space=CHECKPOINTS, key=chain, value=sign_checkpoint(checkpoint, key)),
        Trim(log=log_of(chain), through=last_old.chain_position),
        *await edge_at(store, chain, last_old.chain_position),
    )


# What a store remembers of having been restored from a backup.

RESTORED = "RESTORED"
"""The audit entry that goes with each setting of the moment."""


async def read_restored(store: Store) -> RestoreMark | None:
    held = await store.get(RESTORE_SPACE, RESTORE_KEY)
    return read_restore_mark(None if held is None else held.value)


def keep_restored(restored: RestoreMark) -> Operation:
    return Put(space=RESTORE_SPACE, key=RESTORE_KEY, value=msgspec.json.encode(restored))
