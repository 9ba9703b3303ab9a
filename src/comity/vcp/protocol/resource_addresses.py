"""The addresses of the resources of VCP that everybody has, and how any of them is listed (vcp 7.2)."""

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

from msgspec import Struct

MIME_TYPE: Final = "application/json"

StateScope = Literal["session", "owner", "shared"]
"""To whom state belongs: a session, an owner, or several parties."""


class VcpAddress(Struct, frozen=True, kw_only=True):
    """`vcp://{host}/{parameter}`. `extension` is None for what everybody has; `scope` is the state that it shows."""

    host: str
    parameter: str | None
    title: str
    description: str
    extension: str | None = None
    scope: StateScope = "session"

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
    host="constitution", parameter="csm1_code", title="Constitution", description="What a CSM-1 code means"
)

# vcp 7.2: the newest text has another name for this one
ALIASES: Final[Mapping[str, str]] = {"deliberation": "consensus"}


def core_templates() -> list[dict[str, Any]]:
    """Those that everybody sees."""
    return [template(address) for address in (BUNDLE, IDENTITY, CONSTITUTION)]


def template(address: VcpAddress) -> dict[str, Any]:
    return {"uriTemplate": address.uri(f"{{{address.parameter}}}"), **_described(address)}


def shown(address: VcpAddress, id_: str | None = None) -> dict[str, Any]:
    """Return one resource, as it is listed."""
    return {"uri": address.uri(None if id_ is None else quote(id_, safe="")), **_described(address)}


def _described(address: VcpAddress) -> dict[str, Any]:
    return {
        "name": f"vcp_{address.host.replace('-', '_')}",
        "title": address.title,
        "description": address.description,
        "mimeType": MIME_TYPE,
    }
