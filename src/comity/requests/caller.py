"""The caller: who sends a message, how that was proven, and what they may do.

The guard of a door makes it, the pipeline carries it, the handler decides by it, and the audit entry names it. What a caller
owns (sessions, tasks, stored context) is stored under its `owner`. Two callers with the same `owner` are the same caller,
with the rights of the way each came.
"""

from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

from comity.identity.protocol.rights import OWN, RIGHTS_OF, SCOPES, Kind, Right

Proof = Literal[
    "none", "own process", "owner socket", "token", "cookie", "access token", "signature", "vcp token"
]

_SHORT: Final = 8


class Caller(Struct, frozen=True, kw_only=True, dict=True):
    """`kind` says which way it came, and so which rights it has (`identity/protocol/rights.py`). The kinds of the node's own user are one
    owner; the others are distinguished by `id`: the subject of an access token, the id of a vacant, the name of a peer. Of
    one of the user's tokens `id` is the name. `address` is where it comes from, as limits are counted. `scopes` are those
    of an access token.
    """

    kind: Kind = "unknown"
    id: str = ""
    address: str = ""
    proof: Proof = "none"
    scopes: tuple[str, ...] = ()

    @cached_property
    def is_local(self) -> bool:
        """Return whether it is the node's own user."""
        return self.kind in OWN

    @cached_property
    def rights(self) -> frozenset[Right]:
        given = RIGHTS_OF[self.kind]
        if self.kind != "oauth":
            return given
        return given | {right for scope, right in SCOPES.items() if scope in self.scopes}

    def may(self, right: Right) -> bool:
        return right in self.rights

    @cached_property
    def family(self) -> str:
        """Return the kind, with all kinds of the node's own user as `local`."""
        return "local" if self.is_local else self.kind

    @cached_property
    def owner(self) -> str:
        if self.is_local:
            return "local"
        return f"{self.kind}:{self.id}" if self.id else self.kind

    @cached_property
    def short(self) -> str:
        """Return the caller as an event names it: `<family>:<short>`. Of the node's own user that is the kind, and the name of the token."""
        if self.is_local:
            return f"local:{self.kind}:{self.id}" if self.id else f"local:{self.kind}"
        if not self.id:
            return f"{self.kind}:-"
        shown = self.id if self.kind == "vacant" else sha256(self.id.encode()).hexdigest()
        return f"{self.kind}:{shown[:_SHORT]}"

    @cached_property
    def label(self) -> str:
        """Return the check of an audit entry that names the caller: `caller:<family>:<short>`."""
        return f"caller:{self.short}"


UNKNOWN: Final = Caller()
OWN_PROCESS: Final = Caller(kind="terminal", address="127.0.0.1", proof="own process")
"""A process of this user: the node itself, or a command that works on the files of the data folder."""
MODEL: Final = Caller(kind="model", address="127.0.0.1", proof="own process")
"""An MCP client of this user, on stdio or the MCP socket."""


@lru_cache(4096)  # made for every message
def anonymous(address: str) -> Caller:
    """Return a caller of which only the address is known."""
    return Caller(address=address)


@lru_cache(4096)  # same
def vacant(id_: str, address: str = "") -> Caller:
    """Return the caller that proved by a signature to be the vacant of that id."""
    return Caller(kind="vacant", id=id_, address=address, proof="signature")


@lru_cache(4096)  # same
def vcp_identity(id_: str, address: str = "") -> Caller:
    """Return the identity of a VCP session whose token verified."""
    return Caller(kind="vcp", id=id_, address=address, proof="vcp token")


@lru_cache(4096)  # same
def room_peer(id_: str, proof: Proof = "none") -> Caller:
    """Return a peer of a room: the node that it has proven to be, or else its name there."""
    return Caller(kind="peer", id=id_, proof=proof)


@lru_cache(4096)  # same
def own_user(kind: Kind, address: str, proof: Proof, token_name: str = "") -> Caller:
    """Return the node's own user, of one of the kinds in `rights.OWN`."""
    return Caller(kind=kind, address=address, proof=proof, id=token_name)
