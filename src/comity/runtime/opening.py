"""Opening the store that the settings name, for a node and for a command that works beside it.

- A process that writes has an audit chain of its own.
- This is the only module above the engines that names them: a new engine is a module in `store`, its name and
  whether it is volatile in `StoreSettings`, and what is said here.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import apsw

from comity.identity.protocol.keys import SigningKey
from comity.identity.secrets import (
    VAULT_KEY_FILE,
    VAULT_KEY_VARIABLE,
    VaultKeyFile,
    load_or_create_vault_keys,
    read_vault_keys,
)
from comity.identity.succession_files import read_own_line
from comity.runtime.settings import Settings
from comity.store.audit_trail import AuditTrail, open_head_file
from comity.store.interface import Store
from comity.store.memory import MemoryStore
from comity.store.sqlite import SqliteStore
from comity.store.sqlite.connection import (
    STEPS,
    compact_database,
    copy_database,
    load_checksums,
    read_foreign,
)
from comity.store.sqlite.reads import SqliteReader
from comity.store.vault import Vault
from comity.wire.machine import Clock

__all__ = ["SCHEMA", "load_checksums", "read_foreign", "sqlite_version"]

SCHEMA: Final = len(STEPS)
"""How many steps the tables of this release have taken."""


def sqlite_version() -> str:
    return apsw.sqlite_lib_version()


def open_trail(settings: Settings, key: SigningKey, chain: str) -> AuditTrail:
    """Open the audit chain of that name, or `chain-2`, `chain-3` … while other processes write the first ones."""
    if settings.store.is_volatile:
        return AuditTrail(chain, key)
    chain, head_file = open_head_file(settings.audit_heads, chain)
    signers = read_own_line(settings.data, key.vacant_id).publics
    return AuditTrail(chain, key, head_file, signers=signers)


def open_vault(settings: Settings, *, create: bool = True) -> Callable[[], Vault]:
    """Return the vault of the folder each time with the keys that the file holds then: a node may rotate them. Without
    `create` a folder that has no key gets none, and opens nothing that is sealed.
    """
    path, stated = settings.data / VAULT_KEY_FILE, os.environ.get(VAULT_KEY_VARIABLE)
    file = VaultKeyFile(path)
    made = create or stated is not None or path.exists()
    keys = load_or_create_vault_keys(path, stated) if made else []
    vault = Vault(keys, environment=settings.environment, plaintext=settings.vault.plaintext)

    def current() -> Vault:
        nonlocal vault
        if stated is None and file.has_changed():
            vault = Vault(read_vault_keys(path), environment=settings.environment)
        return vault

    return current


async def open_store(settings: Settings, clock: Clock, trail: AuditTrail, *, adopt: bool = False) -> Store:
    """Open the store to read and write. It closes the trail, also on failure. `adopt` takes a restored database as it is."""
    if settings.store.engine == "memory":
        return MemoryStore(clock, trail=trail)
    return await SqliteStore.open(settings.database, clock, trail, adopt=adopt)


def has_database(settings: Settings) -> bool:
    """Return whether there is a store to open. The first start of a node makes it."""
    return settings.database.is_file()


async def open_file(path: Path, clock: Clock) -> Store:
    """Open a store in a file of its own, without an audit chain."""
    return await SqliteStore.open(path, clock)


def open_in_memory(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


def copy_store(settings: Settings, copy: Path) -> None:
    """Copy the database as it is at one moment into a new file. A running node never waits for it."""
    copy_database(settings.database, copy)


def compact_store(settings: Settings) -> None:
    """Give unused space back. No other process may have the database open."""
    compact_database(settings.database)


@asynccontextmanager
async def reading(settings: Settings, clock: Clock, *, check: bool = True) -> AsyncIterator[SqliteReader]:
    """Open the database to read, while a node may be writing to it. `check` reads all of it once."""
    store = await SqliteStore.open_for_reading(settings.database, clock, check=check)
    try:
        yield store
    finally:
        await store.close()
