"""A directory on every engine, on something that survives a restart."""

import pytest

from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.sqlite import SqliteStore
from comity.testing import VirtualClock
from tests.directory.publications import Directory
from tests.store.samples import trail_at


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture(params=["memory", "sqlite"])
async def open_directory(request, tmp_path, clock):
    """A function that opens the same directory again and again; the last one opened is closed for you."""
    disk = MemoryDisk()
    opened = []

    async def open_it() -> Directory:
        for store in opened:
            await store.close()
        opened.clear()
        trail = trail_at(tmp_path)
        if request.param == "memory":
            store = MemoryStore(clock, disk, trail)
        else:
            store = await SqliteStore.open(tmp_path / "comity.db", clock, trail)
        opened.append(store)
        return Directory(store, clock)

    yield open_it
    for store in opened:
        await store.close()


@pytest.fixture
async def directory(open_directory) -> Directory:
    return await open_directory()
