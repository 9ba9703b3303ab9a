"""Reading the audit chains: verify one, read its last entries, prune it.

Verification needs no secret, only the node's public key, the store and the head files. The head files are read first,
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
from comity.store.audit_trail import (
    CHECKPOINTS,
    HEADS,
    log_of,
    read_head_file,
    read_signed_head,
    sign_checkpoint,
)
from comity.store.interface import LogRecord, Operation, Put, Store, Trim
from comity.wire.errors import MalformedError, StoreCorruptError

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


async def verify_chain(
    store: Store,
    chain: str,
    public: bytes,
    heads_folder: Path | None = None,
    seen: Callable[[int], None] = lambda _entries: None,
    each: Callable[[AuditEntry], None] = lambda _entry: None,
) -> AuditReport:
    """Check one chain from its beginning (or its signed checkpoint) to its signed head.

    `seen` is called with the number of entries read since its last call; `each` gets every entry that is sound.
    """
    outside = None if heads_folder is None else read_head_file(heads_folder / f"{chain}.head", public)
    sealed = await store.get(HEADS, chain)
    head = read_signed_head(sealed.value if sealed else None)
    reading = _ChainReading(chain, outside, each)

    stored_checkpoint = await store.get(CHECKPOINTS, chain)
    if stored_checkpoint is not None:
        checkpoint = read_signed_head(stored_checkpoint.value)
        if checkpoint is None or not checkpoint.proven(public, checkpoint=True):
            return reading.fault(1, "the checkpoint before it is not signed by this node")
        reading.start_after(checkpoint.head)

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
    if head is None or not head.proven(public):
        return reading.fault(reading.position, "the head of the chain is not signed by this node")
    return reading.finish(head.head, unsigned=await _is_unsigned(store, chain, head.head.position, public))


async def _next_page(store: Store, chain: str, after: int, last: int | None) -> list[LogRecord]:
    """Return the next entries up to `last`, the place of the head. Later ones were added since, or are forged."""
    if last is not None and after >= last:
        return []
    page = await store.read(log_of(chain), after=after, limit=_PAGE)
    return [record for record in page if last is None or record.position <= last]


async def _is_unsigned(store: Store, chain: str, position: int, public: bytes) -> bool:
    """Return whether there are entries after `position`, and still no signed head that is further."""
    log = log_of(chain)
    if await store.end(log) <= position and not await store.read(log, after=position, limit=1):
        return False
    sealed = await store.get(HEADS, chain)
    newer = read_signed_head(sealed.value if sealed else None)
    return newer is None or newer.head.position <= position or not newer.proven(public)


class _ChainReading:
    """One pass over a chain, entry by entry."""

    def __init__(self, chain: str, outside: AuditHead | None, each: Callable[[AuditEntry], None]) -> None:
        self.position = 0
        self._each = each
        self._chain = chain
        self._outside = outside
        self._entries = 0
        self._prior: AuditEntry | AuditHead | None = None
        self._seen_outside = outside is None or outside.position == 0

    @property
    def untouched(self) -> bool:
        """Return whether the log is empty, and nothing outside has seen an entry."""
        return self.position == 0 and self._seen_outside

    def start_after(self, checkpoint: AuditHead) -> None:
        self._prior, self.position = checkpoint, checkpoint.position
        self._seen_outside |= self._outside is not None and self._outside.position < checkpoint.position
        self._compare(checkpoint.position, checkpoint.entry_hash)

    def take(self, position: int, data: bytes) -> AuditReport | None:
        expected = self.position + 1
        if position != expected:
            return self.fault(expected, "is missing")
        try:
            entry = audit.decode(data)
        except MalformedError as reason:
            return self.fault(expected, reason.message)
        verdict = audit.verify([entry], prior=self._prior)
        if not verdict.ok:
            return self.fault(expected, verdict.message or "is wrong")
        if not self._compare(position, entry.entry_hash):
            return self.fault(expected, "is not the entry that the head file has seen")
        self._prior, self.position = entry, position
        self._entries += 1
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
        if unsigned or (head.position, head.entry_hash) != (self.position, ending):
            return self.fault(head.position + 1, f"stands beyond the signed head at {head.position}")
        return AuditReport(chain=self._chain, ok=True, entries=self._entries)

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
) -> tuple[Put, Trim] | tuple[()]:
    """Return what deletes the entries that are older than `days`; a signed checkpoint says what the chain then starts
    from. The last entry always stays. Nothing, where no entry is that old.
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
    )


# What a store remembers of having been restored from a backup.

RESTORED = "RESTORED"
"""The audit entry that goes with each setting of the moment."""

_SPACE = "restored"
_KEY = "moment"


class RestoreMark(Struct, frozen=True, kw_only=True):
    """`started`: a node has run since, and the moment stays what it is."""

    at: float
    started: bool = False


async def read_restored(store: Store) -> RestoreMark | None:
    held = await store.get(_SPACE, _KEY)
    try:
        return None if held is None else msgspec.json.decode(held.value, type=RestoreMark)
    except msgspec.MsgspecError:
        raise StoreCorruptError(
            "what is stored about the last restore cannot be read; restore the database from a backup"
        ) from None


def keep_restored(restored: RestoreMark) -> Operation:
    return Put(space=_SPACE, key=_KEY, value=msgspec.json.encode(restored))
