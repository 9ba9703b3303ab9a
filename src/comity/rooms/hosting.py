"""The rooms that this node invites to: who may come by which invite, who belongs to them, who was removed.

- There is one record for a room. Each step is stored with its audit entry before anybody hears of it, and steps follow one
  another, so an invite for one person lets in one, however many come at once or the node ends meanwhile.
- An invite is one line, made anew from the record and the addresses that hold now. No secret of one is stored.
- Nobody is thrown out by a revoked invite; the members get the secret of a new epoch, and whoever is no member finds nobody.
"""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from comity.contacts.protocol.contact import Consent, ContactRights
from comity.contacts.service import Contacts
from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS, room_peer
from comity.rooms.live import LiveRoom
from comity.rooms.protocol.hello import JoinTokenError
from comity.rooms.protocol.hosted_room import HostedRoom, OpenInvite
from comity.rooms.protocol.invite import MAX_USES, RIGHTS, Invite, InviteRelay, invite_secret
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.membership import AdmissionDecided, AskAdmission, Epoch, MembersChanged
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.rooms.storage import RoomStore
from comity.wire.errors import ComityError, ConflictError, InvalidError, NotFoundError
from comity.wire.machine import Clock

MAX_HOSTED: Final = 256


class WayToHost(Struct, frozen=True, kw_only=True):
    """What an invite says of the way: relays, or the addresses of the outside door and its pin."""

    relays: tuple[InviteRelay, ...] = ()
    addrs: tuple[str, ...] = ()
    pin: str | None = None


class HostedRooms:
    """`live` gives the sessions of this node. Whoever comes by an invite, and whoever lets us in by one, becomes a contact."""

    def __init__(
        self,
        key: SigningKey,
        keeping: RoomStore,
        clock: Clock,
        live: Callable[[], Iterable[LiveRoom]],
        contacts: Contacts,
    ) -> None:
        self._contacts = contacts
        self._id = key.vacant_id.hex()
        self._secret = hashlib.sha256(b"comity invite secret\n" + key.seed).digest()
        self._keeping = keeping
        self._clock = clock
        self._live = live
        self._rooms: dict[str, HostedRoom] = {}
        self._changing = asyncio.Lock()

    async def restore(self) -> None:
        for hosted in await self._keeping.hosted():
            self._rooms.setdefault(hosted.room, hosted)

    def find(self, room: str | None) -> HostedRoom | None:
        return None if room is None else self._rooms.get(room)

    def of_session(self, live: LiveRoom) -> HostedRoom | None:
        """Return the room that a session is the host of."""
        options = live.session.options
        is_host = options.membership is not None and options.membership.host == self._id
        return self.find(options.room) if is_host else None

    def open_invites(self) -> list[tuple[HostedRoom, OpenInvite]]:
        """Return those that somebody can still come in by."""
        now = self._now_ms()
        found = [(one, invite) for one in self._rooms.values() if (invite := one.open_invite(now))]
        return sorted(found, key=lambda one: one[1].exp)

    def invites_into(self, room_id: str) -> bool:
        """Return whether somebody can come by an invite into the room with this id at the relay."""
        return any(hosted.room_id == room_id for hosted, _ in self.open_invites())

    def in_use(self) -> list[HostedRoom]:
        """Return the rooms that this node is in, or has an open invite to."""
        here = [hosted for live in self._live() if (hosted := self.of_session(live))]
        return [*here, *(hosted for hosted, _ in self.open_invites() if hosted not in here)]

    def invite_of(self, hosted: HostedRoom, way: WayToHost) -> Invite:
        """Return the open invite of a room; for the node's own sessions the last one will do."""
        last = hosted.invite or OpenInvite(n=max(hosted.n, 1), exp=1, uses=1, left=0)
        return Invite(
            room=hosted.room,
            n=last.n,
            id=self._id,
            addrs=way.addrs,
            pin=way.pin,
            relays=way.relays,
            password=hosted.password,
            secret=invite_secret(self._secret, hosted.room, last.n, last.exp),
            exp=last.exp,
            uses=last.uses,
            rights=last.rights,
        )

    async def invite(
        self,
        room: str,
        *,
        seconds: float,
        uses: int | None,
        relay: str | None,
        door: bool = False,
    ) -> HostedRoom:
        """Return the room with an open invite: the one that is there, unless another number of people is asked for. `door`: it
        needs the outside door, from now on.
        """
        name = sanitize_id(room)
        if name is None:
            raise InvalidError("the room needs a name of letters, digits and _")
        if uses is not None and not (type(uses) is int and 1 <= uses <= MAX_USES):
            raise InvalidError(f"an invite is for 1 to {MAX_USES} people")
        async with self._changing:
            hosted = self._rooms.get(name) or self._new(name)
            self._check_relay(hosted, relay)
            invite = hosted.open_invite(self._now_ms())
            door = door or hosted.door
            if invite is not None and uses in (None, invite.uses) and relay in (None, hosted.relay):
                if door == hosted.door:
                    return hosted
                after = replace(hosted, door=door)
            else:
                await self._make_space(name)
                exp = int((self._clock.now() + seconds) * 1000)
                relay = hosted.relay if relay is None else relay
                after = hosted.with_invite(exp=exp, uses=uses or 1, relay=relay, door=door)
            await self._keep(after, "ROOM_INVITED")
            return after

    async def revoke(self, room: str) -> HostedRoom:
        """Take back the open invite of a room. Its members stay."""
        async with self._changing:
            hosted = self._rooms.get(room)
            if hosted is None or hosted.open_invite(self._now_ms()) is None:
                raise InvalidError(
                    f"there is no invite to the room {room[:80]}; `comity room invites` lists those that are valid"
                )
            after = hosted.revoked(_new_secret())
            await self._keep(after, "ROOM_INVITE_REVOKED")
        self._tell(after, "revoked")
        return after

    async def remove(self, room: str, name: str) -> tuple[HostedRoom, str]:
        """Put a member out, for good unless it is invited again. Return the room and the name of the member."""
        async with self._changing:
            hosted = self._rooms.get(room)
            if hosted is None:
                raise NotFoundError(
                    f"this node does not host the room {room[:80]}; only the node that invited can remove somebody"
                )
            after, member = hosted.without(name, _new_secret())
            await self._keep(after, "ROOM_MEMBER_REMOVED")
        self._tell(after, "removed", (member.name,))
        return after, member.name

    async def decide(self, live: LiveRoom, asked: AskAdmission) -> None:
        """Look whether the token of somebody unknown still counts, and answer when that is durable."""
        refusal = None
        try:
            await self._admit(live, asked)
        except JoinTokenError as why:
            refusal = why.message
        except ComityError:
            refusal = "the host cannot admit anybody now; try again later"
        live.handle_event(AdmissionDecided(asked.uuid, asked.node, refusal))

    async def _admit(self, live: LiveRoom, asked: AskAdmission) -> None:
        async with self._changing:
            hosted = self.of_session(live)
            if hosted is None:
                raise JoinTokenError("this node does not host the room any more")
            after = hosted.admit(
                asked.node,
                asked.stream_id,
                asked.token,
                self._secret,
                now_ms=self._now_ms(),
                secret=_new_secret(),
            )
            if after is hosted:
                return
            caller = room_peer(asked.node, "signature")
            await self._keeping.keep_hosted(after, "ROOM_MEMBER_ADMITTED", caller)
            self._rooms[after.room] = after
            rights = RIGHTS if hosted.invite is None else hosted.invite.rights
        await self._add_contact(asked.node, asked.stream_id, after.room, rights)
        self._tell(after, "used_up" if after.epoch.number != hosted.epoch.number else None)

    async def met_host(self, live: LiveRoom) -> None:
        """The host of a room has let us in by its invite."""
        options = live.session.options
        membership = options.membership
        assert membership is not None, "only a guest meets a host"
        name = live.session.stream_of(membership.host) or options.room
        await self._add_contact(
            membership.host,
            name,
            options.room,
            RIGHTS,
            addresses=tuple(f"https://{address}" for address in membership.addrs),
            pins=() if membership.pin is None else (membership.pin,),
        )

    async def _add_contact(
        self,
        node: str,
        name: str,
        room: str,
        rights: tuple[str, ...],
        *,
        addresses: tuple[str, ...] = (),
        pins: tuple[str, ...] = (),
    ) -> None:
        """Calls of a new contact wait for the owner's word; an older contact stays as it is."""
        granted: dict[str, Consent] = dict.fromkeys(rights, "accept")
        with contextlib.suppress(ConflictError):
            await self._contacts.add(
                self._contacts.free_name(name),
                node,
                caller=OWN_PROCESS,
                addresses=addresses,
                pins=pins,
                rights=ContactRights(
                    call="hold",
                    room=granted.get("room", "hold"),
                    file=granted.get("file", "hold"),
                    wake=granted.get("wake", "refuse"),
                ),
                how=f"invite to {room}",
            )

    async def _keep(self, hosted: HostedRoom, result: str) -> None:
        await self._keeping.keep_hosted(hosted, result, OWN_PROCESS)
        self._rooms[hosted.room] = hosted

    def _tell(self, hosted: HostedRoom, why: str | None, names: tuple[str, ...] = ()) -> None:
        change = MembersChanged(hosted.epoch, hosted.ids, why, names)
        for live in self._live():
            if self.of_session(live) is hosted:
                live.handle_event(change)

    def _new(self, name: str) -> HostedRoom:
        password = secrets.token_urlsafe(24)
        return HostedRoom(
            room=name,
            room_id=RoomCipher(effective_password(password)).room_id(name),
            password=password,
            epoch=Epoch(number=1, secret=_new_secret()),
            since=self._clock.now(),
        )

    def _check_relay(self, hosted: HostedRoom, relay: str | None) -> None:
        if relay in (None, hosted.relay):
            return
        if any(self.of_session(live) is hosted for live in self._live()):
            raise InvalidError(
                f"this node is in the room {hosted.room} at another relay; `comity room leave {hosted.room}` first"
            )

    async def _make_space(self, name: str) -> None:
        """Forget the oldest room that nobody can come into any more, where there are too many."""
        if name in self._rooms or len(self._rooms) < MAX_HOSTED:
            return
        now = self._now_ms()
        in_use = {hosted.room for live in self._live() if (hosted := self.of_session(live))}
        idle = [
            one for one in self._rooms.values() if one.room not in in_use and one.open_invite(now) is None
        ]
        if not idle:
            raise InvalidError(f"{MAX_HOSTED} rooms have open invites; revoke one")
        oldest = min(idle, key=lambda one: one.since)
        await self._keeping.forget_hosted(oldest.room, OWN_PROCESS)
        del self._rooms[oldest.room]

    def _now_ms(self) -> float:
        return self._clock.now() * 1000


def _new_secret() -> str:
    return secrets.token_hex(32)
