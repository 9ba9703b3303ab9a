"""Receipts as files: read with a limit before anything is parsed, written whole and never over another file."""

import contextlib
import os
import stat
import sys
from pathlib import Path
from typing import Final

from comity.receipts.protocol.format import MAX_BYTES
from comity.wire.errors import ConfigError, InvalidError

STDIN: Final = "-"


def read_file(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`. Raise InvalidError for what cannot be a receipt."""
    if name == STDIN:
        data = sys.stdin.buffer.read(MAX_BYTES + 2)
    else:
        path = Path(name).expanduser()
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise InvalidError(f"{name} is not a file; name the file of a receipt")
            with path.open("rb") as file:
                data = file.read(MAX_BYTES + 2)
        except FileNotFoundError:
            raise InvalidError(f"there is no file {name}; check the path") from None
        except (OSError, ValueError) as reason:
            said = (getattr(reason, "strerror", None) or str(reason)).lower()
            raise InvalidError(f"{name} cannot be read: {said}") from None
    if len(data) > MAX_BYTES + 1:
        raise InvalidError(f"{name} has more than {MAX_BYTES:,} bytes; a receipt is smaller")
    return data


def refuse_existing(name: str | None) -> None:
    """Raise ConfigError if the file is there: before the work whose receipt it would be."""
    if name is not None and Path(name).expanduser().exists():
        raise ConfigError(f"{name} exists already; name a new file")


def write_file(name: str, data: bytes) -> None:
    """Write a receipt for the owner's eyes. The file appears whole or not at all."""
    path = Path(name).expanduser()
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        raise ConfigError(f"{name} exists already; name a new file") from None
    except OSError as reason:
        said = (reason.strerror or str(reason)).lower()
        raise ConfigError(f"{name} cannot be written: {said}; name another file") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()
