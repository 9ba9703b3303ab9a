"""The Merkle tree of RFC 6962 (RFC 9162, section 2) over a list that only grows.

- A leaf is SHA-256 of 0x00 and its data, a node SHA-256 of 0x01 and its two children. The tree of n leaves splits after
  the largest power of two below n; the tree of none is SHA-256 of nothing.
- A part [begin, end) whose size is a power of two and divides `begin` is a full subtree: it never changes again. Each is
  named by its level and its place there: (0, 5) is leaf 5, (3, 1) are the leaves 8 to 15.
- An inclusion proof shows that a leaf is at its index in the tree of a root; a consistency proof, that the tree of one root
  begins with all leaves of the tree of another.

What is proven is worked out from parts (`inclusion_parts`, `consistency_parts`); whoever has the full subtrees gets the
hash of a part with `part_root`.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from comity.wire.errors import InvalidError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = sha256(b"").digest()
PROOF_LIMIT: Final = 64
"""Hashes in a proof: enough for 2^63 leaves."""

Part = tuple[int, int]
"""From one index up to, and without, another."""


def leaf_hash(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def root_of_leaves(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes, worked out from all of them."""
    return Peaks().add(*leaves).root()


class Peaks:
    """The roots of the full subtrees that make up a tree, from the largest to the smallest: all that is needed to go on."""

    __slots__ = ("hashes", "size")

    def __init__(self, size: int = 0, hashes: tuple[bytes, ...] = ()) -> None:
        if len(hashes) != size.bit_count():
            raise InvalidError(f"a tree of {size} leaves has {size.bit_count()} full subtrees")
        self.size = size
        self.hashes = hashes

    def add(self, *leaves: bytes) -> "Peaks":
        """Return the tree with more leaves."""
        hashes, size = list(self.hashes), self.size
        for leaf in leaves:
            node, rest = leaf, size
            while rest & 1:
                node = sha256(b"\x01" + hashes.pop() + node).digest()
                rest >>= 1
            hashes.append(node)
            size += 1
        grown = object.__new__(Peaks)
        grown.size, grown.hashes = size, tuple(hashes)
        return grown

    def root(self) -> bytes:
        if not self.hashes:
            return EMPTY_ROOT
        *larger, root = self.hashes
        for left in reversed(larger):
            root = sha256(b"\x01" + left + root).digest()
        return root


# What a proof is made of.


def inclusion_parts(index: int, size: int) -> list[Part]:
    """Return the parts whose roots prove that leaf `index` is in the tree of `size` leaves, the deepest first."""
    if not 0 <= index < size:
        raise InvalidError(
            f"a tree of {size:,} leaves has none at {index:,}; give an index from 0 to {size - 1:,}"
        )
    parts: list[Part] = []
    begin, end = 0, size
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            parts.append((middle, end))
            end = middle
        else:
            parts.append((begin, middle))
            begin = middle
    return parts[::-1]


def consistency_parts(old: int, size: int) -> list[Part]:
    """Return the parts whose roots prove that the tree of `size` leaves begins with the tree of its first `old` ones."""
    if not 0 < old <= size:
        raise InvalidError(
            f"a tree of {size:,} leaves cannot begin with one of {old:,}; give a size from 1 to {size:,}"
        )
    parts: list[Part] = []
    begin, end, whole = 0, size, True
    while old != end:
        middle = begin + _split(end - begin)
        if old <= middle:
            parts.append((middle, end))
            end = middle
        else:
            parts.append((begin, middle))
            begin, whole = middle, False
    if not whole:
        parts.append((begin, end))
    return parts[::-1]


def full_subtrees(part: Part) -> Iterator[tuple[int, int]]:
    """Return level and place of the full subtrees that make up a part of a tree, from left to right."""
    begin, end = part
    while begin < end:
        level = (end - begin).bit_length() - 1
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        yield level, begin >> level
        begin += 1 << level


def part_root(part: Part, node: Callable[[int, int], bytes]) -> bytes:
    """Return the root of a part; `node` gives the hash of a full subtree by level and place."""
    *larger, root = [node(level, place) for level, place in full_subtrees(part)]
    for left in reversed(larger):
        root = node_hash(left, root)
    return root


# What a proof shows (RFC 9162, 2.1.3.2 and 2.1.4.2).


def inclusion_holds(entry: bytes, index: int, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the data `entry` is leaf `index` of the tree of `size` leaves with this root."""
    if not 0 <= index < size or len(proof) > PROOF_LIMIT:
        return False
    place, last, found = index, size - 1, leaf_hash(entry)
    for each in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(each, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, each)
        place, last = place >> 1, last >> 1
    return last == 0 and found == root


def consistency_holds(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether the proof shows that the tree of `size` leaves begins with that of `old_size`, by their roots."""
    if not 0 <= old_size <= size or len(proof) > PROOF_LIMIT:
        return False
    if old_size == size:
        return not proof and old_root == root
    if old_size == 0:
        return not proof and old_root == EMPTY_ROOT
    path = list(proof) if old_size & (old_size - 1) else [old_root, *proof]
    return bool(path) and _grown(old_size, size, path) == (old_root, root)


def _grown(old_size: int, size: int, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """Return the roots of both trees, as the path says."""
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    before = after = path[0]
    for each in path[1:]:
        if last == 0:
            return None
        if place & 1 or place == last:
            before, after = node_hash(each, before), node_hash(each, after)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, each)
        place, last = place >> 1, last >> 1
    return (before, after) if last == 0 else None


def _split(size: int) -> int:
    """Return the largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)
