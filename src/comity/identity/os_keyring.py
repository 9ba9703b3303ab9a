"""Seeds in the keyring of the operating system, for those who have one.

- It needs the extra `keyring` and a keyring that is really there. Without a desktop session there is
  usually none, and every operation of the library fails. This is checked before anything is stored.
- An entry is named by the public key, so two data folders never share one by accident, and what comes
  back is checked against that name.
"""

import importlib
from typing import Any

from comity.identity.protocol.keys import SigningKey, VacantId
from comity.system import install_command
from comity.wire.errors import ComityError, KeyRefusedError

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


def read_entry(service: str, entry: str) -> Any:
    """What the keyring holds under that name; None for nothing."""
    keyring = usable_keyring()
    try:
        return keyring.get_password(service, entry)
    except Exception as reason:  # noqa: BLE001 - as above
        raise KeyRefusedError(
            f"the keyring could not be read ({type(reason).__name__}); unlock it and try again"
        ) from None


def usable_keyring() -> Any:
    """The keyring that seeds can be kept in here; a refusal says why there is none."""
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
