"""What only the durable engine must withstand: bad files, bad disks, other processes."""

import asyncio
import random
import shutil

import apsw
import msgspec
import pytest

from comity.store import group_commit
from comity.store.audit_chain import decode
from comity.store.audit_log import verify_chain
from comity.store.audit_trail import read_head_file
from comity.store.interface import (
    CHAIN_BYTES,
    REPLIES,
    Advance,
    Append,
    ChainKey,
    HeldItem,
    Put,
    StoreConflict,
    Tip,
)
from comity.store.sqlite import SqliteStore, writes
from comity.store.sqlite import connection as schema
from comity.store.sqlite.connection import load_checksums
from comity.wire.errors import (
    OverloadedError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    StoreVersionError,
)
from tests.store.chain_steps import answer
from tests.store.samples import KEY, draft, trail_at


@pytest.fixture
def path(tmp_path):
    return tmp_path / "comity.db"


async def filled(path, clock, rows: int = 200) -> None:
    store = await SqliteStore.open(path, clock)
    for n in range(rows):
        store.submit([Put(space="s", key=f"{n:04}", value=bytes([n % 256]) * 200)])
    await store.commit(Append(log="l", data=b"x"))
    await store.close()


async def verified(path, clock):
    reader = await SqliteStore.open_for_reading(path, clock)
    try:
        return await verify_chain(reader, "main", KEY.vacant_id.public)
    finally:
        await reader.close()


async def refused(path, clock, error: type[StoreError], match: str) -> None:
    """Opening fails with one sentence, and not one byte of the file changes."""
    before = path.read_bytes()
    with pytest.raises(error, match=match):
        await SqliteStore.open(path, clock)
    assert path.read_bytes() == before


async def test_the_file_is_private_and_made_for_durability(path, clock):
    store = await SqliteStore.open(path, clock)
    assert path.stat().st_mode & 0o777 == 0o600
    writer = store._writer
    assert writer.pragma("journal_mode") == "wal"
    assert writer.pragma("synchronous") == 2
    assert writer.pragma("wal_autocheckpoint") == 0
    assert writer.pragma("page_size") == 4096
    await store.close()


async def test_a_newer_schema_is_refused_untouched(path, clock):
    await filled(path, clock)
    with apsw.Connection(str(path)) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    await refused(path, clock, StoreVersionError, "newer release.*upgrade")


async def test_a_database_of_another_program_is_refused_untouched(path, clock):
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    await refused(path, clock, StoreCorruptError, "another program")


async def test_a_file_that_is_no_database_is_refused_untouched(path, clock):
    path.write_bytes(b"this is not a database, it is a letter to my aunt" * 100)
    await refused(path, clock, StoreCorruptError, "damaged")


async def test_a_folder_that_is_not_there_is_named(tmp_path, clock):
    with pytest.raises(StoreUnavailableError, match="nowhere"):
        await SqliteStore.open(tmp_path / "nowhere" / "comity.db", clock)


async def test_every_flipped_bit_is_found_at_the_start(path, clock):
    assert load_checksums(), "apsw's wheel brings the checksum layer"
    await filled(path, clock)
    sound = path.read_bytes()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(60):
        damaged = bytearray(sound)
        damaged[chance.randrange(len(sound))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(StoreError):
            await SqliteStore.open(path, clock)
        assert path.read_bytes() == damaged


async def test_a_truncated_file_is_found_at_the_start(path, clock):
    await filled(path, clock, rows=2000)
    sound = path.read_bytes()
    for keep in (1, 100, 4096, len(sound) // 2, len(sound) - 4096, len(sound) - 1):
        path.write_bytes(sound[:keep])
        with pytest.raises(StoreError):
            await SqliteStore.open(path, clock)


async def test_damage_while_running_stops_the_store_instead_of_answering(path, clock):
    await filled(path, clock, rows=5000)
    store = await SqliteStore.open(path, clock)
    with path.open("r+b") as file:
        for page in range(1, path.stat().st_size // 4096):
            file.seek(page * 4096 + 2000)
            file.write(b"\xff" * 64)
    with pytest.raises(StoreCorruptError, match="damaged"):
        await store.scan("s", limit=5000)
    with pytest.raises(StoreCorruptError):
        await store.commit(Put(space="s", key="k", value=b"v"))
    await store.close()


async def test_a_full_disk_refuses_the_write_and_keeps_the_rest(path, clock, tmp_path):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(Put(space="s", key="before", value=b"v"), audit=[draft()])
    store._writer.pragma("max_page_count", store._writer.pragma("page_count") + 4)
    with pytest.raises(StoreFullError, match="space"):
        await store.commit(Append(log="big", data=bytes(1_000_000)), audit=[draft()])
    assert (await store.get("s", "before")).value == b"v"
    store._writer.pragma("max_page_count", 1_000_000)
    await store.commit(Append(log="big", data=bytes(1_000_000)), audit=[draft()])
    assert await store.end("audit:main") == 2
    await store.close()


async def test_a_commit_that_failed_is_remembered_until_one_succeeds(path, clock, tmp_path, caplog):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(Append(log="l", data=b"x"), audit=[draft()])
    assert store.failure is None
    store._writer.pragma("max_page_count", store._writer.pragma("page_count") + 4)
    for _ in range(5):
        with pytest.raises(StoreFullError):
            await store.commit(Append(log="big", data=bytes(1_000_000)), audit=[draft()])
        assert isinstance(store.failure, StoreFullError)
    with pytest.raises(StoreConflict):
        await store.commit(Put(space="s", key="k", value=b"", expect=7))
    assert store.failure is None
    assert caplog.text.count("the store cannot be written to") == 1
    assert caplog.text.count("the store can be written to again") == 1
    await store.close()


async def test_a_fault_of_ours_in_a_commit_is_remembered_too(path, clock, monkeypatch):
    store = await SqliteStore.open(path, clock)
    with monkeypatch.context() as broken:
        broken.setattr(store, "_write_durably", lambda _batch: {}["a fault of ours"])
        with pytest.raises(StoreError):
            await store.commit(Append(log="l", data=b"x"))
    assert store.failure is not None
    await store.commit(Append(log="l", data=b"y"))
    assert store.failure is None
    await store.close()


async def test_answers_and_audit_entries_of_others_are_one_statement(path, clock, tmp_path):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(answer(1), audit=[draft()])
    statements = []
    store._writer.exec_trace = lambda _cursor, sql, _values: statements.append(sql) or True
    noted = store.submit((), [draft("REFUSED"), draft("REFUSED")])
    answered = store.submit([answer(2)], [draft()])
    more = store.submit((), [draft("REFUSED")])
    assert [await noted, await answered, await more] == [(), (None,), ()]
    store._writer.exec_trace = None
    assert len(statements) == 1
    assert await store.end("audit:main") == 5
    entries = [decode(record.data).verification_result for record in await store.read("audit:main", 1)]
    assert entries[:2] == ["REFUSED", "REFUSED"]
    assert entries[3] == "REFUSED"
    await store.close()
    assert (await verified(path, clock)).ok


async def test_one_transaction_the_disk_cannot_hold_spares_its_neighbours(path, clock):
    store = await SqliteStore.open(path, clock)
    works = [
        store.submit([Put(space="s", key="good", value=b"v")]),
        store.submit([Put(space="s", key="lone \ud800 surrogate", value=b"v")]),
        store.submit([Advance(chain=ChainKey("b", "s", "r"), expected=Tip(), to=Tip(2**63, b""))]),
        store.submit([Append(log="l", data="not bytes")]),
        store.submit([Put(space="s", key="also good", value=b"v")]),
    ]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(outcome, StoreError) for outcome in outcomes] == [False, True, True, True, False]
    assert await store.get("s", "also good")
    await store.close()


async def test_more_waiting_writes_than_the_backlog_are_turned_away(path, clock, monkeypatch):
    store = await SqliteStore.open(path, clock)
    monkeypatch.setattr(group_commit, "BACKLOG", 10)
    works = [store.submit([Append(log="l", data=b"x")]) for _ in range(15)]
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [tuple] * 10 + [OverloadedError] * 5
    await store.commit(Append(log="l", data=b"x"))
    await store.close()


async def test_callers_of_one_turn_share_commits(path, clock, monkeypatch):
    monkeypatch.setattr(group_commit, "LONG", 60.0)
    store = await SqliteStore.open(path, clock)
    batches = []
    write = store._write
    monkeypatch.setattr(
        store._commits, "_write", lambda batch, ready: batches.append(len(batch)) or write(batch, ready)
    )
    await asyncio.gather(*(store.commit(Append(log="l", data=b"x")) for _ in range(600)))
    assert batches == [256, 256, 88]
    assert max(batches) == group_commit.BATCH_OPERATIONS
    await store.close()


async def test_a_caller_that_goes_away_leaves_its_write_done(path, clock):
    store = await SqliteStore.open(path, clock)
    work = store.submit([Append(log="l", data=b"x")])
    work.cancel()
    await store.commit(Append(log="l", data=b"y"))
    assert await store.end("l") == 2
    await store.close()


async def test_two_stores_on_one_file_see_each_other(path, clock):
    one, two = await SqliteStore.open(path, clock), await SqliteStore.open(path, clock)
    chain = ChainKey("b", "s", "r")
    await one.commit(Advance(chain=chain, expected=Tip(), to=Tip(1, b"1" * 32)))
    assert (await two.tip(chain)).seq == 1
    with pytest.raises(StoreConflict) as conflict:
        await two.commit(Advance(chain=chain, expected=Tip(), to=Tip(1, b"2" * 32)))
    assert conflict.value.current == Tip(1, b"1" * 32)
    await one.close()
    await two.close()


async def test_what_has_expired_is_cleared_away(path, clock):
    store = await SqliteStore.open(path, clock)
    await store.commit(Put(space="s", key="k", value=b"v", expires_at=clock.time + 1))
    clock.time += 61
    await store.commit(Append(log="l", data=b""))
    assert store._writer.execute("SELECT count(*) FROM value").get == 0
    await store.close()


async def test_an_older_file_takes_the_new_steps_and_keeps_its_data(path, clock, monkeypatch):
    await filled(path, clock)
    steps = (*schema.STEPS, "CREATE TABLE later (x INTEGER) STRICT; INSERT INTO later VALUES (7);")
    monkeypatch.setattr(schema.migrate, "__defaults__", (steps,))
    store = await SqliteStore.open(path, clock)
    assert store._writer.execute("SELECT x FROM later").get == 7
    assert (await store.get("s", "0007")).value == bytes([7]) * 200
    await store.close()


async def test_logs_of_an_older_file_are_as_they_were_and_go_on(path, clock, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(schema.migrate, "__defaults__", (schema.STEPS[:1],))
        store = await SqliteStore.open(path, clock)
        store._writer.execute("INSERT INTO log VALUES (1, 'one', 2, 4), (2, 'two', 0, 2)")
        store._writer.execute(
            "INSERT INTO record VALUES (1, 3, x'63'), (2, 1, x'61'), (1, 4, x'64'), (2, 2, x'62')"
        )
        await store.close()
    store = await SqliteStore.open(path, clock)
    assert await store.commit(Append(log="one", data=b"e"), Append(log="two", data=b"c")) == (5, 3)
    assert [(record.position, record.data) for record in await store.read("one")] == [
        (3, b"c"),
        (4, b"d"),
        (5, b"e"),
    ]
    assert [record.data for record in await store.read("two")] == [b"a", b"b", b"c"]
    await store.close()


async def test_a_step_that_fails_half_way_leaves_the_file_as_it_was(path, clock, monkeypatch):
    await filled(path, clock)
    steps = (*schema.STEPS, "CREATE TABLE later (x) STRICT; INSERT INTO nowhere VALUES (7);")
    with monkeypatch.context() as patched:
        patched.setattr(schema.migrate, "__defaults__", (steps,))
        with pytest.raises(StoreError):
            await SqliteStore.open(path, clock)
    store = await SqliteStore.open(path, clock)
    assert (await store.get("s", "0007")).value == bytes([7]) * 200
    await store.close()


async def test_a_reader_needs_no_lock_and_never_writes(path, clock, tmp_path):
    writer = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await writer.commit(Append(log="l", data=b"x"))
    reader = await SqliteStore.open_for_reading(path, clock)
    await writer.commit(Append(log="l", data=b"y"))
    assert await reader.end("l") == 2
    with pytest.raises(StoreUnavailableError, match="reading"):
        await reader.commit(Append(log="l", data=b"z"))
    await reader.close()
    await writer.close()
    with pytest.raises(StoreUnavailableError, match="no database"):
        await SqliteStore.open_for_reading(tmp_path / "none.db", clock)
    assert not (tmp_path / "none.db").exists()


async def test_a_backup_copied_while_closed_opens_as_it_is(path, clock, tmp_path):
    await filled(path, clock)
    copy = tmp_path / "copy.db"
    shutil.copy(path, copy)
    store = await SqliteStore.open(copy, clock)
    assert await store.get("s", "0001")
    await store.close()


async def test_a_head_file_that_cannot_be_written_holds_no_commit_up(
    path, clock, tmp_path, monkeypatch, caplog
):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)

    def fail(_head: bytes) -> None:
        raise OSError(5, "input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(trail._head_file, "write", fail)
        await store.commit(Append(log="l", data=b"x"), audit=[draft()])
        await store.commit(Append(log="l", data=b"y"), audit=[draft()])
    assert "audit head cannot be kept" in caplog.text
    assert await store.end("audit:main") == 2
    await store.close()


@pytest.mark.parametrize("fault", [apsw.FullError("full"), KeyError("a fault of ours")])
async def test_the_head_outside_is_never_ahead_of_a_batch_that_was_not_written(
    path, clock, tmp_path, monkeypatch, fault
):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)
    await store.commit(Append(log="l", data=b"x"), audit=[draft()])

    def fail(*_arguments) -> None:
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(writes, "keep_all", fail)
        with pytest.raises(StoreError):
            await store.commit(Append(log="l", data=b"y"), audit=[draft()])
    assert trail.mark()[0] == 1
    await store.commit(Append(log="l", data=b"y"), audit=[draft()])
    await store.close()
    assert read_head_file(tmp_path / "audit" / "main.head", KEY.vacant_id.public).position == 2
    assert (await verified(path, clock)).ok


async def test_a_batch_that_was_made_ready_and_not_written_leaves_the_trail_where_it_was(
    path, clock, tmp_path, monkeypatch
):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)
    await store.commit(answer(1), audit=[draft()])
    await store.commit(answer(2), audit=[draft()])

    def full(*_arguments):
        raise apsw.FullError("full")

    with monkeypatch.context() as broken:
        broken.setattr(store, "_answer", full)
        with pytest.raises(StoreFullError):
            await store.commit(answer(3), audit=[draft()])
    assert trail.mark()[0] == 2
    await store.commit(answer(3), audit=[draft()])
    await store.close()
    assert read_head_file(tmp_path / "audit" / "main.head", KEY.vacant_id.public).position == 3
    assert (await verified(path, clock)).ok


async def test_a_store_that_is_closed_after_a_failure_opens_again(path, clock, tmp_path, monkeypatch):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(Append(log="l", data=b"x"), audit=[draft()])

    def full(*_arguments):
        raise apsw.FullError("full")

    with monkeypatch.context() as broken:
        broken.setattr(writes, "keep_all", full)
        with pytest.raises(StoreFullError):
            await store.commit(Append(log="l", data=b"y"), audit=[draft()])
    await store.close()
    again = await SqliteStore.open(path, clock, trail_at(tmp_path))
    assert await again.end("audit:main") == 1
    await again.close()


@pytest.mark.parametrize("work", [answer(3), Append(log="l", data=b"y")])
async def test_a_commit_that_fails_at_the_very_end_moves_no_head(path, clock, tmp_path, work):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)
    for seq in (1, 2):
        await store.commit(answer(seq), audit=[draft()])
    store._writer.exec_trace = lambda _cursor, sql, _values: sql != "COMMIT" and "answer" not in sql
    with pytest.raises(StoreError):
        await store.commit(work, audit=[draft()])
    store._writer.exec_trace = None
    assert await store.end("audit:main") == trail.mark()[0] == 2
    await store.close()
    assert read_head_file(tmp_path / "audit" / "main.head", KEY.vacant_id.public).position == 2
    assert (await verified(path, clock)).ok


async def test_a_draft_that_cannot_be_linked_moves_the_trail_for_nobody(path, clock, tmp_path):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)
    odd = draft()
    msgspec.structs.force_setattr(odd, "checks_passed", ("a", 1))
    works = [
        store.submit([Append(log="l", data=b"x")], [draft()]),
        store.submit([Append(log="l", data=b"y")], [draft(), odd]),
        store.submit([Append(log="l", data=b"z")], [draft()]),
    ]
    shown = await asyncio.gather(*works, return_exceptions=True)
    assert [isinstance(outcome, StoreError) for outcome in shown] == [False, True, False]
    assert await store.end("l") == await store.end("audit:main") == trail.mark()[0] == 2
    await store.close()
    assert (await verified(path, clock)).ok
    again = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await again.close()


async def test_a_batch_that_was_made_ready_and_never_handed_over_is_not_in_the_way(path, clock, tmp_path):
    trail = trail_at(tmp_path)
    store = await SqliteStore.open(path, clock, trail)
    await store.commit(answer(1), audit=[draft()])
    trail.link([draft(), draft()])  # as if somebody had been interrupted
    await store.commit(answer(2), audit=[draft()])
    await store.commit(answer(3), audit=[draft()])
    assert await store.end("audit:main") == trail.mark()[0] == 3
    await store.close()
    assert (await verified(path, clock)).ok


async def test_what_has_expired_is_cleared_away_however_many_answers_there_are(path, clock, tmp_path):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(Put(space="s", key="k", value=b"v", expires_at=clock.time + 1))
    for seq in range(1, 5):
        clock.time += 31
        await store.commit(answer(seq), audit=[draft()])
    assert store._writer.execute("SELECT count(*) FROM value WHERE space = 's'").get == 0
    await store.close()


async def test_the_head_outside_is_kept_soon_after_the_callers_were_told(path, clock, tmp_path):
    store = await SqliteStore.open(path, clock, trail_at(tmp_path))
    await store.commit(Append(log="l", data=b"x"), audit=[draft()])
    await store.commit(Append(log="l", data=b"y"))  # the thread that kept it writes this one afterwards
    assert read_head_file(tmp_path / "audit" / "main.head", KEY.vacant_id.public).position == 1
    await store.close()


async def test_a_fault_in_the_writer_is_told_and_the_next_batch_is_written(path, clock, monkeypatch, caplog):
    store = await SqliteStore.open(path, clock)

    def fail(_batch, _prepared) -> None:
        raise KeyError("a fault of ours")

    with monkeypatch.context() as broken:
        broken.setattr(store._commits, "_write", fail)
        with pytest.raises(StoreError, match="failed on this batch"):
            await store.commit(Append(log="l", data=b"x"))
    await store.commit(Append(log="l", data=b"y"))
    assert "a fault of ours" in caplog.text
    await store.close()


async def test_what_an_earlier_release_stored_is_counted_when_it_is_opened(tmp_path, clock):
    path = tmp_path / "comity.db"
    connection = apsw.Connection(str(path))
    schema.migrate(connection, path, schema.STEPS[:2])
    connection.execute(
        "INSERT INTO chain (id, book, sender, receiver, seq) VALUES (1, 'serve', 'ann', 'us', 2);"
        "INSERT INTO reply (chain, seq, digest, reply, at) VALUES (1, 1, x'', zeroblob(100), 0.0);"
        "INSERT INTO reply (chain, seq, digest, reply, at) VALUES (1, 2, x'', NULL, 0.0);"
        "INSERT INTO document (collection, id, body, version) VALUES ('directory.found', 'ab', zeroblob(70), 1);"
        "INSERT INTO document (collection, id, body, version) VALUES ('other', 'cd', zeroblob(999), 2);"
        "INSERT INTO log (id, name) VALUES (1, 'directory.events/ab');"
        "INSERT INTO record (log, position, data) VALUES (1, 1, zeroblob(8));"
    )
    connection.close()
    store = await SqliteStore.open(path, clock)
    assert await store.held(REPLIES) == CHAIN_BYTES + 100
    assert await store.held_item("cards", "ab") == HeldItem("", 78)
    assert await store.held("cards") == 78
    await store.close()


async def test_of_several_who_start_together_one_makes_the_file_and_all_write_to_it(tmp_path, clock):
    for attempt in range(8):
        path = tmp_path / str(attempt) / "comity.db"
        path.parent.mkdir()
        stores = await asyncio.gather(*(SqliteStore.open(path, clock) for _ in range(8)))
        await asyncio.gather(
            *(store.commit(Append(log="l", data=str(number).encode())) for number, store in enumerate(stores))
        )
        for store in stores:
            await store.close()
        store = await SqliteStore.open(path, clock)
        assert {record.data for record in await store.read("l")} == {str(n).encode() for n in range(8)}
        await store.close()
        assert [found.name for found in path.parent.iterdir()] == ["comity.db"]


async def test_a_file_whose_tables_are_being_made_is_not_taken_for_somebody_elses(path, clock, monkeypatch):
    (other := apsw.Connection(str(path))).pragma("journal_mode", "wal")
    look = schema._has_tables

    def look_late(connection):
        """The tables appear when half of the questions are asked."""
        monkeypatch.setattr(schema, "_has_tables", look)
        schema.migrate(other, path)
        return look(connection)

    monkeypatch.setattr(schema, "_has_tables", look_late)
    store = await SqliteStore.open(path, clock)
    await store.commit(Append(log="l", data=b"x"))
    await store.close()
    other.close()


async def test_a_file_system_without_hard_links_will_do(path, clock, monkeypatch):
    def refuse(*_names):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    await filled(path, clock)
    store = await SqliteStore.open(path, clock)
    assert await store.end("l") == 1
    await store.close()
    assert [found.name for found in path.parent.iterdir()] == ["comity.db"]
