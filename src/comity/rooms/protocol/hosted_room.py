"""What a host keeps of a room that it invites to, and what becomes of it: who belongs to it, which invite is open, which epoch it is.

Each step returns the record after it; the shell stores that in one transaction with its audit entry, and only then acts on it.
Randomness and time come in.
"""

from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.rooms.protocol import hello as join_token
from comity.rooms.protocol.hello import JoinTokenError
from comity.rooms.protocol.invite import RIGHTS, invite_secret
from comity.rooms.protocol.membership import MAX_REMOVED, REMOVED, Epoch
from comity.wire.errors import InvalidError, NotFoundError

MAX_MEMBERS: Final = 256


class OpenInvite(Struct, frozen=True, kw_only=True):
    """`exp` is in milliseconds since 1970; `left`: how many people may still come by it."""

    n: int
    exp: int
    uses: int
    left: int
    rights: tuple[str, ...] = RIGHTS


class Member(Struct, frozen=True):
    """`name` is the stream id that it came with, `n` the invite that it came by."""

    id: str
    name: str
    n: int


class HostedRoom(Struct, frozen=True, kw_only=True):
    """`relay` is what the owner named: an address or a relay's line; None: what the node uses by default."""

    room: str
    room_id: str
    password: str
    epoch: Epoch
    n: int = 0
    relay: str | None = None
    door: bool = False
    invite: OpenInvite | None = None
    members: tuple[Member, ...] = ()
    since: float = 0.0

    def __repr__(self) -> str:
        return f"HostedRoom({self.room!r}, epoch={self.epoch.number}, members={len(self.members)})"

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.members)

    def open_invite(self, now_ms: float) -> OpenInvite | None:
        """Return the invite that somebody can still come in by."""
        return None if self.invite is None or self.invite.exp < now_ms else self.invite

    def with_invite(self, *, exp: int, uses: int, relay: str | None, door: bool = False) -> "HostedRoom":
        invite = OpenInvite(n=self.n + 1, exp=exp, uses=uses, left=uses)
        return replace(self, n=self.n + 1, invite=invite, relay=relay, door=door)

    def revoked(self, secret: str) -> "HostedRoom":
        return replace(self, invite=None, epoch=self._next(secret))

    def without(self, name: str, secret: str) -> tuple["HostedRoom", Member]:
        """Return the room without a member, found by its name or id. The invite that it came by ends too: it knows the line."""
        found = [one for one in self.members if name in (one.name, one.id)]
        if not found:
            known = ", ".join(sorted(one.name for one in self.members)) or "nobody"
            raise NotFoundError(f"{name[:80]} is not a member of the room {self.room}; members: {known}")
        if len(found) > 1:
            raise InvalidError(f"several members are called {name[:80]}; name one by its id")
        member = found[0]
        removed = (*(one for one in self.epoch.removed if one != member.id), member.id)[-MAX_REMOVED:]
        knows_the_line = self.invite is not None and self.invite.n == member.n
        after = replace(
            self,
            epoch=replace(self._next(secret), removed=removed),
            members=tuple(one for one in self.members if one is not member),
            invite=None if knows_the_line else self.invite,
        )
        return after, member

    def admit(
        self, node: str, name: str, token: Any, node_secret: bytes, *, now_ms: float, secret: str
    ) -> "HostedRoom":
        """Return the room with a new member. Raise JoinTokenError with the reason that the other side gets."""
        if node in self.ids:
            return self
        claims = join_token.unproven_claims(token)
        n, exp = claims.get("n"), claims.get("exp")
        was_removed = node in self.epoch.removed
        if type(n) is not int or type(exp) is not int:
            raise JoinTokenError(
                REMOVED if was_removed else "you are not a member; ask the host for an invite"
            )
        # the signature first: who does not hold an invite learns nothing of it
        join_token.admit(
            token,
            invite_secret(node_secret, self.room, n, exp),
            room=self.room,
            stream_id=name,
            now_ms=now_ms,
        )
        if claims.get("id") != node:
            raise JoinTokenError("join token of another node")
        invite = self.invite
        if invite is None or invite.n != n or invite.left < 1:
            raise JoinTokenError("the invite was used or revoked; ask for a new one")
        if len(self.members) >= MAX_MEMBERS:
            raise JoinTokenError(f"a room has at most {MAX_MEMBERS} members")
        members = (*self.members, Member(node, name, n))
        open_still = replace(invite, left=invite.left - 1) if invite.left > 1 else None
        epoch = self.epoch
        if open_still is None or was_removed:  # whoever was removed got this line from the owner since
            others = tuple(one for one in epoch.removed if one != node)
            epoch = replace(self._next(secret), removed=others)
        return replace(self, members=members, invite=open_still, epoch=epoch)

    def _next(self, secret: str) -> Epoch:
        return Epoch(number=self.epoch.number + 1, secret=secret, removed=self.epoch.removed)
