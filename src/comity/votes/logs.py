"""The stored logs of deliberations, sealed: those that this node keeps, and its copies of those kept elsewhere.

| space | key | value |
|---|---|---|
| `deliberations` | hash of the id | where its log stands, and where its keeper answers |
| `deliberation.entries` | that hash`:`number | one entry under both signatures |
| `deliberation.waiting` | that hash`:`number | an act of this node that the keeper has not taken yet |

- An entry and the new state of its deliberation are one transaction, made from the version that was read: of two
  processes that add an entry one gets through, and the other reads again.
- All values are sealed by the vault: clauses, reasons and concerns are what people said.
- One at a time adds to a log in this process (`turns`).
"""

import hashlib
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from comity.requests.handler import KeyedLocks
from comity.store.interface import Delete, Operation, Put, Store, scan_all
from comity.store.vault import Vault, stored_json
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.votes.protocol.log import (
    ConflictingRecord,
    DeliberationEntry,
    KeptTip,
    LogHead,
    fraud_between,
    read_entry,
    tip_of,
    write_entry,
)
from comity.votes.protocol.vote import Deliberation
from comity.wire import strict_json
from comity.wire.errors import KeyRefusedError, MalformedError, StoreCorruptError

SPACE: Final = "deliberations"
ENTRIES_SPACE: Final = "deliberation.entries"
WAITING_SPACE: Final = "deliberation.waiting"
LOG_BYTES: Final = 64 * 1024 * 1024
MAX_DELIBERATIONS: Final = 1000
MAX_OF_A_VISITOR: Final = 100
MAX_WAITING: Final = 100
REFUSED_KEPT_SECONDS: Final = 7 * 86_400.0
SCAN_THRESHOLD: Final = "medium"
"""From how severe a finding on, a text that looks like an injection is refused."""

_PAGE: Final = 256


class KeptDeliberation(Struct, frozen=True, kw_only=True):
    """`url` is where the keeper answers; empty where this node keeps the log itself. `public_only` is whether somebody
    else than the owner of this node named it. `size` is what all entries come to, in bytes. `fraud` is proof that the keeper signed two entries with one number.
    """

    head: LogHead
    url: str = ""
    public_only: bool = False
    size: int = 0
    fraud: ConflictingRecord | None = None

    @property
    def deliberation(self) -> Deliberation:
        return self.head.deliberation

    @property
    def id(self) -> str:
        return self.head.deliberation.id


class WaitingAct(Struct, frozen=True, kw_only=True):
    """An act as it was last signed. It is stored before it is sent, so that an act whose answer was lost is
    recognised in the log and never done twice. `refusal` is what the keeper said to it at last.
    """

    delib_id: str
    place: int
    entry: DeliberationEntry
    since: float
    refusal: str = ""


class Read(Struct, frozen=True):
    """A deliberation and the version it was stored as."""

    kept: KeptDeliberation
    version: int


class Ledger:
    def __init__(self, store: Store, vault: Callable[[], Vault], *, log_bytes: int = LOG_BYTES) -> None:
        """`vault` is asked each time, for its key may go. `log_bytes` is the most that one log may come to. Whoever
        adds to a log that is kept here holds the turn of its id.
        """
        self.turns = KeyedLocks()
        self._store = store
        self._vault = vault
        self._log_bytes = log_bytes

    async def find(self, delib_id: str) -> Read | None:
        held = await self._store.get(SPACE, _digest(delib_id))
        return None if held is None else Read(_read_kept(self.unseal(held.value)), held.version)

    async def all(self) -> list[KeptDeliberation]:
        """Those that were opened first come first."""
        found = [_read_kept(self.unseal(held.value)) async for _, held in scan_all(self._store, SPACE)]
        return sorted(found, key=lambda kept: (kept.deliberation.created_at, kept.id))

    async def count(self) -> int:
        return len([key async for key, _ in scan_all(self._store, SPACE)])

    async def entry(self, delib_id: str, number: int) -> DeliberationEntry | None:
        held = await self._store.get(ENTRIES_SPACE, _key(delib_id, number))
        return None if held is None else self._entry(held.value)

    async def entries(self, delib_id: str, after: int = 0, limit: int = _PAGE) -> list[DeliberationEntry]:
        """Those behind number `after`, at most so many."""
        page = await self._store.scan(
            ENTRIES_SPACE, prefix=_key(delib_id), after=_key(delib_id, after), limit=limit
        )
        return [self._entry(held.value) for _, held in page]

    async def all_entries(self, delib_id: str) -> list[DeliberationEntry]:
        found: list[DeliberationEntry] = []
        while page := await self.entries(delib_id, len(found)):
            found += page
        return found

    def adding(
        self, before: Read | None, after: KeptDeliberation, entries: Iterable[DeliberationEntry]
    ) -> tuple[Operation, ...]:
        """What has to be stored with new entries. Raises LIMIT_EXCEEDED where the log has no room for them."""
        values = [strict_json.dumps(write_entry(entry)) for entry in entries]
        size = (0 if before is None else before.kept.size) + sum(map(len, values))
        if size > self._log_bytes:
            raise ExtensionError(
                "LIMIT_EXCEEDED", f"the log of this deliberation would exceed {self._log_bytes:,} bytes"
            )
        first = after.head.tip.number - len(values) + 1
        return (
            self.changing(before, msgspec.structs.replace(after, size=size)),
            *(
                Put(
                    space=ENTRIES_SPACE,
                    key=_key(after.id, first + index),
                    value=self.seal(value),
                    expect=0,
                )
                for index, value in enumerate(values)
            ),
        )

    def changing(self, before: Read | None, after: KeptDeliberation) -> Operation:
        """What has to be stored where the log stays as it is."""
        return Put(
            space=SPACE,
            key=_digest(after.id),
            value=self.seal(_encode(after)),
            expect=0 if before is None else before.version,
        )

    async def removing(self, delib_id: str) -> tuple[Operation, ...]:
        """What has to be removed so that nothing is left of a deliberation."""
        operations: list[Operation] = [Delete(space=SPACE, key=_digest(delib_id))]
        for space in (ENTRIES_SPACE, WAITING_SPACE):
            stored = scan_all(self._store, space, _key(delib_id))
            operations += [Delete(space=space, key=key) async for key, _ in stored]
        return tuple(operations)

    async def waiting(self, delib_id: str | None = None) -> list[WaitingAct]:
        """Acts that wait or were refused at last, of one deliberation or of all, in their order."""
        prefix = "" if delib_id is None else _key(delib_id)
        waiting = scan_all(self._store, WAITING_SPACE, prefix)
        return [_read_waiting(self.unseal(held.value)) async for _, held in waiting]

    def holding(self, act: WaitingAct, now: float) -> Operation:
        """What has to be stored so that an act is not forgotten; one that was refused is told for some days."""
        return Put(
            space=WAITING_SPACE,
            key=_key(act.delib_id, act.place),
            value=self.seal(_encode(act)),
            expires_at=now + REFUSED_KEPT_SECONDS if act.refusal else None,
        )

    def releasing(self, act: WaitingAct) -> Operation:
        return Delete(space=WAITING_SPACE, key=_key(act.delib_id, act.place))

    def _entry(self, stored: bytes) -> DeliberationEntry:
        try:
            return read_entry(strict_json.loads(self.unseal(stored)))
        except (ExtensionError, MalformedError):
            raise _corrupt() from None

    def seal(self, value: bytes) -> bytes:
        return self._vault().seal(value)

    def unseal(self, stored: bytes) -> bytes:
        opened = self._vault().open(stored)
        if opened is None:
            raise KeyRefusedError(
                "a stored deliberation cannot be decrypted; restore vault.key in the data folder, or set "
                "VCP_CONTEXT_ENCRYPTION_KEY"
            )
        return opened


def same_entry(one: DeliberationEntry, other: DeliberationEntry | None) -> bool:
    """Whether two entries are the same act, whoever has signed them as keeper."""
    return other is not None and one.hash() == other.hash()


async def fraud_by(ledger: Ledger, kept: KeptDeliberation, tip: KeptTip) -> ConflictingRecord | None:
    """Proof of fraud, if a received tip differs from the entry of that number in our own log."""
    own = await ledger.entry(kept.id, tip.number)
    return None if own is None else fraud_between(kept.deliberation.keeper, tip_of(own), tip)


def fraud_error(fraud: ConflictingRecord) -> ExtensionError:
    return ExtensionError(
        "CONFLICT",
        f"the keeper {fraud.keeper} has signed two entries with the number {fraud.first.number}: "
        f"{fraud.first.hash[:12]} and {fraud.second.hash[:12]}. This is proof of fraud and is kept; nothing more is "
        "decided in this deliberation",
        "tip",
    )


_encode = msgspec.json.Encoder().encode


def _corrupt() -> StoreCorruptError:
    return StoreCorruptError("a stored deliberation cannot be read; run comity doctor")


_read_kept: Final = stored_json(KeptDeliberation, _corrupt)
_read_waiting: Final = stored_json(WaitingAct, _corrupt)


def _digest(delib_id: str) -> str:
    """An id is its keeper's choice, and may look like the beginning of another."""
    return hashlib.sha256(delib_id.encode()).hexdigest()


def _key(delib_id: str, number: int | None = None) -> str:
    return f"{_digest(delib_id)}:" + ("" if number is None else f"{number:06d}")
