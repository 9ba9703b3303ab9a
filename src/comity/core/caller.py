"""The caller: who sends a message, how that was proven, and what they may do.

The guard of a door makes it, the walk carries it, the room decides by it, and the audit entry names it. What a caller
owns (sessions, tasks, stored context) is stored under its `owner`. Two callers with the same `owner` are the same caller.
"""

from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Final, Literal

from msgspec import Struct

Kind = Literal["local", "oauth", "vacant", "vcp", "peer", "unknown"]
Proof = Literal[
    "none",
    "token",
    "cookie",
    "read token",
    "read cookie",
    "own process",
    "access token",
    "signature",
    "vcp token",
]

_SHORT: Final = 8


class Caller(Struct, frozen=True, kw_only=True, dict=True):
    """`kind` is local for the node's own user, oauth for a visitor with an access token, vacant for whoever signed an
    envelope, vcp for the identity of a VCP session, peer for a peer of a room. `address` is where it comes from, as
    limits are counted. `scopes` are those of an access token.
    """

    kind: Kind = "unknown"
    id: str = ""
    address: str = ""
    proof: Proof = "none"
    scopes: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        return self.kind == "local"

    @property
    def reads_only(self) -> bool:
        """Whether it came with the token that only reads, or with a link of that kind."""
        return self.proof in {"read token", "read cookie"}

    @cached_property
    def owner(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else self.kind

    @cached_property
    def short(self) -> str:
        """As an event names it: `<kind>:<short>`."""
        if not self.id:
            return f"{self.kind}:-"
        shown = self.id if self.kind == "vacant" else sha256(self.id.encode()).hexdigest()
        return f"{self.kind}:{shown[:_SHORT]}"

    @cached_property
    def label(self) -> str:
        """As an audit entry names it: `caller:<kind>:<short>`."""
        return f"caller:{self.short}"


UNKNOWN: Final = Caller()
OWN_PROCESS: Final = Caller(kind="local", address="127.0.0.1", proof="own process")
"""Whoever runs a process of this user: the command line, a client that started `comity mcp`."""


@lru_cache(4096)  # made for every message
def stranger(address: str) -> Caller:
    """A caller without a proven identity; only its address is known."""
    return Caller(address=address)


@lru_cache(4096)  # same
def vacant(id_: str, address: str = "") -> Caller:
    """Whoever proved by a signature to be the vacant of that id."""
    return Caller(kind="vacant", id=id_, address=address, proof="signature")


@lru_cache(4096)  # same
def vcp_identity(id_: str, address: str = "") -> Caller:
    """The identity of a VCP session whose token verified."""
    return Caller(kind="vcp", id=id_, address=address, proof="vcp token")


@lru_cache(4096)  # same
def room_peer(id_: str, proof: Proof = "none") -> Caller:
    """A peer of a room: the node that it has proven to be, or else the name it has there."""
    return Caller(kind="peer", id=id_, proof=proof)


@lru_cache(4096)  # same
def local_user(address: str, proof: Proof) -> Caller:
    return Caller(kind="local", address=address, proof=proof)
