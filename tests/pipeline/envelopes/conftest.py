import pytest

from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore
from comity.system_clock import SystemClock


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    if request.param == "memory":
        store = MemoryStore(SystemClock())
    else:
        store = await SqliteStore.open(tmp_path / "comity.db", SystemClock())
    yield store
    await store.close()
