"""The keys of the vault (vcp 5.1): the first encrypts, all decrypt.

They come from the environment when it names any, else from a file of mode 0600 that is made at the
first start. Each is a Fernet key. A value that cannot be used is never replaced by another: data
that was sealed under it would be lost without a word.
"""

import base64
import re
import secrets
from pathlib import Path

from comity.core.errors import ConfigError, KeyRefusedError
from comity.keys.private import read_or_create_private

VAULT_KEY_FILE = "vault.key"
VAULT_KEY_VARIABLE = "VCP_CONTEXT_ENCRYPTION_KEY"

_FERNET_KEY = re.compile(r"[A-Za-z0-9+/_-]{43}=")


def new_vault_key() -> bytes:
    return base64.urlsafe_b64encode(secrets.token_bytes(32))


def load_or_create_vault_keys(path: Path, env_value: str | None) -> list[bytes]:
    """Keys from the environment's value, separated by commas; else those of the file, one per line."""
    if env_value is not None:
        keys = _parsed(env_value.split(","))
        if keys is None:
            raise ConfigError(
                f"{VAULT_KEY_VARIABLE} must hold Fernet keys (44 characters of URL-safe base64 each) "
                "separated by commas; correct or unset it"
            )
        return keys
    data = read_or_create_private(path, lambda: new_vault_key() + b"\n")
    keys = _parsed(data.decode("latin-1").splitlines())
    if keys is None:
        raise KeyRefusedError(f"{path} must hold Fernet keys, one per line; restore it from a copy")
    return keys


def _parsed(parts: list[str]) -> list[bytes] | None:
    keys = [part.strip() for part in parts if part.strip()]
    if not keys or not all(_FERNET_KEY.fullmatch(key) for key in keys):
        return None
    return [key.encode("ascii") for key in keys]
