"""The vault: stored context, encrypted at rest.

- A sealed value is `enc:` and a Fernet token. The first key seals; the others only open, so that a
  key is rotated by putting a new one in front (vcp 5.1).
- With a key, a value that is not sealed is refused: somebody wrote it past the vault.
- Without a key nothing is stored, unless plaintext was asked for by name, outside production.
- What cannot be opened is None; ciphertext is never handed out.
"""

from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from comity.core.errors import ConfigError, KeyRefusedError
from comity.store.operations import Put, StoreConflict
from comity.store.protocol import Store

PREFIX = b"enc:"
GUARDED_ENVIRONMENTS = frozenset({"production", "prod", "staging"})
_PAGE = 200


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

    def reseal(self, stored: bytes) -> bytes | None:
        """The same value under the newest key."""
        if self._fernet is None or not stored.startswith(PREFIX):
            return None
        try:
            return PREFIX + self._fernet.rotate(stored.removeprefix(PREFIX))
        except InvalidToken:
            return None


async def reseal_all(store: Store, space: str, vault: Vault) -> tuple[int, int]:
    """Bring a space to the newest key. Returns how many were resealed, and how many would not open.

    A value that changes meanwhile was written with the newest key already.
    """
    resealed = unreadable = 0
    after = ""
    while page := await store.scan(space, after=after, limit=_PAGE):
        for key, held in page:
            value = vault.reseal(held.value)
            if value is None:
                unreadable += 1
                continue
            try:
                await store.commit(
                    Put(space=space, key=key, value=value, expect=held.version, expires_at=held.expires_at)
                )
            except StoreConflict:
                continue
            resealed += 1
        after = page[-1][0]
    return resealed, unreadable
