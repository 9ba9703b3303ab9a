"""Publishing a card: a signed `register` event puts it into the directory (envelope 4).

Checked in this order, each with its own answer:

1. the body: known members only, each of its kind and size; the card's bytes; control characters (400)
2. the event's signature, by the owner of the card (401); then the card's own (400)
3. the idempotency key: the same request again gets its first answer, and changes nothing; another
   request under a used key is a conflict (409)
4. the event's number: the actor's last + 1 (409)
5. the line of keys that the card names: a key that was replaced publishes nothing (409)
6. what may change: never the parent, never the halo version downwards (409); members that are null
   or left out keep what was said before

The event, the card, the key and the audit entry are one transaction, and each number of the directory's
log is given once. Publications wait for each other; where another process stored an event meanwhile, the
checks and the commit are made again. Of two publishers racing for a number of one actor one wins, and the
other gets 409, or, if it had sent the same request, gets the winner's answer.

Family, parent and the rest are not covered by the signature (the contract signs the card and its
visibility only); because a number is used once, they cannot be changed by sending an old event again.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from comity.directory.account import Account, Reserved
from comity.directory.cards import CardRecord, keep_record, read_record, size_of
from comity.directory.events import append_event, log_end
from comity.directory.protocol.signed_requests import (
    RegisterEvent,
    check_actor_sequence,
    register_event,
    registered_payload,
)
from comity.directory.superseding import Superseded, Superseding
from comity.envelopes.protocol.card import (
    CapabilityCard,
    RuntimeState,
    Visibility,
    deserialize,
    refuse_control_characters,
    serialize,
)
from comity.envelopes.protocol.envelope import digest
from comity.envelopes.protocol.errors import (
    AppendOnlyViolation,
    EnvelopeFormatError,
    IdempotencyConflict,
    SequenceMonotonicityError,
    SignatureRejected,
)
from comity.identity.protocol.keys import VacantId
from comity.requests.budget import Quota
from comity.requests.caller import vacant
from comity.requests.handler import Admission, Call, HandlerDefaults, HandlerResult, Identified, Request
from comity.requests.record import Act
from comity.store.interface import Hold, Put, Store, StoreConflict
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError, MalformedError

CARD_LIMIT = 65_536
TEXT_LIMIT = 8_192
ENDPOINT_LIMIT = 2_048

_MAX_NUMBER = 2**63 - 1
_KEYS = "directory.idempotency"
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_CONTROL_BUT_LINES = re.compile("[\x00-\x08\x0b-\x1f\x7f]")

Short = Annotated[str, Meta(min_length=1, max_length=256)]
Capability = Annotated[str, Meta(min_length=1, max_length=1024)]


class Publication(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a publication, member by member as the contract names them."""

    capability_card_blob_hex: Annotated[str, Meta(max_length=2 * CARD_LIMIT)]
    runtime_state: RuntimeState
    visibility: Visibility = Visibility.PUBLIC
    base_model: Short | None = None
    base_model_family: Short | None = None
    owner_org: Short | None = None
    declared_capabilities: Annotated[list[Capability], Meta(max_length=64)] | None = None
    parent_id: str | None = None
    version: Short | Annotated[int, Meta(ge=0, le=_MAX_NUMBER)] | None = None
    event_ts_ms: Annotated[int, Meta(ge=0, le=_MAX_NUMBER)]
    event_actor_seq: Annotated[int, Meta(ge=1, le=_MAX_NUMBER)]
    event_idempotency_key: Short
    event_signature_hex: str


class SignedPublication(Struct, frozen=True, kw_only=True):
    """A publication in the right format. Its signatures are not verified yet."""

    asked: Publication
    card: CapabilityCard
    event: RegisterEvent
    payload: bytes
    parent: VacantId | None

    def digest(self) -> bytes:
        """Return the hash of everything that was asked: what makes a request the same one."""
        members = msgspec.to_builtins(self.asked)
        del members["event_signature_hex"]  # two signatures of one event say the same
        return digest(ascii_form(members))


class _Reserved(Reserved):
    """And the act that a publication adds."""

    act: Act | None = None


class _Kept(Struct, frozen=True):
    """What stands under an idempotency key."""

    digest: bytes
    reply: dict[str, Any]


_read_kept = msgspec.json.Decoder(_Kept).decode


def read_publication(body: Any) -> SignedPublication:
    """Read a publication in the decoded body of a request (step 1). Raise what a door answers with 400."""
    try:
        asked = msgspec.convert(body, Publication)
    except msgspec.ValidationError as reason:
        raise InvalidError(f"the publication is refused: {reason}") from None
    card = deserialize(_from_hex("capability_card_blob_hex", asked.capability_card_blob_hex))
    refuse_control_characters(card)
    if len(card.capability_text) > TEXT_LIMIT:
        raise InvalidError(f"capability_text has more than {TEXT_LIMIT} characters; say it shorter")
    if card.endpoint is not None and len(card.endpoint) > ENDPOINT_LIMIT:
        raise InvalidError(f"endpoint has more than {ENDPOINT_LIMIT} characters")
    for name, value, refused in _texts(asked):
        if refused.search(value):
            raise InvalidError(f"{name} contains a control character; remove it")
    parent = None if asked.parent_id is None else _parent(asked.parent_id, card)
    event = register_event(
        card,
        asked.visibility,
        idempotency_key=asked.event_idempotency_key,
        ts_ms=asked.event_ts_ms,
        actor_seq=asked.event_actor_seq,
    )
    signature = _from_hex("event_signature_hex", asked.event_signature_hex)
    return SignedPublication(
        asked=asked,
        card=card,
        event=replace(event, signature=signature),
        payload=registered_payload(
            vacant_id=card.vacant_id,
            card_hash=card.card_hash(),
            halo_version=card.halo_version,
            visibility=asked.visibility,
        ),
        parent=parent,
    )


class PublishHandler(HandlerDefaults):
    """Takes a SignedPublication as the body of its arrival."""

    name = "directory_publish"
    deadline = 10.0

    def __init__(
        self, store: Store, quota: Quota | None = None, superseding: Superseding | None = None
    ) -> None:
        """Without a `quota` there is no limit in bytes. `superseding` retires the cards of keys that were replaced."""
        self._store = store
        self._superseding = superseding
        self._account = Account(store, quota)
        self._one_at_a_time = asyncio.Lock()

    def identify(self, request: Request) -> Identified:
        publication: SignedPublication = request.body
        owner = publication.card.vacant_id
        if not publication.event.verify():
            raise SignatureRejected(
                f"the register event is not signed by {owner.short()}, the owner of the card; "
                "sign it with the key of the card's vacant_id"
            )
        if not publication.card.verify():
            raise EnvelopeFormatError(f"the card of {owner.short()} does not verify; sign it again")
        caller = vacant(owner.hex(), request.caller.address)
        return Identified(caller, _Reserved())

    @asynccontextmanager
    async def hold(self, call: Call) -> AsyncIterator[None]:
        stored = False
        try:
            async with self._one_at_a_time:
                yield
            stored = True
            if self._superseding is not None and call.evidence.act is not None:
                self._superseding.note(call.evidence.act)
        finally:
            self._account.release(call.evidence, stored=stored)

    async def admit(self, call: Call) -> Admission:
        return Admission(checks=("schema", "signature"), answered=await self._first_answer(call.request.body))

    async def handle(self, call: Call) -> HandlerResult:
        publication: SignedPublication = call.request.body
        event = publication.event
        end = await log_end(self._store)  # read first: whatever is stored after it makes the commit fail
        before = await read_record(self._store, event.actor)
        try:
            check_actor_sequence(before.actor_seq if before else 0, event)
        except SequenceMonotonicityError:
            answered = await self._first_answer(publication)  # it may have come twice, at the same moment
            if answered is None:
                raise
            return answered
        superseded = Superseded()
        if self._superseding is not None:
            superseded = await self._superseding.by(publication.card)
            call.evidence.act = superseded.act
        record = republished(before, publication, end.seq + 1, call.at)
        reply = {
            "vacant_id": record.vacant_id,
            "visibility": str(record.shown),
            "event_seq": record.event_seq,
            "capability_card_hash_hex": record.card_hash,
        }
        kept = msgspec.json.encode(_Kept(publication.digest(), reply))
        numbered, stored = append_event(event, publication.payload, end)
        key = Put(space=_KEYS, key=_key(event), value=kept, expect=0)
        grown = len(numbered.data) + _size(stored) + _size(key) + size_of(record)
        return HandlerResult(
            reply=reply,
            operations=(
                numbered,
                stored,
                key,
                *keep_record(record),
                *superseded.operations,
                await self._hold_card(call, grown - (0 if before is None else size_of(before))),
            ),
            audit={"content_hash": f"blake2b:{record.card_hash}"},
        )

    async def seal(self, call: Call, result: HandlerResult) -> HandlerResult:
        return result

    async def answer_conflict(self, call: Call, conflict: StoreConflict) -> HandlerResult:
        """Check again after another process stored an event in between, so that the caller gets the current state."""
        self._account.release(call.evidence, stored=False)
        answered = await self._first_answer(call.request.body)
        return answered or await self.handle(call)

    async def _hold_card(self, call: Call, grown: int) -> Hold:
        """Return what counts the card, and every event and key there ever was of its owner."""
        return await self._account.hold(call, call.caller.id, lambda before: max(0, before + grown))

    async def _first_answer(self, publication: SignedPublication) -> HandlerResult | None:
        """Return what was answered to this very request, if it came before."""
        held = await self._store.get(_KEYS, _key(publication.event))
        if held is None:
            return None
        kept = _read_kept(held.value)
        if kept.digest != publication.digest():
            raise IdempotencyConflict(
                "event_idempotency_key was used before, for another publication; choose a new one"
            )
        return HandlerResult(reply=kept.reply)


def republished(
    before: CardRecord | None, publication: SignedPublication, event_seq: int, now: float
) -> CardRecord:
    """Return the new record of the card, from the old record and this publication (step 6)."""
    asked, card = publication.asked, publication.card
    parent = None if publication.parent is None else publication.parent.hex()
    declared = None if asked.declared_capabilities is None else tuple(asked.declared_capabilities)
    said: dict[str, Any] = {
        "base_model": asked.base_model,
        "base_model_family": asked.base_model_family,
        "owner_org": asked.owner_org,
        "parent_id": parent,
        "version": asked.version,
    }
    if before is not None:
        if parent is not None and parent != before.parent_id:
            raise AppendOnlyViolation("parent_id is set with the first publication and never changes")
        if card.halo_version < before.halo_version:
            raise AppendOnlyViolation(
                f"halo_version never goes down: {before.halo_version} is published, this is {card.halo_version}"
            )
        said = {name: getattr(before, name) if value is None else value for name, value in said.items()}
        declared = _declared_before(before, declared)
    return CardRecord(
        vacant_id=card.vacant_id.hex(),
        card=serialize(card).decode(),
        card_hash=card.card_hash().hex(),
        halo_version=card.halo_version,
        runtime_state=asked.runtime_state,
        visibility=asked.visibility,
        declared_capabilities=(card.capability_text,) if declared is None else declared,
        event_seq=event_seq,
        actor_seq=asked.event_actor_seq,
        published_at=now,
        **said,
    )


def _declared_before(before: CardRecord, declared: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Keep declared capabilities. If there were none, the new text of the card is the default."""
    if declared is None and before.declared_capabilities != (before.capability_card().capability_text,):
        return before.declared_capabilities
    return declared


def _size(put: Put) -> int:
    return len(put.key) + len(put.value)


def _key(event: RegisterEvent) -> str:
    """Return a key of the actor's own: two actors may use the same."""
    return f"{event.actor.hex()}/{event.idempotency_key}"


def _texts(asked: Publication) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    for name in ("base_model", "base_model_family", "owner_org", "version", "event_idempotency_key"):
        value = getattr(asked, name)
        if isinstance(value, str):
            yield name, value, _CONTROL
    for capability in asked.declared_capabilities or ():
        yield "declared_capabilities", capability, _CONTROL_BUT_LINES


def _parent(text: str, card: CapabilityCard) -> VacantId:
    try:
        parent = VacantId.from_hex(text)
    except MalformedError as reason:
        raise InvalidError(f"parent_id: {reason.message}") from None
    if parent == card.vacant_id:
        raise InvalidError("parent_id is the vacant_id of the card itself; a card cannot be its own parent")
    return parent


def _from_hex(name: str, text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(text) != 2 * len(data):  # fromhex overlooks blanks
        raise MalformedError(f"{name} must be pairs of hexadecimal digits")
    return data
