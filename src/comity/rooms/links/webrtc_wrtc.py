"""Data channels by `wrtc` (libwebrtc). It is imported with this file: on first use."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any, Literal

import webrtc

from comity.rooms.links.webrtc import ConnectionEvents, DataChannelEvents, IceSettings
from comity.rooms.protocol.signalling import IceCandidate
from comity.wire.link import LinkClosed, Message


class WrtcChannel:
    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self.label: str = channel.label

    @property
    def buffered(self) -> int:
        return int(self._channel.buffered_amount)

    def attach(self, events: DataChannelEvents) -> None:
        channel, message = self._channel, events.message
        channel.on("open", lambda _event: events.opened())
        channel.on("message", lambda event: message(event.data))
        channel.on("bufferedamountlow", lambda _event: events.low())
        channel.on("close", lambda _event: events.closed(False))
        if channel.ready_state == "open":  # it may be open already, and fire all the same
            events.opened()

    def tell_below(self, mark: int) -> None:
        self._channel.buffered_amount_low_threshold = max(0, mark)

    def send(self, message: Message) -> None:
        try:
            self._channel.send(message)
        except webrtc.InvalidStateError:
            raise LinkClosed("the channel is closed") from None

    def close(self) -> None:
        self._channel.close()


@contextlib.contextmanager
def _until_closed() -> Iterator[None]:
    """Raise LinkClosed for an operation on a connection that is closed meanwhile: it ends as if its task were cancelled."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise LinkClosed("the connection is closed") from None
    except webrtc.InvalidStateError:
        raise LinkClosed("the connection is closed") from None


class WrtcConnection:
    def __init__(self, ice: IceSettings) -> None:
        servers = [webrtc.RTCIceServer(**server.options()) for server in ice.servers]
        policy = webrtc.RTCIceTransportPolicy.relay if ice.force_turn else webrtc.RTCIceTransportPolicy.all
        self._connection = webrtc.RTCPeerConnection(
            webrtc.RTCConfiguration(ice_servers=servers, ice_transport_policy=policy)
        )

    def attach(self, events: ConnectionEvents) -> None:
        def found(event: Any) -> None:
            found_candidate = event.candidate
            if found_candidate is not None and found_candidate.candidate:
                events.candidate(
                    IceCandidate(
                        found_candidate.candidate, found_candidate.sdp_mid, found_candidate.sdp_m_line_index
                    )
                )

        connection = self._connection
        connection.on("icecandidate", found)
        connection.on("datachannel", lambda event: events.channel(WrtcChannel(event.channel)))
        connection.on("connectionstatechange", lambda _event: events.state(connection.connection_state.value))

    def create_channel(self, label: str) -> WrtcChannel:
        try:
            return WrtcChannel(self._connection.create_data_channel(label))
        except webrtc.InvalidStateError:
            raise LinkClosed("the connection is closed") from None

    async def offer(self) -> str:
        with _until_closed():
            offer = await self._connection.create_offer()
            await self._connection.set_local_description(offer)
        return str(offer.sdp)

    async def answer(self, offer: str) -> str:
        with _until_closed():
            await self._connection.set_remote_description(
                webrtc.RTCSessionDescriptionInit(type="offer", sdp=offer)
            )
            answer = await self._connection.create_answer()
            await self._connection.set_local_description(answer)
        return str(answer.sdp)

    async def accept(self, answer: str) -> None:
        with _until_closed():
            await self._connection.set_remote_description(
                webrtc.RTCSessionDescriptionInit(type="answer", sdp=answer)
            )

    async def add_candidate(self, candidate: IceCandidate) -> None:
        with _until_closed():
            await self._connection.add_ice_candidate(
                webrtc.RTCIceCandidateInit(candidate.candidate, candidate.mid, candidate.line)
            )

    async def path(self) -> tuple[Literal["direct", "relayed", "unknown"], float | None]:
        with contextlib.suppress(LinkClosed, webrtc.PythonWebRTCExceptionBase), _until_closed():
            report = await self._connection.get_stats()
            stats: dict[str, Any] = dict(report.items())
            chosen = (getattr(entry, "selected_candidate_pair_id", None) for entry in stats.values())
            pair = next((stats[found] for found in chosen if found in stats), None)
            if pair is not None:
                ends = (stats.get(pair.local_candidate_id), stats.get(pair.remote_candidate_id))
                relayed = any(end is not None and end.candidate_type.value == "relay" for end in ends)
                answered = pair.responses_received or 0
                mean = (pair.total_round_trip_time or 0.0) / answered if answered else None
                return "relayed" if relayed else "direct", mean
        return "unknown", None

    async def close(self) -> None:
        self._connection.close()


new_connection = WrtcConnection
