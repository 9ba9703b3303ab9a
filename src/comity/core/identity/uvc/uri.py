"""Value tokens as addresses: `creed://creed.space/family.safe.guide@1.2.0` (vcp 2.1).

Written with dots. Read with dots or slashes between the segments, and under `vcp://` as well.
"""

import re
from typing import Final

from msgspec import Struct

from comity.core.errors import InvalidError, MalformedError
from comity.core.identity.uvc.token import LENGTH_LIMIT, UvcToken, parse_uvc

REGISTRY: Final = "creed.space"

_REGISTRY: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,252}[a-z0-9])?(?::[0-9]{1,5})?")
_URI: Final = re.compile(r"(?:creed|vcp)://([^/]+)/([^@:]*)(.*)", re.IGNORECASE)
_URI_LIMIT: Final = LENGTH_LIMIT + 300


class UvcUri(Struct, frozen=True):
    token: UvcToken
    registry: str = REGISTRY

    def __post_init__(self) -> None:
        if not _REGISTRY.fullmatch(self.registry):
            raise InvalidError(f"the registry of a token is a lower-case host name, like {REGISTRY}")

    def __str__(self) -> str:
        return f"creed://{self.registry}/{self.token}"


def parse_uri(text: str) -> UvcUri:
    """Raises MalformedError or InvalidError for anything else."""
    found = _URI.fullmatch(text) if len(text) <= _URI_LIMIT else None
    if found is None:
        raise MalformedError(f"the address of a token is written as creed://{REGISTRY}/family.safe.guide")
    registry, dotted, rest = found.groups()
    return UvcUri(parse_uvc(dotted.replace("/", ".") + rest), registry.lower())
