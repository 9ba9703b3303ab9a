"""The sessions of a node in rooms, and the invites it gave (rulings 61, 62).

- A session belongs to the node and its owner. Every client sees those that meet its demands, and reads events at its own
  pace; a client that says exit ends those that it opened.
- There is one session for a room and a stream id. Who connects under the same ones again gets that session.
- Sessions are opened again after a restart, under their ids, by whichever process of this data folder has their lease.
- The rooms that this node invites to are in `hosting`.
"""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from msgspec.structs import replace

from comity.contacts.part import contacts_of
from comity.envelopes.part import witnesses_of
from comity.requests.caller import OWN_PROCESS, Caller
from comity.rooms.hosting import HostedRooms
from comity.rooms.live import LiveRoom, RoomLinks
from comity.rooms.paths import FilePaths
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import Invite, is_invite, read_invite
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.spool import Spool
from comity.rooms.storage import KeptSession, Restored, RoomStore
from comity.rooms.witness import RoomWitness
from comity.runtime.node_runtime import NodeRuntime
from comity.wire.errors import ComityError

log = logging.getLogger("comity.rooms")

MAX_SESSIONS: Final = 64
FORGOTTEN_AFTER: Final = 30 * 86_400.0
_SPOOL: Final = "spool"


class Relays(Protocol):
    """`own` is the address of the node's own relay, None where it has none; `default` the one that is used where nothing
    else is named.
    """

    @property
    def own(self) -> str | None: ...

    @property
    def default(self) -> str | None: ...

    def is_own(self, host: str) -> bool: ...

    def pin_of(self, host: str) -> str | None:
        """Return the pin of the relay at that address, where the settings name one."""
        ...

    def open_links(self, kept: KeptSession) -> RoomLinks:
        """Go to the relay of a session. Raise ConfigError."""
        ...

    def door(self) -> dict[str, Any]:
        """Return whether guests can come through the outside door, and whether there is a relay instead."""
        ...

    def invite_of(self, rooms: "Rooms", hosted: HostedRoom) -> Invite:
        """Return the invite of a room that this node hosts."""
        ...


class Rooms:
    def __init__(
        self, runtime: NodeRuntime, keeping: RoomStore, *, paths: FilePaths, demands: Demands, relays: Relays
    ) -> None:
        self.paths = paths
        self.demands = demands
        self.relays = relays
        self._runtime = runtime
        self._keeping = keeping
        self._clock = runtime.clock
        self._live: dict[str, LiveRoom] = {}
        self.hosting = HostedRooms(runtime.key, keeping, runtime.clock, lambda: self, contacts_of(runtime))
        self._opened_by: dict[str, set[str]] = {}
        self._connecting = asyncio.Lock()

    def __iter__(self) -> Iterator[LiveRoom]:
        return iter(list(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)

    def serves(self, room_id: str) -> bool:
        """Return whether the relay of this node lets strangers into the room with this id at the relay."""
        return self._is_live(room_id) or self.is_invited(room_id)

    def is_invited(self, room_id: str) -> bool:
        """Return whether this node hosts that room, and the invite is open or the node is still in it."""
        if self.hosting.invites_into(room_id):
            return True
        return any(
            room_id_of(live.session.options) == room_id and self.hosting.of_session(live) is not None
            for live in self._live.values()
        )

    def _is_live(self, room_id: str) -> bool:
        return any(room_id_of(room.session.options) == room_id for room in self._live.values())

    async def restore(self) -> None:
        """Open again what was open when the node ended."""
        await self.hosting.restore()
        now = self._clock.now()
        for kept in await self._keeping.sessions():
            if kept.session_id in self._live or not await self._keeping.claim(kept.session_id):
                continue
            exp = kept.options.latest_exp
            if (exp is not None and exp < now * 1000) or now - kept.created_at > FORGOTTEN_AFTER:
                await self._keeping.forget_session(kept.session_id, OWN_PROCESS)
                await self._keeping.release(kept.session_id)
                continue
            here = self._at_home(kept)
            try:
                links = self.relays.open_links(here)
            except ComityError as why:
                log.warning("a session of the room %s cannot be opened again: %s", kept.options.room, why)
                continue
            self._open(here, links, await self._keeping.restore(kept.session_id))

    async def signed(self, after: int, most: int) -> tuple[list[dict[str, Any]], int]:
        return await self._keeping.signed(after, most)

    async def keep_leases(self) -> None:
        await self._keeping.forget_old_signed()
        for session_id in list(self._live):
            await self._keeping.claim(session_id)

    def own_invite(self, room: str) -> Invite | None:
        """Return the invite to a room that this node hosts, by its name or by the line itself."""
        name: str | None = room
        if is_invite(room):
            try:
                read = read_invite(room)
            except ComityError:
                return None
            name = read.room if read.id == self._runtime.key.vacant_id.hex() else None
        hosted = self.hosting.find(None if name is None else sanitize_id(name))
        return None if hosted is None else self.relays.invite_of(self, hosted)

    async def connect(
        self,
        options: SessionOptions,
        invite: Invite | None,
        *,
        client: str,
        caller: Caller,
        any_name: bool = False,
    ) -> tuple[LiveRoom, bool]:
        """Return the session, and whether it was there before. `any_name`: one of the same room under another stream id
        will do.
        """
        _check_password(options)
        async with self._connecting:
            known = self._session_like(options, any_name=any_name)
            if known is None:
                return await self._connect(options, invite, client, caller), False
        if not options.demands.are_met_by(known.session.options.demands):
            raise VdoToolError(
                f"invalid stream_id: {options.stream_id} is in the room {options.room} already, in a session that demands "
                "less of its peers; end that session, or choose another stream_id"
            )
        if known.id in self._opened_by:
            self._opened_by[known.id].add(client)
        return known, True

    def named(self, room: str | None, stream_id: str | None) -> LiveRoom | None:
        """Return the session in a room of this name, at whichever relay, under this stream id or, with None, under any."""
        return next(
            (
                live
                for live in self
                if live.session.options.room == room and stream_id in (None, live.session.options.stream_id)
            ),
            None,
        )

    def _session_like(self, options: SessionOptions, *, any_name: bool) -> LiveRoom | None:
        """Return the session in the same room at the same relay, under the same stream id."""
        place = self._place_of(options)
        found = [live for live in self if self._place_of(live.session.options) == place]
        named = (live for live in found if live.session.options.stream_id == options.stream_id)
        return next(named, found[0] if any_name and found else None)

    def _place_of(self, options: SessionOptions) -> tuple[str, str]:
        host = split_token(options.host)[0]
        return "" if self.relays.is_own(host) else host, room_id_of(options)

    async def _connect(
        self, options: SessionOptions, invite: Invite | None, client: str, caller: Caller
    ) -> LiveRoom:
        if len(self._live) >= MAX_SESSIONS:
            raise VdoToolError(f"{MAX_SESSIONS} sessions are open; end one with vdo_disconnect")
        host, token = split_token(options.host)
        first = None if invite is None else invite.meeting_places()[0]
        kept = KeptSession(
            session_id=f"vdo_{uuid4()}",
            options=replace(options, host=host),
            own_relay=self.relays.is_own(host),
            relay_token=token,
            tls_sha256=self.relays.pin_of(host) if first is None else first.pin,
            ice=None if first is None else first.turn,
            places=() if invite is None or invite.id is None else invite.meeting_places(),
            created_at=self._clock.now(),
        )
        try:
            links = self.relays.open_links(kept)
        except ComityError as why:
            raise VdoToolError(f"invalid relay: {why.message}") from None
        await self._keeping.claim(kept.session_id)
        await self._keeping.keep_session(kept, caller)
        self._opened_by[kept.session_id] = {client}
        return self._open(kept, links, None)

    def visible(self, demands: Demands) -> list[LiveRoom]:
        return [room for room in self._live.values() if demands.are_met_by(room.session.options.demands)]

    def find(self, session_id: str, demands: Demands) -> LiveRoom:
        room = self._live.get(session_id)
        if room is None or not demands.are_met_by(room.session.options.demands):
            raise VdoToolError(f"unknown session_id: {session_id[:128]}")
        return room

    async def end(self, room: LiveRoom, caller: Caller) -> None:
        """End a session permanently, and delete what it stored."""
        if self._live.pop(room.id, None) is None:
            return
        self._opened_by.pop(room.id, None)
        await room.close(ended=True)
        await self._keeping.forget_session(room.id, caller)
        await self._keeping.release(room.id)

    async def end_those_of(self, client: str) -> None:
        """The client said exit. A session that others opened as well stays."""
        for room in self:
            openers = self._opened_by.get(room.id)
            if openers is not None and client in openers:
                openers.discard(client)
                if not openers:
                    await self.end(room, OWN_PROCESS)

    async def close(self) -> None:
        """The node stops: sessions can be opened again."""
        rooms = list(self._live.values())
        self._live.clear()
        await asyncio.gather(*(room.close(ended=False) for room in rooms), return_exceptions=True)
        self._keeping.flush()
        for room in rooms:
            await self._keeping.release(room.id)

    def _at_home(self, kept: KeptSession) -> KeptSession:
        """Return it with the address that the node's own relay has now."""
        own = self.relays.own
        if not kept.own_relay or own is None:
            return kept
        return replace(kept, options=replace(kept.options, host=own))

    def _open(self, kept: KeptSession, links: RoomLinks, restored: Restored | None) -> LiveRoom:
        options, runtime = kept.options, self._runtime
        epoch = None if restored is None else restored.epoch
        members: frozenset[str] = frozenset()
        if options.membership is not None and options.membership.host == runtime.key.vacant_id.hex():
            hosted = self.hosting.find(options.room)
            epoch, members = (None, members) if hosted is None else (hosted.epoch, hosted.ids)
        session = RoomSession(
            options,
            session_id=kept.session_id,
            keys=SessionKeys(secrets.token_bytes(32)),
            node_key=runtime.key,
            wall=self._clock.now,
            draw=secrets.token_bytes,
            clock_floor=0 if restored is None else restored.clock,
            epoch=epoch,
            members=members,
        )
        folder = Path(options.file_spool_dir) if options.file_spool_dir else runtime.settings.data / _SPOOL
        room = LiveRoom(
            session,
            links=links,
            spool=lambda notify: Spool(folder, notify, keep_files=options.keep_spool_files),
            keeping=self._keeping,
            record=runtime.record,
            clock=self._clock,
            key=runtime.key,
            hosting=self.hosting,
            witness=RoomWitness(next(iter(witnesses_of(runtime)), None), self._clock),
        )
        self._live[kept.session_id] = room
        room.start(restored)
        return room


def room_id_of(options: SessionOptions) -> str:
    return RoomCipher(effective_password(options.password)).room_id(options.room)


def split_token(host: str) -> tuple[str, str | None]:
    """Return an address without the token in its query, which nobody needs to see; and the token."""
    parts = urlsplit(host)
    token = parse_qs(parts.query).get("token", [None])[0]
    return (host, None) if token is None else (host.partition("?")[0], token)


def _check_password(options: SessionOptions) -> None:
    try:
        effective_password(options.password)
    except ComityError as why:
        raise VdoToolError(f"invalid password: {why.message}") from None
