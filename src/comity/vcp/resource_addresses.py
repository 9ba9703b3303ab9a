"""The addresses of the nine resources of VCP (vcp 7.2): what each is called and which extension it belongs to."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from comity.vcp.protocol.agreement import Identity, Session
from comity.vcp.protocol.messages import CONSENSUS, INTENT, PERSONAL, RELATIONAL, TORCH
from comity.wire.errors import ConfigError

MIME_TYPE: Final = "application/json"


class VcpAddress(Struct, frozen=True, kw_only=True):
    """`vcp://{host}/{parameter}`. `extension` is None for what everybody has."""

    host: str
    parameter: str | None
    title: str
    description: str
    extension: str | None = None

    @property
    def of_session(self) -> bool:
        return self.parameter == "session_id"

    def uri(self, id_: str | None = None) -> str:
        return f"vcp://{self.host}" if id_ is None else f"vcp://{self.host}/{id_}"


CAPABILITIES: Final = VcpAddress(
    host="capabilities",
    parameter=None,
    title="VCP capabilities",
    description="Versions, extensions and core features of this server",
)
BUNDLE: Final = VcpAddress(
    host="bundle",
    parameter="session_id",
    title="Bundle",
    description="What a session was promised, its constitution, and what a model may know of its context",
)
IDENTITY: Final = VcpAddress(
    host="identity",
    parameter="token",
    title="Identity",
    description="What a value token says; or who you are, by the first 8 digits of your token's SHA-256",
)
CONSTITUTION: Final = VcpAddress(
    host="constitution",
    parameter="csm1_code",
    title="Constitution",
    description="What a CSM-1 code means",
)

EXTENSION_ADDRESSES: Final[Mapping[str, VcpAddress]] = {
    address.host: address
    for address in (
        VcpAddress(
            host="personal-state",
            parameter="session_id",
            title="Personal state",
            description="How much care the person in a session needs, and no more than that",
            extension=PERSONAL,
        ),
        VcpAddress(
            host="relational",
            parameter="session_id",
            title="Relational context",
            description="Trust, standing and norms between the two sides of a session",
            extension=RELATIONAL,
        ),
        VcpAddress(
            host="consensus",
            parameter="deliberation_id",
            title="Deliberation",
            description="Phase, clauses and results of a deliberation",
            extension=CONSENSUS,
        ),
        VcpAddress(
            host="torch",
            parameter="session_id",
            title="Torch",
            description="What a session hands on to the next one",
            extension=TORCH,
        ),
        VcpAddress(
            host="intent",
            parameter="session_id",
            title="Intent",
            description="What the person in a session seems to be after, with alternatives",
            extension=INTENT,
        ),
    )
}
# vcp 7.2: the newest text has another name for this one
ALIASES: Final[Mapping[str, str]] = {"deliberation": "consensus"}


def core_templates() -> list[dict[str, Any]]:
    """Those that everybody sees."""
    return [template(address) for address in (BUNDLE, IDENTITY, CONSTITUTION)]


def template(address: VcpAddress) -> dict[str, Any]:
    return {"uriTemplate": address.uri(f"{{{address.parameter}}}"), **_described(address)}


def shown(address: VcpAddress, id_: str | None = None) -> dict[str, Any]:
    """One resource, as it is listed."""
    return {"uri": address.uri(None if id_ is None else quote(id_, safe="")), **_described(address)}


def _described(address: VcpAddress) -> dict[str, Any]:
    return {
        "name": f"vcp_{address.host.replace('-', '_')}",
        "title": address.title,
        "description": address.description,
        "mimeType": MIME_TYPE,
    }


# The resources of extensions: their addresses are known here, their readers come with the extensions (vcp 7.2).


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
