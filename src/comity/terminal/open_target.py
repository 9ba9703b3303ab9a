"""The key and the database of the data folder, for a command that works while a node may be running.

A process that writes has an audit chain of its own: `cli`, or `cli-2` while another command has that.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeVar

from comity.identity.key_files import has_identity, load_identity, load_or_create_identity, stored_vacant_id
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.secrets import (
    VAULT_KEY_FILE,
    VAULT_KEY_VARIABLE,
    VaultKeyFile,
    load_or_create_vault_keys,
    read_vault_keys,
)
from comity.requests.handler import begin_request
from comity.requests.record import REQUEST_IDS, Recorder
from comity.runtime.opening import open_store, open_trail
from comity.runtime.part import Part
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.interface import Store
from comity.store.vault import Vault
from comity.terminal.options import KeyOptions, passphrase_for, read_passphrase, settings_of
from comity.wire.errors import ConfigError, NotFoundError

CLI_CHAIN: Final = "cli"

_Own = TypeVar("_Own")
_Result = TypeVar("_Result")


def refuse_memory(settings: Settings, what: str) -> None:
    if settings.store.engine == "memory":
        raise ConfigError(f"store.engine memory keeps nothing on disk, and {what}; use sqlite")


def refuse_off(settings: Settings, part: type[Part]) -> None:
    if not part.is_wanted(settings):
        raise ConfigError(part.off_sentence())


def own_id(settings: Settings) -> VacantId:
    """Who the folder says it is."""
    _refuse_missing(settings)
    return stored_vacant_id(settings.data)


def own_key(settings: Settings, passphrase_file: str | None) -> SigningKey:
    _refuse_missing(settings)
    return load_identity(settings.data, passphrase=passphrase_for(settings.data, passphrase_file))


def new_key(settings: Settings, passphrase_file: str | None) -> tuple[SigningKey, bool]:
    """A key for a folder that had none a moment ago, and whether it was us who made it."""
    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    return load_or_create_identity(settings.data, passphrase=passphrase)


def _refuse_missing(settings: Settings) -> None:
    if not has_identity(settings.data):
        raise NotFoundError(
            f"there is no identity in {settings.data}; make one with `comity id new`, or start a node: `comity up`"
        )


@contextlib.asynccontextmanager
async def writing(settings: Settings, key: SigningKey) -> AsyncIterator[tuple[Store, Recorder, str]]:
    """The store, its record, and the name of the chain that this process writes. What is done in the block is one
    request.
    """
    clock, trail = SystemClock(), open_trail(settings, key, CLI_CHAIN)
    store = await open_store(settings, clock, trail)
    begin_request(REQUEST_IDS.new())
    try:
        yield store, Recorder(store, clock, level=settings.audit.level), trail.chain
    finally:
        await store.close()


def own_vault(settings: Settings) -> Callable[[], Vault]:
    """Return the vault of the folder each time with the keys that the file holds then: a node may rotate them."""
    path, stated = settings.data / VAULT_KEY_FILE, os.environ.get(VAULT_KEY_VARIABLE)
    file = VaultKeyFile(path)
    keys = load_or_create_vault_keys(path, stated)
    vault = Vault(keys, environment=settings.environment, plaintext=settings.vault.plaintext)

    def current() -> Vault:
        nonlocal vault
        if stated is None and file.has_changed():
            vault = Vault(read_vault_keys(path), environment=settings.environment)
        return vault

    return current


def work_with(
    opening: Callable[[Settings, str | None], AbstractAsyncContextManager[_Own]],
    home: KeyOptions,
    work: Callable[[_Own], Awaitable[_Result]],
) -> _Result:
    """Open a data folder and run `work`."""
    settings = settings_of(home).settings

    async def run() -> _Result:
        async with opening(settings, home.passphrase_file) as own:
            return await work(own)

    return asyncio.run(run())
