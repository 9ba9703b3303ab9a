"""Heads of the audit records of others, kept; heads and proofs of our own record, given (ruling 68).

- Heads are exchanged beside signed calls with those that this node has had a call with before: at most one a minute with
  each peer, whatever it sends. Kept are the last one that a proof connects with the one before, and one a day for a year.
- A witness that cannot be read, is not signed, or is older, changes nothing. One without a proof is not kept.
- A proof of rewriting is stored under a key of its own, never overwritten, and written to a file that anybody can check.
"""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.client.pair import CALL_BOOK
from comity.envelopes.features import Member
from comity.envelopes.protocol.card import CapabilityCard
from comity.envelopes.protocol.chain import PairKey
from comity.envelopes.protocol.envelope import MESSAGE_SEND_PATH
from comity.envelopes.protocol.witness import (
    CHAIN,
    CHALLENGE_PATH,
    POLICY,
    Began,
    Judgement,
    Rewriting,
    Seen,
    SignedPlace,
    Witness,
    judge,
    read_seen,
    read_witness,
    rewriting_json,
    signed_proof,
)
from comity.envelopes.queues import SERVE_BOOK, chain_of
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.requests.caller import vacant
from comity.requests.record import Act, Recorder
from comity.store.audit_chain import timestamp
from comity.store.audit_proofs import read_tree
from comity.store.audit_trail import HEADS, SignedHead, beginning_key, read_beginning, read_signed_head
from comity.store.audit_tree import TREES
from comity.store.interface import Hold, Operation, Put, Store, scan_all
from comity.wire.errors import NotFoundError
from comity.wire.machine import Clock

log = logging.getLogger("comity.witness")

SPACE: Final = "witness"
PROOFS: Final = "witness-proof"
EVERY: Final = 60.0
"""Seconds between two exchanges with one peer."""
UNPROVEN_AFTER: Final = 3600.0
"""Seconds in which a proof may be missing: a reply may be lost."""
DAYS: Final = 366
PEER_BYTES: Final = 512 * DAYS
ALL_BYTES: Final = 4096 * PEER_BYTES
"""What heads of others may take, each peer counted with what it may take in a year."""
_MAX_HELD_BACK: Final = 16_384
_MAX_BEGUN: Final = 4
_DAY: Final = 86_400.0


class PeerRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What this node knows of a peer's record. `told` is the newest place of ours that the peer says it holds. `unproven`:
    since when its heads come without a proof.
    """

    last: SignedPlace | None = None
    since: float = 0.0
    at: float = 0.0
    exchanged: float = 0.0
    told: Seen | None = None
    unproven: float | None = None
    restored: tuple[Began, ...] = ()
    rewritten: int = 0
    endpoint: str = ""


def _decoded(data: bytes | None) -> PeerRecord:
    return PeerRecord() if data is None else msgspec.json.decode(data, type=PeerRecord)


async def peers(store: Store) -> AsyncIterator[tuple[VacantId, PeerRecord]]:
    """Return every peer of which heads are kept."""
    async for key, held in scan_all(store, SPACE):
        if "/" not in key:
            yield VacantId.from_hex(key), _decoded(held.value)


class Witnesses:
    """The feature `witness` of signed calls."""

    member = "witness"
    unasked = False
    introduces = False

    def __init__(
        self, store: Store, key: SigningKey, clock: Clock, record: Recorder, *, proofs: Path | None = None
    ) -> None:
        """`proofs` is the folder for proofs of rewriting."""
        self._store = store
        self._key = key
        self._clock = clock
        self._record = record
        self._proofs = proofs
        self._next: OrderedDict[VacantId, float] = OrderedDict()
        self._given: set[VacantId] = set()

    async def to_request(self, card: CapabilityCard) -> Member | None:
        peer = card.vacant_id
        if card.substrate_spec.policy.get(POLICY) != 1 or not self._is_time(peer):
            return None
        record = await self.read(peer)
        if self._clock.now() - record.exchanged < EVERY:
            return None
        if len(self._given) >= _MAX_HELD_BACK:
            return None
        self._given.add(peer)
        witness = await self.witness_for(peer, record)
        if witness is None:
            return {} if record.last is None else {"seen": msgspec.to_builtins(record.last.place)}
        return witness

    async def to_reply(self, peer: VacantId, given: Member | None, *, known: bool) -> Member | None:
        if given is None or not self._is_time(peer):
            return None
        if "head" not in given:
            seen = read_seen(given, peer=peer)
            return await self.witness_for(peer, PeerRecord(told=seen))
        witness = self._read(peer, given)
        record, version = await self._held(peer)
        if known:
            record, _ = await self._take(peer, record, version, witness)
        else:
            record = replace(record, told=witness.seen)
        return await self.witness_for(peer, record)

    async def take_reply(self, card: CapabilityCard, given: Member) -> None:
        peer = card.vacant_id
        if (
            peer not in self._given
        ):  # nothing was asked: a peer could fill the log of a node that takes what it gets
            return
        self._given.discard(peer)
        witness = self._read(peer, given)
        record, version = await self._held(peer)
        if card.endpoint and card.endpoint.endswith(MESSAGE_SEND_PATH):
            record = replace(record, endpoint=card.endpoint)
        await self._take(peer, record, version, witness)

    async def exchange(self, peer: VacantId, given: Any, *, may_lack_proof: bool) -> dict[str, Any] | None:
        """Take a witness that came with something else than a call, and return ours for this peer. `may_lack_proof`: the
        peer may not have heard yet what we hold, so that a missing proof says nothing about its record.
        """
        witness = self._read(peer, given)
        record, version = await self._held(peer)
        if may_lack_proof and judge(record.last, witness).verdict == "unproven":
            record = replace(record, told=witness.seen or record.told)
        else:
            record, _ = await self._take(peer, record, version, witness)
        return await self.witness_for(peer, record)

    async def take_answer(self, peer: VacantId, given: Any, nonce: str) -> Judgement:
        """Take the answer to a challenge."""
        witness = self._read(peer, given)
        record, version = await self._held(peer)
        record, judgement = await self._take(peer, record, version, witness)
        fresh = witness.proof is not None and witness.proof.nonce == nonce
        if judgement.verdict in ("continued", "same", "older") and not fresh:
            return Judgement("unproven", "its answer has no proof that was made for this question")
        if judgement.verdict == "older":
            return Judgement("unproven", judgement.sentence)
        return judgement

    async def knows(self, peer: VacantId) -> bool:
        """Return whether there was a call between this node and the peer."""
        own = self._key.vacant_id
        for pair, book in ((PairKey(peer, own), SERVE_BOOK), (PairKey(own, peer), CALL_BOOK)):
            if (await self._store.tip(chain_of(pair, book))).seq:
                return True
        return False

    async def read(self, peer: VacantId) -> PeerRecord:
        record, _version = await self._held(peer)
        return record

    async def _held(self, peer: VacantId) -> tuple[PeerRecord, int]:
        held = await self._store.get(SPACE, peer.hex())
        return (PeerRecord(), 0) if held is None else (_decoded(held.value), held.version)

    async def own_head(self) -> SignedHead | None:
        """Return the newest signed head of our chain `main`, if it names a tree."""
        held = await self._store.get(HEADS, CHAIN)
        signed = read_signed_head(held.value if held else None)
        return signed if signed is not None and signed.head.size else None

    async def witness_for(
        self, peer: VacantId, record: PeerRecord, *, asked: Seen | None = None, nonce: str = ""
    ) -> dict[str, Any] | None:
        """Return our head for this peer, with a proof from the place that it says it has seen."""
        signed = await self.own_head()
        if signed is None:
            return None
        head, told = signed.head, asked or record.told
        witness = Witness(head=head, sig=signed.signature, seen=record.last.place if record.last else None)
        if told is not None and told.log == head.log and 0 < told.size <= (head.size or 0):
            tree = await read_tree(self._store, CHAIN, head.position)
            start = Seen(log=told.log, size=told.size, root=(await tree.root(told.size)).hex())
            if nonce or asked is not None or start.size < (head.size or 0):
                hashes = await tree.consistency(start.size, head.size or 0)
                proof = signed_proof(head, start, hashes, receiver=peer, key=self._key, nonce=nonce)
                witness = replace(witness, proof=proof)
        elif told is not None and told.log != head.log:
            witness = replace(witness, began=await self._began(head.log or "", told.log))
        shown: dict[str, Any] = msgspec.to_builtins(witness)
        return {name: value for name, value in shown.items() if value}

    async def _began(self, log_name: str, since: str) -> tuple[Began, ...]:
        """Return the statements with which our logs began after `since`, the oldest first."""
        found: list[Began] = []
        while log_name not in ("", since) and len(found) < _MAX_BEGUN:
            held = await self._store.get(TREES, beginning_key(CHAIN, log_name))
            signed = read_beginning(held.value if held else None)
            if signed is None:
                return ()
            found.append(Began(beginning=signed.beginning, signature=signed.signature))
            former = signed.beginning.former
            log_name = (former.log or "") if former is not None else ""
        return tuple(reversed(found))

    def _read(self, peer: VacantId, given: Any) -> Witness:
        return read_witness(given, peer=peer, receiver=self._key.vacant_id, now=self._clock.now())

    async def _take(
        self, peer: VacantId, record: PeerRecord, version: int, given: Witness
    ) -> tuple[PeerRecord, Judgement]:
        """Keep what the witness proves, in one commit with its entry. Where another process was faster, nothing is kept."""
        now, verdict = self._clock.now(), judge(record.last, given)
        record = replace(record, told=given.seen or record.told, exchanged=now)
        operations: list[Operation] = []
        match verdict.verdict:
            case "first" | "continued" | "restored":
                if record.last is None:
                    if await self._store.held(SPACE) + PEER_BYTES > ALL_BYTES:
                        return record, Judgement("unproven", "the heads of no more peers are kept")
                    operations.append(Hold(quota=SPACE, item=peer.hex(), holder="", bytes=PEER_BYTES))
                if verdict.verdict == "restored":
                    record = replace(record, restored=(*record.restored, *given.began)[-_MAX_BEGUN:])
                place = given.signed_place
                record = replace(record, last=place, since=record.since or now, at=now, unproven=None)
                operations += await self._of_the_day(peer, place, now)
            case "same":
                record = replace(record, at=now, unproven=None)
            case "unproven":
                record = replace(record, unproven=record.unproven or now)
            case "rewritten":
                record = replace(record, rewritten=record.rewritten + 1)
                operations += await self._proof_of(peer, record, given, verdict.sentence, now)
        if record.last is None:  # nothing is stored about a peer that proved nothing
            return record, verdict
        operations.append(Put(space=SPACE, key=peer.hex(), value=msgspec.json.encode(record), expect=version))
        await self._record.commit_counted(tuple(operations), _act(peer, verdict, given))
        return record, verdict

    async def _of_the_day(self, peer: VacantId, place: SignedPlace, now: float) -> list[Operation]:
        key = f"{peer.hex()}/{datetime.fromtimestamp(now, UTC).date().isoformat()}"
        if await self._store.get(SPACE, key) is not None:
            return []
        expires = now + DAYS * _DAY
        return [Put(space=SPACE, key=key, value=msgspec.json.encode(place), expires_at=expires)]

    async def _proof_of(
        self, peer: VacantId, record: PeerRecord, given: Witness, sentence: str, now: float
    ) -> list[Operation]:
        """Store the first proofs against a peer. More of them say nothing new."""
        log.error("the audit record of %s was rewritten: %s", peer, sentence)
        if record.rewritten > _MAX_BEGUN or record.last is None:
            return []
        found = Rewriting(
            peer=peer.hex(),
            receiver=self._key.vacant_id.hex(),
            found=timestamp(now),
            sentence=sentence,
            kept=record.last,
            given=given,
        )
        data = msgspec.json.format(msgspec.json.encode(rewriting_json(found)))
        name = f"{peer.hex()}-{record.rewritten}"
        if self._proofs is not None:
            await asyncio.to_thread(_write_once, self._proofs / f"rewritten-{name}.json", data)
        return [Put(space=PROOFS, key=name, value=data, expect=0)]

    def _is_time(self, peer: VacantId) -> bool:
        """Return whether this peer has its turn: once a minute, whatever it sends."""
        now = self._clock.monotonic()
        if now < self._next.get(peer, 0.0):
            return False
        self._next[peer] = now + EVERY
        self._next.move_to_end(peer)
        if len(self._next) > _MAX_HELD_BACK:
            self._next.popitem(last=False)
        return True


def in_words(record: PeerRecord, now: float) -> tuple[str, str, str, str]:
    """Return what is known of a peer's record: the verdict, its size, when it was seen last, since when it is watched."""
    if record.rewritten:
        verdict = "REWRITTEN"
    elif record.unproven is not None and now - record.unproven > UNPROVEN_AFTER:
        verdict = f"not proven since {_day(record.unproven)}"
    elif record.restored:
        verdict = f"restored at {record.restored[-1].beginning.at[:16]}"
    else:
        verdict = "continued"
    size = record.last.place.size if record.last is not None else 0
    return verdict, f"{size:,}", _day(record.at), _day(record.since)


def _day(moment: float) -> str:
    return timestamp(moment)[:16].replace("T", " ")


def challenge_url(endpoint: str) -> str:
    """Return where the node with this endpoint for signed calls answers challenges."""
    return endpoint.removesuffix(MESSAGE_SEND_PATH) + CHALLENGE_PATH


async def read_proof(store: Store, peer: VacantId) -> bytes:
    """Return the first proof of rewriting against a peer."""
    held = await store.get(PROOFS, f"{peer.hex()}-1")
    if held is None:
        raise NotFoundError(f"there is no proof that the record of {peer} was rewritten")
    return held.value


_RESULTS: Final = {
    "rewritten": "PEER_REWRITTEN",
    "restored": "PEER_RESTORED",
    "unproven": "PEER_HEAD_UNPROVEN",
}


def _act(peer: VacantId, verdict: Judgement, given: Witness) -> Act:
    return Act(
        feature="witness",
        result=_RESULTS.get(verdict.verdict, "PEER_HEAD_KEPT"),
        caller=vacant(peer.hex()),
        failed_step="proof" if verdict.verdict in ("rewritten", "unproven") else None,
        about=peer.short(),
        hashes={"content_hash": f"sha256:{given.head.root}"},
    )


def _write_once(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(opened, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
