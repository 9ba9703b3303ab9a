"""What a session gets from its peers: every message is checked here before it reaches the machine that it is for.

    limit -> decode -> control or handshake -> admitted? -> sealed, fresh, in its own name? -> files, state, messages, data

What a peer did wrong is a named event, and the next message is processed as usual. The faults of one peer are reported
only so often, so that it cannot push out the events of others.
"""

import base64
from collections.abc import Callable
from typing import Any, Final

from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import (
    FILE_CHANNEL,
    MESSAGE_LIMIT,
    RAW_CHANNEL,
    AppData,
    BridgeEnvelope,
    Control,
    read_file_frame,
    read_text_message,
    write_control,
)
from comity.rooms.protocol.effects import BytesArrived, CloseLink, SendText, SignalLink, TextArrived
from comity.rooms.protocol.events import moment_or_none
from comity.rooms.protocol.files import Report
from comity.rooms.protocol.hello import HelloPayload
from comity.rooms.protocol.membership import (
    EPOCH_KIND,
    REMOVED,
    AdmissionDecided,
    KeepEpoch,
    MembersChanged,
)
from comity.rooms.protocol.message_exchange import MessageExchange
from comity.rooms.protocol.session_peers import RoomPeers
from comity.rooms.protocol.shared_data import StateExchange
from comity.rooms.protocol.transfers import Transfers
from comity.wire.errors import InvalidError, MalformedError
from comity.wire.machine import Effect

MAX_SIGNAL_BYTES: Final = 65_536
MAX_CANDIDATES: Final = 100
_KEEPALIVE: Final = {"type", "ts", "streamID"}
_HANDSHAKE: Final = ("sync.hello", "sync.hello_ack", "sync.reject")
_FOR_THE_LINK: Final = ("description", "candidate", "candidates", "iceRestartRequest")
_FAULTS: Final = (
    "file_offer_rejected",
    "file_chunk_rejected",
    "file_ack_rejected",
    "file_protocol_error",
    "file_protocol_unhandled",
)


class MessageDispatcher:
    def __init__(
        self,
        peers: RoomPeers,
        files: Transfers,
        exchange: StateExchange,
        messages: MessageExchange,
        wall: Callable[[], float],
    ) -> None:
        self._peers = peers
        self._files = files
        self._exchange = exchange
        self._messages = messages
        self._wall = wall

    def closed(self, uuid: str, now: float) -> list[Effect]:
        """Handle the end of a link: its transfers wait, and a peer that waited for its stream id is checked."""
        peer = self._peers.get(uuid)
        effects = [*self._peers.closed(uuid, now), *self._files.peer_gone(uuid)]
        for waiting, envelope, hello in self._peers.waiting_for(peer.stream_id) if peer is not None else ():
            effects += self._judge_again(waiting, envelope, hello, now)
        return effects

    def _judge_again(
        self, peer: RoomPeer, envelope: BridgeEnvelope, hello: HelloPayload, now: float
    ) -> list[Effect]:
        """Judge a hello that waited."""
        passed, effects = self._peers.judge(peer, envelope, hello, now)
        effects += self._end_refused(peer, now)
        if passed:
            effects += self._peers.greet(peer)  # it was turned away before, and does not know better
            effects.append(self._exchange.request(peer))
            effects += self._greeted(peer, f"link:{peer.uuid}", now)
        return effects

    # Members of a room that people were invited to.

    def admission_decided(self, event: AdmissionDecided, now: float) -> list[Effect]:
        """Go on with the hello that waited for the host's record."""
        members, peer = self._peers.members, self._peers.get(event.uuid)
        if members is None:
            return []
        if event.refusal is None:
            members.decided(event.node)
        if peer is None or not peer.is_open or peer.waiting_hello is None:
            return []
        if event.refusal is None:
            return self._judge_again(peer, *peer.waiting_hello, now)
        return [*self._peers.refuse_waiting(peer, event.refusal), *self._end_refused(peer, now)]

    def members_changed(self, event: MembersChanged, now: float) -> list[Effect]:
        """The host begins an epoch: tell those who stay, and put out those who do not."""
        members = self._peers.members
        if members is None:
            return []
        members.changed(event)
        effects = self._put_out(now)
        for peer in self._peers.reachable():
            effects += self._peers.tell_epoch(peer, members.news(event.why, event.names))
        return [*effects, *_changed(event.why, event.names)]

    def _put_out(self, now: float) -> list[Effect]:
        members = self._peers.members
        effects: list[Effect] = []
        for peer in self._peers.reachable():
            layer = peer.layer
            if members is not None and layer is not None and members.is_removed(layer.vacant_id.hex()):
                effects += [*self._peers.put_out(peer, REMOVED), *self._files.peer_gone(peer.uuid)]
                effects += self._end_refused(peer, now)
        return effects

    def _epoch(self, peer: RoomPeer, payload: dict[str, Any], now: float) -> list[Effect]:
        """Read what the host tells of an epoch. Nobody else may."""
        members = self._peers.members
        by_host = members is not None and peer.layer is not None and not members.is_host
        if (
            members is None
            or peer.layer is None
            or not by_host
            or not members.is_host_id(peer.layer.vacant_id.hex())
        ):
            return self._peers.fault(
                peer, now, "protocol_auth_failed", kind=EPOCH_KIND, reason="not_the_host"
            )
        try:
            news = members.read_news(payload)
        except InvalidError as why:
            return self._peers.fault(peer, now, "protocol_auth_failed", kind=EPOCH_KIND, reason=why.message)
        if news is None:
            return []
        epoch, why_changed, names = news
        is_first = members.epoch is None
        members.epoch = epoch
        effects: list[Effect] = [KeepEpoch(epoch), *self._put_out(now)]
        for other in self._peers:
            if other.is_open and other.waiting_hello is None:
                effects += self._peers.greet(other)
        for waiting, envelope, hello in self._peers.waiting_to_belong():
            effects += self._judge_again(waiting, envelope, hello, now)
        return effects if is_first else [*effects, *_changed(why_changed, names)]

    def text(self, event: TextArrived, now: float) -> list[Effect]:
        peer = self._peers.get(event.uuid)
        if peer is None or not peer.is_open:
            return []
        peer.last_message_at = now
        peer.last_seen_at = self._wall()
        if len(event.data) > MESSAGE_LIMIT:
            return self._peers.fault(peer, now, "protocol_error", reason="message_too_large")
        try:
            message = read_text_message(event.data)
        except MalformedError as why:
            return self._peers.fault(peer, now, "protocol_error", reason=f"malformed: {why.message}"[:200])
        if isinstance(message, Control):
            return self._control(peer, message.message, len(event.data), now)
        if isinstance(message, BridgeEnvelope) and message.kind in _HANDSHAKE:
            return self._handshake(peer, message, now)
        return self._when_admitted(peer, message, len(event.data), now)

    def binary(self, event: BytesArrived, now: float) -> list[Effect]:
        peer = self._peers.get(event.uuid)
        if peer is None or not peer.is_open:
            return []
        peer.last_message_at = now
        if event.channel not in {FILE_CHANNEL, RAW_CHANNEL}:
            return self._peers.fault(peer, now, "protocol_error", reason="binary_on_control_channel")
        if len(event.data) > MESSAGE_LIMIT:
            return self._peers.fault(peer, now, "protocol_error", reason="message_too_large")
        return self._when_admitted(peer, event, len(event.data), now)

    def _when_admitted(self, peer: RoomPeer, message: Any, size: int, now: float) -> list[Effect]:
        """Handle a message now, when the hello has passed, or never (ruling 58)."""
        if peer.is_admitted:
            return self._admitted(peer, message, size, now)
        if peer.handshake_state == "rejected":
            return []
        if peer.hold(message, size):
            return []
        return self._peers.fault(peer, now, "protocol_error", reason="too_much_before_hello")

    def _admitted(self, peer: RoomPeer, message: Any, size: int, now: float) -> list[Effect]:
        if isinstance(message, BytesArrived):
            return self._channel(peer, message, now)
        if isinstance(message, AppData):
            return self._data(peer, message.value, size, now)
        assert isinstance(message, BridgeEnvelope)
        refused = self._peers.check(peer, message, now)
        if refused is not None:
            return refused
        kind = message.kind
        family = kind.partition(".")[0]
        if family == "file":
            effects = self._files.receive(self._peers.file_peer(peer), kind, message.payload, now)
            return self._tamed(peer, effects, now)
        if family == "state":
            return self._exchange.receive(peer, message, now)
        if kind == "sync.heartbeat":
            peer.last_heartbeat_at = self._wall()
        if family == "sync":
            return []
        if kind == EPOCH_KIND:
            return self._epoch(peer, message.payload, now)
        if peer.layer is not None and kind in {"msg.data", "msg.receipt"}:
            return self._messages.receive(peer, kind, message.payload, size, now)
        return self._peers.fault(peer, now, "protocol_unknown", kind=kind[:64])

    def _tamed(self, peer: RoomPeer, effects: list[Effect], now: float) -> list[Effect]:
        """Drop reports of faults that are beyond the allowance of the peer."""
        return [
            effect
            for effect in effects
            if not (isinstance(effect, Report) and effect.kind in _FAULTS) or peer.faults.take(now)
        ]

    def _handshake(self, peer: RoomPeer, envelope: BridgeEnvelope, now: float) -> list[Effect]:
        before = peer.owner
        was_admitted = peer.is_admitted
        if envelope.kind == "sync.reject":
            passed, effects = False, self._peers.handle_reject(peer, envelope)
        else:
            passed, effects = self._peers.handle_hello(peer, envelope, now)
        if passed:
            return [*effects, self._exchange.request(peer), *self._greeted(peer, before, now)]
        if was_admitted and not peer.is_admitted:
            effects += self._files.peer_gone(peer.uuid)
        return [*effects, *self._end_refused(peer, now)]

    def _end_replaced(self, now: float) -> list[Effect]:
        """End the older link at once: what was under way on it continues on the newer one."""
        effects: list[Effect] = []
        for older in self._peers.replaced():
            effects.append(CloseLink(older.uuid, "replaced by a newer link of the same peer"))
            effects += self.closed(older.uuid, now)
        return effects

    def _end_refused(self, peer: RoomPeer, now: float) -> list[Effect]:
        """Close the link of a peer that we refused; it got the reason."""
        if not peer.was_refused:
            return []
        return [CloseLink(peer.uuid, "not admitted"), *self.closed(peer.uuid, now)]

    def _greeted(self, peer: RoomPeer, before: str, now: float) -> list[Effect]:
        """Continue what waited on either side: the first hello of this link has passed."""
        if peer.was_greeted:
            return []
        peer.was_greeted = True
        self._files.rename_owner(before, peer.owner)
        effects = self._end_replaced(now)
        members = self._peers.members
        if members is not None and members.is_host and members.epoch is not None:
            effects += self._peers.tell_epoch(peer, members.news())
        effects += self._files.peer_back(self._peers.file_peer(peer), now)
        effects += self._messages.greeted(peer, now)
        for message, size in peer.release_held():
            effects += self._admitted(peer, message, size, now)
        return effects

    def _control(self, peer: RoomPeer, message: dict[str, Any], size: int, now: float) -> list[Effect]:
        if any(name in message for name in _FOR_THE_LINK):
            return self._signal(peer, message, size, now)
        if isinstance(message.get("ping"), int | float):
            return [SendText(peer.uuid, write_control({"pong": message["ping"]}))]
        if message.get("bye"):
            closing = CloseLink(peer.uuid, "the peer said good-bye")
            return [closing, *self.closed(peer.uuid, now)]
        return []

    def _signal(self, peer: RoomPeer, message: dict[str, Any], size: int, now: float) -> list[Effect]:
        """Pass on descriptions and candidates of the link, within the limits of the relay."""
        candidates = message.get("candidates")
        if size > MAX_SIGNAL_BYTES:
            return self._peers.fault(peer, now, "protocol_error", reason="signal_too_large")
        if isinstance(candidates, list) and len(candidates) > MAX_CANDIDATES:
            return self._peers.fault(peer, now, "protocol_error", reason="too_many_candidates")
        return [SignalLink(peer.uuid, message)] if peer.is_admitted else []

    def _data(self, peer: RoomPeer, value: Any, size: int, now: float) -> list[Effect]:
        if isinstance(value, dict) and value.get("type") == "bridge.keepalive" and set(value) == _KEEPALIVE:
            peer.last_heartbeat_at = self._wall()
            return []
        refused = self._peers.check_data(peer, "pipe", now)
        return self._received(peer, value, None, size) if refused is None else refused

    def _channel(self, peer: RoomPeer, event: BytesArrived, now: float) -> list[Effect]:
        if event.channel == RAW_CHANNEL:
            refused = self._peers.check_data(peer, RAW_CHANNEL, now)
            if refused is not None:
                return refused
            return self._received(peer, None, base64.b64encode(event.data).decode(), len(event.data))
        try:
            frame = read_file_frame(event.data)
        except MalformedError:
            return self._peers.fault(peer, now, "protocol_error", reason="malformed_file_frame")
        if peer.layer is None or peer.key is None or not frame.is_sealed_by(peer.key):
            reason = "no_key" if peer.key is None else "mac"
            return self._peers.fault(peer, now, "protocol_auth_failed", kind="file.frame", reason=reason)
        return self._tamed(peer, self._files.frame(self._peers.file_peer(peer), frame), now)

    def _received(self, peer: RoomPeer, data: Any, binary: str | None, size: int) -> list[Effect]:
        members = {
            "uuid": peer.uuid,
            "streamID": peer.stream_id,
            "fallback": False,
            "data": data,
            "binaryBase64": binary,
        }
        return [Report("data_received", members, size)]


def _changed(why: str | None, names: tuple[str, ...]) -> list[Effect]:
    return [] if why is None else [Report("room_members_changed", {"reason": why, "names": list(names)})]


# The states of a session (peers 6). How its signalling comes back is the signalling's own affair; it says when.


class OpenSignalling(Effect, frozen=True):
    """Join the room, announce the stream id, view the target, and come back whenever the connection is lost."""


class Lifecycle:
    def __init__(self, *, reconnect_ms: int, wall: Callable[[], float]) -> None:
        self._first_ms = reconnect_ms
        self._wall = wall
        self.state = "idle"
        self.delay_ms = reconnect_ms
        self.reconnect_count = 0
        self.last_error: str | None = None
        self.last_ready_at: float | None = None
        self.last_connected_at: float | None = None
        self.last_disconnected_at: float | None = None

    def start(self) -> list[Effect]:
        if self.state != "idle":
            return []
        self.state = "connecting"
        return [OpenSignalling()]

    def ready(self, members: dict[str, Any]) -> list[Effect]:
        if self.state not in {"connecting", "reconnecting"}:
            return []
        self.state = "connected"
        self.last_ready_at = self.last_connected_at = self._wall()
        self.delay_ms = self._first_ms
        return [Report("connected", {}), Report("ready", members)]

    def lost(self, reason: str, retry_in: float) -> list[Effect]:
        """Report the loss. `retry_in` is in seconds."""
        if self.state in {"idle", "stopped"}:
            return []
        if self.state == "connected":
            self.last_disconnected_at = self._wall()
            report, why = Report("disconnected", {}), "disconnected"
        else:
            report, why = Report("connect_error", {"message": reason}), "connect_error"
        self.state = "reconnecting"
        self.last_error = reason
        self.reconnect_count += 1
        self.delay_ms = round(retry_in * 1000)
        return [report, Report("reconnect_scheduled", {"reason": why, "inMs": self.delay_ms})]

    def stop(self) -> list[Effect]:
        if self.state == "stopped":
            return []
        self.state = "stopped"
        return [Report("stopped", {})]

    def members(self) -> dict[str, Any]:
        """Return its part of the status (peers 1.5)."""
        return {
            "reconnect_count": self.reconnect_count,
            "reconnect_delay_ms": self.delay_ms,
            "last_ready_at": moment_or_none(self.last_ready_at),
            "last_connected_at": moment_or_none(self.last_connected_at),
            "last_disconnected_at": moment_or_none(self.last_disconnected_at),
        }
