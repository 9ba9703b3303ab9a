"""Whether both chains of a pair are what they were: the stored messages, the audit record and the tips must agree.

- Several processes write audit chains of their own, so the entries of one pair are in several of them. Their order is
  known by what they say: an answered call to us names its numbers, and each change of what we store of our calls names
  the version that it replaced and a hash of all that it left (`pair_check`).
- A book is read at one moment: its tips, its stored messages, and how far each audit chain reaches. If a tip has moved
  meanwhile, it is read again. So entries that came later are known, and are left out.
- Entries of older releases name no numbers. Of these, the pair that was answered last must be on record, and their
  number must fit.
- Where the key of this node was replaced, each key has books of its own, and the entries of its time.
- Where pruning may have taken the last entry of a book away, nothing is held against it, and the report says so.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.client.pair import (
    CALL_BOOK,
    CALL_SPACE,
    PairRecord,
    pair_state,
    read_record,
    reply_check,
)
from comity.envelopes.pairs import OpenVault, row_of
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_jsonrpc,
    from_a2a_message,
    from_a2a_result,
    recognise,
    reply_is_bound,
    to_a2a_message,
)
from comity.envelopes.protocol.metadata import COMITY_METADATA_KEY
from comity.envelopes.queues import SERVE_BOOK, added_hash, chain_of
from comity.envelopes.sealing import ReplyVault
from comity.identity.protocol.keys import VacantId
from comity.identity.protocol.succession import Succession
from comity.store.audit_chain import NOT_APPLICABLE, AuditEntry, privacy_hash
from comity.store.audit_log import chains, chains_outside, verify_chain
from comity.store.audit_trail import CHECKPOINTS, log_of
from comity.store.interface import Store, StoredReply, Tip
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConflictError, StoreCorruptError

STORED_REPLIES: Final = 64

_MOVED: Final = frozenset({"CALL_RESYNCHRONISED", "CALL_CHAIN_FORGOTTEN"})
_IMPORTED: Final = frozenset({"IDENTITY_IMPORTED", "REPLAY_IMPORTED"})
_HASH: Final = "blake2b:"
_REPLY: Final = reply_check(CALL_BOOK, b"")
_PAIR: Final = f"pair:{CALL_BOOK}:"
_PLACE: Final = f"place:{SERVE_BOOK}:"
_TRIES: Final = 100
_UNREADABLE: Final = b"\0"
"""Stands for a stored reply that does not open."""


class PairReport(Struct, frozen=True, kw_only=True):
    """`calls` were found in the audit record, `replies` are stored and rightly signed. `number` of the calls in that
    `book` is the first bad one. `partial`: of a book the last entry was pruned, so only the stored messages speak for
    where its chains end.
    """

    vacant_id: str
    ok: bool
    calls: int = 0
    replies: int = 0
    partial: bool = False
    book: str | None = None
    number: int | None = None
    message: str | None = None


def verdict_of(report: PairReport) -> str:
    if report.ok:
        kept = f"calls on record: {report.calls:,}, stored replies: {report.replies:,}"
        return f"sound{', as far as the record goes back' if report.partial else ''}; {kept}"
    where = {SERVE_BOOK: "call to us, ", CALL_BOOK: "call by us, "}.get(report.book or "", "")
    number = "" if report.number is None else f"number {report.number:,}: "
    return f"BAD: {where}{number}{report.message}"


async def verify_pairs(
    store: Store,
    own: VacantId,
    peers: Sequence[VacantId],
    vault: OpenVault,
    heads: Path | None = None,
    seen: Callable[[int], None] = lambda _entries: None,
    *,
    whole: bool = False,
    line: Sequence[Succession] = (),
) -> list[PairReport]:
    """`line` are the statements by which `own` replaced its former keys. `vault` opens what is stored. `heads` is the folder
    of the signed heads; `seen` is called with the number of audit entries read since its last call. `whole`: the peers are
    all that there are, so calls with anybody else must not be on record.
    """
    eras = _eras_of(own, line)
    books = [
        await _read_book(store, era, peer, book, vault)
        for peer in peers
        for era in eras
        for book in (SERVE_BOOK, CALL_BOOK)
    ]
    signers = tuple(era.own.public for era in eras)
    record = _Record(books)
    for chain in await _chain_names(store, heads):
        try:
            report = await verify_chain(store, chain, signers, heads, seen, record.reader_of(chain))
            said = report.message
        except StoreCorruptError as damage:
            said = damage.message
        if said is not None:
            message = f"chain {chain} of the audit record: {said}"
            return [PairReport(vacant_id=peer.hex(), ok=False, message=message) for peer in peers]
        if await store.get(CHECKPOINTS, chain) is not None:
            record.was_pruned(chain)
    reports = [_report(peer, [book for book in books if book.peer == peer], record) for peer in peers]
    return reports + record.strangers() if whole else reports


async def _chain_names(store: Store, heads: Path | None) -> list[str]:
    """Return the chains in the database and those that only a head outside names."""
    return sorted({*await chains(store), *chains_outside(heads)})


class _Fault(NamedTuple):
    number: int
    message: str


class _Kept(NamedTuple):
    """A stored reply that is rightly signed: the hash of its request and its own, and of what else is in it."""

    number: int
    request: str
    reply: str
    added: str = ""


class _Newest(NamedTuple):
    """The entry that has the last word on a book: its place among them, what it says, when, and in which chain."""

    order: int
    state: str
    at: str
    chain: str


class _Era(NamedTuple):
    """A key of this node, and when it was the current one; empty for no beginning or no end."""

    own: VacantId
    begins: str = ""
    ends: str = ""

    def holds(self, at: str) -> bool:
        return self.begins <= at and (not self.ends or at < self.ends)


def _eras_of(own: VacantId, line: Sequence[Succession]) -> list[_Era]:
    """Return the current key and those before it, the newest first."""
    moments = ["", *(each.time for each in line), ""]
    ids = [*(VacantId.from_hex(each.old) for each in line), own]
    eras = [_Era(each, *moments[place : place + 2]) for place, each in enumerate(ids)]
    return eras[::-1]


class _Book:
    """A book at one moment, and what the audit record says of it. `ends` is how far each audit chain reached then."""

    def __init__(
        self, name: str, era: _Era, peer: VacantId, requests: Tip, replies: Tip, ends: Mapping[str, int]
    ) -> None:
        self.name = name
        self.era = era
        self.peer = peer
        self.requests = requests
        self.replies = replies
        self.ends = ends
        self.state = ""
        self.kept: list[_Kept] = []
        self.stored_fault: _Fault | None = None
        self._unseen: dict[str, _Kept] = {}
        self._contradicted: _Kept | None = None
        self.found = False
        self.answered = 0
        self.sent = 0
        self._newest: _Newest | None = None
        self._answered_at = ""
        self._moved_at = ""
        self._unnamed_at = ""

    def keep(self, kept: _Kept) -> None:
        self.kept.append(kept)
        self._unseen[kept.request] = kept

    def was_moved(self, at: str) -> None:
        """Note that the chain was set to a place that no message of the record led to."""
        self._moved_at = max(self._moved_at, at)

    def was_unnamed(self, at: str) -> None:
        """Note a change by an entry that says nothing of what it left."""
        self._unnamed_at = max(self._unnamed_at, at)

    def was_left(self, newest: _Newest) -> None:
        if self._newest is None or newest.order >= self._newest.order:
            self._newest = newest

    def was_answered(self, request: str, reply: str, at: str, added: str | None = None) -> None:
        self._answered_at = max(self._answered_at, at)
        self.answered += 1
        self.found |= (request, reply) == (self.requests.hash.hex(), self.replies.hash.hex())
        kept = self._unseen.pop(request, None)
        if kept is not None and (kept.reply != reply or added not in (None, kept.added)):
            self._contradicted = kept

    def is_partial(self, pruned: Mapping[str, str]) -> bool:
        """Return whether pruning may have taken away the entry that had the last word: one of another chain, since what
        a chain still has comes after what it lost. `pruned` says of each pruned chain when it begins now.
        """
        if (newest := self._word) is not None:
            later = any(newest.at < begins for chain, begins in pruned.items() if chain != newest.chain)
            return newest.state != self.state and later
        later = any(self._answered_at < begins for begins in pruned.values())
        return later and not self.found and not self._is_untouched

    @property
    def _word(self) -> _Newest | None:
        """Return the last entry that says what it left, if no other entry came after it."""
        newest = self._newest
        return None if newest is None or newest.at < self._unnamed_at else newest

    @property
    def _is_untouched(self) -> bool:
        return not self.answered and self.requests == self.replies == Tip()

    def fault(self, pruned: Mapping[str, str]) -> _Fault | None:
        """Return what is wrong with what is stored. What names a message comes first, then where the chains end."""
        strange = self._contradicted
        if strange is None and not pruned:
            strange = next(iter(self._unseen.values()), None)
        if strange is not None:
            return _Fault(strange.number, "its stored reply is not the one that the audit record has seen")
        if self.stored_fault is not None:
            return self.stored_fault
        last, newest = self.requests.seq, self._word
        if self.is_partial(pruned):
            return None
        if newest is None:
            return self._fault_by_count(last, pruned=bool(pruned))
        if newest.state == self.state:
            return None
        if self.found and self.answered != last:
            return self._wrong_count(last)
        if self.found:
            return _Fault(last, "what is stored of the calls is not what the audit record saw last")
        return self._wrong_end(last)

    def _fault_by_count(self, last: int, *, pruned: bool) -> _Fault | None:
        known = self.answered
        if not self.found:
            if self._is_untouched or self._moved_at > self._answered_at:
                return None
            return self._wrong_end(last)
        if self._moved_at or known == last or known < last <= (last if pruned else self.sent):
            return None
        return self._wrong_count(last)

    def _wrong_end(self, last: int) -> _Fault:
        return _Fault(last, "the chains do not end on the messages that the audit record saw last")

    def _wrong_count(self, last: int) -> _Fault:
        said = f"the audit record has {self.answered:,} answered requests, the chain ends at {last:,}"
        return _Fault(last, said)


class _Record:
    """Gives each entry to the book that it is about, whichever chain it is in."""

    def __init__(self, books: Sequence[_Book]) -> None:
        self._books = books
        self._by_name: dict[tuple[str, str], list[_Book]] = defaultdict(list)
        for book in books:
            self._by_name[book.name, privacy_hash(f"vacant:{book.peer.hex()}")].append(book)
        self._begins: dict[str, str] = {}
        self._strangers: Counter[tuple[str, str]] = Counter()
        self.pruned: dict[str, str] = {}

    def was_pruned(self, chain: str) -> None:
        """Note that entries from before the first one that was read may be gone."""
        self.pruned[chain] = self._begins.get(chain, "")

    def strangers(self) -> list[PairReport]:
        """Return reports of those with whom there are calls on record and nothing is stored."""
        return [
            PairReport(
                vacant_id=peer,
                ok=False,
                book=book,
                message=f"the audit record has {calls:,} calls with this agent, and nothing of them is stored",
            )
            for (book, peer), calls in self._strangers.items()
        ]

    def reader_of(self, chain: str) -> Callable[[AuditEntry], None]:
        reached = 0

        def read(entry: AuditEntry) -> None:
            nonlocal reached
            if entry.chain_position <= reached:  # the chain is read again from its new beginning
                return
            reached = entry.chain_position
            self._begins.setdefault(chain, entry.created_at)
            event = entry.verification_result
            if event in _IMPORTED:
                for book in self._books:
                    if not book.era.holds(entry.created_at):
                        continue
                    book.was_moved(entry.created_at)
                    book.was_unnamed(entry.created_at)
            elif event == "ENVELOPE_OK":
                served = self._book(SERVE_BOOK, entry.issuer_hash, chain, entry)
                if (
                    served is not None and entry.content_hash != NOT_APPLICABLE
                ):  # else a reply was given again
                    _take_served(served, chain, entry)
            elif event.startswith("CALL_"):
                called = self._book(CALL_BOOK, entry.content_hash, chain, entry)
                if called is not None:
                    _take_called(called, chain, entry)

        return read

    def _book(self, name: str, peer: str, chain: str, entry: AuditEntry) -> _Book | None:
        """Return the book of the id that the entry names; of older entries, that of the id at their time."""
        books = self._by_name.get((name, peer), ())
        said = _check_named(entry, _PLACE if name == SERVE_BOOK else _PAIR)
        if said is None:
            book = next((each for each in books if each.era.holds(entry.created_at)), None)
        else:
            own = said.partition(":")[0]
            book = next((each for each in books if each.era.own.short() == own), None)
            if book is None:
                self._strangers[name, peer] += 1
        return book if book is not None and entry.chain_position <= book.ends.get(chain, 0) else None


def _take_served(book: _Book, chain: str, entry: AuditEntry) -> None:
    request = (entry.request_id_hash or "").removeprefix(_HASH)
    reply = entry.content_hash.removeprefix(_HASH)
    place = _check_named(entry, _PLACE)
    if place is None:
        book.was_answered(request, reply, entry.created_at)
        book.was_unnamed(entry.created_at)
        return
    _own, number, replied, *added = place.split(":")
    book.was_answered(request, reply, entry.created_at, "".join(added))
    state = _state_of_served(f"{number}:{replied}", request, reply)
    book.was_left(_Newest(int(number), state, entry.created_at, chain))


def _take_called(book: _Book, chain: str, entry: AuditEntry) -> None:
    event, reply = entry.verification_result, _check_named(entry, _REPLY)
    state = _check_named(entry, _PAIR)
    if state is not None:
        _own, expected, hashed = state.split(":")
        book.was_left(_Newest(int(expected), hashed, entry.created_at, chain))
    elif reply is None and any(each.startswith(("pair:", "reply:")) for each in entry.checks_passed):
        return  # of another book; these are not shown as pairs
    else:
        book.was_unnamed(entry.created_at)
    if event == "CALL_SENT":
        book.sent += 1
    elif event in _MOVED:
        book.was_moved(entry.created_at)
    elif event == "CALL_ANSWERED":
        if reply is None:  # a release that did not name it
            book.was_moved(entry.created_at)
        else:
            request = (entry.request_id_hash or "").removeprefix(_HASH)
            book.was_answered(request, reply, entry.created_at)


def _check_named(entry: AuditEntry, prefix: str) -> str | None:
    return next((each.removeprefix(prefix) for each in entry.checks_passed if each.startswith(prefix)), None)


def _state_of_served(place: str, request: str, reply: str) -> str:
    return f"{place}:{request}:{reply}"


async def _read_book(store: Store, era: _Era, peer: VacantId, name: str, vault: OpenVault) -> _Book:
    own, served = era.own, name == SERVE_BOOK
    asked, asking = PairKey(peer, own), PairKey(own, peer)
    requests, replies = (asked, asking) if served else (asking, asked)
    chains_of_book = chain_of(requests, name), chain_of(replies, name)
    for _ in range(_TRIES):
        tips = [await store.tip(chain) for chain in chains_of_book]
        held = None if served else await store.get(CALL_SPACE, f"{own.hex()}:{peer.hex()}")
        ends = {chain: await store.end(log_of(chain)) for chain in await chains(store)}
        book = _Book(name, era, peer, tips[0], tips[1], ends)
        if served:
            await _check_served(store, own, book, vault)
        else:
            await _check_called(store, held.value if held else b"", own, book, vault)
            if await store.get(CALL_SPACE, f"{own.hex()}:{peer.hex()}") != held:
                continue
        if [await store.tip(chain) for chain in chains_of_book] == tips:  # so all of it is of one moment
            return book
    raise ConflictError(f"the calls with {peer} come too fast to be verified; try again later")


async def _check_served(store: Store, own: VacantId, book: _Book, vault: OpenVault) -> None:
    """Check the replies that are stored for the last requests."""
    last = book.requests.seq
    rows: dict[int, StoredReply] = {}
    chain, sealed = chain_of(PairKey(book.peer, own)), ReplyVault(vault)
    for number in range(last, max(0, last - STORED_REPLIES), -1):
        row = await store.reply(chain, number)
        if row is not None and row.reply is not None:
            rows[number] = replace(row, reply=sealed.open(chain, number, row.reply) or _UNREADABLE)
    ends = f"{last}:{book.replies.seq}"
    book.state = _state_of_served(ends, book.requests.hash.hex(), book.replies.hash.hex())
    if not rows:
        return
    before: VacantEnvelope | None = None
    for number in range(min(rows), last + 1):
        reply = _own_reply(rows.get(number), own, book.peer, before)
        if isinstance(reply, str):
            book.stored_fault = _Fault(number, reply)
            return
        data = rows[number].reply or b""
        added = added_hash(data) if COMITY_METADATA_KEY in strict_json.loads(data)["metadata"] else ""
        book.keep(_Kept(number, rows[number].digest.hex(), reply.compute_hash().hex(), added))
        before = reply
    assert before is not None
    if (before.sequence_no, before.compute_hash()) != (book.replies.seq, book.replies.hash):
        said = "the chain of the replies does not end on the last reply that is stored"
        book.stored_fault = _Fault(last, said)
    elif rows[last].digest != book.requests.hash:
        said = "the chain of the requests does not end on the last request that was answered"
        book.stored_fault = _Fault(last, said)


def _own_reply(
    row: StoredReply | None, own: VacantId, peer: VacantId, before: VacantEnvelope | None
) -> VacantEnvelope | str:
    """Return the reply in a row, or what is wrong with it."""
    if row is None or row.reply is None:
        return "its stored reply is missing"
    if row.reply == _UNREADABLE:
        return "its stored reply cannot be decrypted"
    try:
        stored = strict_json.loads(row.reply)
        reply = recognise(from_a2a_message(stored), own.public)
    except ComityError as reason:
        return f"its stored reply cannot be read: {reason.message}"
    if reply is None or (reply.from_vacant_id, reply.to_vacant_id) != (own, peer):
        return "its stored reply is not signed by this node"
    if reply.idempotency_key != f"re:{row.digest.hex()}":
        return "its stored reply answers another request"
    if not _is_as_written(reply, stored, row.reply):
        return "its stored reply is not written as this node writes replies"
    if before is not None and (reply.sequence_no, reply.prev_envelope_hash) != (
        before.sequence_no + 1,
        before.compute_hash(),
    ):
        return "its stored reply does not follow the one before it"
    return reply


def _is_as_written(reply: VacantEnvelope, stored: dict[str, Any], data: bytes) -> bool:
    """Return whether nothing was altered that the signature does not cover, save the members of features."""
    metadata = {name: each for name, each in stored["metadata"].items() if name != COMITY_METADATA_KEY}
    return strict_json.dumps(stored) == data and {**stored, "metadata": metadata} == to_a2a_message(reply)


async def _check_called(store: Store, record: bytes, own: VacantId, book: _Book, vault: OpenVault) -> None:
    """Check the last of our calls, the only one that is stored, if it was given a key."""
    book.state = pair_state(record, book.requests, book.replies)
    number = book.requests.seq
    try:
        answered = await _last_call(store, read_record(record), number, vault)
        if answered is None:
            return
        sent, given = answered
        request = recognise(from_a2a_jsonrpc(strict_json.loads(sent)), own.public)
        reply = recognise(from_a2a_result(strict_json.loads(given)), book.peer.public)
    except ComityError:
        book.stored_fault = _Fault(number, "what is stored of it cannot be read")
        return
    if request is None:
        fault = "its stored request is not signed by this node"
    elif reply is None:
        fault = "its stored reply is not signed by the agent that was called"
    elif reply_is_bound(reply, request) is False:
        fault = "its stored reply answers another request"
    elif (request.compute_hash(), reply.compute_hash()) != (book.requests.hash, book.replies.hash):
        fault = "the chains do not end on the stored request and its reply"
    else:
        book.keep(_Kept(number, request.compute_hash().hex(), reply.compute_hash().hex()))
        return
    book.stored_fault = _Fault(number, fault)


async def _last_call(
    store: Store, record: PairRecord, number: int, vault: OpenVault
) -> tuple[bytes, bytes] | None:
    """Return request and reply of the call of that number, if they are stored."""
    if record.answered is not None:  # as earlier releases stored them
        return record.answered.request, record.answered.reply
    row = await row_of(store, record, vault) if record.last else None
    return None if row is None or row.number != number or not row.reply else (row.request, row.reply)


def _report(peer: VacantId, books: Sequence[_Book], record: _Record) -> PairReport:
    calls, replies, partial = 0, 0, False
    for book in books:
        fault = book.fault(record.pruned)
        if fault is not None:
            return PairReport(
                vacant_id=peer.hex(),
                ok=False,
                calls=calls,
                replies=replies,
                book=book.name,
                number=fault.number,
                message=fault.message,
            )
        partial |= book.is_partial(record.pruned)
        calls += book.answered
        replies += len(book.kept)
    return PairReport(vacant_id=peer.hex(), ok=True, calls=calls, replies=replies, partial=partial)
