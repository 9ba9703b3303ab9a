"""How the rooms of a node reach relays and peers, and what an invite of this node says."""

import asyncio
import hashlib
import os
import ssl
import sys
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from comity.identity.private_files import read_private
from comity.rooms.client import RelayTarget, RoomMeeting, read_relay
from comity.rooms.hosting import WayToHost
from comity.rooms.links.joining import LinkMaker, LinkSettings
from comity.rooms.links.webrtc import IceServer, IceSettings
from comity.rooms.links.websocket import ticket_folder
from comity.rooms.part import INVITE_SECONDS, MAX_INVITE_SECONDS, SIGNAL_PATH, PeersSettings
from comity.rooms.paths import FilePaths
from comity.rooms.protocol.hosted_room import HostedRoom
from comity.rooms.protocol.invite import Invite, InviteRelay
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
from comity.wire.errors import ConfigError, InvalidError

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
    """`tools`: those of the node, once they were opened."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self.tools: RoomTools | None = None
        self._runtime = runtime
        self._peers = runtime.settings.of(PeersSettings)
        self._makers: dict[LinkSettings, LinkMaker] = {}
        self._opening = asyncio.Lock()

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
        self._way(relay, 0.0)  # whether it can be used, before anything is stored
        hosted = await rooms.hosting.invite(room, seconds=seconds, uses=uses, relay=relay)
        invite = self.invite_of(rooms, hosted)
        place = invite.meeting_places()[0].url
        assert hosted.invite is not None
        return {
            "ok": True,
            "invite": invite.line(),
            "room": invite.room,
            "host": place.partition("?")[0],
            "expires_at": invite.exp / 1000,
            "uses": invite.uses,
            "left": hosted.invite.left,
            "notice": _reach_of(place),
        }

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
            address, pin = self._invite_address(relay)
            place = InviteRelay(url=address, pin=pin, turn=configured)
        return WayToHost(relays=(place,))

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
        )
        if wanted not in self._makers:
            self._makers[wanted] = LinkMaker(wanted)
        return self._makers[wanted]

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


def _reach_of(host: str) -> str | None:
    """Ruling 62: what to do where another machine cannot reach the relay."""
    if not is_loopback(urlsplit(host).hostname or ""):
        return None
    return (
        "this relay is on 127.0.0.1: only programs on this machine can use the invite. To let another machine in, give "
        "the node TLS and a public address (host, tls.cert, tls.key, http.public, http.allowed_hosts), or name a relay "
        "that both can reach with --relay; behind routers also set peers.ice_servers"
    )
