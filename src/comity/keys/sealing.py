"""A secret under a passphrase: Argon2id makes the key, secretbox hides and authenticates the secret.

- Salt and nonce are fresh for every sealing. The cost is written beside the box, so that it can be
  raised later without losing what was sealed before.
- The cost comes from a file, so it is bounded before any memory is given to it.
- A passphrase is compared as people see it: the same characters typed on another system may be other
  code points, so it is brought to NFC first.
"""

import secrets
import unicodedata

from msgspec import Struct

from comity.core.errors import InvalidError, KeyRefusedError

_KEY_BYTES = 32
_SALT_BYTES = 16
_NONCE_BYTES = 24
_LEAST_MEMORY = 8 * 1024
_MOST_MEMORY = 1024 * 1024 * 1024
_MOST_PASSES = 16


class SealingCost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes over the memory, and its size in bytes. The default takes about a second."""

    passes: int = 3
    memory: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        if not (1 <= self.passes <= _MOST_PASSES and _LEAST_MEMORY <= self.memory <= _MOST_MEMORY):
            raise InvalidError(
                f"the cost must be 1 to {_MOST_PASSES} passes over {_LEAST_MEMORY:,} to {_MOST_MEMORY:,} bytes"
            )


class SealedBox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may lie in the open: salt, and nonce with ciphertext, in hexadecimal."""

    cost: SealingCost
    salt: str
    box: str


def seal(secret: bytes, passphrase: str, cost: SealingCost) -> SealedBox:
    if not passphrase:
        raise InvalidError("an empty passphrase protects nothing; give one or leave it out")
    from nacl.bindings import crypto_secretbox

    salt = secrets.token_bytes(_SALT_BYTES)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    box = crypto_secretbox(secret, nonce, stretch(passphrase, salt, cost))
    return SealedBox(cost=cost, salt=salt.hex(), box=(nonce + box).hex())


def unseal(sealed: SealedBox, passphrase: str) -> bytes:
    """The secret; refused when the passphrase is another one or the box was changed."""
    from nacl.bindings import crypto_secretbox_open
    from nacl.exceptions import CryptoError

    refusal = "the passphrase does not open it, or it was changed since it was sealed"
    try:
        salt, box = bytes.fromhex(sealed.salt), bytes.fromhex(sealed.box)
    except ValueError:
        raise KeyRefusedError(refusal) from None
    if len(salt) != _SALT_BYTES or len(box) < _NONCE_BYTES:
        raise KeyRefusedError(refusal)
    key = stretch(passphrase, salt, sealed.cost)
    try:
        return crypto_secretbox_open(box[_NONCE_BYTES:], box[:_NONCE_BYTES], key)
    except CryptoError:
        raise KeyRefusedError(refusal) from None


def stretch(passphrase: str, salt: bytes, cost: SealingCost) -> bytes:
    """The key of 32 bytes that a passphrase makes."""
    from nacl.exceptions import CryptoError
    from nacl.pwhash import argon2id

    password = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    try:
        return argon2id.kdf(_KEY_BYTES, password, salt, opslimit=cost.passes, memlimit=cost.memory)
    except (CryptoError, MemoryError):
        needed = cost.memory // (1024 * 1024)
        raise KeyRefusedError(
            f"the passphrase needs {needed} MiB of memory to be checked; free some"
        ) from None
