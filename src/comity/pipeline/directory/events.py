"""The log of what each actor registered: append-only, numbered without gaps, chained by hash.

Every actor has a log of its own, and an event's position in it *is* its number: two events cannot
take one place. The chain runs through that log, from 32 zero bytes, so that whoever holds an actor's
events can verify all of them, and no actor waits for another.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from comity.core.card.register_event import KIND, RegisterEvent
from comity.core.envelope.envelope import digest
from comity.core.envelope.errors import HashChainError, SignatureVerificationError
from comity.core.errors import ComityError, InvalidError
from comity.core.identity.keys import VacantId
from comity.store.operations import Append
from comity.store.protocol import Store

PAGE = 500
DEFAULT_PAGE = 100
FIRST_PREVIOUS = bytes(32)


class LoggedEvent(Struct, frozen=True, kw_only=True):
    """A signed event and its link; `payload` is the text whose hash was signed."""

    event_seq: int
    event_type: str
    actor: str
    subject: str | None
    payload: str
    payload_hash_hex: str
    idempotency_key: str
    ts_ms: int
    actor_seq: int
    signature_hex: str
    prev_event_hash_hex: str
    event_hash_hex: str


_read = msgspec.json.Decoder(LoggedEvent).decode


def log_of(actor: VacantId) -> str:
    return f"directory.events/{actor.hex()}"


def append_event(event: RegisterEvent, payload: bytes, previous: bytes) -> Append:
    """Put the event in the one place that it may have; the commit fails if somebody else is there."""
    logged = LoggedEvent(
        event_seq=event.actor_seq,
        event_type=KIND,
        actor=event.actor.hex(),
        subject=event.subject.hex() if event.subject else None,
        payload=payload.decode(),
        payload_hash_hex=event.payload_hash.hex(),
        idempotency_key=event.idempotency_key,
        ts_ms=event.ts_ms,
        actor_seq=event.actor_seq,
        signature_hex=event.signature.hex(),
        prev_event_hash_hex=previous.hex(),
        event_hash_hex=event.event_hash(previous).hex(),
    )
    return Append(log=log_of(event.actor), data=msgspec.json.encode(logged), expect_end=event.actor_seq - 1)


def check_events(actor: VacantId, events: Sequence[LoggedEvent]) -> None:
    """Refuse events, in the order of their numbers, that the actor did not sign or that do not hang together."""
    previous: LoggedEvent | None = None
    for logged in events:
        event = _signed_event(actor, logged)
        if previous is None:
            if event.actor_seq == 1 and logged.prev_event_hash_hex != FIRST_PREVIOUS.hex():
                raise HashChainError("event 1 does not follow 32 zero bytes")
        elif (event.actor_seq, logged.prev_event_hash_hex) != (
            previous.actor_seq + 1,
            previous.event_hash_hex,
        ):
            raise HashChainError(f"event {event.actor_seq} does not follow event {previous.actor_seq}")
        if event.event_hash(bytes.fromhex(logged.prev_event_hash_hex)).hex() != logged.event_hash_hex:
            raise HashChainError(f"event {event.actor_seq} does not have the hash it claims")
        previous = logged


def _signed_event(actor: VacantId, logged: LoggedEvent) -> RegisterEvent:
    try:
        event = RegisterEvent(
            actor=VacantId.from_hex(logged.actor),
            subject=None if logged.subject is None else VacantId.from_hex(logged.subject),
            payload_hash=bytes.fromhex(logged.payload_hash_hex),
            idempotency_key=logged.idempotency_key,
            ts_ms=logged.ts_ms,
            actor_seq=logged.actor_seq,
            signature=bytes.fromhex(logged.signature_hex),
        )
        bytes.fromhex(logged.prev_event_hash_hex)
    except (ValueError, ComityError) as reason:
        raise HashChainError(f"event {logged.actor_seq} cannot be read: {reason}") from None
    if event.actor != actor or logged.event_type != KIND or not event.verify():
        raise SignatureVerificationError(f"event {event.actor_seq} is not signed by {actor.short()}")
    if digest(logged.payload.encode()) != event.payload_hash:
        raise HashChainError(f"event {event.actor_seq} carries another payload than was signed")
    return event


async def last_event_hash(store: Store, actor: VacantId, last: int) -> bytes:
    """What the next event follows; `last` is the number of the last one, 0 when there is none."""
    if last == 0:
        return FIRST_PREVIOUS
    (newest,) = await store.read(log_of(actor), after=last - 1, limit=1)
    return bytes.fromhex(_read(newest.data).event_hash_hex)


async def event_log(
    store: Store, actor: VacantId, from_seq: int = 1, limit: int = DEFAULT_PAGE
) -> list[LoggedEvent]:
    """The actor's events from that number on."""
    if from_seq < 0:
        raise InvalidError("from_seq must be 0 or more")
    if not 1 <= limit <= PAGE:
        raise InvalidError(f"limit must be a number from 1 to {PAGE}")
    records = await store.read(log_of(actor), after=max(0, from_seq - 1), limit=limit)
    return [_read(record.data) for record in records]
