"""The log of what was registered: append-only, numbered without gaps, chained by hash.

- `seq` numbers all events of the directory, `actor_seq` those of one actor.
- The chain runs through the whole directory, from 32 zero bytes: the hash of an event covers that of the event
  before it, whoever signed it. So two publications cannot be stored at the same moment.
- An event is stored and shown under the member names of the contract (envelope 4, "Registry answers"). The last
  three members are ours: with them a reader can verify the signature and the hash.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from comity.directory.cards import FOUND, CardRecord, as_record, read_record
from comity.directory.protocol.signed_requests import KIND, RegisterEvent
from comity.envelopes.protocol.card import Visibility
from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import HashChainError, SignatureVerificationError
from comity.identity.protocol.keys import VacantId
from comity.store.interface import Append, Put, Store
from comity.wire.errors import ComityError, InvalidError

PAGE = 500
DEFAULT_PAGE = 100
FIRST_PREVIOUS = bytes(32)
DIRECTORY_LOG = "directory.log"
"""Whose event has which number: the position of a record is the `seq`, its data the id of the actor."""

_EVENTS = "directory.events"


class DirectoryEvent(Struct, frozen=True, kw_only=True):
    """`payload_json` is the text whose hash was signed, `ts` is in milliseconds. Other directories may leave out
    the members that prove the event.
    """

    seq: int
    event_type: str
    actor_vacant_id: str
    subject_vacant_id: str | None = None
    payload_json: str
    event_hash_hex: str
    actor_seq: int
    ts: int
    idempotency_key: str | None = None
    signature_hex: str | None = None
    prev_event_hash_hex: str | None = None


class LogEnd(Struct, frozen=True):
    """The number and the hash of the last event of a directory."""

    seq: int
    event_hash: bytes


_read = msgspec.json.Decoder(DirectoryEvent).decode


def append_event(event: RegisterEvent, payload: bytes, end: LogEnd) -> tuple[Append, Put]:
    """Store the event after `end`. The commit fails if another event was stored there."""
    stored = DirectoryEvent(
        seq=end.seq + 1,
        event_type=KIND,
        actor_vacant_id=event.actor.hex(),
        subject_vacant_id=event.subject.hex() if event.subject else None,
        payload_json=payload.decode(),
        event_hash_hex=event.event_hash(end.event_hash).hex(),
        actor_seq=event.actor_seq,
        ts=event.ts_ms,
        idempotency_key=event.idempotency_key,
        signature_hex=event.signature.hex(),
        prev_event_hash_hex=end.event_hash.hex(),
    )
    return (
        Append(log=DIRECTORY_LOG, data=event.actor.hex().encode(), expect_end=end.seq),
        Put(space=_EVENTS, key=_key(event.actor.hex(), stored.seq), value=msgspec.json.encode(stored)),
    )


def check_events(actor: VacantId, events: Sequence[DirectoryEvent]) -> None:
    """Refuse a page of the actor's log with events of somebody else, with gaps, or with a signature or hash that is
    shown and not valid.
    """
    previous: DirectoryEvent | None = None
    for event in events:
        _check_event(actor, event)
        if previous is not None and (event.actor_seq != previous.actor_seq + 1 or event.seq <= previous.seq):
            raise HashChainError(f"event {event.seq} does not follow event {previous.seq} of its actor")
        before = FIRST_PREVIOUS.hex() if event.seq == 1 else None
        if previous is not None and event.seq == previous.seq + 1:
            before = previous.event_hash_hex
        if before is not None and event.prev_event_hash_hex not in (None, before):
            raise HashChainError(f"event {event.seq} does not continue the chain of event {event.seq - 1}")
        previous = event


def _check_event(actor: VacantId, shown: DirectoryEvent) -> None:
    if shown.actor_vacant_id != actor.hex():
        raise SignatureVerificationError(f"event {shown.seq} is not of {actor.short()}, who was asked for")
    if shown.signature_hex is None or shown.idempotency_key is None or shown.event_type != KIND:
        return
    try:
        event = RegisterEvent(
            actor=actor,
            subject=VacantId.from_hex(shown.subject_vacant_id) if shown.subject_vacant_id else None,
            payload_hash=digest(shown.payload_json.encode()),
            idempotency_key=shown.idempotency_key,
            ts_ms=shown.ts,
            actor_seq=shown.actor_seq,
            signature=bytes.fromhex(shown.signature_hex),
        )
        previous = bytes.fromhex(shown.prev_event_hash_hex or "")
    except (ValueError, ComityError) as reason:
        raise HashChainError(f"event {shown.seq} cannot be read: {reason}") from None
    if not event.verify():
        raise SignatureVerificationError(f"event {shown.seq} is not signed by {actor.short()}")
    if previous and event.event_hash(previous).hex() != shown.event_hash_hex:
        raise HashChainError(f"event {shown.seq} does not have the hash it claims")


async def log_end(store: Store) -> LogEnd:
    seq = await store.end(DIRECTORY_LOG)
    last = await event_at(store, seq)
    return LogEnd(seq, FIRST_PREVIOUS if last is None else bytes.fromhex(last.event_hash_hex))


async def event_at(store: Store, seq: int) -> DirectoryEvent | None:
    """Return the event with that number of the directory."""
    if seq < 1:
        return None
    for record in await store.read(DIRECTORY_LOG, after=seq - 1, limit=1):
        stored = await store.get(_EVENTS, _key(record.data.decode(), seq))
        return None if stored is None else _read(stored.value)
    return None


async def event_log(
    store: Store, actor: VacantId, from_seq: int = 0, limit: int = DEFAULT_PAGE
) -> list[DirectoryEvent]:
    """Return the actor's events whose `seq` is greater than `from_seq`."""
    if from_seq < 0:
        raise InvalidError("from_seq must be 0 or more")
    if not 1 <= limit <= PAGE:
        raise InvalidError(f"limit must be a number from 1 to {PAGE}")
    prefix = _key(actor.hex())
    page = await store.scan(_EVENTS, prefix, after=_key(actor.hex(), from_seq), limit=limit)
    return [_read(stored.value) for _, stored in page]


def _key(actor: str, seq: int | None = None) -> str:
    """Return a key; those of one actor are in the order of their numbers."""
    return f"{actor}/" if seq is None else f"{actor}/{seq:019d}"


# Whose child an agent is, and who its children are.

Direction = Literal["ancestors", "descendants"]

DEPTH = 32
NODES = 500


class Relative(Struct, frozen=True):
    vacant_id: str
    parent_id: str | None
    depth: int


class Lineage(Struct, frozen=True, kw_only=True):
    """Nearest first. `truncated` says that there are more relatives than one answer holds."""

    nodes: tuple[Relative, ...]
    truncated: bool = False


async def lineage(store: Store, start: CardRecord, direction: str, depth: int = DEPTH) -> Lineage:
    if not 1 <= depth <= DEPTH:
        raise InvalidError(f"depth must be a number from 1 to {DEPTH}")
    if direction == "ancestors":
        return await _ancestors(store, start, depth)
    if direction == "descendants":
        return await _descendants(store, start, depth)
    raise InvalidError("direction must be ancestors or descendants")


async def _ancestors(store: Store, start: CardRecord, depth: int) -> Lineage:
    seen = {start.vacant_id}
    nodes: list[Relative] = []
    record = start
    for level in range(1, depth + 1):
        if record.parent_id is None or record.parent_id in seen:
            break
        parent = await read_record(store, VacantId.from_hex(record.parent_id))
        if parent is None or parent.shown is Visibility.NONE:
            break
        seen.add(parent.vacant_id)
        nodes.append(Relative(parent.vacant_id, parent.parent_id, level))
        record = parent
    return Lineage(nodes=tuple(nodes))


async def _descendants(store: Store, start: CardRecord, depth: int) -> Lineage:
    nodes: list[Relative] = []
    generation = [start.vacant_id]
    for level in range(1, depth + 1):
        next_generation: list[str] = []
        for parent in generation:
            # One more than fits shows that there are more; another one may be the start itself, the
            # only agent that can come twice: everybody else has one parent, and was not seen before it.
            room = NODES - len(nodes) + 2
            for document in await store.find(FOUND, keys=[("parent", parent)], limit=room):
                child = as_record(document.body)
                if child.vacant_id == start.vacant_id:
                    continue
                if len(nodes) == NODES:
                    return Lineage(nodes=tuple(nodes), truncated=True)
                nodes.append(Relative(child.vacant_id, child.parent_id, level))
                next_generation.append(child.vacant_id)
        generation = next_generation
    return Lineage(nodes=tuple(nodes))
