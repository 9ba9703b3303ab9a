"""The identity of a data folder: made once, opened at every start, copied out on purpose."""

import os
import secrets
from pathlib import Path

from comity.identity.key_files import (
    KeptSealed,
    open_identity,
    read_identity,
    write_identity,
    write_keyring_identity,
)
from comity.identity.passphrase import SealingCost
from comity.identity.private_files import ensure_private_folder
from comity.identity.protocol.keys import KEY_BYTES, SigningKey, VacantId
from comity.wire.errors import ConfigError, KeyRefusedError

IDENTITY_FILE = "identity.json"


def new_signing_key() -> SigningKey:
    return SigningKey.from_seed(secrets.token_bytes(KEY_BYTES))


def identity_path(data_dir: Path) -> Path:
    return data_dir / IDENTITY_FILE


def has_identity(data_dir: Path) -> bool:
    """Whether there is something by that name, sound or not: what is there is never replaced."""
    return os.path.lexists(identity_path(data_dir))


def create_identity(
    data_dir: Path,
    *,
    key: SigningKey | None = None,
    passphrase: str | None = None,
    in_keyring: bool = False,
    cost: SealingCost | None = None,
) -> SigningKey:
    """Give a data folder its identity: a new key, or `key`. Refused when it has one."""
    if in_keyring and passphrase is not None:
        raise ConfigError(
            "a seed in the keyring has no passphrase of ours; choose the keyring or a passphrase"
        )
    ensure_private_folder(data_dir)
    path = identity_path(data_dir)
    if has_identity(data_dir):
        raise KeyRefusedError(f"{path} exists and is never overwritten; move it away first")
    key = key or new_signing_key()
    if in_keyring:
        write_keyring_identity(path, key)
    else:
        write_identity(path, key, passphrase=passphrase, cost=cost)
    return key


def load_or_create_identity(
    data_dir: Path, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> tuple[SigningKey, bool]:
    """The key of the folder, and whether it was made now. Of many that start at once one makes it, all use it."""
    if not has_identity(data_dir):
        try:
            return create_identity(data_dir, passphrase=passphrase, cost=cost), True
        except KeyRefusedError:
            if not has_identity(data_dir):
                raise
    return load_identity(data_dir, passphrase=passphrase), False


def load_identity(data_dir: Path, *, passphrase: str | None = None) -> SigningKey:
    return open_identity(identity_path(data_dir), passphrase=passphrase)


def stored_vacant_id(data_dir: Path) -> VacantId:
    """The id that the folder claims, readable without a passphrase and proven only by `load_identity`."""
    return VacantId.from_hex(read_identity(identity_path(data_dir)).public)


def needs_passphrase(data_dir: Path) -> bool:
    return isinstance(read_identity(identity_path(data_dir)).secret, KeptSealed)
