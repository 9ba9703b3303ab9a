"""Secrets that are generated here and kept in files of mode 0600: tokens, and the keys of the vault (vcp 5.1).

- The first key of the vault encrypts, all decrypt. The keys come from the environment variable if it is set, else from a
  file that is made at the first start. A key that cannot be used is never replaced by a new one, because the data that
  was encrypted with it would be lost silently.
- The tokens that the node's own user made for programs are in `tokens.json`, with a hash of each and never the token. A
  token is shown once, when it is made. It says what it may do (`rights.Grant`) and may expire.
- The file is read again when it has changed, so a token that is revoked is refused at the next request. A file that
  cannot be read gives nobody access: the node says so in its log, `comity token list` says what to do.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from comity.identity.private_files import alone, read_or_create_private, read_private, replace_private
from comity.identity.protocol.rights import Grant
from comity.wire.errors import ConfigError, ConflictError, InvalidError, KeyRefusedError, NotFoundError
from comity.wire.machine import Clock

log = logging.getLogger("comity.node")

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
    """Return the keys from the environment's value, separated by commas; else those of the file, one per line."""
    if env_value is not None:
        return parse_vault_keys(env_value)
    return _of_file(path, read_or_create_private(path, lambda: new_vault_key() + b"\n"))


def parse_vault_keys(env_value: str) -> list[bytes]:
    """Return those of the environment's value."""
    keys = _parsed(env_value.split(","))
    if keys is None:
        raise ConfigError(
            f"{VAULT_KEY_VARIABLE} must hold Fernet keys (44 characters of URL-safe base64 each) "
            "separated by commas; correct or unset it"
        )
    return keys


def read_vault_keys(path: Path) -> list[bytes]:
    """Return those of the file, which must be there."""
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
        """Return whether the file is another one than when this was asked last."""
        stamp = _stamp(self.path)
        changed, self._seen = stamp != self._seen, stamp
        return changed


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when the file is written again; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns, status.st_size


def _parsed(parts: list[str]) -> list[bytes] | None:
    keys = [part.strip() for part in parts if part.strip()]
    if not keys or not all(_FERNET_KEY.fullmatch(key) for key in keys):
        return None
    return [key.encode("ascii") for key in keys]


# The tokens that the node's own user made for programs.

TOKEN_BOOK_FILE: Final = "tokens.json"  # noqa: S105 - the name of a file
MAX_TOKENS: Final = 100
MAX_DAYS: Final = 3650
DAY: Final = 86_400.0

_LOCK_FILE: Final = ".tokens.lock"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


class NamedToken(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times are in seconds since 1970; `expires` is None for a token that holds until it is revoked."""

    name: str
    can: Grant
    sha256: str
    created: float
    expires: float | None = None

    def has_expired(self, now: float) -> bool:
        return self.expires is not None and now >= self.expires


class _Book(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    tokens: tuple[NamedToken, ...] = ()


class TokenBook:
    """The tokens of a data folder, as a running node asks for them."""

    def __init__(self, data: Path, clock: Clock) -> None:
        self._path = data / TOKEN_BOOK_FILE
        self._clock = clock
        self._read_at: tuple[int, int, int] | None = None
        self._by_hash: dict[str, NamedToken] = {}

    def find(self, token: str) -> NamedToken | None:
        """Return the entry of this token; None if there is none, or if it has expired."""
        self._read_again()
        found = self._by_hash.get(_hash_of(token))
        return None if found is None or found.has_expired(self._clock.now()) else found

    def _read_again(self) -> None:
        state = _stamp(self._path)
        if state == self._read_at:
            return
        self._read_at = state
        self._by_hash = {}
        if state is not None:
            try:
                self._by_hash = {each.sha256: each for each in _read(self._path).tokens}
            except KeyRefusedError as reason:
                log.error("no token of the file can be used: %s", reason)  # noqa: TRY400 - a sentence, no fault of ours


def list_tokens(data: Path) -> tuple[NamedToken, ...]:
    """Return what the file of the data folder says. Raises KeyRefusedError."""
    return _read(data / TOKEN_BOOK_FILE).tokens if _stamp(data / TOKEN_BOOK_FILE) else ()


def make_token(
    data: Path, name: str, can: Grant, *, now: float, days: float | None
) -> tuple[NamedToken, str]:
    """Add a token to the file, and return its entry and the token itself."""
    if not _NAME.fullmatch(name):
        raise InvalidError(
            "the name of a token has 1 to 32 characters: a-z, 0-9, - and _, the first a letter or a digit"
        )
    if days is not None and not 0 < days <= MAX_DAYS:
        raise InvalidError(f"a token holds for more than 0 and at most {MAX_DAYS:,} days")
    token = new_token()
    entry = NamedToken(
        name=name,
        can=can,
        sha256=_hash_of(token),
        created=now,
        expires=None if days is None else now + days * DAY,
    )
    with alone(data / _LOCK_FILE):
        kept = [each for each in list_tokens(data) if not (each.name == name and each.has_expired(now))]
        if any(each.name == name for each in kept):
            raise ConflictError(
                f"there is a token named {name}; choose another name, or revoke it: comity token revoke {name}"
            )
        if len(kept) >= MAX_TOKENS:
            raise ConflictError(f"there are {MAX_TOKENS} tokens; revoke one: comity token revoke NAME")
        _write(data, (*kept, entry))
    return entry, token


def revoke_token(data: Path, name: str) -> NamedToken:
    """Take a token out of the file."""
    with alone(data / _LOCK_FILE):
        held = list_tokens(data)
        found = next((each for each in held if each.name == name), None)
        if found is None:
            raise NotFoundError(f"there is no token named {name}; `comity token list` shows which there are")
        _write(data, tuple(each for each in held if each is not found))
    return found


def _read(path: Path) -> _Book:
    try:
        book = msgspec.json.decode(read_private(path), type=_Book)
    except msgspec.MsgspecError as fault:
        raise KeyRefusedError(
            f"{path} cannot be read ({fault}); restore it from a backup, or remove it and make new tokens"
        ) from None
    if book.version != 1:
        raise KeyRefusedError(f"{path} is of a newer release (version {book.version}); update comity")
    return book


def _write(data: Path, tokens: tuple[NamedToken, ...]) -> None:
    replace_private(
        data / TOKEN_BOOK_FILE, msgspec.json.format(msgspec.json.encode(_Book(tokens=tokens))) + b"\n"
    )


def _hash_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
