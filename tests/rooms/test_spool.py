"""Files on their way, on a real disk: chunks, journals, full disks, and what is left after the death of a process."""

import asyncio
import errno
import hashlib
import os

import pytest

from comity.rooms.protocol.files import (
    ChunkDiffers,
    ChunkRead,
    ChunkStored,
    DropIncoming,
    FinishIncoming,
    HashSource,
    IncomingFinished,
    IncomingOpened,
    OpenIncoming,
    ReadChunk,
    SourceFailed,
    SourceHashed,
    StoreChunk,
    StoreFailed,
)
from comity.rooms.spool import SYNC_EVERY, Spool


class SpoolScene:
    def __init__(self, folder, **more):
        self.heard = asyncio.Queue()
        self.spool = Spool(folder, self.heard.put_nowait, **{"keep_files": False, **more})

    async def do(self, effect):
        self.spool.carry_out(effect)
        async with asyncio.timeout(20):
            return await self.heard.get()


@pytest.fixture
async def scene(tmp_path):
    scene = SpoolScene(tmp_path / "spool")
    yield scene
    scene.spool.close(ended=False)


def chunk(data, sequence=0, offset=0, digest=None):
    return StoreChunk("f", sequence, offset, data, digest)


async def test_chunks_are_read_with_their_hash_from_memory_and_from_a_file(scene, tmp_path):
    data = os.urandom(3000)
    (tmp_path / "x").write_bytes(data)
    scene.spool.offer_bytes("m", data)
    scene.spool.offer_file("p", (tmp_path / "x").open("rb", buffering=0))
    for name in ("m", "p"):
        read = await scene.do(ReadChunk(name, 1, 1000, 1000))
        assert read == ChunkRead(name, 1, data[1000:2000], hashlib.sha256(data[1000:2000]).digest())
        assert await scene.do(HashSource(name)) == SourceHashed(name, hashlib.sha256(data).hexdigest())


async def test_a_source_that_shrank_or_is_unknown_has_failed(scene, tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    scene.spool.offer_file("p", (tmp_path / "x").open("rb", buffering=0))
    (tmp_path / "x").write_bytes(b"1")
    assert await scene.do(ReadChunk("p", 0, 0, 5)) == SourceFailed("p", "the file has become shorter")
    assert isinstance(await scene.do(HashSource("unknown")), SourceFailed)


@pytest.mark.parametrize("spooled", [True, False])
async def test_chunks_are_written_in_any_order_and_the_whole_is_hashed(scene, spooled):
    opened = await scene.do(OpenIncoming("f", 6, spooled, "in.bin"))
    assert isinstance(opened, IncomingOpened)
    assert (opened.spool_path is not None) == spooled
    assert await scene.do(chunk(b"def", 1, 3)) == ChunkStored("f", 1, hashlib.sha256(b"def").digest())
    assert isinstance(await scene.do(chunk(b"abc")), ChunkStored)
    assert await scene.do(chunk(b"xyz", digest=bytes(32))) == ChunkDiffers("f", 0)
    finished = await scene.do(FinishIncoming("f", True))
    assert finished == IncomingFinished("f", hashlib.sha256(b"abcdef").hexdigest())
    with scene.spool.open_received("f") as file:
        assert file.read() == b"abcdef"


async def test_what_was_written_is_known_to_the_next_process(scene, tmp_path):
    opened = await scene.do(OpenIncoming("f", 6, True, "in.bin"))
    await scene.do(chunk(b"def", 1, 3))
    journal = tmp_path / "spool" / "in.bin.chunks"
    with journal.open("ab") as file:
        file.write(b"torn")  # the process died while it wrote the next one
    after = SpoolScene(tmp_path / "spool")
    chunks = after.spool.reopen_incoming("f", opened.spool_path, 6, 3)
    assert chunks == {1: hashlib.sha256(b"def").digest()}
    await after.do(chunk(b"abc"))
    assert (await after.do(FinishIncoming("f", True))).sha256 == hashlib.sha256(b"abcdef").hexdigest()
    after.spool.close(ended=True)
    assert list((tmp_path / "spool").iterdir()) == []


async def test_bytes_that_a_power_cut_took_are_asked_for_again(scene, tmp_path):
    opened = await scene.do(OpenIncoming("f", 6, True, "in.bin"))
    await scene.do(chunk(b"abc"))
    await scene.do(chunk(b"def", 1, 3))
    (tmp_path / "spool" / "in.bin").write_bytes(
        b"abc\0\0\0"
    )  # the journal was on the disk, the chunk was not
    after = SpoolScene(tmp_path / "spool")
    chunks = after.spool.reopen_incoming("f", opened.spool_path, 6, 3)
    assert chunks == {0: hashlib.sha256(b"abc").digest()}
    after.spool.close(ended=False)


async def test_a_spool_file_that_is_gone_or_has_another_size_is_not_taken(scene, tmp_path):
    assert scene.spool.reopen_incoming("f", str(tmp_path / "none"), 6, 3) is None
    (tmp_path / "other").write_bytes(b"1")
    assert scene.spool.reopen_incoming("f", str(tmp_path / "other"), 6, 3) is None


async def test_a_source_is_opened_again_only_if_it_is_the_same_file(scene, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"12345")
    mark = scene.spool.offer_file("p", path.open("rb", buffering=0))
    after = SpoolScene(tmp_path / "spool")
    assert after.spool.reopen_source("p", str(path), mark)
    path.unlink()
    path.write_bytes(b"54321")
    assert not after.spool.reopen_source("p", str(path), mark)
    after.spool.close(ended=False)


async def test_a_folder_that_cannot_be_used_is_told_and_not_raised(tmp_path):
    (tmp_path / "file").write_text("")
    scene = SpoolScene(tmp_path / "file")
    assert isinstance(await scene.do(OpenIncoming("f", 6, True, "in.bin")), StoreFailed)
    assert isinstance(await scene.do(chunk(b"abc")), StoreFailed)
    scene.spool.close(ended=False)


async def test_the_disk_begins_early_and_what_it_says_then_is_not_lost(scene, monkeypatch):
    """The system tells an error of the disk only once: a file is not complete because the last sync was good."""
    synced = []

    def fsync(number):
        synced.append(number)
        if len(synced) == 1:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("comity.rooms.spool.os.fsync", fsync)
    data = bytes(SYNC_EVERY)
    await scene.do(OpenIncoming("f", len(data), True, "in.bin"))
    assert isinstance(await scene.do(chunk(data)), ChunkStored)
    assert await scene.do(FinishIncoming("f", False)) == StoreFailed(
        "f", "the file cannot be stored: input/output error"
    )


async def test_answers_come_in_the_order_of_the_work(scene):
    scene.spool.offer_bytes("m", bytes(range(200)))
    for number in range(200):
        scene.spool.carry_out(ReadChunk("m", number, number, 1))
    async with asyncio.timeout(20):
        assert [(await scene.heard.get()).data[0] for _ in range(200)] == list(range(200))


async def test_files_are_dropped_unless_they_are_to_be_kept(tmp_path):
    for keep in (False, True):
        scene = SpoolScene(tmp_path / f"spool{keep}", keep_files=keep)
        await scene.do(OpenIncoming("f", 3, True, "in.bin"))
        scene.spool.carry_out(DropIncoming("f"))
        await scene.do(chunk(b"abc"))  # refused, and after the other
        scene.spool.close(ended=False)
        assert (tmp_path / f"spool{keep}" / "in.bin").exists() is keep
        assert not (tmp_path / f"spool{keep}" / "in.bin.chunks").exists()
