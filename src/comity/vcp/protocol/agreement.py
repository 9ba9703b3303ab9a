"""A session: what two sides have agreed on, for every door and room behind the handshake.

An extension is active in a session or it is not there at all; nothing is sent, stored or answered for an
inactive one.
"""

from typing import Any, Literal

from msgspec import Struct

from comity.vcp.protocol import versions
from comity.vcp.protocol.versions import Version

Mode = Literal["negotiated", "implicit"]


class Identity(Struct, frozen=True, kw_only=True):
    """Who stands behind a session, as a token that was accepted says; never the token itself.

    `owner` is whom stored things belong to. It is None where nobody vouches for the token: then the sender is
    anonymous for storage and ownership, whatever the token says (ruling 20). `jtis` are the ids under which the token
    may be revoked while the session is open.
    """

    issuer: str | None = None
    subject: str | None = None
    owner: str | None = None
    jtis: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        return self.owner is not None


class Session(Struct, frozen=True, kw_only=True):
    """An `implicit` session is VCP 1.0: the client sent no hello and got no ack."""

    id: str
    version: str
    extensions: tuple[str, ...] = ()
    capabilities: dict[str, dict[str, Any]] = {}
    core_features: dict[str, bool] = {}
    identity: Identity | None = None
    mode: Mode = "negotiated"

    def active(self, extension: str) -> bool:
        return extension in self.extensions

    @property
    def speaks(self) -> Version:
        return versions.parse(self.version)
