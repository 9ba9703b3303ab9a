"""The tree over an audit chain: it grows with the entries, survives restarts, crashes and pruning, and proves them."""

import json
from itertools import pairwise

import pytest

from comity.store import audit_chain as audit
from comity.store import audit_trail
from comity.store.audit_log import keep_restored, pruning, verify_chain
from comity.store.audit_proofs import build_tree, read_tree
from comity.store.audit_trail import (
    HEADS,
    AuditTrail,
    HeadFile,
    RestoreMark,
    SignedBeginning,
    read_signed_head,
)
from comity.store.audit_tree import TILE, TREES, GrowingTree, read_edge
from comity.store.interface import Append, Delete, Put, StoreConflict, scan_all
from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.sqlite import SqliteStore, writes
from comity.wire.errors import ConflictError, InvalidError, StoreCorruptError
from comity.wire.merkle import consistency_holds, inclusion_holds, leaf_hash, root_of_leaves
from tests.store.samples import KEY, HandClock, draft, trail_at

PUBLIC = KEY.vacant_id.public
LOG = "audit:main"


class Place:
    """A store that can be opened again, of either engine."""

    def __init__(self, folder, engine):
        self.folder = folder
        self.disk = MemoryDisk()
        self.engine = engine
        self.clock = HandClock()

    async def open(self, **named):
        if self.engine == "memory":
            self.trail = AuditTrail("main", KEY)
            return MemoryStore(self.clock, self.disk, self.trail)
        self.trail = trail_at(self.folder)
        return await SqliteStore.open(self.folder / "comity.db", self.clock, self.trail, **named)


@pytest.fixture(params=["memory", "sqlite"])
def place(request, tmp_path):
    return Place(tmp_path, request.param)


@pytest.fixture
def sqlite_place(tmp_path):
    return Place(tmp_path, "sqlite")


async def write(store, count, at_once=50):
    for begin in range(0, count, at_once):
        for n in range(begin, min(count, begin + at_once)):
            store.submit([], [draft(f"R{n}")])
        await store.commit()


async def head_of(store):
    signed = read_signed_head((await store.get(HEADS, "main")).value)
    assert signed.proven(PUBLIC)
    return signed.head


async def hashes_of(store, after=0):
    found = []
    while page := await store.read(LOG, after=after):
        found += [audit.decode(record.data).entry_hash for record in page]
        after = page[-1].position
    return found


def root_over(hashes):
    return root_of_leaves([leaf_hash(bytes.fromhex(each)) for each in hashes])


async def assert_proves(store, hashes, size=None):
    """Every kind of place in the tree can be proven, and every earlier size that a tile may end at."""
    head = await head_of(store)
    size = len(hashes) if size is None else size
    assert (head.size, head.root) == (size, root_over(hashes).hex())
    tree = await read_tree(store, "main", head.position)
    root = bytes.fromhex(head.root)
    for old in {
        1,
        size // 3 or 1,
        size // 2 or 1,
        max(1, size - 1),
        size,
        *(n for n in (255, 256, 257, 512) if n <= size),
    }:
        old_root = root_over(hashes[:old])
        assert await tree.root(old) == old_root
        assert consistency_holds(old, old_root, size, root, await tree.consistency(old, size))
    for index in {0, size // 2, size - 1}:
        proof = await tree.inclusion(tree.first + index, size)
        assert inclusion_holds(bytes.fromhex(hashes[index]), index, size, root, proof)


@pytest.mark.parametrize("count", [1, 255, 256, 257, 1300])
async def test_the_head_names_the_tree_of_all_entries_also_after_a_restart(place, count):
    store = await place.open()
    await write(store, count)
    await assert_proves(store, await hashes_of(store))
    await store.close()
    store = await place.open()
    await write(store, 3)
    hashes = await hashes_of(store)
    assert len(hashes) == count + 3
    await assert_proves(store, hashes)
    await store.close()


async def test_a_transaction_that_is_refused_leaves_no_leaf_also_where_it_would_fill_a_tile(place):
    store = await place.open()
    await write(store, TILE - 2)
    wrong = Append(log="other", data=b"", expect_end=9)
    for _ in range(3):
        refused = store.submit([wrong], [draft("NO")] * 3)
        good = store.submit([], [draft("YES")])
        with pytest.raises(StoreConflict):
            await refused
        await good
    hashes = await hashes_of(store)
    assert len(hashes) == TILE + 1
    await assert_proves(store, hashes)
    await store.close()


async def test_a_commit_that_fails_leaves_the_tree_where_it_was(sqlite_place, monkeypatch):
    store = await sqlite_place.open()
    await write(store, TILE - 1)

    def fail(*_):
        raise InvalidError("no")

    with monkeypatch.context() as broken:
        broken.setattr(writes, "keep_all", fail)
        with pytest.raises(Exception, match=r"no|failed"):
            await store.commit(audit=[draft("LOST")] * 4)
    await write(store, 5)
    await assert_proves(store, await hashes_of(store))
    await store.close()


async def test_a_long_tree_has_tiles_of_tiles(place):
    tree, leaves = GrowingTree("main"), []
    for n in range(TILE * TILE + 700):
        entry = f"{n:064x}"
        tree.add(entry)
        leaves.append(leaf_hash(bytes.fromhex(entry)))
    assert tree.root() == root_of_leaves(leaves)
    rows = {row.key: row.value for row in tree.take_rows()}
    assert {key.rsplit("/", 2)[1] for key in rows if "/" in key} == {"0", "1"}
    again = GrowingTree("main", read_edge(rows["main"]))
    for leaf in range(again.size, tree.size):
        again.add(f"{leaf:064x}")
    assert again.root() == tree.root()


async def test_pruned_entries_are_proven_for_ever(place):
    store = await place.open()
    await write(store, 700)
    hashes = await hashes_of(store)
    place.clock.time += 86400 * 3000
    late = audit.AuditDraft(verification_result="LATE", created_at=audit.timestamp(place.clock.time))
    operations = await pruning(store, "main", KEY, place.clock.time, 10)
    await store.commit(*operations, audit=[late])
    assert len(await hashes_of(store)) == 2
    hashes += (await hashes_of(store))[-1:]
    await assert_proves(store, hashes)
    await store.close()
    store = await place.open()
    await store.commit(audit=[late])
    hashes += (await hashes_of(store))[-1:]
    await assert_proves(store, hashes)
    assert (await verify_chain(store, "main", PUBLIC)).ok
    await store.close()


async def strip(store):
    """Leave the store as an earlier release wrote it: without a tree."""
    position = await store.end(LOG)
    entry = audit.decode((await store.read(LOG, after=position - 1))[0].data)
    head = audit.AuditHead(
        chain="main", position=position, entry_hash=entry.entry_hash, at="2026-01-01T00:00:00.000000Z"
    )
    rows = [Delete(space=TREES, key=key) async for key, _ in scan_all(store, TREES)]
    await store.commit(Put(space=HEADS, key="main", value=audit_trail.sign_head(head, KEY)), *rows)


async def old_store(place, count):
    store = await place.open()
    await write(store, count)
    await strip(store)
    await store.close()
    if place.engine == "sqlite":
        store = await SqliteStore.open_for_reading(place.folder / "comity.db", place.clock)
        (place.folder / "audit" / "main.head").unlink()
        file = HeadFile(place.folder / "audit" / "main.head")
        file.write((await store.get(HEADS, "main")).value)
        file.close()
        await store.close()


async def test_a_short_chain_of_an_earlier_release_gets_its_tree_at_the_start(place):
    await old_store(place, 600)
    store = await place.open()
    await store.commit(audit=[draft()])
    await assert_proves(store, await hashes_of(store))
    await store.close()


async def test_a_long_chain_gets_its_tree_while_the_node_works(place, monkeypatch):
    monkeypatch.setattr(audit_trail, "_CATCH_UP", 10)
    await old_store(place, 600)
    store = await place.open()
    assert place.trail.tree is None
    await write(store, 300)
    assert (await head_of(store)).size is None
    place.trail.offer_tree(await build_tree(store, "main", place.trail.resumed_at))
    await write(store, 300)
    await assert_proves(store, await hashes_of(store))
    await store.close()
    store = await place.open()
    await write(store, 1)
    await assert_proves(store, await hashes_of(store))
    await store.close()


async def test_building_goes_on_after_a_crash_where_it_stopped(place, monkeypatch):
    monkeypatch.setattr(audit_trail, "_CATCH_UP", 10)
    monkeypatch.setattr("comity.store.audit_proofs._PAGE", 300)
    await old_store(place, 900)
    store = await place.open()
    real, commits = store.commit, []

    async def one_commit(*operations, audit=()):
        if commits:
            raise OSError("the process is killed")
        commits.append(await real(*operations, audit=audit))

    with monkeypatch.context() as killed:
        killed.setattr(store, "commit", one_commit)
        with pytest.raises(OSError, match="killed"):
            await build_tree(store, "main", place.trail.resumed_at)
    await store.close()
    store = await place.open()
    assert place.trail.tree is None
    assert read_edge((await store.get(TREES, "main")).value).size == TILE
    place.trail.offer_tree(await build_tree(store, "main", place.trail.resumed_at))
    await write(store, 1)
    await write(store, 1)
    await assert_proves(store, await hashes_of(store))
    await store.close()


async def test_building_says_so_when_entries_are_pruned_under_it(place):
    store = await place.open()
    await write(store, 5)
    with pytest.raises(ConflictError, match="pruned meanwhile"):
        await build_tree(store, "main", 9)
    await store.close()


async def test_a_changed_edge_is_refused_at_the_start(place):
    store = await place.open()
    await write(store, 300)
    row = await store.get(TREES, "main")
    at = row.value.rindex(b"\xc4") + 5
    await store.commit(Put(space=TREES, key="main", value=row.value[:at] + b"\x00" + row.value[at + 1 :]))
    await store.close()
    with pytest.raises(StoreCorruptError, match="tree over audit chain"):
        await place.open()


async def test_a_missing_tile_is_named_when_it_is_needed(place):
    store = await place.open()
    await write(store, 600)
    await store.commit(Delete(space=TREES, key="main//0/0000000000"))
    tree = await read_tree(store, "main", 600)
    with pytest.raises(StoreCorruptError, match="lacks a tile"):
        await tree.consistency(100, 600)
    await store.close()


async def test_a_head_that_names_another_tree_does_not_verify(place):
    store = await place.open()
    await write(store, 20)
    head = await head_of(store)
    other = audit.AuditHead(**{**json.loads(audit._encoder.encode(head)), "root": "00" * 32})
    await store.commit(Put(space=HEADS, key="main", value=audit_trail.sign_head(other, KEY)))
    report = await verify_chain(store, "main", PUBLIC)
    assert (report.ok, report.position) == (False, 20)
    assert "tree over the entries" in report.message
    await store.close()


async def beginning_of(store, log):
    held = await store.get(TREES, f"main/{log}/began")
    return audit_trail.read_beginning(held.value)


@pytest.mark.parametrize("reason", ["restored", "adopted"])
async def test_a_restored_or_adopted_chain_begins_a_new_log_by_a_signed_statement(sqlite_place, reason):
    place = sqlite_place
    store = await place.open()
    await write(store, 300)
    before = await head_of(store)
    place.clock.time += 5
    await store.commit(keep_restored(RestoreMark(at=place.clock.time, since=place.clock.time)))
    await store.close()
    place.clock.time += 5
    store = await place.open(adopt=reason == "adopted")
    await write(store, 4)
    head = await head_of(store)
    assert head.log != before.log == ""
    assert (head.position, head.size) == (304, 4)
    statement = await beginning_of(store, head.log)
    assert isinstance(statement, SignedBeginning)
    assert statement.proven(PUBLIC)
    said = statement.beginning
    assert audit.log_name(said) == head.log
    assert (said.reason, said.position) == (reason, 300)
    assert (said.former.size, said.former.root) == (before.size, before.root)
    await assert_proves(store, (await hashes_of(store, after=300)))
    assert (await verify_chain(store, "main", PUBLIC, place.folder / "audit")).ok
    await store.close()
    store = await place.open()
    await write(store, 1)
    assert (await head_of(store)).log == head.log
    await store.close()


async def test_a_chain_that_begins_after_a_restore_is_the_first_log(place):
    store = await place.open()
    await store.commit(keep_restored(RestoreMark(at=place.clock.time, since=place.clock.time)))
    await store.close()
    store = await place.open()
    await write(store, 2)
    await store.close()
    store = await place.open()
    await write(store, 2)
    assert (await head_of(store)).log == ""
    await store.close()


async def test_a_head_fits_into_its_slot_of_the_file():
    head = audit.AuditHead(
        chain="main-64", position=10**12, entry_hash="a" * 64, at="2026-01-01T00:00:00.000000Z",
        log="b" * 32, size=10**12, root="c" * 64,
    )  # fmt: skip
    assert len(audit_trail.sign_head(head, KEY)) < audit_trail._SLOT


async def test_positions_and_sizes_of_heads_grow_together(place):
    store = await place.open()
    heads = []
    for _ in range(5):
        await write(store, 7)
        heads.append(await head_of(store))
    assert all(two.size - one.size == two.position - one.position == 7 for one, two in pairwise(heads))
    await store.close()
