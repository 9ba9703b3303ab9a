"""Random secrets that programs show each other: made here, kept in files of mode 0600.

A token is made of the characters that an HTTP bearer token may have. It is compared in constant time.
"""

import hmac
import re
import secrets
from pathlib import Path

from comity.identity.private_files import read_or_create_private, read_private
from comity.wire.errors import KeyRefusedError

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
