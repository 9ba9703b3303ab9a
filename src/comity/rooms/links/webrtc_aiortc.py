"""Data channels by `aiortc`, in Python: slower, and at home where the other library has no wheel.

It gathers all candidates before it gives its description, so it never has one to tell later.
"""

from typing import Any, Final, Literal

import aiortc
from aiortc.sdp import candidate_from_sdp

from comity.rooms.links.webrtc import ConnectionEvents, DataChannelEvents, IceSettings
from comity.rooms.protocol.signalling import IceCandidate
from comity.wire.link import LinkClosed, Message

MAX_IN_FLIGHT: Final = 512 * 1024
"""What is sent and not acknowledged yet. The library's own window grows to several MiB. Acknowledgements of so much
do not fit the receive buffer of its socket when the process is slow; the answers that keep the connection alive
(RFC 7675) are then lost with them, and it ends in the middle of a transfer. It sends no slower for that: up to a round
trip of 100 ms it is the library itself that is slower.
"""


class AiortcChannel:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.label: str = channel.label

    @property
    def buffered(self) -> int:
        return int(self._channel.bufferedAmount)

    def attach(self, events: DataChannelEvents) -> None:
        channel = self._channel
        channel.on("open", events.opened)
        channel.on("message", events.message)
        channel.on("bufferedamountlow", events.low)
        # after a loss the transport below is closed first, after a farewell the channel
        channel.on("close", lambda: events.closed(channel.transport.transport.state != "connected"))
        if channel.readyState == "open":
            events.opened()

    def tell_below(self, mark: int) -> None:
        self._channel.bufferedAmountLowThreshold = max(0, mark)

    def send(self, message: Message) -> None:
        sctp = self._channel.transport
        # without a public way to it; a release that moves it costs us only this limit
        if getattr(sctp, "_cwnd", 0) > MAX_IN_FLIGHT:
            sctp._cwnd = MAX_IN_FLIGHT  # noqa: SLF001
        try:
            self._channel.send(message)
        except aiortc.InvalidStateError:
            raise LinkClosed("the channel is closed") from None

    def close(self) -> None:
        self._channel.close()


class AiortcConnection:
    def __init__(self, ice: IceSettings) -> None:
        servers = [aiortc.RTCIceServer(**server.options()) for server in ice.servers]
        policy = aiortc.RTCIceTransportPolicy.RELAY if ice.force_turn else aiortc.RTCIceTransportPolicy.ALL
        # an explicit list: without one, aiortc asks a public server
        self._connection = aiortc.RTCPeerConnection(
            aiortc.RTCConfiguration(iceServers=servers, iceTransportPolicy=policy)
        )

    def attach(self, events: ConnectionEvents) -> None:
        connection = self._connection
        connection.on("datachannel", lambda arrived: events.channel(AiortcChannel(arrived)))
        connection.on("connectionstatechange", lambda: events.state(connection.connectionState))

    def create_channel(self, label: str) -> AiortcChannel:
        try:
            return AiortcChannel(self._connection.createDataChannel(label))
        except aiortc.InvalidStateError:
            raise LinkClosed("the connection is closed") from None

    async def offer(self) -> str:
        await self._connection.setLocalDescription(await self._connection.createOffer())
        return self._connection.localDescription.sdp

    async def answer(self, offer: str) -> str:
        await self._connection.setRemoteDescription(aiortc.RTCSessionDescription(offer, "offer"))
        await self._connection.setLocalDescription(await self._connection.createAnswer())
        return self._connection.localDescription.sdp

    async def accept(self, answer: str) -> None:
        await self._connection.setRemoteDescription(aiortc.RTCSessionDescription(answer, "answer"))

    async def add_candidate(self, candidate: IceCandidate) -> None:
        found = candidate_from_sdp(candidate.candidate.removeprefix("candidate:"))
        if found.protocol.lower() == "udp":
            found.sdpMid, found.sdpMLineIndex = candidate.mid, candidate.line
            await self._connection.addIceCandidate(found)

    async def path(self) -> tuple[Literal["direct", "relayed", "unknown"], float | None]:
        """Both figures are there without a public way to them; a release that moves them costs us only these."""
        sctp: Any = self._connection.sctp
        round_trip = getattr(sctp, "_srtt", None)
        try:
            pair = sctp.transport.transport._connection._nominated[1]  # noqa: SLF001
            kinds = (pair.local_candidate.type, pair.remote_candidate.type)
        except (AttributeError, KeyError):
            return "unknown", round_trip
        return "relayed" if "relay" in kinds else "direct", round_trip

    async def close(self) -> None:
        await self._connection.close()


new_connection = AiortcConnection
