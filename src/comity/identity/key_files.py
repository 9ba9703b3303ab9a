"""The identity file: one signing key as JSON, mode 0600.

    {"format": "comity identity", "version": 1, "public": HEX, "secret": {"kept": WHERE, ...}}

- `kept` says where the seed is: "here" in the open, "sealed" under a passphrase, or in the "keyring"
  of the operating system. The public key can be read in each case; a loaded seed must match it.
- A file of a newer version is refused and left alone, and so is one with fields we do not know.
- A passphrase for a file that is not sealed is refused too. The user believes that the seed is protected, but it is not,
  or somebody replaced the file.
"""

from pathlib import Path
from typing import Final, Literal, NoReturn

import msgspec
from msgspec import Struct

from comity.identity import os_keyring
from comity.identity.passphrase import SealedBox, SealingCost, seal, unseal
from comity.identity.private_files import create_private, read_private
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.wire.errors import ComityError, KeyRefusedError

FORMAT: Final = "comity identity"
VERSION: Final = 1


class KeptHere(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kept", tag="here"):
    seed: str

    def __repr__(self) -> str:
        return "KeptHere(seed=...)"


class KeptSealed(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kept", tag="sealed"
):
    sealed: SealedBox


class KeptInKeyring(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kept", tag="keyring"
):
    """The seed is an entry of the keyring, named by the public key."""


class IdentityFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["comity identity"] = FORMAT
    version: Literal[1] = VERSION
    public: str
    secret: KeptHere | KeptSealed | KeptInKeyring


class _KeyFilePreface(Struct, frozen=True):
    """What every version has, read before the rest is believed."""

    format: str
    version: int


def identity_file(
    key: SigningKey, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> IdentityFile:
    """The content of a file that holds a key, sealed when there is a passphrase."""
    secret: KeptHere | KeptSealed
    if passphrase is None:
        secret = KeptHere(seed=key.seed.hex())
    else:
        secret = KeptSealed(sealed=seal(key.seed, passphrase, cost or SealingCost()))
    return IdentityFile(public=key.vacant_id.hex(), secret=secret)


def write_identity(
    path: Path, key: SigningKey, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> None:
    """Keep a key in a new file, sealed when there is a passphrase."""
    _create(path, identity_file(key, passphrase=passphrase, cost=cost))


def write_keyring_identity(path: Path, key: SigningKey) -> None:
    """Keep a key in the keyring of the operating system, and its public part in a new file."""
    os_keyring.store(key)
    _create(path, IdentityFile(public=key.vacant_id.hex(), secret=KeptInKeyring()))


def read_identity(path: Path) -> IdentityFile:
    """The file as it stands. Its public key is proven only by `open_identity`."""
    data = read_private(path)
    try:
        preface = msgspec.json.decode(data, type=_KeyFilePreface)
    except msgspec.MsgspecError:
        _refuse(path, "is not an identity file; restore it from a copy or move it away")
    if preface.format != FORMAT:
        _refuse(path, "is not an identity file; restore it from a copy or move it away")
    if preface.version > VERSION:
        _refuse(path, f"has version {preface.version}, this release knows up to {VERSION}; upgrade comity")
    try:
        file = msgspec.json.decode(data, type=IdentityFile)
        VacantId.from_hex(file.public)
    except (msgspec.MsgspecError, ComityError):
        _refuse(path, "is damaged or was changed; restore it from a copy")
    return file


def open_identity(path: Path, *, passphrase: str | None = None) -> SigningKey:
    """The key itself, after every check."""
    file = read_identity(path)
    if not isinstance(file.secret, KeptSealed) and passphrase is not None:
        _refuse(
            path,
            "is not encrypted with a passphrase; leave the passphrase out, or encrypt a copy of the identity",
        )
    claimed = VacantId.from_hex(file.public)
    try:
        match file.secret:
            case KeptHere(seed=seed):
                key = SigningKey.from_seed(bytes.fromhex(seed))
            case KeptSealed(sealed=sealed):
                if passphrase is None:
                    _refuse(path, "is sealed; give its passphrase")
                key = SigningKey.from_seed(_unseal(path, sealed, passphrase))
            case KeptInKeyring():
                return os_keyring.load(claimed)
    except KeyRefusedError:
        raise
    except (ComityError, ValueError):
        _refuse(path, "is damaged or was changed; restore it from a copy")
    if key.vacant_id != claimed:
        _refuse(path, "names a public key that does not belong to its seed; restore it from a copy")
    return key


def _create(path: Path, file: IdentityFile) -> None:
    create_private(path, msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n")


def _unseal(path: Path, sealed: SealedBox, passphrase: str) -> bytes:
    try:
        return unseal(sealed, passphrase)
    except KeyRefusedError as reason:
        raise KeyRefusedError(f"{path} stays closed: {reason.message}") from None


def _refuse(path: Path, fault: str) -> NoReturn:
    raise KeyRefusedError(f"{path} {fault}")
