"""One attempt to join a peer: by WebRTC, or by a ticket if both are on one host (ruling 63).

The side that is viewed makes the offer, and lays a ticket beside it if it may. The other side uses the ticket if it
finds it, and answers the offer if it does not. So both always take the same way, and no third time is needed.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from comity.rooms.links.door import DIAL_SECONDS, DoorOfHost, PeerDoor, use_door
from comity.rooms.links.webrtc import IceSettings, Library, WebRtcLink, available_libraries, new_connection
from comity.rooms.links.websocket import LaidTicket, WebSocketListener, use_ticket
from comity.rooms.protocol.signalling import IceCandidate
from comity.wire.errors import ComityError, ConfigError, PeerError
from comity.wire.link import ChannelLink, LinkClosed


class LinkSettings(Struct, frozen=True, kw_only=True):
    """`library` None: the fastest that is there. `tickets`: the folder of tickets; None: none are laid or used. `own_door` lets
    peers in, `host` is the door that our invite names.
    """

    ice: IceSettings = IceSettings()
    library: Library | None = None
    tickets: Path | None = None
    own_door: PeerDoor | None = None
    host: DoorOfHost | None = None


class LinkMaker:
    """Makes the links of one program."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._listener = None if settings.tickets is None else WebSocketListener(settings.tickets)

    def join(self, *, is_offerer: bool, candidate: Callable[[IceCandidate], None]) -> "Joining":
        return Joining(self._settings, self._listener, is_offerer=is_offerer, candidate=candidate)

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()


class Joining:
    def __init__(
        self,
        settings: LinkSettings,
        listener: WebSocketListener | None,
        *,
        is_offerer: bool,
        candidate: Callable[[IceCandidate], None],
    ) -> None:
        """`candidate` gets each address of ours that is found."""
        self._settings = settings
        self._listener = listener
        self._is_offerer = is_offerer
        self._candidate = candidate
        self._webrtc: WebRtcLink | None = None
        self._ticket: LaidTicket | None = None
        self._laid: LaidTicket | None = None
        self._dialled: asyncio.Future[ChannelLink] = asyncio.get_running_loop().create_future()
        self._link: ChannelLink | None = None
        self._described = asyncio.Event()
        self._closed: str | None = None

    async def offer(self) -> tuple[str, str | None]:
        """Return the SDP, and the name of a ticket. Without a WebRTC library there may still be a ticket."""
        if self._listener is not None:
            self._ticket = await self._listener.lay_ticket()
            if self._closed is not None:
                self._ticket.withdraw()
                raise LinkClosed(self._closed)
        name = None if self._ticket is None else self._ticket.name
        self._lay_door()
        other_way = name is not None or self._laid is not None or self._settings.host is not None
        if other_way and not available_libraries():
            return "", name
        return await (await self._by_webrtc()).offer(), name

    @property
    def door(self) -> str | None:
        """Return the secret with which the peer may come through our outside door."""
        return None if self._laid is None else self._laid.name

    async def answer(self, sdp: str, ticket: str | None, door: str | None = None) -> str | None:
        """Return our SDP; None if the ticket or the door was used, and there is nothing to answer."""
        folder = self._settings.tickets
        if folder is not None and ticket is not None:
            # used up, or its owner is gone: the offer is there as well
            with contextlib.suppress(ComityError):
                self._link = await use_ticket(folder, ticket)
        if self._link is None:
            self._link = await self._through_door(door)
        if self._link is not None:
            if self._closed is not None:
                await self._link.close(self._closed)
            return None
        self._lay_door()
        if self._laid is not None and not (sdp and available_libraries()):
            return ""
        if not sdp:
            raise PeerError("the peer has no WebRTC library, and it is not on this host")
        answer = await (await self._by_webrtc()).answer(sdp)
        self._described.set()
        return answer

    async def accept(self, sdp: str, door: str | None = None) -> None:
        """Go through the door of the peer, or else take its answer."""
        link = await self._through_door(door)
        if link is not None:
            if self._closed is None and not self._dialled.done():
                self._dialled.set_result(link)
            else:
                await link.close(self._closed or "joined another way")
            return
        if self._webrtc is None and self._settings.host is None:
            raise PeerError("the peer answered an offer that was not made")
        if self._webrtc is None or not sdp:
            raise PeerError("no way to the peer opened: it has no WebRTC library, or its door did not open")
        await self._webrtc.accept(sdp)
        self._described.set()

    def _lay_door(self) -> None:
        if self._settings.own_door is not None:
            self._laid = self._settings.own_door.lay()

    async def _through_door(self, secret: str | None) -> ChannelLink | None:
        if secret is None or self._settings.host is None:
            return None
        try:
            return await use_door(self._settings.host, secret, DIAL_SECONDS)
        except ComityError:
            return None  # WebRTC is the other way

    async def add_candidates(self, candidates: Sequence[IceCandidate]) -> None:
        """They wait until the peer's description is known: a library refuses them before."""
        await self._described.wait()
        if self._webrtc is not None:
            await self._webrtc.add_candidates(candidates)

    async def wait_link(self) -> ChannelLink:
        """Return the link, by whichever way it opens. Raise LinkClosed. How long to wait is the caller's affair."""
        if self._link is not None:
            return self._link
        ways: list[asyncio.Task[ChannelLink]] = []
        if self._webrtc is not None:
            ways.append(asyncio.create_task(self._webrtc.wait_open()))
        ways += [
            asyncio.create_task(one.wait_link()) for one in (self._ticket, self._laid) if one is not None
        ]
        if self._settings.host is not None:
            ways.append(asyncio.create_task(_result_of(self._dialled)))
        try:
            while ways:
                done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in done:
                    if len(ways) == 1 or way.exception() is None:
                        self._link = await way
                        return self._link
                    ways.remove(way)
            raise ConfigError("there is no way to join the peer: no WebRTC library, no ticket")
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            await self._drop_the_others()

    async def close(self, reason: str) -> None:
        """Whatever is under way or open."""
        self._closed = reason
        self._described.set()
        self._dialled.cancel()
        self._withdraw()
        for link in (self._webrtc, self._link):
            if link is not None:
                await link.close(reason)

    async def _by_webrtc(self) -> WebRtcLink:
        connection = await new_connection(self._settings.ice, self._settings.library)
        if self._closed is not None:
            await connection.close()
            raise LinkClosed(self._closed)
        self._webrtc = WebRtcLink(connection, is_offerer=self._is_offerer, candidate=self._candidate)
        return self._webrtc

    async def _drop_the_others(self) -> None:
        if self._link is None:
            return
        self._withdraw()
        if self._webrtc is not None and self._webrtc is not self._link:
            await self._webrtc.close("joined another way")

    def _withdraw(self) -> None:
        for laid in (self._ticket, self._laid):
            if laid is not None:
                laid.withdraw()


async def _result_of(dialled: "asyncio.Future[ChannelLink]") -> ChannelLink:
    return await asyncio.shield(dialled)
