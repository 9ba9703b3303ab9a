"""The vault: stored context, encrypted at rest.

- A sealed value is `enc:` and a Fernet token. The first key seals; the others only open, so that a
  key is rotated by putting a new one in front (vcp 5.1).
- If there is a key, a value that is not sealed is refused: something else than the vault wrote it.
- Without a key nothing is stored, unless the setting for plaintext is on and the environment is not production.
- A value that cannot be opened is returned as None, never as ciphertext.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from msgspec import Struct

from comity.core.errors import ComityError, ConfigError, KeyRefusedError
from comity.store.operations import Put, StoreConflict, Versioned
from comity.store.protocol import Store

PREFIX = b"enc:"
GUARDED_ENVIRONMENTS = frozenset({"production", "prod", "staging"})
_PAGE = 200

_Shape = TypeVar("_Shape")


class Vault:
    def __init__(
        self, keys: Sequence[bytes], *, environment: str = "production", plaintext: bool = False
    ) -> None:
        if plaintext and environment in GUARDED_ENVIRONMENTS:
            raise ConfigError(
                f"plaintext storage is refused in {environment}; remove the vault.plaintext setting"
            )
        try:
            self._fernet = MultiFernet([Fernet(key) for key in keys]) if keys else None
            self._newest = Fernet(keys[0]) if keys else None
        except ValueError:
            raise ConfigError(
                "an encryption key is not 32 bytes in URL-safe base64; let the node generate one instead"
            ) from None
        self._plaintext = plaintext and not keys

    @property
    def encrypts(self) -> bool:
        return self._fernet is not None

    def seal(self, value: bytes) -> bytes:
        if self._fernet is not None:
            return PREFIX + self._fernet.encrypt(value)
        if self._plaintext:
            return value
        raise KeyRefusedError(
            "there is no key to encrypt stored context with; set VCP_CONTEXT_ENCRYPTION_KEY or "
            "restore vault.key in the data folder"
        )

    def open(self, stored: bytes) -> bytes | None:
        if self._fernet is None:
            return stored if self._plaintext and not stored.startswith(PREFIX) else None
        if not stored.startswith(PREFIX):
            return None
        try:
            return self._fernet.decrypt(stored.removeprefix(PREFIX))
        except InvalidToken:
            return None

    def is_newest(self, stored: bytes) -> bool:
        """Whether a value is sealed under the newest key."""
        try:
            return self._newest is not None and bool(
                self._newest.extract_timestamp(stored.removeprefix(PREFIX))
            )
        except InvalidToken:
            return False

    def reseal(self, stored: bytes) -> bytes | None:
        """The same value under the newest key."""
        if self._fernet is None or not stored.startswith(PREFIX):
            return None
        try:
            return PREFIX + self._fernet.rotate(stored.removeprefix(PREFIX))
        except InvalidToken:
            return None


def stored_json(shape: type[_Shape], unreadable: Callable[[], ComityError]) -> Callable[[bytes], _Shape]:
    """The reader of a stored value of that shape. It raises `unreadable()` for bytes that are none."""
    decode = msgspec.json.Decoder(shape).decode

    def read(data: bytes) -> _Shape:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise unreadable() from None

    return read


class Resealed(Struct, frozen=True):
    """How many values were sealed anew, and how many did not open under any key."""

    values: int = 0
    unreadable: int = 0


async def reseal_all(store: Store, vault: Vault) -> Resealed:
    """Bring every sealed value of the store to the newest key, and look again until none is left under another."""
    done = 0
    while True:
        found = [await _reseal_space(store, space, vault) for space in await store.spaces()]
        unreadable = sum(each.unreadable for each in found)
        resealed = sum(each.values for each in found)
        done += resealed
        if not resealed:
            return Resealed(done, unreadable)


async def rotate_keys(
    store: Store, keys: Sequence[bytes], new: bytes, keep: Callable[[Sequence[bytes]], None]
) -> Resealed:
    """Seal everything under a `new` key. `keep` stores the keys: first with the new one in front, so that all who use
    the store seal with it; and without the old ones as soon as nothing needs them.
    """
    keep([new, *keys])
    resealed = await reseal_all(store, Vault([new, *keys]))
    if not resealed.unreadable:
        keep([new])
    return resealed


async def _reseal_space(store: Store, space: str, vault: Vault) -> Resealed:
    """A value that changes meanwhile was written with the newest key already, or is found by the next look."""
    resealed = unreadable = 0
    after = ""
    while page := await store.scan(space, after=after, limit=_PAGE):
        after = page[-1][0]
        old = [
            (key, held)
            for key, held in page
            if held.value.startswith(PREFIX) and not vault.is_newest(held.value)
        ]
        outcomes = await asyncio.gather(*(_reseal(store, space, key, held, vault) for key, held in old))
        resealed += outcomes.count(True)
        unreadable += outcomes.count(False)
    return Resealed(resealed, unreadable)


async def _reseal(store: Store, space: str, key: str, held: Versioned, vault: Vault) -> bool:
    """Whether the value opened."""
    value = vault.reseal(held.value)
    if value is None:
        return False
    with contextlib.suppress(StoreConflict):
        await store.commit(
            Put(space=space, key=key, value=value, expect=held.version, expires_at=held.expires_at)
        )
    return True
