"""The stored logs of votes, encrypted: those that this node hosts, and its copies of those hosted elsewhere.

| space | key | value |
|---|---|---|
| `deliberations` | hash of the id | the state after the last entry, and the address of the host |
| `deliberation.entries` | that hash`:`number | one entry with both signatures |
| `deliberation.waiting` | that hash`:`number | an act of this node that the host has not accepted yet |

- An entry and the new state of its vote are one transaction, made from the version that was read: of two processes that
  add an entry, one commits, and the other reads again.
- The vault encrypts all values: clauses, reasons and concerns are what people said.
- In this process one task at a time adds to a log (`locks`).
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
from comity.votes.protocol.acts import CLOSE, after_act
from comity.votes.protocol.log import (
    ConflictingRecord,
    LogHead,
    SignedTip,
    VoteEntry,
    conflict_between,
    read_entry,
    tip_of,
    write_entry,
)
from comity.votes.protocol.operations import is_superseded_by
from comity.votes.protocol.vote import Vote
from comity.wire import strict_json
from comity.wire.errors import KeyRefusedError, MalformedError, StoreCorruptError
from comity.wire.machine import clock_words

FEATURE: Final = "deliberation"
SPACE: Final = "deliberations"
ENTRIES_SPACE: Final = "deliberation.entries"
WAITING_SPACE: Final = "deliberation.waiting"
LOG_BYTES: Final = 64 * 1024 * 1024
MAX_VOTES: Final = 1000
MAX_OF_A_VISITOR: Final = 100
MAX_WAITING: Final = 100
REFUSED_KEPT_SECONDS: Final = 7 * 86_400.0
SCAN_THRESHOLD: Final = "medium"
"""A text is refused if it looks like an injection of at least this severity."""

_PAGE: Final = 256
_NEED_ROOM: Final = frozenset(("consensus.vote", "consensus.advance", CLOSE))
_SHARE_OF_TEXTS: Final = 0.75
_CLOSE_BYTES: Final = 64 * 1024


class EarlyClose(Struct, frozen=True, kw_only=True):
    """An entry with which the host closed a phase before its deadline, by our clock at that time."""

    entry: VoteEntry
    seen_at: float
    why: str


class StoredVote(Struct, frozen=True, kw_only=True, rename={"conflict": "fraud"}):
    """`url` is the address of the host; empty if that is this node. `public_only` says that somebody else than the owner of
    this node named it. `size` is the bytes of all entries. `conflict` proves that the host signed two entries with one
    number. `early` is kept also after the deadline.
    """

    head: LogHead
    url: str = ""
    public_only: bool = False
    size: int = 0
    conflict: ConflictingRecord | None = None
    early: EarlyClose | None = None

    @property
    def vote(self) -> Vote:
        return self.head.vote

    @property
    def id(self) -> str:
        return self.head.vote.id


class WaitingAct(Struct, frozen=True, kw_only=True):
    """An act as it was last signed. It is stored before it is sent, so that an act whose reply was lost is found in the
    log and never done twice. `refusal` is the sentence with which the host refused it.

    `round` is how often the phase had changed when the party acted, None in old rows: the act belongs to that phase and
    its text. `left_out`: it was signed before the deadline, and the host closed the phase without it, or refused it though
    it is valid by all that is known here.
    """

    delib_id: str
    place: int
    entry: VoteEntry
    since: float
    refusal: str = ""
    round: int | None = None
    deadline: float | None = None
    left_out: bool = False

    def is_valid_in(self, stored: "StoredVote") -> bool:
        vote, action = stored.vote, self.entry.action
        if self.round != len(vote.phase_history) or vote.rules == 1:
            return False
        try:
            after_act(vote, self.entry.voice, action.op, action.args, self.since)
        except ExtensionError:
            return False
        return True

    def is_replaced_by(self, entry: VoteEntry) -> bool:
        """Return whether this act was refused and the party now does another of its kind."""
        ours, theirs = (
            (one.voice, one.action.op, one.action.args.get("clause_id")) for one in (self.entry, entry)
        )
        return bool(self.refusal) and ours == theirs

    def is_left_out_of(self, stored: "StoredVote") -> bool:
        """Return whether the phase was closed without this act, which was signed in time."""
        if self.round is None or self.deadline is None or self.since > self.deadline:
            return False
        after = stored.vote.phase_history[self.round : self.round + 1]
        return after[0].closed if after else stored.early is not None


class VersionedVote(Struct, frozen=True):
    """A stored vote, and the version of its row."""

    stored: StoredVote
    version: int


class Ledger:
    def __init__(self, store: Store, vault: Callable[[], Vault], *, log_bytes: int = LOG_BYTES) -> None:
        """`vault` is called each time, because its key may be removed. `log_bytes` limits the size of one log. Hold the
        lock of its id to add to a log that is hosted here.
        """
        self.locks = KeyedLocks()
        self._store = store
        self._vault = vault
        self._log_bytes = log_bytes

    async def find(self, delib_id: str) -> VersionedVote | None:
        row = await self._store.get(SPACE, _digest(delib_id))
        return None if row is None else VersionedVote(_read_vote(self.unseal(row.value)), row.version)

    async def all(self) -> list[StoredVote]:
        """Return all votes, the oldest first."""
        found = [_read_vote(self.unseal(row.value)) async for _, row in scan_all(self._store, SPACE)]
        return sorted(found, key=lambda stored: (stored.vote.created_at, stored.id))

    async def count(self) -> int:
        return len([key async for key, _ in scan_all(self._store, SPACE)])

    async def entry(self, delib_id: str, number: int) -> VoteEntry | None:
        row = await self._store.get(ENTRIES_SPACE, _key(delib_id, number))
        return None if row is None else self._entry(row.value)

    async def entries(self, delib_id: str, after: int = 0, limit: int = _PAGE) -> list[VoteEntry]:
        """Return the entries after number `after`, at most `limit`."""
        page = await self._store.scan(
            ENTRIES_SPACE, prefix=_key(delib_id), after=_key(delib_id, after), limit=limit
        )
        return [self._entry(row.value) for _, row in page]

    async def all_entries(self, delib_id: str) -> list[VoteEntry]:
        found: list[VoteEntry] = []
        while page := await self.entries(delib_id, len(found)):
            found += page
        return found

    def adding(
        self, before: VersionedVote | None, after: StoredVote, entries: Iterable[VoteEntry]
    ) -> tuple[Operation, ...]:
        """Return the operations that store new entries. Raise LIMIT_EXCEEDED if the log would become too large."""
        entries = list(entries)
        values = [strict_json.dumps(write_entry(entry)) for entry in entries]
        size = (0 if before is None else before.stored.size) + sum(map(len, values))
        if size > self._log_bytes + (_CLOSE_BYTES if entries and entries[-1].action.op == CLOSE else 0):
            raise ExtensionError(
                "LIMIT_EXCEEDED", f"the log of this vote would exceed {self._log_bytes:,} bytes"
            )
        first = after.head.tip.number - len(values) + 1
        return (
            self.changing(before, msgspec.structs.replace(after, size=size)),
            *(
                Put(space=ENTRIES_SPACE, key=_key(after.id, number), value=self.seal(value), expect=0)
                for number, value in enumerate(values, first)
            ),
        )

    def refuse_full(self, stored: StoredVote, entry: VoteEntry) -> None:
        """Refuse as the host what would leave no room for the votes: nobody keeps others from voting by filling the log."""
        if stored.vote.rules == 1 or entry.action.op in _NEED_ROOM:
            return
        size = stored.size + len(strict_json.dumps(write_entry(entry)))
        if size > self._log_bytes * _SHARE_OF_TEXTS:
            most = int(self._log_bytes * _SHARE_OF_TEXTS)
            raise ExtensionError(
                "LIMIT_EXCEEDED",
                f"the log of this vote would exceed {most:,} bytes; the rest is kept for votes",
            )

    def changing(self, before: VersionedVote | None, after: StoredVote) -> Operation:
        """Return the operation that stores a change without a new entry."""
        return Put(
            space=SPACE,
            key=_digest(after.id),
            value=self.seal(_encode(after)),
            expect=0 if before is None else before.version,
        )

    async def removing(self, delib_id: str) -> tuple[Operation, ...]:
        """Return the operations that remove everything of a vote."""
        operations: list[Operation] = [Delete(space=SPACE, key=_digest(delib_id))]
        for space in (ENTRIES_SPACE, WAITING_SPACE):
            stored = scan_all(self._store, space, _key(delib_id))
            operations += [Delete(space=space, key=key) async for key, _ in stored]
        return tuple(operations)

    async def waiting(self, delib_id: str | None = None) -> list[WaitingAct]:
        """Return the acts that wait or were refused, of one vote or of all, in their order."""
        prefix = "" if delib_id is None else _key(delib_id)
        waiting = scan_all(self._store, WAITING_SPACE, prefix)
        return [_read_waiting(self.unseal(row.value)) async for _, row in waiting]

    def holding(self, act: WaitingAct, now: float) -> Operation:
        """Return the operation that stores a waiting act. A refused one is kept for some days, to be shown; one that was
        left out is kept as long as the vote.
        """
        return Put(
            space=WAITING_SPACE,
            key=_key(act.delib_id, act.place),
            value=self.seal(_encode(act)),
            expires_at=now + REFUSED_KEPT_SECONDS if act.refusal and not act.left_out else None,
        )

    def releasing(self, act: WaitingAct) -> Operation:
        return Delete(space=WAITING_SPACE, key=_key(act.delib_id, act.place))

    def _entry(self, stored: bytes) -> VoteEntry:
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
                "a stored vote cannot be decrypted; restore vault.key in the data folder, or set "
                "VCP_CONTEXT_ENCRYPTION_KEY"
            )
        return opened


def same_entry(one: VoteEntry, other: VoteEntry | None) -> bool:
    """Return whether two entries are the same act, whichever host signed them."""
    return other is not None and one.hash() == other.hash()


async def find_conflict(ledger: Ledger, stored: StoredVote, tip: SignedTip) -> ConflictingRecord | None:
    """Return the conflicting records if a received tip differs from the entry of that number in our log."""
    own = await ledger.entry(stored.id, tip.number)
    return None if own is None else conflict_between(stored.vote.host, tip_of(own), tip)


def conflict_error(conflict: ConflictingRecord) -> ExtensionError:
    return ExtensionError(
        "CONFLICT",
        f"the host {conflict.host} has signed two entries with the number {conflict.first.number}: "
        f"{conflict.first.hash[:12]} and {conflict.second.hash[:12]}. The conflicting records are stored as proof; nothing "
        "more is decided in this vote",
        "tip",
    )


def refuse_another_phase(act: WaitingAct, stored: StoredVote) -> None:
    """Refuse to sign an act again for another phase than the one in which it was said."""
    vote = stored.vote
    if act.round is None or act.round == len(vote.phase_history):
        return
    action = act.entry.action
    after_act(vote, act.entry.voice, action.op, action.args, act.since)  # often it says best what has changed
    raise ExtensionError(
        "PRECONDITION_FAILED",
        f"the phase has changed since you acted, and the text may have changed with it; now it is {vote.phase}. Look at it "
        "and act again",
    )


def is_superseded(stored: StoredVote, known: Iterable[StoredVote]) -> bool:
    return any(is_superseded_by(stored.vote, newer.vote) for newer in known)


def dispute_of(stored: StoredVote, acts: Iterable[WaitingAct]) -> str:
    """Say why this node disputes the result of a vote; empty if it does not. `acts` are those that wait or were refused."""
    if stored.early is not None:
        return stored.early.why
    left_out = [act for act in acts if act.delib_id == stored.id and act.left_out]
    if not left_out:
        return ""
    first = left_out[0]
    return (
        f"your act {first.entry.action.op.removeprefix('consensus.')}, signed at {clock_words(first.since)} and before the "
        f"deadline, was left out by the host, which said: {first.refusal}"
    )


_encode = msgspec.json.Encoder().encode


def _corrupt() -> StoreCorruptError:
    return StoreCorruptError("a stored vote cannot be read; run comity doctor")


_read_vote: Final = stored_json(StoredVote, _corrupt)
_read_waiting: Final = stored_json(WaitingAct, _corrupt)


def _digest(delib_id: str) -> str:
    """Return a hash: an id is chosen by the host, and may be a prefix of another."""
    return hashlib.sha256(delib_id.encode()).hexdigest()


def _key(delib_id: str, number: int | None = None) -> str:
    return f"{_digest(delib_id)}:" + ("" if number is None else f"{number:06d}")
