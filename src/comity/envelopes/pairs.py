"""Where this folder's identity stands with each of its peers, in both books.

- `serve`: what a peer asked of us, and what we replied. `call`: what we asked of a peer, and its replies.
- The Store answers for a pair that is named. Here all of them are wanted, so the tables are read.
"""

from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec import Struct

from comity.envelopes.client.pair import CALL_BOOK, CALL_SPACE, PairRecord
from comity.envelopes.protocol.carrier import from_a2a_jsonrpc
from comity.envelopes.replay import SERVE_BOOK
from comity.store.sqlite.connection import open_reader, our_words
from comity.store.sqlite.schema import steps_taken
from comity.wire import strict_json
from comity.wire.errors import ComityError

_CHAINS: Final = """
    SELECT book, sender, receiver, seq, lower(hex(hash)),
        (SELECT count(*) FROM reply WHERE reply.chain = chain.id AND reply.reply IS NOT NULL),
        (SELECT count(*) FROM reply WHERE reply.chain = chain.id AND reply.reply IS NULL)
    FROM chain WHERE (sender = :self OR receiver = :self) AND book IN (:serve, :call) ORDER BY id
"""
_RECORDS: Final = "SELECT key, value FROM value WHERE space = ? AND key >= ? AND key < ?"


class Link(Struct, frozen=True):
    """The last number of a chain, and the hash it ended on."""

    seq: int = 0
    tip: str = bytes(32).hex()


class ServedPair(Struct, frozen=True, kw_only=True):
    """`stored_replies` can be had again by sending the same request; `pending` have no reply yet."""

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


def read_pairs(database: Path, self_id: str) -> list[Peer]:
    """All peers that this identity has a chain with, the oldest chain first."""
    with our_words(database):
        connection = open_reader(database)
        try:
            steps_taken(connection, database)
            return _peers(connection, self_id)
        finally:
            connection.close()


def _peers(connection: apsw.Connection, self_id: str) -> list[Peer]:
    peers: dict[str, Peer] = {}
    named = {"self": self_id, "serve": SERVE_BOOK, "call": CALL_BOOK}
    for book, sender, receiver, seq, tip, stored, pending in connection.execute(_CHAINS, named):
        is_ours = sender == self_id
        peer = _peer(peers, receiver if is_ours else sender)
        link = Link(seq, tip)
        if book == SERVE_BOOK:
            served = peer.serve or ServedPair()
            changes = (
                {"replies": link}
                if is_ours
                else {"requests": link, "stored_replies": stored, "pending": pending}
            )
            peer.serve = msgspec.structs.replace(served, **changes)
        else:
            called = peer.call or Called()
            peer.call = msgspec.structs.replace(called, **{"requests" if is_ours else "replies": link})
    prefix = f"{self_id}:"
    for key, value in connection.execute(_RECORDS, (CALL_SPACE, prefix, f"{self_id};")):
        peer = _peer(peers, key.removeprefix(prefix))
        peer.call = _with_record(peer.call or Called(), value)
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
        return called  # what cannot be read is told by the call that needs it
    pending = OpenRequest(envelope.sequence_no, envelope.idempotency_key) if envelope else None
    return msgspec.structs.replace(
        called, pending=pending, replies_lost=record.replies_lost, dialect=record.dialect
    )
