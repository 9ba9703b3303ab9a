"""Receipts of what this node has stored: its calls, its signed messages, its audit record."""

from collections.abc import Sequence
from typing import Any

from comity.envelopes.client.keys import CallKeys
from comity.envelopes.client.pair import CALL_SPACE, read_record
from comity.envelopes.pairs import OpenVault
from comity.envelopes.protocol.envelope import (
    VacantEnvelope,
    from_a2a_jsonrpc,
    from_a2a_result,
    recognise,
)
from comity.identity.protocol.keys import VacantId
from comity.receipts.protocol.format import CallReceipt, RangeReceipt
from comity.receipts.protocol.making import receipt_of_call, receipt_of_range
from comity.runtime.system_clock import SystemClock
from comity.store import audit_chain
from comity.store.audit_chain import AuditEntry, AuditHead
from comity.store.audit_proofs import read_tree
from comity.store.audit_trail import HEADS, log_of, read_signed_head
from comity.store.interface import Store
from comity.wire import strict_json
from comity.wire.errors import ComityError, InvalidError, NotFoundError, StoreCorruptError

_PAGE = 2000
MAX_ENTRIES = 100_000


async def stored_call(
    store: Store, vault: OpenVault, own: VacantId, peer: VacantId, number: int | None
) -> CallReceipt:
    """Return the receipt of a call of ours that is stored: the last one, or the one with that number."""
    held = await store.get(CALL_SPACE, f"{own.hex()}:{peer.hex()}")
    old = read_record(held.value if held else None).answered  # as earlier releases stored the last one
    bodies = [] if old is None else [(old.request, old.reply)]
    keys = CallKeys(store, SystemClock(), vault)
    bodies += [(row.request, row.reply) async for row in keys.answered(peer.hex())]
    if not bodies:
        raise NotFoundError(
            f"no call to {peer} is stored with its texts; save receipts when you call: comity call --save FILE"
        )
    calls = {}
    for sent, given in bodies:
        request, reply = _read(sent, from_a2a_jsonrpc), _read(given, from_a2a_result)
        calls[request.sequence_no] = request, reply
    wanted = max(calls) if number is None else number
    if wanted not in calls:
        raise NotFoundError(
            f"the texts of call {wanted:,} to {peer} are not stored, only those of {len(calls):,} calls up to call "
            f"{max(calls):,}"
            if len(calls) > 1
            else f"the texts of call {wanted:,} to {peer} are not stored, only those of call {max(calls):,}"
        )
    return receipt_of_call(*calls[wanted])


def _read(stored: bytes, read: Any) -> VacantEnvelope:
    try:
        envelope = recognise(read(strict_json.loads(stored)))
    except ComityError:
        envelope = None
    if envelope is None:
        raise StoreCorruptError(
            "what is stored of the call is not signed as it was; `comity chain verify` says more"
        )
    return envelope


async def audit_range(
    store: Store, publics: Sequence[bytes], chain: str, first: int | None, last: int | None, count: int
) -> RangeReceipt:
    """Return the receipt of the entries of a chain from `first` on, or of `count`, up to `last` or its signed head. `publics`
    are the keys of this node, one of which has signed it.
    """
    sealed = await store.get(HEADS, chain)
    signed = read_signed_head(sealed.value if sealed else None)
    if signed is None or not signed.head.position:
        raise NotFoundError(
            f"the audit record has no chain {chain!r} with entries; `comity audit verify` lists all"
        )
    newest = signed.head.position
    end = newest if last is None else last
    begin = max(1, end - count + 1) if first is None else first
    if not 1 <= begin <= end <= newest:
        raise InvalidError(
            f"the chain {chain} has the entries 1 to {newest:,}; begin with one of these, and end with a later one"
        )
    if end - begin >= MAX_ENTRIES:
        raise InvalidError(
            f"that are {end - begin + 1:,} entries, and a receipt has at most {MAX_ENTRIES:,}; begin later"
        )
    entries = await _entries(store, chain, begin, end)
    signer = next((public for public in publics if signed.proven(public)), None)
    if signer is None:
        raise StoreCorruptError(
            f"the head of the chain {chain} is not signed by this node; `comity audit verify` says more"
        )
    proof = None if end == newest else await _inclusion(store, chain, signed.head, end)
    return receipt_of_range(signer.hex(), entries, signed.head, signed.signature, proof)


async def _inclusion(store: Store, chain: str, head: AuditHead, position: int) -> Sequence[bytes]:
    """Return the proof that the entry at `position` is in the tree of the head."""
    size = head.size or 0
    if position <= head.position - size:
        raise NotFoundError(
            f"entry {position:,} of chain {chain} is not in the tree that its head names; leave out the last entry"
        )
    tree = await read_tree(store, chain, head.position)
    return await tree.inclusion(position, size)


async def _entries(store: Store, chain: str, begin: int, end: int) -> Sequence[AuditEntry]:
    found: list[AuditEntry] = []
    after = begin - 1
    while after < end and (page := await store.read(log_of(chain), after=after, limit=_PAGE)):
        found += [audit_chain.decode(record.data) for record in page if record.position <= end]
        after = page[-1].position
    if not found or found[0].chain_position != begin:
        raise NotFoundError(f"entry {begin:,} of chain {chain} was pruned; begin with a later one")
    return found
