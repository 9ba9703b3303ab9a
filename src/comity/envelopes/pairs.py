"""Where this folder's identity stands with each of its peers, in both books.

- `serve`: what a peer asked of us, and what we replied. `call`: what we asked of a peer, and its replies.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from comity.envelopes.client.keys import CallKeys, KeyRow
from comity.envelopes.client.pair import CALL_BOOK, CALL_SPACE, PairRecord, read_record
from comity.envelopes.protocol.envelope import from_a2a_jsonrpc
from comity.envelopes.queues import SERVE_BOOK
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store, scan_all
from comity.store.vault import Vault
from comity.wire import strict_json
from comity.wire.errors import ComityError, StoreCorruptError

OpenVault = Callable[[], Vault] | None
"""Returns the vault; None where nothing is sealed."""

_PIECE: Final = 200
"""Chains that are read at a stretch, in under a millisecond: a node answers calls meanwhile."""


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


class EarlierPair(Struct, kw_only=True):
    """What there was with a key of this node that was replaced."""

    own: str
    serve: ServedPair | None = None
    call: Called | None = None


class Peer(Struct, kw_only=True):
    vacant_id: str
    serve: ServedPair | None = None
    call: Called | None = None
    earlier: list[EarlierPair] = []


async def read_pairs(
    store: Store, self_id: str, vault: OpenVault, *, forgotten: bool = False, former: Sequence[str] = ()
) -> list[Peer]:
    """Return all peers that this identity has a chain with, the oldest chain first; if wanted, also those whose only
    chain was forgotten. `former` are the keys that this node had before. `vault` opens what is stored of a call without
    an answer.
    """
    peers = {each.vacant_id: each for each in await _pairs_of(store, self_id, vault, forgotten=forgotten)}
    for own in former:
        for each in await _pairs_of(store, own, vault, forgotten=forgotten):
            held = EarlierPair(own=own, serve=each.serve, call=each.call)
            _peer(peers, each.vacant_id).earlier.append(held)
    return list(peers.values())


async def _pairs_of(store: Store, self_id: str, vault: OpenVault, *, forgotten: bool) -> list[Peer]:
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
        peer.call = await _with_record(store, peer.call or Called(), held.value, vault)
    for peer in peers.values():
        if peer.call == Called():  # its chain was forgotten
            peer.call = None
    return [peer for peer in peers.values() if forgotten or peer.serve or peer.call]


def _peer(peers: dict[str, Peer], vacant_id: str) -> Peer:
    return peers.setdefault(vacant_id, Peer(vacant_id=vacant_id))


async def row_of(store: Store, record: PairRecord, vault: OpenVault) -> KeyRow | None:
    """Return what is stored of the newest call of a pair, if that had a key."""
    row, _version = await CallKeys(store, SystemClock(), vault).read(record.last)
    return row


async def _with_record(store: Store, called: Called, value: bytes, vault: OpenVault) -> Called:
    try:
        record = read_record(value)
        envelope = from_a2a_jsonrpc(strict_json.loads(record.pending)) if record.pending else None
    except ComityError:
        return called  # the call that needs it reports what cannot be read
    pending = OpenRequest(envelope.sequence_no, envelope.idempotency_key) if envelope else None
    if record.sent and record.last:
        try:
            row = await row_of(store, record, vault)
        except StoreCorruptError:
            row = None
        is_open = row is not None and row.request and not row.reply
        pending = OpenRequest(record.sent[-1].seq, row.key if row is not None and is_open else "")
    return msgspec.structs.replace(
        called, pending=pending, replies_lost=record.replies_lost, dialect=record.dialect
    )
