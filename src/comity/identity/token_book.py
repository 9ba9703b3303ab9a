"""The tokens that the node's own user made for programs: `tokens.json`, with a hash of each and never the token.

- A token is shown once, when it is made. It says what it may do (`rights.Grant`) and may expire.
- The file is read again when it has changed, so a token that is revoked is refused at the next request.
- A file that cannot be read gives nobody access: the node says so in its log, `comity token list` says what to do.
"""

import hashlib
import logging
import os
import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from comity.identity.private_files import alone, read_private, replace_private
from comity.identity.protocol.rights import Grant
from comity.identity.secrets import new_token
from comity.wire.errors import ConflictError, InvalidError, KeyRefusedError, NotFoundError
from comity.wire.machine import Clock

log = logging.getLogger("comity.node")

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
        state = _state_of(self._path)
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
    return _read(data / TOKEN_BOOK_FILE).tokens if _state_of(data / TOKEN_BOOK_FILE) else ()


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


def _state_of(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file is written again; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
