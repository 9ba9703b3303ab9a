"""The keys of the own identity: those that were replaced, and how one takes the place of another.

    {"format": "comity succession", "version": 1, "line": [STATEMENT, ...]}

A replacement writes the statement first and the identity second. Until the identity is written, the old key works and
the statement is not used: the line ends at the key that `identity.json` holds. Afterwards the new key works.
"""

import contextlib
import os
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from comity.identity.key_files import (
    IdentityFile,
    KeptInKeyring,
    KeptSecret,
    damaged,
    encode_file,
    forget,
    has_identity,
    identity_path,
    kept_secret,
    read_identity,
    recovery_public,
    store,
)
from comity.identity.private_files import read_private, replace_private
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.identity.protocol.succession import Succession, check_line, recovery_hash
from comity.wire.errors import ComityError, KeyRefusedError

SUCCESSION_FILE: Final = "succession.json"


class _SuccessionFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: Literal["comity succession"] = "comity succession"
    version: Literal[1] = 1
    line: tuple[Succession, ...]


class OwnLine(Struct, frozen=True):
    """The keys of the own identity: the current one, and the statements that lead to it."""

    current: VacantId
    statements: tuple[Succession, ...] = ()
    recovery: str = ""

    @property
    def former(self) -> tuple[VacantId, ...]:
        """Return the keys that were replaced, the newest first."""
        return tuple(VacantId.from_hex(each.old) for each in reversed(self.statements))

    @property
    def publics(self) -> tuple[bytes, ...]:
        """Return the keys whose signatures are our own, the current one first."""
        return self.current.public, *(each.public for each in self.former)

    def policy(self) -> dict[str, Any]:
        """Return what the own card says of the keys."""
        said: dict[str, Any] = {"recovery": self.recovery} if self.recovery else {}
        if self.statements:
            said["succession"] = [each.as_json() for each in self.statements]
        return said


def read_own_line(data_dir: Path, current: VacantId) -> OwnLine:
    """Return the keys of the folder, up to the current one. A statement whose replacement was not finished does not count."""
    public = recovery_public(data_dir)
    line: list[Succession] = []
    for statement in _read_statements(data_dir):
        if statement.old == current.hex():
            break
        line.append(statement)
    if line and line[-1].new != current.hex():  # the identity of the folder is another one
        line = []
    return OwnLine(current, tuple(line), recovery_hash(public.public) if public else "")


def replace_identity(
    data_dir: Path, line: tuple[Succession, ...], key: SigningKey, *, passphrase: str | None, in_keyring: bool
) -> None:
    """Make `key` the identity of the folder. The line ends with the statement about it."""
    former = None
    if has_identity(data_dir):
        with contextlib.suppress(KeyRefusedError):  # a lost key may be one in a damaged file
            former = read_identity(identity_path(data_dir))
    secret: KeptSecret = KeptInKeyring() if in_keyring else kept_secret(key, passphrase)
    if in_keyring:
        store(key)
    replace_private(data_dir / SUCCESSION_FILE, encode_file(_SuccessionFile(line=line)))
    replace_private(
        identity_path(data_dir), encode_file(IdentityFile(public=key.vacant_id.hex(), secret=secret))
    )
    if former is not None and isinstance(former.secret, KeptInKeyring):
        forget(VacantId.from_hex(former.public))


def _read_statements(data_dir: Path) -> tuple[Succession, ...]:
    path = data_dir / SUCCESSION_FILE
    if not os.path.lexists(path):
        return ()
    try:
        line = msgspec.json.decode(read_private(path), type=_SuccessionFile).line
        check_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise damaged(path) from None
    except KeyRefusedError:
        raise
    except ComityError:
        raise damaged(path) from None
    return line
