"""What the directory keeps of each card, and where.

- A card that anybody may find (effective visibility PUBLIC, still in service) lives in one collection,
  every other in another: what is not public is not *in* what the public searches.
- The text that is searched is the card's own and the declared capabilities, with scripts that do
  not put spaces between words taken apart, so that a part of such a text is found as well.
- What the owner says besides the card (family, parent, …) is kept here and is not signed: it comes
  over an authenticated publication, and only once (see `publish`).
"""

import re
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from comity.envelopes.protocol.card import (
    CapabilityCard,
    RuntimeState,
    Visibility,
    deserialize,
    effective_visibility,
    is_gone,
    serialize,
)
from comity.envelopes.protocol.errors import NotFoundError, VisibilityViolation
from comity.identity.protocol.keys import VacantId
from comity.store.interface import DeleteDocument, Operation, PutDocument, Store
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError

FOUND = "directory.found"
"""The cards that anybody may find."""
KEPT = "directory.kept"
"""The cards that are only read by id, or only by their own people."""

_ROWS = 1024  # of the tables and indexes around it

_SPACELESS = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")


class CardRecord(Struct, frozen=True, kw_only=True):
    """`card` is the serialized card. `event_seq` is the number of the event that put it here among all events of the
    directory, `actor_seq` among those of its owner; 0 in a card that was stored before events were numbered so. `succeeded_by` is the id that took
    the place of this one.
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
    succeeded_by: str | None = None

    @property
    def shown(self) -> Visibility:
        """Return the visibility that counts: a local vacant is shown to nobody."""
        return effective_visibility(self.runtime_state, self.visibility)

    @property
    def in_service(self) -> bool:
        """Return what the contract calls status `active`. A vacant that is gone for good, or whose key was replaced, is not
        found any more.
        """
        return not is_gone(self.runtime_state) and self.succeeded_by is None

    def capability_card(self) -> CapabilityCard:
        return deserialize(self.card.encode())


as_record = msgspec.json.Decoder(CardRecord).decode


def keep_record(record: CardRecord) -> tuple[Operation, ...]:
    """Return the operations that put the record in its place, and out of any other."""
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
    """Return the operations by which the directory of a node follows the state of the node's own agent: an agent that
    is gone is not found, whatever was published (ruling 42).
    """
    record = await read_record(store, vacant_id)
    if record is None or record.runtime_state is state:
        return ()
    return keep_record(replace(record, runtime_state=state))


def size_of(record: CardRecord) -> int:
    """Return about how many bytes it takes: the record, and the index of what is searched."""
    return len(msgspec.json.encode(record)) + len(_text(record).encode()) + _ROWS


def _text(record: CardRecord) -> str:
    return "\n".join((record.capability_card().capability_text, *record.declared_capabilities))


def searchable(text: str) -> str:
    """Return the text as words: each character of a script without spaces is one."""
    return _SPACELESS.sub(r" \1 ", text)


async def read_record(store: Store, vacant_id: VacantId) -> CardRecord | None:
    for collection in (FOUND, KEPT, FOUND):  # once more: it may have moved while we looked
        document = await store.document(collection, vacant_id.hex())
        if document is not None:
            return as_record(document.body)
    return None


async def visible_record(store: Store, vacant_id: VacantId, reader: VacantId | None) -> CardRecord:
    """Return the record, if this reader may see it. A hidden one is for its owner and its parent only."""
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
    """Return whether the reader is the owner of the card or its parent."""
    return reader is not None and reader.hex() in (record.vacant_id, record.parent_id)


# Finding cards: by words, by family, and in which order.

LIMIT = 100
DEFAULT_LIMIT = 20
QUERY_LENGTH = 512
QUERY_WORDS = 32
RANKED_BY = ("factual", "logical", "relevance")

_ACTIVE = ("status", "active")


class HaloMatch(Struct, frozen=True, kw_only=True):
    """A card that was found, with what the directory says of it. `score` is the mean of what `reviews` say of its skills; 0
    if there are none.
    """

    vacant_id: str
    capability_card_hash: bytes
    capability_card_sig: bytes
    declared_capabilities_json: str
    base_model_family: str | None
    visibility: Visibility
    score: float = 0.0
    capability_card: CapabilityCard
    reviews: int = 0


async def search_capability(
    *,
    store: Store,
    query: str | None = None,
    family: str | None = None,
    limit: int = DEFAULT_LIMIT,
    include_local: bool = False,
) -> list[HaloMatch]:
    """Return cards that anybody may find; with `include_local`, which is for this node's owner, all others too."""
    if not 1 <= limit <= LIMIT:
        raise InvalidError(f"limit must be a number from 1 to {LIMIT}")
    if query is not None and len(query) > QUERY_LENGTH:
        raise InvalidError(f"a query has at most {QUERY_LENGTH} characters; say it in fewer words")
    words = searchable(query or "")
    if len(words.split()) > QUERY_WORDS:
        raise InvalidError(f"a query has at most {QUERY_WORDS} words; leave some out")
    narrowed = [] if family is None else [("family", family)]
    # A key leads to the documents where no word does; in FOUND everything is active.
    keys = narrowed if narrowed or words.strip() else [_ACTIVE]
    found = await store.find(FOUND, words=words, keys=keys, limit=limit)
    if include_local and len(found) < limit:
        found += await store.find(KEPT, words=words, keys=[*narrowed, _ACTIVE], limit=limit - len(found))
    return [match_of(as_record(document.body)) for document in found]


def match_of(record: CardRecord) -> HaloMatch:
    card = record.capability_card()
    return HaloMatch(
        vacant_id=record.vacant_id,
        capability_card_hash=bytes.fromhex(record.card_hash),
        capability_card_sig=card.signature,
        declared_capabilities_json=ascii_form(list(record.declared_capabilities)).decode(),
        base_model_family=record.base_model_family,
        visibility=record.shown,
        capability_card=card,
    )


def match_as_json(match: HaloMatch) -> dict[str, Any]:
    """Return a match on the wire: bytes in hex, the card as its serialized bytes."""
    return {
        "vacant_id": match.vacant_id,
        "capability_card_hash_hex": match.capability_card_hash.hex(),
        "capability_card_sig_hex": match.capability_card_sig.hex(),
        "capability_card_blob_hex": serialize(match.capability_card).hex(),
        "declared_capabilities_json": match.declared_capabilities_json,
        "base_model_family": match.base_model_family,
        "visibility": str(match.visibility),
        "score": match.score,
        "reviews": match.reviews,
    }
