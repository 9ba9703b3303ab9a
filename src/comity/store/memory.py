"""The store in memory: for tests, demonstrations and simulations.

What is committed lives in a `MemoryDisk`, which outlives a crash of the store on top of it. A
transaction is journalled while it runs, so that a refused one leaves nothing behind.
"""

import asyncio
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from comity.store import interface as ops
from comity.store.audit_chain import AuditDraft
from comity.store.audit_trail import HEADS, AuditTrail
from comity.store.group_commit import Outcome, PendingTransaction
from comity.store.interface import (
    CHAIN_BYTES,
    REPLIES,
    SEALED_PREFIX,
    ChainKey,
    HeldItem,
    KeptReplies,
    Lease,
    LogRecord,
    SealedRow,
    StoreConflict,
    StoredChain,
    StoredDocument,
    StoredReply,
    Tip,
    Versioned,
    expect_version,
)
from comity.wire.errors import StoreError, StoreUnavailableError
from comity.wire.machine import Clock

_ABSENT: Any = object()
_SEALED_ROWS = 100


class MemoryDisk:
    """What survives: plain dictionaries, changed only through a journal."""

    def __init__(self) -> None:
        self.tips: dict[ChainKey, Tip] = {}
        self.replies: dict[tuple[ChainKey, int], StoredReply] = {}
        self.holders: dict[ChainKey, str] = {}
        self.holding: dict[tuple[str, str], int] = {}
        self.held: dict[tuple[str, str], HeldItem] = {}
        self.values: dict[tuple[str, str], Versioned] = {}
        self.records: dict[tuple[str, int], bytes] = {}
        self.ends: dict[str, int] = {}
        self.starts: dict[str, int] = {}
        self.documents: dict[tuple[str, str], tuple[StoredDocument, ops.PutDocument]] = {}
        self.leases: dict[str, Lease] = {}
        self.counters: dict[str, int] = {}


class _Journal:
    """Remembers the old value of all that changes, so that it can be put back."""

    def __init__(self) -> None:
        self._old: list[tuple[dict[Any, Any], Any, Any]] = []

    def set(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        self._old.append((table, key, table.get(key, _ABSENT)))
        table[key] = value

    def delete(self, table: dict[Any, Any], key: Any) -> bool:
        if key not in table:
            return False
        self._old.append((table, key, table.pop(key)))
        return True

    def undo(self) -> None:
        for table, key, value in reversed(self._old):
            if value is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = value
        self._old.clear()


class MemoryStore:
    failure: StoreError | None = None

    def __init__(
        self,
        clock: Clock,
        disk: MemoryDisk | None = None,
        trail: AuditTrail | None = None,
        commit_delay: float = 0.0,
    ) -> None:
        self._clock = clock
        self._disk = disk or MemoryDisk()
        self._trail = trail
        self._commit_delay = commit_delay
        self._gathered: list[PendingTransaction] = []
        self._unacknowledged: list[PendingTransaction] = []
        self._closed = False
        if trail is not None:
            trail.resume(_MemoryTrailView(self._disk), clock.now())

    def submit(
        self, operations: Sequence[ops.Operation], audit: Sequence[AuditDraft] = ()
    ) -> asyncio.Future[tuple[Any, ...]]:
        loop = asyncio.get_running_loop()
        work = PendingTransaction(operations, audit, loop)
        if self._closed:
            work.resolve(StoreUnavailableError("the store is closed; open it again before writing"))
            return work.future
        self._gathered.append(work)
        if len(self._gathered) == 1:
            if self._commit_delay:
                loop.call_later(self._commit_delay, self._commit_gathered)
            else:
                loop.call_soon(self._commit_gathered)
        return work.future

    async def commit(self, *operations: ops.Operation, audit: Sequence[AuditDraft] = ()) -> tuple[Any, ...]:
        return await self.submit(operations, audit)

    def crash(self) -> None:
        """Stop as a killed process does: what was committed stays, no caller gets a result."""
        self._closed = True
        lost = [*self._gathered, *self._unacknowledged]
        self._gathered, self._unacknowledged = [], []
        for work in lost:
            work.resolve(StoreUnavailableError("the store crashed before it answered; ask it what it holds"))
        if self._trail is not None:
            self._trail.close()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._commit_gathered()
        await asyncio.sleep(0)  # the acknowledgements of the last batch
        if self._trail is not None:
            self._trail.close()

    def _commit_gathered(self) -> None:
        works, self._gathered = self._gathered, []
        if not works:
            return
        before = self._trail.mark() if self._trail is not None else None
        outcomes = [self._run(work) for work in works]
        if self._trail is not None and self._trail.mark() != before:
            sealed = self._trail.sealed_head(self._clock.now())
            self._disk.values[HEADS, self._trail.chain] = Versioned(sealed, 0)
            for row in self._trail.take_rows():
                self._disk.values[row.space, row.key] = Versioned(row.value, 0)
            self._trail.publish(sealed)
        self._unacknowledged.extend(works)
        asyncio.get_running_loop().call_soon(self._acknowledge, works, outcomes)

    def _acknowledge(self, works: list[PendingTransaction], outcomes: list[Outcome]) -> None:
        for work, outcome in zip(works, outcomes, strict=True):
            if work in self._unacknowledged:
                self._unacknowledged.remove(work)
                work.resolve(outcome)

    def _run(self, work: PendingTransaction) -> Outcome:
        journal = _Journal()
        now = self._clock.now()
        try:
            results = tuple(_APPLY[type(op)](self._disk, journal, op, now) for op in work.operations)
            if work.audit:
                if self._trail is None:
                    raise StoreError("this store was opened without an audit trail; open it with one")  # noqa: TRY301 - one way out for all refusals
                for entry in self._trail.link(work.audit):
                    _append(self._disk, journal, ops.Append(log=self._trail.log, data=entry), now)
        except (StoreError, StoreConflict) as refusal:
            journal.undo()
            return refusal
        return results

    async def tip(self, chain: ChainKey) -> Tip:
        return self._disk.tips.get(chain, Tip())

    def seed(self, chain: ChainKey, tip: Tip) -> None:
        """Set the tip of a chain, whatever it was, without a transaction: before the store is used."""
        self._disk.tips[chain] = tip

    async def chains(self, party: str) -> list[StoredChain]:
        return [
            _stored_chain(self._disk, chain)
            for chain in dict.fromkeys((*self._disk.holders, *self._disk.tips))
            if party in (chain.sender, chain.receiver)
        ]

    async def reply(self, chain: ChainKey, seq: int) -> StoredReply | None:
        return self._disk.replies.get((chain, seq))

    async def kept(self, chain: ChainKey) -> KeptReplies:
        replies = (held for (of, _), held in self._disk.replies.items() if of == chain)
        return KeptReplies(sum(map(_size, replies)), self._disk.holders.get(chain, ""))

    async def held(self, quota: str, holder: str | None = None) -> int:
        return sum(
            size for key, size in self._disk.holding.items() if key[0] == quota and holder in (None, key[1])
        )

    async def held_item(self, quota: str, item: str) -> HeldItem | None:
        return self._disk.held.get((quota, item))

    async def get(self, space: str, key: str) -> Versioned | None:
        return _value(self._disk, space, key, self._clock.now())

    async def scan(
        self, space: str, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[tuple[str, Versioned]]:
        now = self._clock.now()
        keys = sorted(k for s, k in self._disk.values if s == space and k.startswith(prefix) and k > after)
        found = ((key, _value(self._disk, space, key, now)) for key in keys)
        return [(key, value) for key, value in found if value is not None][:limit]

    async def read(self, log: str, after: int = 0, limit: int = 1000) -> list[LogRecord]:
        first = max(after, self._disk.starts.get(log, 0)) + 1
        last = min(self._disk.ends.get(log, 0), first + limit - 1)
        found = ((at, self._disk.records.get((log, at))) for at in range(first, last + 1))
        return [LogRecord(at, data) for at, data in found if data is not None]

    async def end(self, log: str) -> int:
        return self._disk.ends.get(log, 0)

    async def logs(self, prefix: str = "") -> list[str]:
        return sorted(name for name in self._disk.ends if name.startswith(prefix))

    async def document(self, collection: str, id: str) -> StoredDocument | None:  # noqa: A002 - the protocol's word
        held = self._disk.documents.get((collection, id))
        return held[0] if held else None

    async def find(
        self, collection: str, *, words: str = "", keys: Sequence[tuple[str, str]] = (), limit: int = 20
    ) -> list[StoredDocument]:
        wanted = [phrase for phrase in map(_tokens, words.split()) if phrase]
        if words.strip() and not wanted:
            return []
        ranked = []
        for (held_in, _), (document, put) in self._disk.documents.items():
            if held_in != collection or not set(keys) <= set(put.keys):
                continue
            tokens = _tokens(put.text)
            hits = [_occurrences(tokens, phrase) for phrase in wanted]
            if all(hits):
                ranked.append((-sum(hits) / (len(tokens) or 1), document))
        if wanted:
            ranked.sort(key=lambda pair: pair[0])
        return [document for _, document in ranked[:limit]]

    async def lease(self, name: str) -> Lease | None:
        return _held(self._disk, name, self._clock.now())

    async def sealed(
        self, table: str, after: tuple[str | int, ...] | None = None, *, plain: bool = False
    ) -> tuple[list[SealedRow], tuple[str | int, ...] | None]:
        rows = _rows(self._disk, table, self._clock.now())
        sealed = sorted(
            place
            for place, data in rows.items()
            if data.startswith(SEALED_PREFIX) is not plain and (after is None or place > after)
        )
        page = [SealedRow(place, rows[place], place) for place in sealed[:_SEALED_ROWS]]
        return page, page[-1].place if len(sealed) > len(page) else None


class _MemoryTrailView:
    """What the audit trail needs to see of a store in order to resume."""

    def __init__(self, disk: MemoryDisk) -> None:
        self._disk = disk

    def entry(self, log: str, position: int | None = None) -> bytes | None:
        """Return one stored entry, the last one when no position is named."""
        return self._disk.records.get((log, self._disk.ends.get(log, 0) if position is None else position))

    def value(self, space: str, key: str) -> bytes | None:
        held = self._disk.values.get((space, key))
        return held.value if held else None


def _stored_chain(disk: MemoryDisk, chain: ChainKey) -> StoredChain:
    replies = [held.reply for (of, _), held in disk.replies.items() if of == chain]
    pending = replies.count(None)
    return StoredChain(chain, disk.tips.get(chain, Tip()), len(replies) - pending, pending)


def _advance(disk: MemoryDisk, journal: _Journal, op: ops.Advance, _now: float) -> Tip:
    current = disk.tips.get(op.chain, Tip())
    if current != op.expected:
        raise StoreConflict(op, current)
    _begin_chain(disk, journal, op.chain, op.holder)
    journal.set(disk.tips, op.chain, op.to)
    return op.to


def _begin_chain(disk: MemoryDisk, journal: _Journal, chain: ChainKey, holder: str) -> None:
    if chain not in disk.holders:
        journal.set(disk.holders, chain, holder)
        _count(disk, journal, REPLIES, holder, CHAIN_BYTES)


def _count(disk: MemoryDisk, journal: _Journal, quota: str, holder: str, size: int) -> None:
    journal.set(disk.holding, (quota, holder), disk.holding.get((quota, holder), 0) + size)


def _size(reply: StoredReply) -> int:
    return len(reply.reply or b"")


def _keep_reply(disk: MemoryDisk, journal: _Journal, op: ops.KeepReply, _now: float) -> None:
    _begin_chain(disk, journal, op.chain, "")
    _forget_reply(disk, journal, (op.chain, op.seq))
    kept = StoredReply(op.seq, op.digest, op.reply, op.at)
    journal.set(disk.replies, (op.chain, op.seq), kept)
    _count(disk, journal, REPLIES, disk.holders[op.chain], _size(kept))


def _forget_reply(disk: MemoryDisk, journal: _Journal, key: tuple[ChainKey, int]) -> bool:
    kept = disk.replies.get(key)
    if kept is None:
        return False
    _count(disk, journal, REPLIES, disk.holders[key[0]], -_size(kept))
    return journal.delete(disk.replies, key)


def _forget_replies(disk: MemoryDisk, journal: _Journal, op: ops.ForgetReplies, _now: float) -> None:
    """Forget them all at once: there are few in a store in memory, and no places among them."""
    for key in [key for key, kept in disk.replies.items() if kept.at < op.before]:
        _forget_reply(disk, journal, key)


def _hold(disk: MemoryDisk, journal: _Journal, op: ops.Hold, _now: float) -> None:
    before = disk.held.get((op.quota, op.item))
    holder = before.holder if before else op.holder
    if op.bytes:
        journal.set(disk.held, (op.quota, op.item), HeldItem(holder, op.bytes))
    else:
        journal.delete(disk.held, (op.quota, op.item))
    _count(disk, journal, op.quota, holder, op.bytes - (before.bytes if before else 0))


def _answer(disk: MemoryDisk, journal: _Journal, op: ops.Answer, now: float) -> None:
    for step in op.steps:
        _APPLY[type(step)](disk, journal, step, now)


def _drop_reply(disk: MemoryDisk, journal: _Journal, op: ops.DropReply, _now: float) -> bool:
    return _forget_reply(disk, journal, (op.chain, op.seq))


def _prune_replies(disk: MemoryDisk, journal: _Journal, op: ops.PruneReplies, _now: float) -> int:
    seqs = sorted((seq for chain, seq in disk.replies if chain == op.chain), reverse=True)
    old = [
        seq
        for rank, seq in enumerate(seqs)
        if rank and (rank >= op.keep or disk.replies[op.chain, seq].at < op.before)
    ]
    for seq in old:
        _forget_reply(disk, journal, (op.chain, seq))
    return len(old)


def _value(disk: MemoryDisk, space: str, key: str, now: float) -> Versioned | None:
    held = disk.values.get((space, key))
    return held if held is not None and (held.expires_at is None or held.expires_at > now) else None


def _next_version(disk: MemoryDisk, journal: _Journal) -> int:
    version = disk.counters.get("version", 0) + 1
    journal.set(disk.counters, "version", version)
    return version


def _put(disk: MemoryDisk, journal: _Journal, op: ops.Put, now: float) -> int:
    expect_version(op, _value(disk, op.space, op.key, now))
    version = _next_version(disk, journal)
    journal.set(disk.values, (op.space, op.key), Versioned(op.value, version, op.expires_at))
    return version


def _delete(disk: MemoryDisk, journal: _Journal, op: ops.Delete, now: float) -> bool:
    current = _value(disk, op.space, op.key, now)
    expect_version(op, current)
    journal.delete(disk.values, (op.space, op.key))
    return current is not None


def _append(disk: MemoryDisk, journal: _Journal, op: ops.Append, _now: float) -> int:
    end = disk.ends.get(op.log, 0)
    if op.expect_end is not None and op.expect_end != end:
        raise StoreConflict(op, end)
    journal.set(disk.records, (op.log, end + 1), op.data)
    journal.set(disk.ends, op.log, end + 1)
    return end + 1


def _trim(disk: MemoryDisk, journal: _Journal, op: ops.Trim, _now: float) -> int:
    start = disk.starts.get(op.log, 0)
    through = min(op.through, disk.ends.get(op.log, 0))
    for position in range(start + 1, through + 1):
        journal.delete(disk.records, (op.log, position))
    if through > start:
        journal.set(disk.starts, op.log, through)
    return max(0, through - start)


def _put_document(disk: MemoryDisk, journal: _Journal, op: ops.PutDocument, _now: float) -> int:
    held = disk.documents.get((op.collection, op.id))
    expect_version(op, held[0] if held else None)
    version = _next_version(disk, journal)
    journal.set(disk.documents, (op.collection, op.id), (StoredDocument(op.id, op.body, version), op))
    return version


def _delete_document(disk: MemoryDisk, journal: _Journal, op: ops.DeleteDocument, _now: float) -> bool:
    held = disk.documents.get((op.collection, op.id))
    expect_version(op, held[0] if held else None)
    return journal.delete(disk.documents, (op.collection, op.id))


def _rows(disk: MemoryDisk, table: str, now: float) -> dict[Any, bytes]:
    """Return the bytes of a table by their place."""
    match table:
        case "value":
            live = ((place, _value(disk, *place, now)) for place in disk.values)
            return {place: held.value for place, held in live if held is not None}
        case "reply":
            replies = ((chain, seq, kept.reply) for (chain, seq), kept in disk.replies.items())
            return {(*_parts(chain), seq): reply for chain, seq, reply in replies if reply is not None}
        case "record":
            return dict(disk.records)
        case _:
            return {place: document.body for place, (document, _) in disk.documents.items()}


def _parts(chain: ChainKey) -> tuple[str, str, str]:
    return chain.book, chain.sender, chain.receiver


def _reseal(disk: MemoryDisk, journal: _Journal, op: ops.Reseal, now: float) -> bool:
    place: Any = op.place
    if _rows(disk, op.table, now).get(place) != op.was:
        return False
    match op.table:
        case "value":
            journal.set(disk.values, place, replace(disk.values[place], value=op.to))
        case "reply":
            key = ChainKey(*place[:3]), place[3]
            kept = disk.replies[key]
            _count(disk, journal, REPLIES, disk.holders[key[0]], len(op.to) - len(op.was))
            journal.set(disk.replies, key, replace(kept, reply=op.to))
        case "record":
            journal.set(disk.records, place, op.to)
        case _:
            document, put = disk.documents[place]
            journal.set(disk.documents, place, (replace(document, body=op.to), replace(put, body=op.to)))
    return True


def _held(disk: MemoryDisk, name: str, now: float) -> Lease | None:
    lease = disk.leases.get(name)
    return lease if lease is not None and lease.expires_at > now else None


def _acquire(disk: MemoryDisk, journal: _Journal, op: ops.Acquire, now: float) -> Lease:
    held = _held(disk, op.name, now)
    if held is not None and held.holder != op.holder:
        raise StoreConflict(op, held)
    last = disk.leases.get(op.name)
    token = held.token if held else (last.token if last else 0) + 1
    lease = Lease(op.name, op.holder, token, now + op.ttl)
    journal.set(disk.leases, op.name, lease)
    return lease


def _release(disk: MemoryDisk, journal: _Journal, op: ops.Release, now: float) -> bool:
    held = _held(disk, op.name, now)
    if held is None or held.token != op.token:
        return False
    journal.set(disk.leases, op.name, Lease(held.name, held.holder, held.token, now))
    return True


def _fence(disk: MemoryDisk, _journal: _Journal, op: ops.Fence, now: float) -> None:
    held = _held(disk, op.name, now)
    if held is None or held.token != op.token:
        raise StoreConflict(op, held)


_APPLY: dict[type[ops.Operation], Callable[[MemoryDisk, _Journal, Any, float], Any]] = {
    ops.Advance: _advance,
    ops.KeepReply: _keep_reply,
    ops.Answer: _answer,
    ops.DropReply: _drop_reply,
    ops.PruneReplies: _prune_replies,
    ops.ForgetReplies: _forget_replies,
    ops.Hold: _hold,
    ops.Put: _put,
    ops.Delete: _delete,
    ops.Append: _append,
    ops.Trim: _trim,
    ops.PutDocument: _put_document,
    ops.DeleteDocument: _delete_document,
    ops.Reseal: _reseal,
    ops.Acquire: _acquire,
    ops.Release: _release,
    ops.Fence: _fence,
}


def _tokens(text: str) -> list[str]:
    """Return words as the full-text index of the durable engine sees them: folded, without accents."""
    plain = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return "".join(c.lower() if c.isalnum() else " " for c in plain).split()


def _occurrences(tokens: list[str], phrase: list[str]) -> int:
    """Return how often the phrase stands in the text; its last word may be the beginning of one."""
    *whole, beginning = phrase
    return sum(
        tokens[at : at + len(whole)] == whole and tokens[at + len(whole)].startswith(beginning)
        for at in range(len(tokens) - len(whole))
    )
