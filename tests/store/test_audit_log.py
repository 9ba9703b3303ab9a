"""Nothing that is done to a stored audit log goes unnoticed, and the place is named."""

import asyncio
import json
import os
import shutil
from datetime import UTC, datetime
from itertools import pairwise

import apsw
import pytest

from comity.identity.protocol.keys import SigningKey
from comity.store import audit_chain as audit
from comity.store.audit_log import chains, pruning, tail, verify_chain
from comity.store.audit_trail import HEADS, AuditTrail, HeadFile, open_head_file, read_head_file
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.connection import CHECKSUMMED_VFS, load_checksums
from comity.wire.errors import StoreCorruptError, StoreUnavailableError
from tests.store.samples import KEY, HandClock, draft, trail_at

PUBLIC = KEY.vacant_id.public
ENTRIES = 1000
HASHED = [
    "session_id_hash", "request_id_hash", "verification_result", "checks_passed", "failed_step",
    "duration_ms", "bundle_id_hash", "content_hash", "issuer_hash", "bundle_version",
    "manifest_signature", "audit_level", "previous_hash", "chain_position", "created_at",
]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A folder with a sound log of a thousand entries."""
    folder = tmp_path_factory.mktemp("written")

    async def write() -> None:
        store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
        for n in range(ENTRIES):
            store.submit([], [draft(f"R{n}", checks_passed=("size", "schema"), duration_ms=n)])
        await store.commit()
        await store.close()

    asyncio.run(write())
    return folder


@pytest.fixture
def folder(written, tmp_path):
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


def edit(folder, *statements: tuple[str, tuple]) -> None:
    """As somebody would who can write the database, and even mends the page checksums."""
    load_checksums()
    connection = apsw.Connection(str(folder / "comity.db"), vfs=CHECKSUMMED_VFS)
    for sql, values in statements:
        connection.execute(sql, values)
    connection.close()


def entry_at(folder, position: int) -> dict:
    connection = apsw.Connection(str(folder / "comity.db"))
    data = connection.execute("SELECT data FROM record WHERE position = ?", (position,)).get
    connection.close()
    return json.loads(data)


async def report_of(folder):
    store = await SqliteStore.open_for_reading(folder / "comity.db", HandClock())
    try:
        return await verify_chain(store, "main", PUBLIC, folder / "audit")
    finally:
        await store.close()


async def resumes(folder) -> bool:
    try:
        store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
    except StoreCorruptError:
        return False
    await store.close()
    return True


async def test_a_sound_log_verifies_and_goes_on(folder):
    report = await report_of(folder)
    assert (report.ok, report.entries, report.message) == (True, ENTRIES, None)
    assert await resumes(folder)


@pytest.mark.parametrize("field", HASHED)
@pytest.mark.parametrize("position", [1, 500, ENTRIES])
async def test_an_edit_of_a_hashed_field_is_named(folder, field, position):
    entry = entry_at(folder, position)
    other = {
        "checks_passed": ["size"], "duration_ms": 99.5, "chain_position": position + 1,
        "audit_level": "full", "created_at": "2026-01-01T00:00:01.000000Z",
    }  # fmt: skip
    entry[field] = other.get(field, "sha256:other")
    edit(folder, ("UPDATE record SET data = ? WHERE position = ?", (json.dumps(entry).encode(), position)))
    report = await report_of(folder)
    assert (report.ok, report.position, report.entries) == (False, position, position - 1)
    assert f"audit entry {position}:" in report.message


async def test_an_edit_that_mends_its_own_hash_breaks_the_next_link(folder):
    entry = entry_at(folder, 500)
    changed = audit.decode(json.dumps({**entry, "duration_ms": 1}).encode())
    mended = {**entry, "duration_ms": 1, "entry_hash": audit.entry_hash(changed)}
    edit(
        folder,
        (
            "UPDATE record SET data = ? WHERE position = 500",
            (json.dumps(mended, separators=(",", ":")).encode(),),
        ),
    )
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, 501)


async def test_the_last_entry_rewritten_with_its_hash_contradicts_the_signed_head(folder):
    entry = entry_at(folder, ENTRIES)
    changed = audit.decode(json.dumps({**entry, "duration_ms": 1}).encode())
    mended = {**entry, "duration_ms": 1, "entry_hash": audit.entry_hash(changed)}
    edit(folder, (f"UPDATE record SET data = ? WHERE position = {ENTRIES}", (json.dumps(mended).encode(),)))
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, ENTRIES)
    assert not await resumes(folder)


@pytest.mark.parametrize("position", [1, 2, 500, ENTRIES - 1, ENTRIES])
async def test_a_dropped_entry_is_named(folder, position):
    edit(folder, ("DELETE FROM record WHERE position = ?", (position,)))
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, position)


@pytest.mark.parametrize("position", [1, 500, ENTRIES - 1])
async def test_two_entries_that_changed_places_are_named(folder, position):
    one, two = entry_at(folder, position), entry_at(folder, position + 1)
    edit(
        folder,
        ("UPDATE record SET data = ? WHERE position = ?", (json.dumps(two).encode(), position)),
        ("UPDATE record SET data = ? WHERE position = ?", (json.dumps(one).encode(), position + 1)),
    )
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, position)


@pytest.mark.parametrize("position", [1, 500, ENTRIES])
async def test_an_inserted_entry_is_named(folder, position):
    entry = entry_at(folder, position)
    edit(
        folder,
        ("UPDATE record SET position = -position - 1 WHERE position > ?", (position,)),
        ("UPDATE record SET position = -position WHERE position < 0", ()),
        (
            "INSERT INTO record (log, position, data) SELECT id, ?, ? FROM log",
            (position + 1, json.dumps(entry).encode()),
        ),
        ('UPDATE log SET "end" = "end" + 1', ()),
    )
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, position + 1)


async def test_a_well_linked_entry_beyond_the_head_is_named(folder):
    """Linking needs no secret; only the signed head tells that the node never wrote it."""
    last = audit.decode(json.dumps(entry_at(folder, ENTRIES)).encode())
    forged = audit.link(draft("FORGED"), position=ENTRIES + 1, previous_hash=last.entry_hash)
    edit(
        folder,
        (
            "INSERT INTO record (log, position, data) SELECT id, ?, ? FROM log",
            (ENTRIES + 1, audit.encode(forged)),
        ),
        ('UPDATE log SET "end" = "end" + 1', ()),
    )
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, ENTRIES + 1)
    assert not await resumes(folder)


@pytest.mark.parametrize("kept", [0, 1, 999])
async def test_a_cut_tail_is_named_even_when_the_end_is_rewritten(folder, kept):
    edit(folder, ("DELETE FROM record WHERE position > ?", (kept,)), ('UPDATE log SET "end" = ?', (kept,)))
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, kept + 1)
    assert not await resumes(folder)


async def test_an_older_copy_of_the_database_is_noticed_by_the_head_outside(folder, tmp_path):
    shutil.copy(folder / "comity.db", tmp_path / "older.db")
    store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
    await store.commit(audit=[draft("NEWER")])
    await store.close()
    shutil.copy(tmp_path / "older.db", folder / "comity.db")
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, ENTRIES + 1)
    assert "rolled back" in report.message
    with pytest.raises(StoreCorruptError, match=r"rolled back.*comity audit adopt"):
        await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))


async def test_an_operator_can_adopt_a_restored_copy_and_the_chain_goes_on(folder, tmp_path):
    shutil.copy(folder / "comity.db", tmp_path / "older.db")
    store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
    await store.commit(audit=[draft("NEWER")])
    await store.close()
    shutil.copy(tmp_path / "older.db", folder / "comity.db")
    store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder), adopt=True)
    await store.commit(audit=[draft("AUDIT_ADOPTED")])
    await store.close()
    assert (await report_of(folder)).ok
    assert await resumes(folder)


async def test_an_altered_or_missing_head_file_is_refused(folder):
    head = folder / "audit" / "main.head"
    sound = head.read_bytes()
    head.write_bytes(sound.replace(b'"position":1000', b'"position":0900'))
    assert not await resumes(folder)
    head.write_bytes(b"")
    assert not await resumes(folder)
    head.unlink()
    assert not await resumes(folder)
    head.write_bytes(sound)
    assert await resumes(folder)


async def test_one_torn_slot_of_the_head_file_is_harmless(folder):
    head = folder / "audit" / "main.head"
    sound = head.read_bytes()
    for slot in (0, 512):
        torn = bytearray(sound)
        torn[slot + 20 : slot + 200] = bytes(180)
        head.write_bytes(torn)
        assert read_head_file(head, PUBLIC).position == ENTRIES
        assert await resumes(folder)


@pytest.fixture
def synced(monkeypatch, tmp_path):
    """What was made durable, in its order: folders by their names, head files with the position that they held then."""
    seen, real = [], os.fsync

    def fsync(opened):
        real(opened)
        status = os.fstat(opened)
        for path in (tmp_path, *tmp_path.rglob("*")):
            if os.path.samestat(path.stat(), status):
                is_head = path.suffix == ".head"
                seen.append((path.name, read_head_file(path, PUBLIC).position) if is_head else path.name)

    monkeypatch.setattr(os, "fsync", fsync)
    return seen


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX alone")
async def test_the_head_file_and_its_name_are_durable_before_the_first_entry_and_its_last_head_at_the_end(
    synced, tmp_path
):
    async def write(*, first):
        store = await SqliteStore.open(tmp_path / "comity.db", HandClock(), trail_at(tmp_path))
        opened = synced.copy()
        await store.commit(audit=[draft()])
        assert (await store.end("audit:main") == 1) is first
        synced.clear()
        await store.close()
        return opened

    assert await write(first=True) == [("main.head", 0), "audit", tmp_path.name]
    assert synced == [("main.head", 1)]
    synced.clear()
    assert await write(first=False) == [("main.head", 1)]
    assert synced == [("main.head", 2)]


@pytest.mark.skipif(os.name != "posix", reason="folders are synced on POSIX alone")
async def test_a_head_file_whose_maker_died_before_it_was_synced_is_new(synced, tmp_path):
    trail_at(tmp_path).close()
    assert (tmp_path / "audit" / "main.head").read_bytes() == b""
    await (await SqliteStore.open(tmp_path / "comity.db", HandClock(), trail_at(tmp_path))).close()
    assert synced == [("main.head", 0), "audit", tmp_path.name, ("main.head", 0)]


async def test_a_head_signed_by_somebody_else_is_refused(folder):
    stranger = AuditTrail("main", SigningKey.from_seed(b"s" * 32), HeadFile(folder / "audit" / "main.head"))
    with pytest.raises(StoreCorruptError, match="not signed by this node"):
        await SqliteStore.open(folder / "comity.db", HandClock(), stranger)


async def test_pruning_leaves_a_signed_checkpoint_and_a_log_that_verifies(folder, clock):
    store = await SqliteStore.open(folder / "comity.db", clock, trail_at(folder))
    late = "2026-06-01T00:00:00.000000Z"
    newer = audit.AuditDraft(verification_result="NEWER", created_at=late)
    await store.commit(audit=[newer, newer])
    now = datetime(2026, 6, 1, tzinfo=UTC).timestamp()

    async def prune(days):
        if not (operations := await pruning(store, "main", KEY, now, days)):
            return 0
        return (await store.commit(*operations, audit=[newer]))[1]

    assert await prune(31) == ENTRIES
    report = await verify_chain(store, "main", PUBLIC, folder / "audit")
    assert (report.ok, report.entries) == (True, 3)
    assert await prune(31) == 0
    assert await prune(-1) == 2
    assert (await verify_chain(store, "main", PUBLIC, folder / "audit")).ok
    await store.close()
    assert await resumes(folder)


async def test_a_front_cut_off_without_a_checkpoint_or_with_a_forged_one_is_named(folder):
    sealed = apsw.Connection(str(folder / "comity.db"))
    head = sealed.execute("SELECT value FROM value WHERE space = 'audit-head'").get
    sealed.close()
    edit(folder, ("DELETE FROM record WHERE position <= 10", ()), ("UPDATE log SET start = 10", ()))
    assert (await report_of(folder)).position == 1
    edit(folder, ("INSERT INTO value VALUES ('audit-checkpoint', 'main', ?, 1, NULL)", (head,)))
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, 1)


async def test_the_tail_shows_the_newest_entries_in_order(folder):
    store = await SqliteStore.open_for_reading(folder / "comity.db", HandClock())
    shown = [entry.chain_position async for entry in tail(store, "main", 3)]
    assert shown == [ENTRIES - 2, ENTRIES - 1, ENTRIES]
    assert await chains(store) == ["main"]
    await store.close()


async def test_each_writing_process_takes_a_chain_of_its_own(tmp_path):
    first, one = open_head_file(tmp_path, "main")
    second, two = open_head_file(tmp_path, "main")
    assert (first, second) == ("main", "main-2")
    with pytest.raises(StoreUnavailableError, match="in use"):
        open_head_file(tmp_path, "main", chains=2)
    one.close()
    two.close()


async def test_others_have_their_turn_all_the_time_while_a_chain_is_verified(folder):
    store = await SqliteStore.open(folder / "comity.db", HandClock(), None)
    between, taken = [], 0

    def took(_entry):
        nonlocal taken
        taken += 1

    async def others():
        while True:
            between.append(taken)
            await asyncio.sleep(0)

    turns = asyncio.create_task(others())
    report = await verify_chain(store, "main", PUBLIC, each=took)
    turns.cancel()
    await store.close()
    assert report.ok, report
    between.append(taken)
    assert max(later - earlier for earlier, later in pairwise(between)) <= 50


class BusyStore:
    """A store whose chain grows whenever somebody has looked at its head."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def get(self, space, key):
        found = await self._store.get(space, key)
        if space == HEADS:
            await self._store.commit(audit=[draft("LATER")])
        return found


async def test_a_chain_that_grows_while_it_is_verified_is_sound(folder):
    store = await SqliteStore.open(folder / "comity.db", HandClock(), trail_at(folder))
    report = await verify_chain(BusyStore(store), "main", PUBLIC, folder / "audit")
    await store.close()
    assert (report.ok, report.entries, report.message) == (True, ENTRIES, None)


async def test_a_forged_entry_that_the_log_does_not_count_is_named(folder):
    last = audit.decode(json.dumps(entry_at(folder, ENTRIES)).encode())
    forged = audit.link(draft("FORGED"), position=ENTRIES + 1, previous_hash=last.entry_hash)
    row = (ENTRIES + 1, audit.encode(forged))
    edit(folder, ("INSERT INTO record (log, position, data) SELECT id, ?, ? FROM log", row))
    report = await report_of(folder)
    assert (report.ok, report.position) == (False, ENTRIES + 1)
