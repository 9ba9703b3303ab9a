"""The journal is carried over while the writer goes on, and does not grow for ever."""

import asyncio
import contextlib
import threading
import time

import apsw
import pytest

from comity.store.interface import Append, Put
from comity.store.sqlite import SqliteStore, connection, engine
from tests.store.samples import HandClock
from tests.waiting import wait_until

PAGE = 4096 - 200
PATIENCE = 5.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "comity.db"


def wal(path):
    return path.with_name(path.name + "-wal")


async def fill(store, pages):
    for _ in range(pages):
        await store.commit(Append(log="l", data=bytes(PAGE)))


async def test_pages_reach_the_database_before_the_journal_is_full(path, monkeypatch):
    monkeypatch.setattr(engine, "SOME_PAGES", 20)
    store = await SqliteStore.open(path, HandClock())
    empty = path.stat().st_size
    await fill(store, 40)
    wait_until(lambda: path.stat().st_size > empty)
    await store.close()


async def test_the_journal_begins_again_however_busy_the_writer_is(path, monkeypatch):
    monkeypatch.setattr(engine, "SOME_PAGES", 20)
    monkeypatch.setattr(engine, "MAX_PAGES", 60)
    store = await SqliteStore.open(path, HandClock())
    await fill(store, 300)
    assert wal(path).stat().st_size < 120 * 4200
    await store.close()
    assert len(await _records(path)) == 300


async def test_a_reader_who_stays_keeps_the_journal_and_loses_nothing(path, monkeypatch):
    monkeypatch.setattr(engine, "SOME_PAGES", 20)
    monkeypatch.setattr(engine, "MAX_PAGES", 60)
    store = await SqliteStore.open(path, HandClock())
    await store.commit(Put(space="s", key="k", value=b"v"))
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs="cksmvfs")
    reader.execute("BEGIN")
    before = reader.execute("SELECT count(*) FROM record").get
    await fill(store, 100)
    assert reader.execute("SELECT count(*) FROM record").get == before
    reader.execute("COMMIT")
    reader.close()
    await fill(store, 1)
    await fill(store, 1)
    await store.close()
    assert len(await _records(path)) == 102


async def test_a_journal_that_a_reader_kept_begins_again_soon_after_he_left(path, monkeypatch):
    monkeypatch.setattr(engine, "SOME_PAGES", 10_000)
    monkeypatch.setattr(engine, "MAX_PAGES", 60)
    store = await SqliteStore.open(path, HandClock())
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs="cksmvfs")
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").get == 0
    await fill(store, 100)
    reader.execute("COMMIT")
    reader.close()
    long = wal(path).stat().st_size
    await fill(store, 50)
    assert wal(path).stat().st_size < long + 20 * 4200  # of 250 pages or so
    await store.close()


async def test_a_store_that_closes_while_somebody_reads_keeps_nobody_from_writing(path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_MILLISECONDS", 4000)
    closing, staying = [await SqliteStore.open(path, HandClock()) for _ in range(2)]
    await closing.commit(Put(space="s", key="k", value=b"v"))
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY, vfs="cksmvfs")
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM record").get == 0
    await fill(closing, 1)
    began = time.monotonic()
    await asyncio.gather(closing.close(), fill(staying, 1))
    assert time.monotonic() - began < 3, "it waited for the reader, and the other store waited for it"
    reader.close()
    await staying.close()
    assert len(await _records(path)) == 2


async def test_what_a_process_that_was_killed_left_is_carried_over_at_the_start(path):
    store = await SqliteStore.open(path, HandClock())
    await fill(store, 40)
    left, copy = path.with_name("left.db"), wal(path).read_bytes()
    left.write_bytes(path.read_bytes())
    wal(left).write_bytes(copy)
    await store.close()
    again = await SqliteStore.open(left, HandClock())
    assert left.stat().st_size > 40 * 4096
    await again.close()
    assert len(await _records(left)) == 40


def test_pages_are_counted_over_the_end_of_the_counter():
    assert engine._between(2**32 - 5, 7) == 12
    assert engine._between(-10, 5) == 15


async def test_a_checkpoint_that_fails_is_told_and_harms_no_commit(path, monkeypatch, caplog):
    monkeypatch.setattr(engine, "SOME_PAGES", 5)
    store = await SqliteStore.open(path, HandClock())
    store._checkpoints._connection.close()
    await fill(store, 20)
    wait_until(lambda: "could not be carried over" in caplog.text)
    assert await store.end("l") == 20
    await store.close()


async def test_closing_leaves_all_in_the_database_and_no_thread(path):
    store = await SqliteStore.open(path, HandClock())
    await fill(store, 10)
    await store.close()
    assert not store._checkpoints._thread.is_alive()
    assert not wal(path).exists() or wal(path).stat().st_size == 0


async def _records(path):
    store = await SqliteStore.open(path, HandClock())
    try:
        return await store.read("l", limit=1000)
    finally:
        await store.close()


async def test_while_another_process_carries_the_journal_over_nothing_is_reported(path, caplog):
    first = await SqliteStore.open(path, HandClock())
    await fill(first, 3)
    writing, waiting, go_on = apsw.Connection(str(path)), threading.Event(), threading.Event()
    writing.execute("BEGIN IMMEDIATE")

    def carry_over():
        """Holds the lock of whoever carries over for as long as it waits for the writer."""
        other = apsw.Connection(str(path))
        other.set_busy_handler(lambda _count: waiting.set() or not go_on.wait(PATIENCE))
        other.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - before its first read it knows of no journal
        with contextlib.suppress(apsw.BusyError):
            other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_FULL)
        other.close()

    elsewhere = threading.Thread(target=carry_over)
    elsewhere.start()
    assert waiting.wait(PATIENCE)
    engine._carry_over(first._checkpoints._connection)
    go_on.set()
    elsewhere.join()
    writing.close()
    await first.close()
    assert not caplog.records
