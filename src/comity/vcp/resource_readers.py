"""The resources of extensions: their addresses are known here, their readers come with the extensions (vcp 7.2).

- An extension's package adds its reader; an address whose extension is not active, or has no reader, is neither
  listed nor read.
- Resources of a session are handed to a reader only for a session that is the reader's own: `VcpResources` has looked.
  Whoever reads a deliberation decides for itself who takes part.
- What a personal-state reader may answer is a `ModelSafeContext` and nothing else.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.resource_addresses import EXTENSION_ADDRESSES, VcpAddress
from comity.wire.errors import ConfigError


class Owner(Struct, frozen=True, kw_only=True):
    """For whom something is read. `session` is the one that asks, which needs no identity to read what is its
    own; `token_prefix` is the beginning of the id of the token that it came with (`signed_token.log_prefix`).
    """

    identity: Identity | None = None
    session: Session | None = None
    token_prefix: str | None = None

    @property
    def id(self) -> str | None:
        return None if self.identity is None else self.identity.owner


class FadingContent(Struct, frozen=True):
    """Content that stays as it is for so many seconds; None: until somebody changes it."""

    value: Any
    unchanged_for: float | None


Read = Callable[[str, Owner], Awaitable[Mapping[str, Any] | FadingContent]]
"""The content of one resource, by its id. Raises NotFoundError, ForbiddenError."""
Ids = Callable[[Owner], Awaitable[Iterable[str]]]
"""The ids of what may be read for this owner."""


class ResourceReader(Struct, frozen=True):
    read: Read
    ids: Ids


class ResourceReaders:
    def __init__(self) -> None:
        self._readers: dict[str, ResourceReader] = {}

    def add(self, host: str, reader: ResourceReader) -> None:
        if host not in EXTENSION_ADDRESSES or host in self._readers:
            raise ConfigError(
                f"vcp://{host} is not an address of an extension, or has a reader already; "
                f"add one reader for each of {', '.join(EXTENSION_ADDRESSES)}"
            )
        self._readers[host] = reader

    def get(self, host: str, active: Collection[str]) -> ResourceReader | None:
        """The reader of an address while its extension is active."""
        return self._readers.get(host) if EXTENSION_ADDRESSES[host].extension in active else None

    def active(self, active: Collection[str]) -> Iterator[tuple[VcpAddress, ResourceReader]]:
        for host, address in EXTENSION_ADDRESSES.items():
            reader = self.get(host, active)
            if reader is not None:
                yield address, reader
