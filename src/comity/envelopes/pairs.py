"""Where this folder's identity stands with each of its peers, in both books.

- `serve`: what a peer asked of us, and what we replied. `call`: what we asked of a peer, and its replies.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from comity.envelopes.client.pair import CALL_BOOK, CALL_SPACE, PairRecord, reply_check
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_jsonrpc,
    from_a2a_message,
    from_a2a_result,
    recognise,
    reply_is_bound,
)
from comity.envelopes.queues import SERVE_BOOK, chain_of
from comity.identity.protocol.keys import VacantId
from comity.store.audit_chain import NOT_APPLICABLE, AuditEntry, privacy_hash
from comity.store.audit_log import chains, verify_chain
from comity.store.audit_trail import CHECKPOINTS
from comity.store.interface import Store, StoredReply, Tip, scan_all
from comity.wire import strict_json
from comity.wire.errors import ComityError, ConflictError

# Whether both chains of a pair are what they were: the stored messages, the audit record and the tips must agree.

STORED_REPLIES: Final = 64

_MOVED: Final = frozenset({"CALL_RESYNCHRONISED", "CALL_CHAIN_FORGOTTEN"})
_CALLS: Final = frozenset({"CALL_ANSWERED", *_MOVED})
_IMPORTED: Final = frozenset({"IDENTITY_IMPORTED", "REPLAY_IMPORTED"})
_HASH: Final = "blake2b:"
_REPLY: Final = reply_check(CALL_BOOK, b"")
_TRIES: Final = 100
_PIECE: Final = 200
"""Chains that are read at a stretch, in under a millisecond: a node answers calls meanwhile."""


class PairReport(Struct, frozen=True, kw_only=True):
    """`calls` were found in the audit record, `replies` are stored and rightly signed. `number` of the calls in that
    `book` is the first bad one.
    """

    vacant_id: str
    ok: bool
    calls: int = 0
    replies: int = 0
    book: str | None = None
    number: int | None = None
    message: str | None = None


def verdict_of(report: PairReport) -> str:
    if report.ok:
        return f"sound; calls on record: {report.calls:,}, stored replies: {report.replies:,}"
    where = {SERVE_BOOK: "call to us, ", CALL_BOOK: "call by us, "}.get(report.book or "", "")
    number = "" if report.number is None else f"number {report.number:,}: "
    return f"BAD: {where}{number}{report.message}"


async def verify_pairs(
    store: Store,
    own: VacantId,
    peers: Sequence[VacantId],
    heads: Path | None = None,
    seen: Callable[[int], None] = lambda _entries: None,
) -> list[PairReport]:
    """`heads` is the folder of the signed heads; `seen` is called with the number of audit entries read since its last call."""
    books = [await _read_book(store, own, peer, book) for peer in peers for book in (SERVE_BOOK, CALL_BOOK)]
    take = _entries_for(books)
    pruned = False
    for chain in await chains(store):
        report = await verify_chain(store, chain, own.public, heads, seen, take)
        if not report.ok:
            said = f"chain {chain} of the audit record: {report.message}"
            return [PairReport(vacant_id=peer.hex(), ok=False, message=said) for peer in peers]
        pruned |= await store.get(CHECKPOINTS, chain) is not None
    return [
        await _report(store, own, [book for book in books if book.peer == peer], pruned=pruned)
        for peer in peers
    ]


class _ChainStep(NamedTuple):
    request: str
    reply: str


class _ChainFault(NamedTuple):
    number: int
    message: str


class _Book:
    """Where the two chains of a book end, and what the audit record says of them."""

    def __init__(self, name: str, peer: VacantId, requests: Tip, replies: Tip) -> None:
        self.name = name
        self.peer = peer
        self.requests = requests
        self.replies = replies
        self.steps: deque[_ChainStep] = deque(maxlen=STORED_REPLIES)
        self.found = False
        self.answered = 0
        self._answered_at = ""
        self._moved_at = ""

    def was_moved(self, at: str) -> None:
        """Note that the chain was set to a place that no message of the record led to."""
        self._moved_at = max(self._moved_at, at)

    def take(self, entry: AuditEntry, reply: str) -> None:
        if reply == NOT_APPLICABLE:  # a reply that was given again
            return
        self._answered_at = max(self._answered_at, entry.created_at)
        if self.found:  # the pair has gone on since the tips were read
            return
        step = _ChainStep((entry.request_id_hash or "").removeprefix(_HASH), reply)
        self.answered += 1
        self.steps.append(step)
        self.found = step == (self.requests.hash.hex(), self.replies.hash.hex())

    def fault(self, *, pruned: bool) -> _ChainFault | None:
        """Return what the record has against the place where the chains end."""
        last, known = self.requests.seq, self.answered
        if not self.found:
            if self._moved_at > self._answered_at or (pruned and not known):
                return None
            return _ChainFault(last, "the chains do not end on the messages that the audit record saw last")
        if self._moved_at or known == last or (pruned and known < last):
            return None
        return _ChainFault(
            last, f"the audit record has {known:,} answered requests, the chain ends at {last:,}"
        )


def _entries_for(books: Sequence[_Book]) -> Callable[[AuditEntry], None]:
    """Return what gives each entry to the book that it is about."""
    by_name = {(book.name, privacy_hash(f"vacant:{book.peer.hex()}")): book for book in books}

    def take(entry: AuditEntry) -> None:
        event = entry.verification_result
        if event in _IMPORTED:
            for book in books:
                book.was_moved(entry.created_at)
        elif event == "ENVELOPE_OK":
            if served := by_name.get((SERVE_BOOK, entry.issuer_hash)):
                served.take(entry, entry.content_hash.removeprefix(_HASH))
        elif event in _CALLS and (called := by_name.get((CALL_BOOK, entry.content_hash))):
            reply = next((check for check in entry.checks_passed if check.startswith("reply:")), "")
            if event in _MOVED or not reply:
                called.was_moved(entry.created_at)
            elif reply.startswith(_REPLY):  # the other books are not shown as pairs
                called.take(entry, reply.removeprefix(_REPLY))

    return take


async def _read_book(store: Store, own: VacantId, peer: VacantId, name: str) -> _Book:
    asked, asking = PairKey(peer, own), PairKey(own, peer)
    requests, replies = (asked, asking) if name == SERVE_BOOK else (asking, asked)
    for _ in range(_TRIES):  # both tips of one moment
        tip = await store.tip(chain_of(requests, name))
        other = await store.tip(chain_of(replies, name))
        if await store.tip(chain_of(requests, name)) == tip:
            return _Book(name, peer, tip, other)
    raise ConflictError(f"the calls with {peer} come too fast to be verified; try again later")


async def _report(store: Store, own: VacantId, books: Sequence[_Book], *, pruned: bool) -> PairReport:
    peer, calls, replies = books[0].peer.hex(), 0, 0
    for book in books:
        if not book.requests.seq and not book.replies.seq:
            continue
        check = _check_served if book.name == SERVE_BOOK else _check_called
        # what is stored first: it says which message is bad, the record only that the end is
        checked = await check(store, own, book)
        replies += checked if isinstance(checked, int) else 0
        fault = book.fault(pruned=pruned) if isinstance(checked, int) else checked
        if fault is not None:
            return PairReport(
                vacant_id=peer,
                ok=False,
                calls=calls,
                replies=replies,
                book=book.name,
                number=fault.number,
                message=fault.message,
            )
        calls += book.answered if book.found else 0
    return PairReport(vacant_id=peer, ok=True, calls=calls, replies=replies)


async def _check_served(store: Store, own: VacantId, book: _Book) -> "int | _ChainFault":
    """Return how many stored replies of ours are sound, or the first that is not."""
    kept: dict[int, StoredReply] = {}
    last = book.requests.seq
    for number in range(last, max(0, last - STORED_REPLIES), -1):
        row = await store.reply(chain_of(PairKey(book.peer, own)), number)
        if row is not None and row.reply is not None:
            kept[number] = row
    if not kept:
        return 0
    steps = dict(zip(range(last, 0, -1), reversed(book.steps), strict=False)) if book.found else {}
    before: VacantEnvelope | None = None
    for number in range(min(kept), last + 1):
        reply = _own_reply(kept.get(number), own, book.peer, steps.get(number), before)
        if isinstance(reply, str):
            return _ChainFault(number, reply)
        before = reply
    assert before is not None
    if (before.sequence_no, before.compute_hash()) != (book.replies.seq, book.replies.hash):
        return _ChainFault(last, "the chain of the replies does not end on the last reply that is stored")
    if kept[last].digest != book.requests.hash:
        return _ChainFault(
            last, "the chain of the requests does not end on the last request that was answered"
        )
    return len(kept)


def _own_reply(
    row: StoredReply | None,
    own: VacantId,
    peer: VacantId,
    step: _ChainStep | None,
    before: VacantEnvelope | None,
) -> VacantEnvelope | str:
    """Return the reply in a row, or what is wrong with it."""
    if row is None or row.reply is None:
        return "its stored reply is missing"
    try:
        reply = recognise(from_a2a_message(strict_json.loads(row.reply)), own.public)
    except ComityError as reason:
        return f"its stored reply cannot be read: {reason.message}"
    if reply is None or (reply.from_vacant_id, reply.to_vacant_id) != (own, peer):
        return "its stored reply is not signed by this node"
    if reply.idempotency_key != f"re:{row.digest.hex()}":
        return "its stored reply answers another request"
    if before is not None and (reply.sequence_no, reply.prev_envelope_hash) != (
        before.sequence_no + 1,
        before.compute_hash(),
    ):
        return "its stored reply does not follow the one before it"
    if step is not None and step != (row.digest.hex(), reply.compute_hash().hex()):
        return "its stored reply is not the one that the audit record has seen"
    return reply


async def _check_called(store: Store, own: VacantId, book: _Book) -> "int | _ChainFault":
    """Check the last of our calls, the only one that is stored, if it was given a key."""
    held = await store.get(CALL_SPACE, f"{own.hex()}:{book.peer.hex()}")
    number = book.requests.seq
    try:
        record = msgspec.msgpack.decode(held.value, type=PairRecord) if held else PairRecord()
        if record.answered is None:
            return 0
        request = recognise(from_a2a_jsonrpc(strict_json.loads(record.answered.request)), own.public)
        reply = recognise(from_a2a_result(strict_json.loads(record.answered.reply)), book.peer.public)
    except (msgspec.MsgspecError, ComityError):
        return _ChainFault(number, "what is stored of it cannot be read")
    if request is None:
        return _ChainFault(number, "its stored request is not signed by this node")
    if reply is None:
        return _ChainFault(number, "its stored reply is not signed by the agent that was called")
    if reply_is_bound(reply, request) is False:
        return _ChainFault(number, "its stored reply answers another request")
    ends = (request.compute_hash(), reply.compute_hash())
    if ends != (book.requests.hash, book.replies.hash):
        return _ChainFault(number, "the chains do not end on the stored request and its reply")
    return 1


class Link(Struct, frozen=True):
    """The last number of a chain, and the hash it ended on."""

    seq: int = 0
    tip: str = bytes(32).hex()


class ServedPair(Struct, frozen=True, kw_only=True):
    """`stored_replies` are given again for the same request; `pending` have no reply yet."""

    requests: Link = Link()
    replies: Link = Link()
    stored_replies: int = 0
    pending: int = 0


class OpenRequest(Struct, frozen=True):
    seq: int
    idempotency_key: str


class Called(Struct, frozen=True, kw_only=True):
    """`pending` was sent and has no answer yet. `replies_lost`: the peer gave replies that never came."""

    requests: Link = Link()
    replies: Link = Link()
    pending: OpenRequest | None = None
    replies_lost: bool = False
    dialect: str | None = None


class Peer(Struct, kw_only=True):
    vacant_id: str
    serve: ServedPair | None = None
    call: Called | None = None


async def read_pairs(store: Store, self_id: str) -> list[Peer]:
    """Return all peers that this identity has a chain with, the oldest chain first."""
    peers: dict[str, Peer] = {}
    for number, stored in enumerate(await store.chains(self_id)):
        if number % _PIECE == 0:
            await asyncio.sleep(0)
        chain, link = stored.chain, Link(stored.tip.seq, stored.tip.hash.hex())
        is_ours = chain.sender == self_id
        changes: dict[str, Link | int] = {"replies": link}
        if chain.book == SERVE_BOOK:
            peer = _peer(peers, chain.receiver if is_ours else chain.sender)
            if not is_ours:
                changes = {"requests": link, "stored_replies": stored.replies, "pending": stored.pending}
            peer.serve = msgspec.structs.replace(peer.serve or ServedPair(), **changes)
        elif chain.book == CALL_BOOK:
            peer = _peer(peers, chain.receiver if is_ours else chain.sender)
            changes = {"requests": link} if is_ours else changes
            peer.call = msgspec.structs.replace(peer.call or Called(), **changes)
    prefix = f"{self_id}:"
    async for key, held in scan_all(store, CALL_SPACE, prefix):
        peer = _peer(peers, key.removeprefix(prefix))
        peer.call = _with_record(peer.call or Called(), held.value)
    for peer in peers.values():
        if peer.call == Called():  # its chain was forgotten
            peer.call = None
    return [peer for peer in peers.values() if peer.serve or peer.call]


def _peer(peers: dict[str, Peer], vacant_id: str) -> Peer:
    return peers.setdefault(vacant_id, Peer(vacant_id=vacant_id))


def _with_record(called: Called, value: bytes) -> Called:
    try:
        record = msgspec.msgpack.decode(value, type=PairRecord)
        envelope = from_a2a_jsonrpc(strict_json.loads(record.pending)) if record.pending else None
    except (msgspec.MsgspecError, ComityError):
        return called  # the call that needs it reports what cannot be read
    pending = OpenRequest(envelope.sequence_no, envelope.idempotency_key) if envelope else None
    return msgspec.structs.replace(
        called, pending=pending, replies_lost=record.replies_lost, dialect=record.dialect
    )
