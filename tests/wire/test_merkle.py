"""The tree against the definitions of RFC 6962, section 2.1, written down here as they are printed there."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.wire.errors import InvalidError
from comity.wire.merkle import (
    EMPTY_ROOT,
    PROOF_LIMIT,
    Peaks,
    consistency_holds,
    consistency_parts,
    full_subtrees,
    inclusion_holds,
    inclusion_parts,
    leaf_hash,
    node_hash,
    part_root,
    root_of_leaves,
)

ENTRIES = [bytes([n]) * 32 for n in range(70)]


def power_below(n):
    k = 1
    while k * 2 < n:
        k *= 2
    return k


def mth(d):
    """MTH(D[n])."""
    if not d:
        return sha256(b"").digest()
    if len(d) == 1:
        return sha256(b"\x00" + d[0]).digest()
    k = power_below(len(d))
    return sha256(b"\x01" + mth(d[:k]) + mth(d[k:])).digest()


def path(m, d):
    """PATH(m, D[n])."""
    if len(d) == 1:
        return []
    k = power_below(len(d))
    return [*path(m, d[:k]), mth(d[k:])] if m < k else [*path(m - k, d[k:]), mth(d[:k])]


def subproof(m, d, whole):
    """SUBPROOF(m, D[n], b)."""
    if m == len(d):
        return [] if whole else [mth(d)]
    k = power_below(len(d))
    if m <= k:
        return [*subproof(m, d[:k], whole), mth(d[k:])]
    return [*subproof(m - k, d[k:], False), mth(d[:k])]


def node(level, place):
    return mth(ENTRIES[place << level : (place + 1) << level])


def roots(parts):
    return [part_root(part, node) for part in parts]


# Roots of the eight entries of the test vectors of Certificate Transparency (RFC 6962's reference implementation).
CT_ENTRIES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip
CT_ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def test_roots_are_the_published_ones():
    leaves = [leaf_hash(entry) for entry in CT_ENTRIES]
    assert [root_of_leaves(leaves[:n]).hex() for n in range(1, 9)] == list(CT_ROOTS)
    assert root_of_leaves([]) == EMPTY_ROOT == sha256(b"").digest()


@pytest.mark.parametrize("size", range(len(ENTRIES)))
def test_a_tree_that_grows_leaf_by_leaf_has_the_root_of_the_definition(size):
    peaks = Peaks()
    for entry in ENTRIES[:size]:
        peaks = peaks.add(leaf_hash(entry))
    assert (peaks.size, peaks.root()) == (size, mth(ENTRIES[:size]))
    assert Peaks(peaks.size, peaks.hashes).root() == peaks.root()


@pytest.mark.parametrize("size", range(1, len(ENTRIES)))
def test_inclusion_proofs_are_those_of_the_definition_and_hold_for_their_leaf_alone(size):
    root = mth(ENTRIES[:size])
    for index in range(size):
        proof = roots(inclusion_parts(index, size))
        assert proof == path(index, ENTRIES[:size])
        assert inclusion_holds(ENTRIES[index], index, size, root, proof)
        assert not inclusion_holds(b"another", index, size, root, proof)
        assert not inclusion_holds(ENTRIES[index], index, size, root, [*proof, root])
        assert not inclusion_holds(ENTRIES[index], (index + 1) % size, size, root, proof) or size == 1
        for place in range(len(proof)):
            changed = [*proof[:place], bytes(32), *proof[place + 1 :]]
            assert not inclusion_holds(ENTRIES[index], index, size, root, changed)
            assert not inclusion_holds(ENTRIES[index], index, size, root, proof[:place])


@pytest.mark.parametrize("size", range(1, len(ENTRIES)))
def test_consistency_proofs_are_those_of_the_definition_and_hold_for_their_trees_alone(size):
    root = mth(ENTRIES[:size])
    for old in range(1, size + 1):
        old_root = mth(ENTRIES[:old])
        proof = roots(consistency_parts(old, size))
        assert proof == subproof(old, ENTRIES[:size], True)
        assert consistency_holds(old, old_root, size, root, proof)
        assert not consistency_holds(old, bytes(32), size, root, proof)
        assert not consistency_holds(old, old_root, size, bytes(32), proof)
        assert not consistency_holds(old, old_root, size, root, [*proof, root])
        for place in range(len(proof)):
            changed = [*proof[:place], bytes(32), *proof[place + 1 :]]
            assert not consistency_holds(old, old_root, size, root, changed)
            assert not consistency_holds(old, old_root, size, root, proof[:place])


def test_a_tree_begins_with_the_empty_one():
    assert consistency_holds(0, EMPTY_ROOT, 5, mth(ENTRIES[:5]), [])
    assert not consistency_holds(0, mth(ENTRIES[:1]), 5, mth(ENTRIES[:5]), [])


@given(st.integers(0, 500), st.integers(0, 500))
def test_full_subtrees_cover_a_part_once_and_in_order(begin, length):
    covered = []
    for level, place in full_subtrees((begin, begin + length)):
        covered += range(place << level, (place + 1) << level)
    assert covered == list(range(begin, begin + length))


@pytest.mark.parametrize(("index", "size"), [(-1, 1), (1, 1), (0, 0)])
def test_there_is_no_proof_of_a_leaf_that_is_not_there(index, size):
    with pytest.raises(InvalidError, match="leaves"):
        inclusion_parts(index, size)
    assert not inclusion_holds(b"", index, size, EMPTY_ROOT, [])


@pytest.mark.parametrize(("old", "size"), [(0, 1), (2, 1), (-1, 3)])
def test_there_is_no_proof_of_a_beginning_that_is_longer_or_empty(old, size):
    with pytest.raises(InvalidError, match="begin"):
        consistency_parts(old, size)


def test_a_proof_of_a_million_hashes_is_refused_without_hashing():
    many = [bytes(32)] * 1_000_000
    assert len(many) > PROOF_LIMIT
    assert not consistency_holds(3, mth(ENTRIES[:3]), 7, mth(ENTRIES[:7]), many)
    assert not inclusion_holds(ENTRIES[0], 0, 7, mth(ENTRIES[:7]), many)


def test_peaks_that_do_not_fit_their_size_are_refused():
    with pytest.raises(InvalidError, match="full subtrees"):
        Peaks(3, (node_hash(b"", b""),))
