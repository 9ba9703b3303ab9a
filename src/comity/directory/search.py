"""Finding cards: by words, by family, and in which order.

A query is words. Each must begin a word of the card's text or of its declared capabilities; case
and accents do not matter, and nothing in it is read as query syntax. The best match comes first;
without a query, the card that has been there longest.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from comity.directory.cards import FOUND, KEPT, CardRecord, as_record, searchable
from comity.envelopes.protocol.card import CapabilityCard, serialize
from comity.envelopes.protocol.lifecycle import Visibility
from comity.store.interface import Store
from comity.wire.canonical import ascii_form
from comity.wire.errors import InvalidError

LIMIT = 100
DEFAULT_LIMIT = 20
QUERY_LENGTH = 512
QUERY_WORDS = 32
RANKED_BY = ("factual", "logical", "relevance")

_ACTIVE = ("status", "active")


class HaloMatch(Struct, frozen=True, kw_only=True):
    """A card that was found, with what the directory says of it."""

    vacant_id: str
    capability_card_hash: bytes
    capability_card_sig: bytes
    declared_capabilities_json: str
    base_model_family: str | None
    visibility: Visibility
    score: float = 0.0
    capability_card: CapabilityCard


class Oracle(Protocol):
    async def score(self, vacant_hex: str, dimensions: Sequence[str]) -> float: ...


async def search_capability(
    *,
    store: Store,
    query: str | None = None,
    family: str | None = None,
    limit: int = DEFAULT_LIMIT,
    include_local: bool = False,
) -> list[HaloMatch]:
    """Cards that anybody may find; with `include_local`, which is for this node's owner, all others too."""
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


async def rank_by_reputation(
    matches: Sequence[HaloMatch], dimensions: Sequence[str] = RANKED_BY, *, oracle: Oracle
) -> list[HaloMatch]:
    """The same matches with their scores, best first; equals keep their order."""
    scored = [
        replace(match, score=await oracle.score(match.vacant_id, tuple(dimensions))) for match in matches
    ]
    return sorted(scored, key=lambda match: match.score, reverse=True)


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
    """A match on the wire: bytes in hex, the card as its serialized bytes."""
    return {
        "vacant_id": match.vacant_id,
        "capability_card_hash_hex": match.capability_card_hash.hex(),
        "capability_card_sig_hex": match.capability_card_sig.hex(),
        "capability_card_blob_hex": serialize(match.capability_card).hex(),
        "declared_capabilities_json": match.declared_capabilities_json,
        "base_model_family": match.base_model_family,
        "visibility": str(match.visibility),
        "score": match.score,
    }
