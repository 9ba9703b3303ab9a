"""How the rooms of a node reach relays and peers, and what an invite of this node says."""

import asyncio
import hashlib
import logging
import os
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from comity.http.addresses import LOOPBACK, PRIVATE, kind_of, literal
from comity.identity.private_files import read_private
from comity.rooms.client import RelayTarget, RoomMeeting, read_relay
from comity.rooms.hosting import WayToHost
from comity.rooms.links.door import DoorOfHost, PeerDoor
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.rooms.links.webrtc import IceServer, IceSettings
from comity.rooms.links.websocket import ticket_folder
from comity.rooms.part import INVITE_SECONDS, MAX_INVITE_SECONDS, SIGNAL_PATH, PeersSettings
from comity.rooms.paths import FilePaths
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import Invite, InviteRelay
from comity.rooms.protocol.loose_values import sanitize_id
from comity.rooms.protocol.meeting import Attending
from comity.rooms.protocol.relay_line import RelayLine, is_relay_line, read_relay_line, relay_token
from comity.rooms.protocol.signalling import RoomCipher, effective_password
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.sessions import Rooms, split_token
from comity.rooms.storage import KeptSession, RoomStore
from comity.rooms.tool_handlers import RoomTools
from comity.runtime.node_runtime import NodeRuntime
from comity.runtime.settings_file import default_data_folder
from comity.system import is_loopback
from comity.wire.errors import ComityError, ConfigError, InvalidError

log = logging.getLogger("comity.rooms")

OWN_LOGIN_SECONDS: Final = 30 * 86_400.0
"""How long this node may use its relay before it joins again."""
LOGIN_AFTER_INVITE_SECONDS: Final = 86_400.0
"""A connection made by an invite may use the relay this long after the invite has expired."""
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - how it is reached from here


def _paths(runtime: NodeRuntime) -> FilePaths:
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - there may be none
    peers = runtime.settings.of(PeersSettings)
    return FilePaths(
        runtime.settings.data,
        peers.shared,
        others=[default_data_folder(os.environ, lambda: home, sys.platform)],
        keys=filter(None, (runtime.settings.tls.key, peers.turn_credential, peers.relay_file)),
    )


class NodeRelays:
    """`tools`: those of the node, once they were opened. `peer_door`: where peers come in."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self.peer_door = PeerDoor(lambda: runtime.outside.pin if runtime.outside.is_open else "")
        self.tools: RoomTools | None = None
        self._runtime = runtime
        self._peers = runtime.settings.of(PeersSettings)
        self._makers: dict[LinkSettings, LinkMaker] = {}
        self._opening = asyncio.Lock()
        self._door_reasons: set[str] = set()

    async def open_tools(self, demands: Demands) -> RoomTools:
        """Return the tools, and with them the sessions that were open when the node ended."""
        async with self._opening:
            if self.tools is None:
                self.tools = await self._open_tools(demands)
            return self.tools

    async def _open_tools(self, demands: Demands) -> RoomTools:
        runtime = self._runtime
        # a node has the data folder alone: what an earlier one held is its own
        holder = uuid4().hex if runtime.guest else "node"
        keeping = RoomStore(
            runtime.store, runtime.record, runtime.clock, runtime.current_vault, holder, runtime.restored_at
        )
        paths = await asyncio.to_thread(_paths, runtime)
        rooms = Rooms(runtime, keeping, paths=paths, demands=demands, relays=self)
        await rooms.restore()
        await self.settle_door(rooms)
        return RoomTools(rooms, runtime.clock, lambda given: self.invite(rooms, given))

    async def close(self) -> None:
        if self.tools is not None:
            await self.tools.rooms.close()
        for maker in self._makers.values():
            await maker.close()

    @property
    def own(self) -> str | None:
        """How this node itself reaches its relay; None for a guest, which has none."""
        url = self._runtime.url
        if self._runtime.guest or not url:
            return None
        for everywhere, here in _EVERYWHERE.items():
            url = url.replace(f"//{everywhere}:", f"//{here}:")
        return url.replace("http", "ws", 1) + SIGNAL_PATH

    @property
    def default(self) -> str | None:
        line = self._own_line()
        if line is not None:
            return line.address(self._runtime.clock.now() + OWN_LOGIN_SECONDS)
        return self._peers.relay or self.own

    def pin_of(self, host: str) -> str | None:
        """Return the pin of a relay that a line names."""
        line = self._own_line()
        return line.pin if line is not None and line.url == host else None

    def is_own(self, host: str) -> bool:
        return host in self._own_addresses()

    def open_links(self, kept: KeptSession) -> RoomMeeting:
        options = kept.options
        attending = Attending(
            room=options.room,
            stream=options.stream_id,
            cipher=RoomCipher(effective_password(options.password)),
            first_delay=options.reconnect_ms / 1000,
            longest_delay=options.max_reconnect_ms / 1000,
        )
        return RoomMeeting(attending, self._relays_of(kept), self._links_for(kept), self._runtime.clock)

    async def invite(self, rooms: Rooms, given: dict[str, Any]) -> dict[str, Any]:
        """For the owner alone: the line, and what to know about it."""
        room, seconds, relay = given.get("room"), given.get("seconds", INVITE_SECONDS), given.get("host")
        uses = given.get("uses")
        if not isinstance(room, str):
            raise InvalidError("room must be a name")
        if not isinstance(seconds, int | float) or not 1 <= seconds <= MAX_INVITE_SECONDS:
            raise InvalidError(f"an invite is valid for 1 to {MAX_INVITE_SECONDS:g} seconds")
        if relay is not None and not isinstance(relay, str):
            raise InvalidError("host must be the address of a relay")
        if uses is not None and type(uses) is not int:
            raise InvalidError("uses must be a whole number")
        door = given.get("door") is True
        if door:
            await self._open_door(sanitize_id(room) or "")
        self._way(relay, 0.0)  # whether it can be used, before anything is stored
        hosted = await rooms.hosting.invite(room, seconds=seconds, uses=uses, relay=relay, door=door)
        invite = self.invite_of(rooms, hosted)
        places = invite.meeting_places()
        reach = _reach_of([urlsplit(place.url).hostname or "" for place in places])
        assert hosted.invite is not None
        return {
            "ok": True,
            "invite": invite.line(),
            "room": invite.room,
            "host": places[0].url.partition("?")[0],
            "expires_at": invite.exp / 1000,
            "uses": invite.uses,
            "left": hosted.invite.left,
            "reach": reach,
            "notice": _NOTICES[reach],
        }

    def door(self) -> dict[str, Any]:
        """For the owner: whether guests can come through the outside door, and whether they need to."""
        outside = self._runtime.outside
        has_relay = self._own_line() is not None or bool(self._peers.relay)
        return {"ok": True, "open": outside.is_open, "has_relay": has_relay}

    async def settle_door(self, rooms: Rooms) -> None:
        """Open the outside door for the rooms that guests reach through it, and take back what holds no longer."""
        outside = self._runtime.outside
        wanted = {_reason(hosted.room) for hosted in rooms.hosting.in_use() if hosted.door}
        for reason in sorted(wanted - self._door_reasons):
            try:
                await outside.open_for(reason)
            except ComityError as why:
                log.warning("%s cannot be reached from outside: %s", reason, why)
            else:
                self._door_reasons.add(reason)
        for reason in sorted(self._door_reasons - wanted):
            self._door_reasons.discard(reason)
            await outside.close_for(reason)

    async def _open_door(self, room: str) -> None:
        await self._runtime.outside.open_for(_reason(room))
        self._door_reasons.add(_reason(room))

    def invite_of(self, rooms: Rooms, hosted: HostedRoom) -> Invite:
        """Return the open invite of a room, with the addresses that hold now."""
        last_exp = 0 if hosted.invite is None else hosted.invite.exp
        return rooms.hosting.invite_of(hosted, self._way(hosted.relay, last_exp / 1000))

    def _way(self, relay: str | None, until: float) -> WayToHost:
        """Return how guests reach the host. `relay` is an address, or the line of a relay; a login lasts a day longer."""
        line = self._own_line() if relay is None else None
        if relay is not None and is_relay_line(relay):
            line = read_relay_line(relay)
        configured = tuple(map(_ice_json, self._configured_ice()))
        if line is not None:
            login_until = until + LOGIN_AFTER_INVITE_SECONDS
            place = InviteRelay(
                url=line.address(login_until), pin=line.pin, turn=line.ice(login_until) + configured
            )
        else:
            addrs = self._door_addresses() if relay is None and not self._peers.relay else ()
            if addrs:
                return WayToHost(addrs=addrs, pin=self._runtime.outside.pin)
            address, pin = self._invite_address(relay)
            place = InviteRelay(url=address, pin=pin, turn=configured)
        return WayToHost(relays=(place,))

    def _door_addresses(self) -> tuple[str, ...]:
        return tuple(address.removeprefix("https://") for address in self._runtime.outside.addresses())

    def _own_addresses(self) -> list[str]:
        own = self.own
        if own is None:
            return []
        port = own.removesuffix(SIGNAL_PATH).rpartition(":")[2]
        names = self._runtime.settings.http.allowed_hosts
        return [own, *(f"{own.partition(':')[0]}://{name}:{port}{SIGNAL_PATH}" for name in names)]

    def _invite_address(self, host: str | None) -> tuple[str, str | None]:
        """Return the address that an invite names, and the fingerprint of its certificate where that is our own."""
        own = self._own_addresses()
        address = host or self._peers.relay or (own[-1] if own else "")
        if not address:
            raise InvalidError(
                "there is no relay to invite to; start the node with `comity up`, or set peers.relay"
            )
        pin = None
        if address.startswith("wss://") and (address in own or (host is not None and not self._peers.relay)):
            pin = self._certificate_pin()
        try:
            read_relay(address, tls_sha256=pin)
        except ConfigError as why:  # the owner asks: the sentence is for its eyes
            raise InvalidError(why.message) from None
        return address, pin

    def _certificate_pin(self) -> str | None:
        cert = self._runtime.settings.tls.cert
        if cert is None:
            return None
        begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
        first = begin + cert.read_text("ascii").partition(begin)[2].partition(end)[0] + end
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).hexdigest()

    def _relays_of(self, kept: KeptSession) -> tuple[RelayTarget, ...]:
        """Return where the room is met: the first of them that answers."""
        if kept.places and not kept.own_relay:
            found = []
            for place in kept.places:
                url, token = split_token(place.url)
                found.append(read_relay(url, token, place.pin))
            return tuple(found)
        return (self._relay_of(kept),)

    def _relay_of(self, kept: KeptSession) -> RelayTarget:
        own = self.own
        if kept.own_relay and own is not None:
            pin = self._certificate_pin() if own.startswith("wss://") else None
            return read_relay(own, self._runtime.token, pin)
        line = self._own_line()
        if line is not None and line.url == kept.options.host:  # its token of then may have expired
            user, password = line.login(self._runtime.clock.now() + OWN_LOGIN_SECONDS)
            return read_relay(line.url, relay_token(user, password), line.pin)
        return read_relay(kept.options.host, kept.relay_token, kept.tls_sha256)

    def _links_for(self, kept: KeptSession) -> LinkMaker:
        """Return the maker for the ICE servers of the invite and those of the settings."""
        servers = self._configured_ice()
        line = self._own_line()
        own = () if line is None else line.ice(self._runtime.clock.now() + OWN_LOGIN_SECONDS)
        for one in kept.ice or own:
            urls = one.get("urls")
            named = (urls,) if isinstance(urls, str) else tuple(urls or ())
            server = IceServer(named, str(one.get("username", "")), str(one.get("credential", "")))
            if server not in servers and all(isinstance(url, str) for url in named):
                servers.append(server)
        force_turn = kept.options.force_turn
        wanted = LinkSettings(
            ice=IceSettings(tuple(servers), force_turn),
            library=None if self._peers.webrtc == "any" else self._peers.webrtc,
            tickets=ticket_folder() if self._peers.same_host and not force_turn else None,
            own_door=None if force_turn or not self._is_host(kept) else self.peer_door,
            host=None if force_turn or self._is_host(kept) else _door_of_host(kept),
        )
        if wanted not in self._makers:
            self._makers[wanted] = LinkMaker(wanted)
        return self._makers[wanted]

    def _is_host(self, kept: KeptSession) -> bool:
        membership = kept.options.membership
        return membership is not None and membership.host == self._runtime.vacant_id.hex()

    def _own_line(self) -> RelayLine | None:
        """Return the line of the settings. Raise InvalidError if it cannot be used."""
        file = self._peers.relay_file
        return None if file is None else read_relay_line(read_private(file).decode("utf-8", "replace"))

    def _configured_ice(self) -> list[IceServer]:
        """Return those of the settings; the TURN servers among them with the login."""
        peers = self._peers
        file = peers.turn_credential
        credential = "" if file is None else read_private(file).decode("utf-8", "replace").strip()
        return [
            IceServer((url,))
            if url.startswith("stun")
            else IceServer((url,), peers.turn_username, credential)
            for url in peers.ice_servers
        ]


def _ice_json(server: IceServer) -> dict[str, Any]:
    login = {"username": server.username, "credential": server.credential} if server.username else {}
    return {"urls": list(server.urls), **login}


def _door_of_host(kept: KeptSession) -> DoorOfHost | None:
    membership = kept.options.membership
    if membership is None or membership.pin is None or not membership.addrs:
        return None
    return DoorOfHost(membership.addrs, membership.pin)


def _reason(room: str) -> str:
    return f"room {room}"


def _reach_of(hosts: Sequence[str]) -> str:
    """Return from where somebody can come: `machine`, `network` or `anywhere`."""
    kinds = {
        kind_of(address) if (address := literal(host)) else LOOPBACK * is_loopback(host) for host in hosts
    }
    if kinds <= {LOOPBACK}:
        return "machine"
    return "network" if kinds <= {LOOPBACK, PRIVATE} else "anywhere"


_NOTICES: Final = {
    "machine": (
        "this relay is on 127.0.0.1: only programs on this machine can use the invite. `comity invite` opens a door for other "
        "machines; or name a relay that both can reach with --relay"
    ),
    "network": (
        "the line works on this network only. For somebody elsewhere run `comity relay --public` on a machine that both can "
        "reach, and add --relay and the line that it prints"
    ),
    "anywhere": None,
}
