"""The vault: stored context, encrypted at rest.

- A sealed value is `enc:` and a Fernet token (vcp 5.1), or `enc:`, a byte 1, 4 bytes that name the key, a nonce of 12
  bytes and AES-256-GCM. The second form is short, quick, and opens only in the place of the store that it is bound to.
- The first key seals; the others only open, so that a key is rotated by putting a new one in front.
- If there is a key, a value that is not sealed is refused: something else than the vault wrote it.
- Without a key nothing is stored, unless the setting for plaintext is on and the environment is not production.
- A value that cannot be opened is returned as None, never as ciphertext.
"""

import asyncio
import os
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from comity.store.interface import SEALED_PREFIX as PREFIX
from comity.store.interface import TABLES, Put, Reseal, SealedRow, Store, place_of
from comity.wire.errors import ComityError, ConfigError, KeyRefusedError

GUARDED_ENVIRONMENTS = frozenset({"production", "prod", "staging"})
IN_FLIGHT_SECONDS: Final = 2.0
"""How long after a new key is known a value that was sealed with the one before may still be on its way."""
_AT_ONCE: Final = 200
"""How many values are sealed again in one transaction: other writers wait for it."""

_BOUND: Final = PREFIX + b"\x01"
_NAME_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_DRAWN: Final = 128
_HEAD_BYTES: Final = len(_BOUND) + _NAME_BYTES + _NONCE_BYTES
SEAL_BYTES: Final = _HEAD_BYTES + 16
"""How much longer a value is when it is sealed in its place."""
_PURPOSE: Final = b"comity vault: values that are bound to their place\n"

_Shape = TypeVar("_Shape")


_nonces: list[bytes] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_nonces.clear)  # no nonce twice under one key


def _draw_nonces() -> bytes:
    """Return a nonce, and draw those of the next values with it: to ask the system for each would stop the thread each time."""
    drawn = os.urandom(_NONCE_BYTES * _DRAWN)
    first, *others = (drawn[at : at + _NONCE_BYTES] for at in range(0, len(drawn), _NONCE_BYTES))
    _nonces.extend(others)
    return first


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
        named = [_bound_key(key) for key in keys]
        self._bound_keys = dict(reversed(named))
        self._sealing = (_BOUND + named[0][0], named[0][1]) if named else None

    @property
    def encrypts(self) -> bool:
        return self._fernet is not None

    def seal(self, value: bytes) -> bytes:
        if self._fernet is not None:
            return PREFIX + self._fernet.encrypt(value)
        self.require()
        return value

    def seal_in(self, place: bytes, value: bytes) -> bytes:
        """Seal a value that opens only with the same `place` (`interface.place_of`)."""
        if self._sealing is None:
            self.require()
            return value
        head, key = self._sealing
        try:
            nonce = _nonces.pop()  # one step for all threads
        except IndexError:
            nonce = _draw_nonces()
        return head + nonce + key.encrypt(nonce, value, place)

    def require(self) -> None:
        """Raise KeyRefusedError if nothing can be sealed."""
        if self._fernet is None and not self._plaintext:
            raise KeyRefusedError(
                "there is no key to encrypt what is stored with; set VCP_CONTEXT_ENCRYPTION_KEY or "
                "restore vault.key in the data folder"
            )

    def open_in(self, place: bytes, stored: bytes) -> bytes | None:
        """Open what `seal_in` sealed for this place, or what `seal` sealed."""
        if self._fernet is None or not stored.startswith(_BOUND):
            return self.open(stored)
        name = stored[len(_BOUND) : len(_BOUND) + _NAME_BYTES]
        key = self._bound_keys.get(name)
        if key is None or len(stored) < _HEAD_BYTES:
            return None
        nonce = stored[_HEAD_BYTES - _NONCE_BYTES : _HEAD_BYTES]
        try:
            return key.decrypt(nonce, stored[_HEAD_BYTES:], place)
        except InvalidTag:
            return None

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
        """Return whether a value is sealed under the newest key."""
        if stored.startswith(_BOUND):
            return self._sealing is not None and stored.startswith(self._sealing[0])
        try:
            return self._newest is not None and bool(
                self._newest.extract_timestamp(stored.removeprefix(PREFIX))
            )
        except InvalidToken:
            return False

    def reseal(self, stored: bytes, place: bytes = b"") -> bytes | None:
        """Return the same value under the newest key."""
        if self._fernet is None or not stored.startswith(PREFIX):
            return None
        if stored.startswith(_BOUND):
            value = self.open_in(place, stored)
            return None if value is None else self.seal_in(place, value)
        try:
            return PREFIX + self._fernet.rotate(stored.removeprefix(PREFIX))
        except InvalidToken:
            return None


def _bound_key(key: bytes) -> tuple[bytes, AESGCM]:
    """Return the cipher that is derived from a key, and its name, which says nothing about the key."""
    derived = sha256(_PURPOSE + urlsafe_b64decode(key)).digest()
    return sha256(b"name\n" + derived).digest()[:_NAME_BYTES], AESGCM(derived)


def stored_json(shape: type[_Shape], unreadable: Callable[[], ComityError]) -> Callable[[bytes], _Shape]:
    """Return the reader of a stored value of that shape. It raises `unreadable()` for bytes that are none."""
    decode = msgspec.json.Decoder(shape).decode

    def read(data: bytes) -> _Shape:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise unreadable() from None

    return read


class Resealed(Struct, frozen=True):
    """How many values were sealed again, and in which tables how many do not open with any key."""

    values: int = 0
    unreadable: dict[str, int] = {}


async def reseal_all(store: Store, vault: Vault) -> Resealed:
    """Seal every value of every table with the newest key, until a look at all of them finds no other key."""
    done = 0
    while True:
        found = {table: await _reseal_table(store, table, vault) for table in TABLES}
        resealed = sum(values for values, _ in found.values())
        done += resealed
        if not resealed:
            return Resealed(
                done, {table: unreadable for table, (_, unreadable) in found.items() if unreadable}
            )


async def rotate_keys(
    store: Store,
    keys: Sequence[bytes],
    new: bytes,
    keep: Callable[[Sequence[bytes]], None],
    sleep: Callable[[float], Awaitable[None]],
) -> Resealed:
    """Seal everything with a `new` key. `keep` makes a list of keys durable, the sealing one first:

    1. the new key last: it is durable, and every process can open what it seals, before anything is sealed with it;
    2. the new key first: from here on every process seals with it;
    3. the new key alone, after the last value under another key was committed again. Not if a value does not open.
    """
    keep([*keys, new])
    keep([new, *keys])
    vault = Vault([new, *keys])
    first = await reseal_all(store, vault)
    await sleep(IN_FLIGHT_SECONDS)
    last = await reseal_all(store, vault)
    if not last.unreadable:
        keep([new])
    return Resealed(first.values + last.values, last.unreadable)


async def _reseal_table(store: Store, table: str, vault: Vault) -> tuple[int, int]:
    """Return how many values were sealed again, and how many do not open. A value that changes meanwhile is left: it
    was written with the newest key, or the next look finds it.
    """
    resealed = unreadable = 0
    after: tuple[str | int, ...] | None = None
    while True:
        page, after = await store.sealed(table, after)
        operations, unread = await asyncio.to_thread(_reseal_page, table, page, vault)
        unreadable += unread
        for at in range(0, len(operations), _AT_ONCE):
            resealed += sum(await store.commit(*operations[at : at + _AT_ONCE]))
        if after is None:
            return resealed, unreadable


_UPKEEP: Final = "upkeep"
_SEALED_REPLIES: Final = "sealed-replies"


class _Progress(Struct, frozen=True):
    """`done`: every reply is sealed, and no release that seals stores another."""

    after: tuple[str | int, ...] | None = None
    done: bool = False


async def seal_plain_replies(store: Store, vault: Vault) -> None:
    """Seal the replies that an earlier release stored as they were. How far it came is stored with each page, so that it
    goes on there after a crash; when all is done nothing is read any more.
    """
    held = await store.get(_UPKEEP, _SEALED_REPLIES)
    progress = msgspec.msgpack.decode(held.value, type=_Progress) if held else _Progress()
    while vault.encrypts and not progress.done:
        page, after = await store.sealed("reply", progress.after, plain=True)
        operations = await asyncio.to_thread(_seal_page, page, vault)
        for at in range(0, len(operations), _AT_ONCE):
            await store.commit(*operations[at : at + _AT_ONCE])
        progress = _Progress(after, done=after is None)
        await store.commit(Put(space=_UPKEEP, key=_SEALED_REPLIES, value=msgspec.msgpack.encode(progress)))


def _seal_page(page: Sequence[SealedRow], vault: Vault) -> list[Reseal]:
    return [
        Reseal(
            table="reply",
            place=row.place,
            was=row.data,
            to=vault.seal_in(place_of("reply", *row.names), row.data),
        )
        for row in page
    ]


def _reseal_page(table: str, page: Sequence[SealedRow], vault: Vault) -> tuple[list[Reseal], int]:
    """Return what has to be written, and how many values do not open."""
    old = [row for row in page if not vault.is_newest(row.data)]
    anew = [(row, vault.reseal(row.data, place_of(table, *row.names))) for row in old]
    operations = [
        Reseal(table=table, place=row.place, was=row.data, to=value)
        for row, value in anew
        if value is not None
    ]
    return operations, len(old) - len(operations)
