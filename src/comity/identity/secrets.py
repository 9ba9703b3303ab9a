"""The keys of the vault (vcp 5.1): the first encrypts, all decrypt.

They come from the environment variable if it is set, else from a file of mode 0600 that is made at the first start. Each
is a Fernet key. A key that cannot be used is never replaced by a new one, because the data that was encrypted with it
would be lost silently.
"""

import base64
import hmac
import re
import secrets
from collections.abc import Sequence
from pathlib import Path

from comity.identity.private_files import read_or_create_private, read_private, replace_private
from comity.wire.errors import ConfigError, KeyRefusedError

# Random secrets that programs show each other: made here, kept in files of mode 0600.


TOKEN_FILE = "token"  # noqa: S105 - the name of a file
READ_TOKEN_FILE = "read-token"  # noqa: S105 - same
TOKEN_BYTES = 32

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=-]{16,512}")


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def read_token(path: Path) -> str:
    return _checked(path, read_private(path))


def load_or_create_token(path: Path) -> str:
    return _checked(path, read_or_create_private(path, lambda: new_token().encode("ascii") + b"\n"))


def same_token(given: str, expected: str) -> bool:
    return hmac.compare_digest(
        given.encode("utf-8", "surrogatepass"), expected.encode("utf-8", "surrogatepass")
    )


def _checked(path: Path, data: bytes) -> str:
    token = data.strip()
    if not _TOKEN.fullmatch(token):
        raise KeyRefusedError(
            f"{path} holds no token (16 to 512 letters, digits or ._~+/=-); remove it and a new one is made"
        )
    return token.decode("ascii")


VAULT_KEY_FILE = "vault.key"
VAULT_KEY_VARIABLE = "VCP_CONTEXT_ENCRYPTION_KEY"

_FERNET_KEY = re.compile(r"[A-Za-z0-9+/_-]{43}=")


def new_vault_key() -> bytes:
    return base64.urlsafe_b64encode(secrets.token_bytes(32))


def load_or_create_vault_keys(path: Path, env_value: str | None) -> list[bytes]:
    """Keys from the environment's value, separated by commas; else those of the file, one per line."""
    if env_value is not None:
        return parse_vault_keys(env_value)
    return _of_file(path, read_or_create_private(path, lambda: new_vault_key() + b"\n"))


def parse_vault_keys(env_value: str) -> list[bytes]:
    """Those of the environment's value."""
    keys = _parsed(env_value.split(","))
    if keys is None:
        raise ConfigError(
            f"{VAULT_KEY_VARIABLE} must hold Fernet keys (44 characters of URL-safe base64 each) "
            "separated by commas; correct or unset it"
        )
    return keys


def read_vault_keys(path: Path) -> list[bytes]:
    """Those of the file, which must be there."""
    return _of_file(path, read_private(path))


def _of_file(path: Path, data: bytes) -> list[bytes]:
    keys = _parsed(data.decode("latin-1").splitlines())
    if keys is None:
        raise KeyRefusedError(f"{path} must hold Fernet keys, one per line; restore it from a copy")
    return keys


def keep_vault_keys(path: Path, keys: Sequence[bytes]) -> None:
    """Write the file anew: whole, or not at all."""
    replace_private(path, b"".join(key + b"\n" for key in keys))


class VaultKeyFile:
    """Notices when another process has written the file, or somebody has taken it away."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen = _stamp(path)

    def has_changed(self) -> bool:
        """Whether the file is another one than when this was asked last."""
        stamp = _stamp(self.path)
        changed, self._seen = stamp != self._seen, stamp
        return changed


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _parsed(parts: list[str]) -> list[bytes] | None:
    keys = [part.strip() for part in parts if part.strip()]
    if not keys or not all(_FERNET_KEY.fullmatch(key) for key in keys):
        return None
    return [key.encode("ascii") for key in keys]
