"""Opening the store that the settings name, for a node and for a command that works beside it.

A process that writes has an audit chain of its own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from comity.identity.protocol.keys import SigningKey
from comity.runtime.settings import Settings
from comity.store.audit_trail import AuditTrail, open_head_file
from comity.store.interface import Store
from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.reads import SqliteReader
from comity.wire.machine import Clock


def open_trail(settings: Settings, key: SigningKey, chain: str) -> AuditTrail:
    """The audit chain of that name, or `chain-2`, `chain-3` … while other processes write the first ones."""
    if settings.store.engine == "memory":
        return AuditTrail(chain, key)
    chain, head_file = open_head_file(settings.audit_heads, chain)
    return AuditTrail(chain, key, head_file)


async def open_store(settings: Settings, clock: Clock, trail: AuditTrail, *, adopt: bool = False) -> Store:
    """To read and to write; the store closes the trail, also when it cannot be opened. `adopt` takes a restored database as it is."""
    if settings.store.engine == "memory":
        return MemoryStore(clock, trail=trail)
    return await SqliteStore.open(settings.database, clock, trail, adopt=adopt)


@asynccontextmanager
async def reading(settings: Settings, clock: Clock) -> AsyncIterator[SqliteReader]:
    """The database, to look at while a node may be writing to it."""
    store = await SqliteStore.open_for_reading(settings.database, clock)
    try:
        yield store
    finally:
        await store.close()
