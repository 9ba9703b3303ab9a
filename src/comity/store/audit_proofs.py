"""Proofs from the stored tree of an audit chain, and the tree of a chain that was written without one."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from comity.store import audit_chain as audit
from comity.store.audit_trail import log_of
from comity.store.audit_tree import (
    TILE,
    TILE_BITS,
    TREES,
    GrowingTree,
    TreeEdge,
    read_edge,
    split_hashes,
)
from comity.store.interface import Put, Store
from comity.wire.errors import ConflictError, InvalidError, StoreCorruptError
from comity.wire.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    Part,
    consistency_parts,
    full_subtrees,
    inclusion_parts,
    part_root,
    root_of_leaves,
)

_PAGE: Final = 2000
_PIECE: Final = 100
"""Entries that are added at a stretch while a node answers calls."""


class StoredTree:
    """A tree as the store has it, for proofs about sizes up to its own."""

    def __init__(self, store: Store, tree: GrowingTree) -> None:
        self._store = store
        self._tree = tree
        self._tiles: dict[str, Sequence[bytes]] = {}
        self.log, self.first, self.size = tree.log, tree.first, tree.size

    async def root(self, size: int) -> bytes:
        """Return the root that the tree had when it had that size."""
        if size == 0:
            return EMPTY_ROOT
        (root,) = await self._roots([(0, size)])
        return root

    async def consistency(self, old: int, size: int) -> list[bytes]:
        return await self._roots(consistency_parts(old, size))

    async def inclusion(self, position: int, size: int) -> list[bytes]:
        """Return the proof for the entry at that position of the chain, whose index in the tree is `position - first`."""
        return await self._roots(inclusion_parts(position - self.first, size))

    async def _roots(self, parts: Sequence[Part]) -> list[bytes]:
        if any(end > self.size for _, end in parts):
            raise InvalidError(f"the tree has {self.size:,} leaves; ask for no more")
        for part in parts:
            for level, place in full_subtrees(part):
                await self._load(level, place)
        return [part_root(part, self._node) for part in parts]

    def _node(self, level: int, place: int) -> bytes:
        tile_level, within = divmod(level, TILE_BITS)
        index, offset = divmod(place << within, TILE)
        hashes = self._tiles[self._tree.tile_key(tile_level, index)]
        return root_of_leaves(hashes[offset : offset + (1 << within)])

    async def _load(self, level: int, place: int) -> None:
        tile_level, within = divmod(level, TILE_BITS)
        index = (place << within) >> TILE_BITS
        key = self._tree.tile_key(tile_level, index)
        if key in self._tiles:
            return
        hashes = self._tree.tile(tile_level, index)
        if hashes is None:
            row = await self._store.get(TREES, key)
            if row is None or len(row.value) != 1 + TILE * HASH_BYTES:
                raise StoreCorruptError(
                    f"the tree of audit chain {self._tree.chain!r} lacks a tile; restore the database from a backup"
                )
            hashes = split_hashes(row.value[1:])
        self._tiles[key] = hashes


async def read_tree(store: Store, chain: str, through: int) -> StoredTree:
    """Return the tree of a chain up to the entry at `through`, where its head is."""
    held = await store.get(TREES, chain)
    tree = GrowingTree(chain, read_edge(held.value if held else None))
    await _add_stored(store, tree, through)
    if tree.position < through:
        raise StoreCorruptError(
            f"the tree of audit chain {chain!r} lacks entries; run `comity audit verify` to see which"
        )
    return StoredTree(store, tree)


async def build_tree(store: Store, chain: str, through: int) -> GrowingTree:
    """Build the tree of a chain that was written without one, up to the entry at `through`. Full tiles are stored on the
    way, and a later attempt goes on after them.
    """
    held = await store.get(TREES, chain)
    edge = read_edge(held.value if held else None)
    first = await _first_entry(store, chain)
    if edge is None or edge.first + edge.size < first:
        edge = TreeEdge(first=first)
    tree = GrowingTree(chain, edge)
    while (before := tree.position) < through:
        await _add_stored(store, tree, min(through, before + _PAGE))
        if tree.position == before:
            raise ConflictError(
                f"entries of audit chain {chain!r} were pruned meanwhile; they are read again"
            )
        if rows := tree.take_rows():
            await store.commit(*rows)
    tree.keep_edge()
    await store.commit(*tree.take_rows())
    return tree


async def edge_at(store: Store, chain: str, position: int) -> tuple[Put] | tuple[()]:
    """Return what stores the edge with the entry at `position` in it, before that entry is pruned. Nothing, if the stored
    edge has it already.
    """
    held = await store.get(TREES, chain)
    tree = GrowingTree(chain, read_edge(held.value if held else None))
    if tree.position >= position:
        return ()
    await _add_stored(store, tree, position)
    if tree.position != position:  # an older release pruned what was never in it
        return ()
    return (Put(space=TREES, key=chain, value=msgspec.msgpack.encode(tree.edge())),)


async def _first_entry(store: Store, chain: str) -> int:
    page = await store.read(log_of(chain), after=0, limit=1)
    return page[0].position if page else 1


async def _add_stored(store: Store, tree: GrowingTree, through: int) -> None:
    while tree.position < through:
        after = tree.position
        page = await store.read(log_of(tree.chain), after=after, limit=min(_PAGE, through - after))
        if not page or page[0].position != after + 1:
            return
        for at, record in enumerate(page):
            if at % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
            tree.add(audit.decode(record.data).entry_hash)
