"""The key files: each one signing key as JSON, mode 0600.

    {"format": "comity identity", "version": 1, "public": HEX, "secret": {"kept": WHERE, ...}}
    {"format": "comity recovery", "version": 1, "public": HEX, "secret": {"kept": WHERE, ...} | null}

- `kept` says where the seed is: "here" in the open, "sealed" under a passphrase, or in the "keyring"
  of the operating system. The public key can be read in each case; a loaded seed must match it.
- A file of a newer version is refused and left alone, and so is one with fields we do not know.
- `recovery.json` holds the recovery key, which can replace the identity key (`protocol/succession.py`). It is made with the
  identity and kept in the same way. Its `secret` is null once its owner has it on paper. Its hash stands in the card.
- A passphrase for a file that is not sealed is refused too. The user believes that the seed is protected, but it is not,
  or somebody replaced the file.
"""

import contextlib
import importlib
import os
import secrets
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import msgspec
from msgspec import Struct

from comity.identity.passphrase import SealedBox, SealingCost, seal, unseal
from comity.identity.private_files import (
    create_private,
    ensure_private_folder,
    read_private,
    replace_private,
)
from comity.identity.protocol.keys import KEY_BYTES, SigningKey, VacantId
from comity.system import install_command
from comity.wire.errors import ComityError, ConfigError, KeyRefusedError

# Seeds in the keyring of the operating system, for those who have one.

SERVICE = "comity"

_ELSEWHERE = "keep the identity in a key file instead, with a passphrase if others use this machine"


def store(key: SigningKey) -> None:
    """Put the seed into the keyring and read it back: a keyring that forgets at once is none."""
    keyring = usable_keyring()
    try:
        keyring.set_password(SERVICE, key.vacant_id.hex(), key.seed.hex())
    except Exception as reason:  # noqa: BLE001 - backends raise what their system raises
        raise KeyRefusedError(
            f"the keyring did not take the seed ({type(reason).__name__}); {_ELSEWHERE}"
        ) from None
    load(key.vacant_id)


def load(vacant_id: VacantId) -> SigningKey:
    text = read_entry(SERVICE, vacant_id.hex())
    if text is None:
        raise KeyRefusedError(
            f"the keyring holds no seed of {vacant_id}; restore it from an exported key file"
        )
    try:
        key = SigningKey.from_seed(bytes.fromhex(text))
    except (ComityError, TypeError, ValueError):
        key = None
    if key is None or key.vacant_id != vacant_id:
        raise KeyRefusedError(
            f"what the keyring holds for {vacant_id} is not its seed; restore it from an exported key file"
        )
    return key


def forget(vacant_id: VacantId) -> None:
    """Take a seed out of the keyring. A keyring that refuses keeps it, which harms nothing."""
    with contextlib.suppress(Exception):
        usable_keyring().delete_password(SERVICE, vacant_id.hex())


def read_entry(service: str, entry: str) -> Any:
    """Return what the keyring holds under that name; None for nothing."""
    keyring = usable_keyring()
    try:
        return keyring.get_password(service, entry)
    except Exception as reason:  # noqa: BLE001 - as above
        raise KeyRefusedError(
            f"the keyring could not be read ({type(reason).__name__}); unlock it and try again"
        ) from None


def usable_keyring() -> Any:
    """Return the keyring that seeds can be kept in here; a refusal says why there is none."""
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise KeyRefusedError(
            f"the package keyring is not installed; run: {install_command('keyring')}; or {_ELSEWHERE}"
        ) from None
    try:
        backend = keyring.get_keyring()
        usable = backend.priority > 0
    except Exception as reason:  # noqa: BLE001 - as above
        raise KeyRefusedError(
            f"no keyring can be chosen here ({type(reason).__name__}); {_ELSEWHERE}"
        ) from None
    if not usable:
        raise KeyRefusedError(
            f"no keyring is running here, as is usual without a desktop session; start one, or {_ELSEWHERE}"
        )
    return backend


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


class RecoveryFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["comity recovery"] = "comity recovery"
    version: Literal[1] = 1
    public: str
    secret: KeptHere | KeptSealed | KeptInKeyring | None


class _KeyFilePreface(Struct, frozen=True):
    """What every version has, read before the rest is believed."""

    format: str
    version: int


KeptSecret = KeptHere | KeptSealed | KeptInKeyring


def identity_file(
    key: SigningKey, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> IdentityFile:
    """Return the content of a file that holds a key, sealed when there is a passphrase."""
    return IdentityFile(public=key.vacant_id.hex(), secret=kept_secret(key, passphrase, cost))


def kept_secret(
    key: SigningKey, passphrase: str | None, cost: SealingCost | None = None
) -> KeptHere | KeptSealed:
    """Return the seed as a file holds it, sealed when there is a passphrase."""
    if passphrase is None:
        return KeptHere(seed=key.seed.hex())
    return KeptSealed(sealed=seal(key.seed, passphrase, cost or SealingCost()))


def write_identity(
    path: Path, key: SigningKey, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> None:
    """Keep a key in a new file, sealed when there is a passphrase."""
    _create(path, identity_file(key, passphrase=passphrase, cost=cost))


def write_keyring_identity(path: Path, key: SigningKey) -> None:
    """Keep a key in the keyring of the operating system, and its public part in a new file."""
    store(key)
    _create(path, IdentityFile(public=key.vacant_id.hex(), secret=KeptInKeyring()))


def read_identity(path: Path) -> IdentityFile:
    """Return the file as it stands. Its public key is proven only by `open_identity`."""
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
    """Return the key itself, after every check."""
    file = read_identity(path)
    if not isinstance(file.secret, KeptSealed) and passphrase is not None:
        _refuse(
            path,
            "is not encrypted with a passphrase; leave the passphrase out, or encrypt a copy of the identity",
        )
    return open_secret(path, VacantId.from_hex(file.public), file.secret, passphrase)


def open_secret(path: Path, claimed: VacantId, secret: KeptSecret, passphrase: str | None) -> SigningKey:
    """Return the key that a file keeps for the public key that it names."""
    try:
        match secret:
            case KeptHere(seed=seed):
                key = SigningKey.from_seed(bytes.fromhex(seed))
            case KeptSealed(sealed=sealed):
                if passphrase is None:
                    _refuse(path, "is sealed; give its passphrase")
                key = SigningKey.from_seed(_unseal(path, sealed, passphrase))
            case KeptInKeyring():
                return load(claimed)
    except KeyRefusedError:
        raise
    except (ComityError, ValueError):
        _refuse(path, "is damaged or was changed; restore it from a copy")
    if key.vacant_id != claimed:
        _refuse(path, "names a public key that does not belong to its seed; restore it from a copy")
    return key


def _create(path: Path, file: Struct) -> None:
    create_private(path, encode_file(file))


def encode_file(file: Struct) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def damaged(path: Path) -> KeyRefusedError:
    return KeyRefusedError(
        f"{path} is damaged, was changed, or is of a newer release; restore it from a copy or upgrade comity"
    )


def _unseal(path: Path, sealed: SealedBox, passphrase: str) -> bytes:
    try:
        return unseal(sealed, passphrase)
    except KeyRefusedError as reason:
        raise KeyRefusedError(f"{path} stays closed: {reason.message}") from None


def _refuse(path: Path, fault: str) -> NoReturn:
    raise KeyRefusedError(f"{path} {fault}")


# The identity of a data folder: made once, opened at every start, copied out on purpose.

IDENTITY_FILE = "identity.json"


def new_signing_key() -> SigningKey:
    return SigningKey.from_seed(secrets.token_bytes(KEY_BYTES))


def identity_path(data_dir: Path) -> Path:
    return data_dir / IDENTITY_FILE


def has_identity(data_dir: Path) -> bool:
    """Return whether there is something by that name, sound or not: what is there is never replaced."""
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
    ensure_recovery(data_dir, passphrase, in_keyring=in_keyring, cost=cost)
    return key


def load_or_create_identity(
    data_dir: Path, *, passphrase: str | None = None, cost: SealingCost | None = None
) -> tuple[SigningKey, bool]:
    """Return the key of the folder, and whether it was made now. Of many that start at once one makes it, all use it."""
    if not has_identity(data_dir):
        try:
            return create_identity(data_dir, passphrase=passphrase, cost=cost), True
        except KeyRefusedError:
            if not has_identity(data_dir):
                raise
    key = load_identity(data_dir, passphrase=passphrase)
    if not has_recovery(data_dir):  # of an older release, or the start that made the identity was killed
        kept = read_identity(identity_path(data_dir)).secret
        cost = kept.sealed.cost if isinstance(kept, KeptSealed) else cost
        ensure_recovery(data_dir, passphrase, in_keyring=isinstance(kept, KeptInKeyring), cost=cost)
    return key, False


def load_identity(data_dir: Path, *, passphrase: str | None = None) -> SigningKey:
    return open_identity(identity_path(data_dir), passphrase=passphrase)


def stored_vacant_id(data_dir: Path) -> VacantId:
    """Return the id that the folder claims, readable without a passphrase and proven only by `load_identity`."""
    return VacantId.from_hex(read_identity(identity_path(data_dir)).public)


def needs_passphrase(data_dir: Path) -> bool:
    return isinstance(read_identity(identity_path(data_dir)).secret, KeptSealed)


# The recovery key of a data folder: made with the identity, printed once, then only its public half is kept.

RECOVERY_FILE = "recovery.json"


def recovery_path(data_dir: Path) -> Path:
    return data_dir / RECOVERY_FILE


def has_recovery(data_dir: Path) -> bool:
    return os.path.lexists(recovery_path(data_dir))


def ensure_recovery(
    data_dir: Path, passphrase: str | None, *, in_keyring: bool = False, cost: SealingCost | None = None
) -> None:
    """Make the recovery key of a folder that has none. Of two that start together, one makes it."""
    if has_recovery(data_dir):
        return
    key = new_signing_key()
    if in_keyring:
        store(key)
    secret: KeptSecret = KeptInKeyring() if in_keyring else kept_secret(key, passphrase, cost)
    try:
        _create(recovery_path(data_dir), RecoveryFile(public=key.vacant_id.hex(), secret=secret))
    except KeyRefusedError:
        if in_keyring:
            forget(key.vacant_id)
        if not has_recovery(data_dir):
            raise


def read_recovery(data_dir: Path) -> RecoveryFile:
    path = recovery_path(data_dir)
    data = read_private(path)
    try:
        file = msgspec.json.decode(data, type=RecoveryFile)
        VacantId.from_hex(file.public)
    except (msgspec.MsgspecError, UnicodeDecodeError, ComityError):
        raise damaged(path) from None
    return file


def recovery_public(data_dir: Path) -> VacantId | None:
    """Return the public half of the recovery key; None for a folder that has none yet."""
    return VacantId.from_hex(read_recovery(data_dir).public) if has_recovery(data_dir) else None


def open_recovery(data_dir: Path, passphrase: str | None) -> SigningKey:
    """Return the recovery key, if its secret half is still in the folder."""
    file, path = read_recovery(data_dir), recovery_path(data_dir)
    if file.secret is None:
        _refuse(path, "holds only the public half: the recovery key was written down and then deleted here")
    return open_secret(path, VacantId.from_hex(file.public), file.secret, passphrase)


def keep_recovery_public(data_dir: Path, public: VacantId) -> None:
    """Keep only the public half of the recovery key: its owner has the secret half on paper."""
    former = read_recovery(data_dir) if has_recovery(data_dir) else None
    replace_private(recovery_path(data_dir), encode_file(RecoveryFile(public=public.hex(), secret=None)))
    if former is not None and isinstance(former.secret, KeptInKeyring):
        forget(VacantId.from_hex(former.public))
