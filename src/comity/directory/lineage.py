"""Whose child an agent is, and who its children are.

Each card names its parent. Lineage never shows more than the cards do: a card of visibility NONE is not shown, and the
search does not continue behind it. On the way down the reader learns new ids, so only cards that everybody can find are
shown. Parents may form a circle; each card is visited once.
"""

from typing import Literal

from msgspec import Struct

from comity.directory.cards import FOUND, CardRecord, as_record, read_record
from comity.envelopes.protocol.lifecycle import Visibility
from comity.identity.protocol.keys import VacantId
from comity.store.interface import Store
from comity.wire.errors import InvalidError

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
