"""The Merkle tree over an audit chain, kept while the chain grows (ruling 68).

- Leaf 0 is the hash of the entry at `first`. What is signed of the tree is its size and root, in the head of the chain.
- Hashes are stored in tiles of 256: the leaves, then the roots of full tiles, and so on. A full tile is a row of its own and
  never changes. The rest is the edge, one row, written whenever a tile becomes full, in the commit of the entry that filled
  it. Entries after the edge are added again at the start: fewer than 256.
- Tiles stay when entries are pruned. The edge is then written with the last pruned entry in it.
- A restored or adopted chain begins a new log: a new tree, named by the hash of a signed statement.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.store.interface import Put
from comity.wire.errors import InvalidError, StoreCorruptError
from comity.wire.merkle import HASH_BYTES, Peaks, leaf_hash

TREES: Final = "audit-tree"
TILE: Final = 256
TILE_BITS: Final = 8
_FULL: Final = b"\x01"  # so that no row begins as a value of the vault does


class TreeEdge(Struct, frozen=True, kw_only=True):
    """What is not in full tiles: the hashes at each level of tiles. `at` is when the log began, 0.0 for the first."""

    log: str = ""
    at: float = 0.0
    first: int = 1
    size: int = 0
    levels: tuple[bytes, ...] = ()


def read_edge(data: bytes | None) -> TreeEdge | None:
    try:
        return None if data is None else msgspec.msgpack.decode(data, type=TreeEdge)
    except msgspec.MsgspecError:
        raise StoreCorruptError(
            "the tree of an audit chain cannot be read; restore the database from a backup"
        ) from None


class GrowingTree:
    """The right edge of a tree in memory. Full tiles are handed over as rows, once."""

    def __init__(self, chain: str, edge: TreeEdge | None = None) -> None:
        edge = edge or TreeEdge()
        self.chain = chain
        self.log, self.at, self.first = edge.log, edge.at, edge.first
        self.size = edge.size
        self._levels = [split_hashes(level) for level in edge.levels] or [[]]
        self._peaks = [Peaks().add(*level) for level in self._levels]
        self._rows: dict[str, bytes] = {}
        self._whole()

    @property
    def position(self) -> int:
        """Return the position of the last entry in the tree."""
        return self.first + self.size - 1

    def root(self) -> bytes:
        return self._whole().root()

    def add(self, *entry_hashes: str) -> None:
        leaves = [leaf_hash(bytes.fromhex(each)) for each in entry_hashes]
        while leaves:
            tile = self._levels[0]
            room = TILE - len(tile)
            some, leaves = leaves[:room], leaves[room:]
            self._peaks[0] = self._peaks[0].add(*some)
            self.size += len(some)
            tile += some
            if len(some) == room:
                self._fill()

    def edge(self) -> TreeEdge:
        levels = tuple(b"".join(level) for level in self._levels)
        return TreeEdge(log=self.log, at=self.at, first=self.first, size=self.size, levels=levels)

    def keep(self, key: str, value: bytes) -> None:
        """Store this row with the next entries."""
        self._rows[f"{self.chain}/{key}"] = value

    def keep_edge(self) -> None:
        self._rows[self.chain] = msgspec.msgpack.encode(self.edge())

    def take_rows(self) -> list[Put]:
        """Return the rows that have to be stored with what was added."""
        rows = [Put(space=TREES, key=key, value=value) for key, value in self._rows.items()]
        self._rows = {}
        return rows

    def mark(self) -> tuple[Any, ...]:
        levels = tuple((level, len(level)) for level in self._levels)
        return self.size, tuple(self._peaks), levels, tuple(self._rows.items())

    def go_back(self, mark: tuple[Any, ...]) -> None:
        """Forget what was added since `mark`: its commit did not happen."""
        self.size, peaks, levels, rows = mark
        self._peaks = list(peaks)
        for level, length in levels:
            del level[length:]
        self._levels = [level for level, _ in levels]
        self._rows = dict(rows)

    def tile(self, level: int, index: int) -> Sequence[bytes] | None:
        """Return the hashes of a tile, as far as they are in memory."""
        if level < len(self._levels) and index == self.size >> TILE_BITS * (level + 1):
            return self._levels[level]
        row = self._rows.get(self.tile_key(level, index))
        return None if row is None else split_hashes(row[1:])

    def tile_key(self, level: int, index: int) -> str:
        return f"{self.chain}/{self.log}/{level}/{index:010x}"

    def _fill(self) -> None:
        """Hand over the tiles that have become full, each with its root in the level above."""
        for level in range(len(self._levels)):
            hashes = self._levels[level]
            if len(hashes) < TILE:
                break
            index = (self.size >> TILE_BITS * (level + 1)) - 1
            self._rows[self.tile_key(level, index)] = _FULL + b"".join(hashes)
            root = self._peaks[level].root()
            self._levels[level], self._peaks[level] = [], Peaks()  # a new list: a mark may have the old one
            if level + 1 == len(self._levels):
                self._levels.append([])
                self._peaks.append(Peaks())
            self._levels[level + 1].append(root)
            self._peaks[level + 1] = self._peaks[level + 1].add(root)
        self.keep_edge()

    def _whole(self) -> Peaks:
        """Return the peaks of the whole tree: those of its highest level are the largest."""
        try:
            return Peaks(
                self.size, tuple(chain.from_iterable(level.hashes for level in reversed(self._peaks)))
            )
        except InvalidError:
            raise StoreCorruptError(
                "the tree of an audit chain is not of its size; restore the database from a backup"
            ) from None


def split_hashes(hashes: bytes) -> list[bytes]:
    """Return the hashes that were stored side by side."""
    if len(hashes) % HASH_BYTES:
        raise StoreCorruptError("the tree of an audit chain is cut off; restore the database from a backup")
    return [hashes[at : at + HASH_BYTES] for at in range(0, len(hashes), HASH_BYTES)]
