"""What the directory keeps of each card, and where.

- A card that anybody may find (effective visibility PUBLIC, still in service) lives in one collection,
  every other in another: what is not public is not *in* what the public searches.
- The text that is searched is the card's own and the declared capabilities, with scripts that do
  not put spaces between words taken apart, so that a part of such a text is found as well.
- What the owner says besides the card (family, parent, …) is kept here and is not signed: it comes
  over an authenticated publication, and only once (see `publish`).
"""

import re

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.card import CapabilityCard, deserialize
from comity.envelopes.protocol.card_errors import NotFoundError, VisibilityViolation
from comity.envelopes.protocol.lifecycle import RuntimeState, Visibility, effective_visibility, is_gone
from comity.identity.protocol.keys import VacantId
from comity.store.interface import Store
from comity.store.operations import DeleteDocument, Operation, PutDocument

FOUND = "directory.found"
"""The cards that anybody may find."""
KEPT = "directory.kept"
"""The cards that are only read by id, or only by their own people."""

_ROWS = 1024  # of the tables and indexes around it

_SPACELESS = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")


class CardRecord(Struct, frozen=True, kw_only=True):
    """`card` is the serialized card. `event_seq` is the number of the event that put it here among all events of the
    directory, `actor_seq` among those of its owner; 0 in a card that was stored before events were numbered so.
    """

    vacant_id: str
    card: str
    card_hash: str
    halo_version: int
    runtime_state: RuntimeState
    visibility: Visibility
    declared_capabilities: tuple[str, ...]
    event_seq: int
    published_at: float
    actor_seq: int = 0
    base_model: str | None = None
    base_model_family: str | None = None
    owner_org: str | None = None
    parent_id: str | None = None
    version: str | int | None = None

    @property
    def shown(self) -> Visibility:
        """The visibility that counts: a local vacant is shown to nobody."""
        return effective_visibility(self.runtime_state, self.visibility)

    @property
    def in_service(self) -> bool:
        """What the contract calls status `active`; a vacant that is gone for good is not found any more."""
        return not is_gone(self.runtime_state)

    def capability_card(self) -> CapabilityCard:
        return deserialize(self.card.encode())


as_record = msgspec.json.Decoder(CardRecord).decode


def keep_record(record: CardRecord) -> tuple[Operation, ...]:
    """The operations that put the record in its place, and out of any other."""
    public = record.shown is Visibility.PUBLIC and record.in_service
    keys = [("status", "active" if record.in_service else "retired")]
    if record.base_model_family is not None:
        keys.append(("family", record.base_model_family))
    if record.parent_id is not None:
        keys.append(("parent", record.parent_id))
    return (
        PutDocument(
            collection=FOUND if public else KEPT,
            id=record.vacant_id,
            body=msgspec.json.encode(record),
            text=searchable(_text(record)),
            keys=tuple(keys),
        ),
        DeleteDocument(collection=KEPT if public else FOUND, id=record.vacant_id),
    )


async def move_record(store: Store, vacant_id: VacantId, state: RuntimeState) -> tuple[Operation, ...]:
    """The operations by which the directory of a node follows the state of the node's own agent: whoever is gone is
    not found, whatever was published (ruling 42).
    """
    record = await read_record(store, vacant_id)
    if record is None or record.runtime_state is state:
        return ()
    return keep_record(replace(record, runtime_state=state))


def size_of(record: CardRecord) -> int:
    """About how many bytes it takes: the record, and the index of what is searched."""
    return len(msgspec.json.encode(record)) + len(_text(record).encode()) + _ROWS


def _text(record: CardRecord) -> str:
    return "\n".join((record.capability_card().capability_text, *record.declared_capabilities))


def searchable(text: str) -> str:
    """The text as words: each character of a script without spaces is one."""
    return _SPACELESS.sub(r" \1 ", text)


async def read_record(store: Store, vacant_id: VacantId) -> CardRecord | None:
    for collection in (FOUND, KEPT, FOUND):  # once more: it may have moved while we looked
        document = await store.document(collection, vacant_id.hex())
        if document is not None:
            return as_record(document.body)
    return None


async def visible_record(store: Store, vacant_id: VacantId, reader: VacantId | None) -> CardRecord:
    """The record, if this reader may see it. A hidden one is for its owner and its parent only."""
    record = await read_record(store, vacant_id)
    if record is None:
        raise NotFoundError(f"no card of {vacant_id.short()} is in this directory")
    if record.shown is Visibility.NONE and not is_of(record, reader):
        raise VisibilityViolation(
            f"the card of {vacant_id.short()} is for its owner and its parent; "
            "prove who you are with caller, caller_ts_ms and caller_signature_hex"
        )
    return record


def is_of(record: CardRecord, reader: VacantId | None) -> bool:
    """Whether the reader is the owner of the card or its parent."""
    return reader is not None and reader.hex() in (record.vacant_id, record.parent_id)
