"""Who belongs to a room that people were invited to.

- The host knows its members by their proven ids. Somebody else has to show the secret of an invite, and the host's record says
  whether it still counts: the machine asks (`AskAdmission`) and holds the hello until the answer is durable.
- Members know each other by tokens made from the secret of the current epoch. The host alone hands it out, over a link whose
  other end has proven its id, in a message with a MAC (`room.epoch`). A guest that has none yet says hello to nobody but the
  host, so an invite's secret, and what is made from it, never reach anybody else.
- A removed member, a revoked invite and one that is used up begin a new epoch for those who stay. Tokens of older epochs are
  refused; a token of a later one waits until the host has told us of it.
- Who is on an admitted link stays on it: hellos are repeated, and the news of an epoch reaches two peers at two moments.
"""

import re
from typing import Any, Final, Literal

from msgspec import Struct

from comity.rooms.protocol import hello as join_token
from comity.rooms.protocol.hello import JoinTokenError
from comity.wire.errors import InvalidError
from comity.wire.machine import Effect, Event

EPOCH_KIND: Final = "room.epoch"
MAX_REMOVED: Final = 256
REMOVED: Final = "removed from the room by its host"
_WHY: Final = ("removed", "revoked", "used_up")
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_MAX_NAMES: Final = 16


class Membership(Struct, frozen=True, kw_only=True):
    """`host` is the id of the node that invited. `n`, `secret` and `exp` are those of the invite that a guest came by; `addrs`
    and `pin` lead to the host's outside door.
    """

    host: str
    n: int = 0
    secret: str = ""
    exp: int = 0
    addrs: tuple[str, ...] = ()
    pin: str | None = None


class Epoch(Struct, frozen=True, kw_only=True):
    """`removed`: the ids of those who were put out; they are refused whatever they show."""

    number: int
    secret: str
    removed: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Epoch({self.number})"


class AskAdmission(Effect, frozen=True):
    """Somebody whom the host does not know shows a token. `AdmissionDecided` follows."""

    uuid: str
    node: str
    stream_id: str
    token: Any

    def __repr__(self) -> str:
        return f"AskAdmission({self.stream_id!r})"


class AdmissionDecided(Event, frozen=True):
    """`refusal` None: the node is a member now."""

    uuid: str
    node: str
    refusal: str | None = None


class MembersChanged(Event, frozen=True):
    """The host begins an epoch. `why` None: nobody needs to be told of more than the secret. `names` are those of the removed."""

    epoch: Epoch
    members: frozenset[str]
    why: str | None = None
    names: tuple[str, ...] = ()


class KeepEpoch(Effect, frozen=True):
    """Remember across a restart what the host told us."""

    epoch: Epoch


class RoomMembers:
    """`epoch` None: a guest that has not met the host yet."""

    def __init__(
        self,
        membership: Membership,
        own_id: str,
        *,
        room: str,
        stream_id: str,
        epoch: Epoch | None,
        members: frozenset[str] = frozenset(),
    ) -> None:
        self._membership = membership
        self._room = room
        self._stream_id = stream_id
        self._own_id = own_id
        self.is_host = membership.host == own_id
        self.epoch = epoch
        self._members = set(members)

    @property
    def may_greet(self) -> bool:
        """Return whether everybody may get our hello: it has a token of the epoch."""
        return self.epoch is not None

    def is_host_id(self, node: str) -> bool:
        return node == self._membership.host

    def is_removed(self, node: str) -> bool:
        return self.epoch is not None and node in self.epoch.removed

    def token(self, exp: int, nonce: str) -> str:
        """Return what we show: a token of the epoch; to the host, before we have one, a token of the invite."""
        invite, epoch = self._membership, self.epoch
        room, stream_id = self._room, self._stream_id
        if epoch is None:
            return join_token.mint(
                invite.secret,
                room=room,
                stream_id=stream_id,
                exp=invite.exp,
                nonce=nonce,
                n=invite.n,
                id=self._own_id,
            )
        return join_token.mint(
            epoch.secret,
            room=room,
            stream_id=stream_id,
            exp=exp,
            nonce=nonce,
            epoch=epoch.number,
            id=self._own_id,
        )

    def judge(
        self, node: str, token: Any, stream_id: str, now_ms: float, *, admitted: bool
    ) -> Literal["admitted", "ask", "wait"]:
        """Raise JoinTokenError for somebody who is refused. `admitted`: it has been on this link, with this key."""
        removed = self.is_removed(node)
        if not removed and (admitted or node in (self._own_id, self._membership.host)):
            return "admitted"
        if self.is_host:
            return "admitted" if node in self._members else "ask"
        if removed:
            raise JoinTokenError(REMOVED)
        number = join_token.unproven_claims(token).get("epoch")
        if type(number) is not int:
            raise JoinTokenError("join token without an epoch")
        if self.epoch is None or number > self.epoch.number:
            return "wait"
        if number < self.epoch.number:
            raise JoinTokenError("join token of an older epoch of this room")
        claims = join_token.admit(
            token, self.epoch.secret, room=self._room, stream_id=stream_id, now_ms=now_ms
        )
        if claims.get("id") != node:  # our hello goes to everybody at the relay: its token is for us alone
            raise JoinTokenError("join token of another node")
        return "admitted"

    def decided(self, node: str) -> None:
        self._members.add(node)

    def changed(self, change: MembersChanged) -> None:
        self.epoch = change.epoch
        self._members = set(change.members)

    def news(self, why: str | None = None, names: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return what the host tells a member."""
        assert self.epoch is not None
        return {
            "epoch": self.epoch.number,
            "secret": self.epoch.secret,
            "removed": list(self.epoch.removed),
            "why": why,
            "names": list(names),
        }

    def read_news(self, payload: dict[str, Any]) -> tuple[Epoch, str | None, tuple[str, ...]] | None:
        """Return the epoch that the host begins, why, and whom it removed; None if we know it. Raise InvalidError."""
        number, secret, removed = payload.get("epoch"), payload.get("secret"), payload.get("removed")
        why, names = payload.get("why"), payload.get("names")
        if (
            type(number) is not int
            or not 0 < number < 2**53
            or not _is_hex(secret)
            or type(removed) is not list
            or len(removed) > MAX_REMOVED
            or not all(map(_is_hex, removed))
            or type(names) is not list
            or not all(isinstance(name, str) for name in names[:_MAX_NAMES])
        ):
            raise InvalidError("malformed")
        if self.epoch is not None and number <= self.epoch.number:
            if number < self.epoch.number or secret != self.epoch.secret:
                raise InvalidError("older")
            return None
        epoch = Epoch(number=number, secret=str(secret), removed=tuple(removed))
        shown = tuple(name[:64] for name in names[:_MAX_NAMES])
        return epoch, why if why in _WHY else None, shown


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None
