"""The sessions of a node in rooms, and the invites it gave (rulings 61, 62).

- A session belongs to the node and its owner. Every client sees those that meet its demands, and reads events at its own
  pace; a client that says exit ends those that it opened.
- Sessions are opened again after a restart, under their ids, by whichever process of this data folder has their lease.
- An invite is one line. There is one for a room until it expires or is revoked. To revoke it ends the sessions of this
  node that admit the holders of the line; nothing else makes the line worthless.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from msgspec.structs import replace

from comity.requests.caller import OWN_PROCESS, Caller
from comity.rooms.live import LiveRoom, RoomLinks
from comity.rooms.paths import FilePaths
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.invite import Invite, invite_secret, read_invite
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.rooms.protocol.tool_arguments import VdoToolError
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.spool import Spool
from comity.rooms.storage import KeptInvite, KeptSession, Restored, RoomStore
from comity.runtime.node_runtime import NodeRuntime
from comity.wire.errors import ComityError, InvalidError

log = logging.getLogger("comity.rooms")

MAX_SESSIONS: Final = 64
FORGOTTEN_AFTER: Final = 30 * 86_400.0
MAX_INVITES: Final = 256
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
        self._invites: dict[str, KeptInvite] = {}
        self._opened_by: dict[str, str] = {}

    def __iter__(self) -> Iterator[LiveRoom]:
        return iter(list(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)

    def serves(self, room_id: str) -> bool:
        """Return whether the relay of this node lets strangers into the room with this id at the relay."""
        if any(room_id_of(room.session.options) == room_id for room in self._live.values()):
            return True
        now = self._clock.now() * 1000
        return any(invite.room_id == room_id and invite.exp > now for invite in self._invites.values())

    async def restore(self) -> None:
        """Open again what was open when the node ended."""
        for invite in await self._keeping.invites():
            self._invites[invite.room] = invite
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

    async def connect(
        self, options: SessionOptions, invite: Invite | None, *, client: str, caller: Caller
    ) -> LiveRoom:
        if len(self._live) >= MAX_SESSIONS:
            raise VdoToolError(f"{MAX_SESSIONS} sessions are open; end one with vdo_disconnect")
        _check_password(options)
        host, token = split_token(options.host)
        kept = KeptSession(
            session_id=f"vdo_{uuid4()}",
            options=replace(options, host=host),
            own_relay=self.relays.is_own(host),
            relay_token=token,
            tls_sha256=self.relays.pin_of(host) if invite is None else invite.tls_sha256,
            ice=None if invite is None else invite.ice,
            created_at=self._clock.now(),
        )
        try:
            links = self.relays.open_links(kept)
        except ComityError as why:
            raise VdoToolError(f"invalid relay: {why.message}") from None
        await self._keeping.claim(kept.session_id)
        await self._keeping.keep_session(kept, caller)
        self._opened_by[kept.session_id] = client
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
        """The client said exit."""
        for room in self:
            if self._opened_by.get(room.id) == client:
                await self.end(room, OWN_PROCESS)

    async def close(self) -> None:
        """The node stops: sessions can be opened again."""
        rooms = list(self._live.values())
        self._live.clear()
        await asyncio.gather(*(room.close(ended=False) for room in rooms), return_exceptions=True)
        self._keeping.flush()
        for room in rooms:
            await self._keeping.release(room.id)

    async def invite(
        self,
        room: str,
        *,
        host: str,
        seconds: float,
        tls_sha256: str | None = None,
        ice: tuple[dict[str, Any], ...] | None = None,
    ) -> Invite:
        """Return a new line, or the one that was given before and has not expired."""
        name = sanitize_id(room)
        if name is None:
            raise InvalidError("the room needs a name of letters, digits and _")
        known = self.known_invite(name)
        if known is not None:
            return read_invite(known)
        self._forget_expired()
        if len(self._invites) >= MAX_INVITES:
            raise InvalidError(f"{MAX_INVITES} invites are valid; wait until one has expired")
        exp = int((self._clock.now() + seconds) * 1000)
        invite = Invite(
            host=host,
            room=name,
            password=secrets.token_urlsafe(24),
            secret=invite_secret(self._secret(), name, exp),
            exp=exp,
            tls_sha256=tls_sha256,
            ice=ice,
        )
        cipher = RoomCipher(effective_password(invite.password))
        self._invites[name] = await self._keeping.keep_invite(invite, cipher.room_id(name), OWN_PROCESS)
        return invite

    def open_invites(self) -> list[KeptInvite]:
        """Return those that somebody can still come in by."""
        self._forget_expired()
        return sorted(self._invites.values(), key=lambda invite: invite.exp)

    async def revoke(self, room: str) -> int:
        """Take back the invite to a room; how many sessions of this node ended with it."""
        line = self.known_invite(room)
        if line is None:
            raise InvalidError(
                f"there is no invite to the room {room[:80]}; `comity room invites` lists those that are valid"
            )
        del self._invites[room]
        await self._keeping.forget_invite(room, OWN_PROCESS)
        secret = read_invite(line).secret
        ended = [live for live in self if live.session.options.demands.join_token_secret == secret]
        for live in ended:
            await self.end(live, OWN_PROCESS)
        return len(ended)

    def known_invite(self, room: str) -> str | None:
        """Return the line of a room that this node has invited to."""
        known = self._invites.get(room)
        return None if known is None or known.exp <= self._clock.now() * 1000 else known.line

    def _forget_expired(self) -> None:
        now = self._clock.now() * 1000
        self._invites = {name: one for name, one in self._invites.items() if one.exp > now}

    def _secret(self) -> bytes:
        """Only for invites, so that a secret of theirs says nothing about the key of the node."""
        return hashlib.sha256(b"comity invite secret\n" + self._runtime.key.seed).digest()

    def _at_home(self, kept: KeptSession) -> KeptSession:
        """Return it with the address that the node's own relay has now."""
        own = self.relays.own
        if not kept.own_relay or own is None:
            return kept
        return replace(kept, options=replace(kept.options, host=own))

    def _open(self, kept: KeptSession, links: RoomLinks, restored: Restored | None) -> LiveRoom:
        options, runtime = kept.options, self._runtime
        session = RoomSession(
            options,
            session_id=kept.session_id,
            keys=SessionKeys(secrets.token_bytes(32)),
            node_key=runtime.key,
            wall=self._clock.now,
            draw=secrets.token_bytes,
            clock_floor=0 if restored is None else restored.clock,
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
