import pytest

from comity.runtime.system_clock import SystemClock
from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    if request.param == "memory":
        store = MemoryStore(SystemClock())
    else:
        store = await SqliteStore.open(tmp_path / "comity.db", SystemClock())
    yield store
    await store.close()
