"""Every engine, opened on something that survives a restart."""

import pytest

from comity.store.interface import Store
from comity.store.memory import MemoryDisk, MemoryStore
from comity.store.sqlite import SqliteStore
from tests.store.samples import HandClock, trail_at


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["memory", "sqlite"])
async def open_store(request, tmp_path, clock):
    """A function that opens the same store again and again; the last one opened is closed for you."""
    disk = MemoryDisk()
    opened: list[Store] = []

    async def open_it() -> Store:
        for store in opened:
            await store.close()
        opened.clear()
        trail = trail_at(tmp_path)
        if request.param == "memory":
            store: Store = MemoryStore(clock, disk, trail)
        else:
            store = await SqliteStore.open(tmp_path / "comity.db", clock, trail)
        opened.append(store)
        return store

    yield open_it
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_store) -> Store:
    return await open_store()
