"""One session in a room: it wires the machines of this package and speaks to the links through effects.

    session = RoomSession(options, session_id=..., keys=..., node_key=..., wall=..., draw=...)
    effects = session.receive(event, now)            # what happened on links, disks and timers
    result, effects = session.send(data, target, now)  # what the owner wants

- Every envelope for a peer is sealed for that peer alone; a broadcast is one message for each (peers 3.3).
- Nothing is sent that the link cannot carry: a message above its maximum would close it for good (peers 4).
- Events for the owner are in `events`; each reader has its own cursor.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

from comity.identity.protocol.keys import SigningKey
from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import (
    FILE_CHANNEL,
    BridgeEnvelope,
    write_control,
    write_data,
    write_envelope,
    write_file_frame,
)
from comity.rooms.protocol.effects import (
    BytesArrived,
    ChannelClosed,
    ChannelOpened,
    CloseLink,
    EmitEvent,
    KeepClock,
    LinkDrained,
    LinkFailed,
    LinkFull,
    PeerAppeared,
    SendBytes,
    SendFailed,
    SendText,
    SessionOptions,
    SignallingLost,
    SignallingProblem,
    SignallingReady,
    TextArrived,
    WitnessReady,
)
from comity.rooms.protocol.events import EventLog, iso_moment, moment_or_none, session_event
from comity.rooms.protocol.files import FileAnswer, FilePeer, FileSource, FrameToPeer, Report, ToPeer
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.membership import AdmissionDecided, Epoch, MembersChanged, RoomMembers
from comity.rooms.protocol.message_dispatch import Lifecycle, MessageDispatcher
from comity.rooms.protocol.message_exchange import MessageExchange, check_fits
from comity.rooms.protocol.messages import OUTBOX_TIMER, MessageKept, MessageNotKept
from comity.rooms.protocol.outgoing_file import OutgoingFile
from comity.rooms.protocol.session_peers import HELLO_TIMER, RoomPeers
from comity.rooms.protocol.shared_data import LAST_CLOCK, SharedState, StateEntry, StateExchange
from comity.rooms.protocol.transfers import OUT_TIMER, SWEEP_TIMER, SendOptions, Transfers
from comity.wire.errors import InvalidError
from comity.wire.machine import CancelTimer, Effect, Event, SetTimer, TimerFired

HEARTBEAT_TIMER: Final = "heartbeat"
HELLO_EVERY: Final = 4
_CLOCKS_AHEAD: Final = 1024

_Handler = Callable[["RoomSession", Any, float], list[Effect]]


class RoomSession:
    """`draw` gives so many random bytes, `wall` wall time in seconds. `clock_floor` is what `KeepClock` kept, `epoch` what
    `KeepEpoch` or the host's own record did; `members` are those of a host.
    """

    def __init__(
        self,
        options: SessionOptions,
        *,
        session_id: str,
        keys: SessionKeys,
        node_key: SigningKey | None,
        wall: Callable[[], float],
        draw: Callable[[int], bytes],
        clock_floor: int = 0,
        epoch: Epoch | None = None,
        members: frozenset[str] = frozenset(),
    ) -> None:
        options.demands.check()
        self.options = options
        self.session_id = session_id
        self.events = EventLog()
        self._wall = wall
        self._draw = draw
        self._life = Lifecycle(reconnect_ms=options.reconnect_ms, wall=wall)
        belonging = None
        if options.membership is not None and node_key is not None:
            own_id = node_key.vacant_id.hex()
            belonging = RoomMembers(
                options.membership,
                own_id,
                room=options.room,
                stream_id=options.stream_id,
                epoch=epoch,
                members=members,
            )
        self._peers = RoomPeers(
            options, keys=keys, node_key=node_key, wall=wall, draw=draw, members=belonging
        )
        self.state = SharedState(options.stream_id, max_keys=options.state_max_keys, clock_floor=clock_floor)
        self.files = Transfers(
            options.files, wall=wall, token=lambda: draw(4).hex(), envelope_bytes=_envelope_bytes(options)
        )
        self.messages = MessageExchange(
            self._peers, None if node_key is None else node_key.vacant_id, wall, _envelope_bytes(options)
        )
        self._exchange = StateExchange(self.state, self._peers, options, wall)
        self._dispatcher = MessageDispatcher(self._peers, self.files, self._exchange, self.messages, wall)
        self._clock_kept = clock_floor
        self._ticks = 0
        self._last_heartbeat_at: float | None = None

    def receive(self, event: Event, now: float) -> Sequence[Effect]:
        if self._life.state == "stopped":
            return ()
        kind = FileAnswer if isinstance(event, FileAnswer) else type(event)
        handler = self._TABLE.get(kind)
        return () if handler is None else self._carry(handler(self, event, now))

    # What the owner wants.

    def start(self, now: float) -> Sequence[Effect]:
        beat = SetTimer(HEARTBEAT_TIMER, now + self.options.heartbeat_ms / 1000)
        return self._carry([*self._life.start(), beat])

    def stop(self, now: float) -> Sequence[Effect]:
        effects: list[Effect] = [CancelTimer(HEARTBEAT_TIMER)]
        for peer in self._peers:
            if peer.is_open:
                effects += [
                    SendText(peer.uuid, write_control({"bye": True})),
                    CloseLink(peer.uuid, "the session ends"),
                ]
                effects += self._dispatcher.closed(peer.uuid, now)
        return self._carry([*effects, *self._life.stop()])

    def send(self, data: Any, target: Any, now: float) -> tuple[dict[str, Any], Sequence[Effect]]:
        """Send data. `ok` is False when nobody could be sent to. Messages to our own nodes have ids and get receipts."""
        body = {"data": data}
        peers = self._targets(target)
        plain = [peer for peer in peers if self._node_of(peer) is None]
        text = write_data(data) if plain else b""
        nodes = [(node, peer.stream_id) for peer in peers if (node := self._node_of(peer)) is not None]
        absent = None if peers else self.messages.absent_node(target)
        if absent is not None:
            nodes = [(absent, self.messages.absent_stream(target))]
        for peer in plain:
            check_fits(len(text), peer.max_message)
        if len(nodes) > 1:  # all of them or none
            self.messages.check([node for node, _ in nodes], body)
        effects: list[Effect] = [SendText(peer.uuid, text) for peer in plain]
        ids: list[str] = []
        for node, stream in nodes:
            ids.append(f"msg_{self._draw(8).hex()}")
            effects += self.messages.post(node, ids[-1], body, None, now, stream)
        reached = bool(peers) or absent is not None
        if not reached:
            effects.append(self._rejected(target))
        carried = self._carry(effects)
        return self.sent_result(target, ids, now, ok=reached), carried

    def sent_result(self, target: Any, ids: list[str], now: float, *, ok: bool) -> dict[str, Any]:
        """Return what is said of a message that was sent: why nobody could be sent to, or that it waits and for whom."""
        result: dict[str, Any] = {"ok": ok, "used_target": target}
        if ids:
            result["message_ids"] = ids
        name = self.messages.absent_stream(target)
        if not ok:
            here = ", ".join(sorted(peer.stream_id or peer.uuid for peer in self._peers.reachable()))
            who = "nobody else is" if name is None else f"{name} is not, and was not, in the room"
            result["reason"] = f"{who} here" if name is None else who
            if here:
                result["reason"] += f"; here: {here}"
        elif any((self.messages.status(one, now) or ("",))[0] == "waiting" for one in ids):
            result["status"] = "waiting"
            result["reason"] = (
                f"{name or 'the peer'} does not answer; the message waits for it, up to 24 hours"
            )
        return result

    def send_signed(
        self, envelope: dict[str, Any], message_id: str, node: str, now: float
    ) -> Sequence[Effect]:
        """Send a signed message to one node; the shell has made the envelope and its place in the chain."""
        return self._carry(self.messages.post(node, message_id, {"envelope": envelope}, None, now))

    def signed_targets(self, target: Any) -> list[str]:
        """Return the nodes that a signed message goes to. Raise InvalidError for a peer without a proven node."""
        nodes = []
        for peer in self._targets(target):
            node = self._node_of(peer)
            if node is None:
                name = peer.stream_id or peer.uuid
                raise InvalidError(f"invalid target: {name} has no VacantId, so nothing can be signed for it")
            nodes.append(node)
        absent = None if nodes else self.messages.absent_node(target)
        return list(dict.fromkeys(nodes)) if absent is None else [absent]

    def reply(self, message_id: str, data: Any, now: float) -> tuple[dict[str, Any], Sequence[Effect]]:
        node, stream = self.messages.sender_of(message_id)
        own = f"msg_{self._draw(8).hex()}"
        return {"ok": True, "message_id": own}, self._carry(
            self.messages.post(node, own, {"data": data}, message_id, now, stream)
        )

    def announce(self, target: Any) -> tuple[dict[str, Any], Sequence[Effect]]:
        peers = [peer for peer in self._wanted(target) if peer.is_open]
        effects = [effect for peer in peers for effect in self._peers.greet(peer)]
        if not peers:
            effects.append(self._rejected(target))
        return {"ok": bool(peers), "used_target": target}, self._carry(effects)

    def put_state(
        self, key: str, value: Any, target: Any = None, *, broadcast: bool = True
    ) -> tuple[StateEntry, Sequence[Effect]]:
        """Write a key; UNSET deletes it. With `broadcast` False and no target no patch is sent; later snapshots have it."""
        entry = self.state.put(key, value, iso_moment(self._wall()))
        peers = self._targets(target) if broadcast or target is not None else []
        return entry, self._carry(self._exchange.written(entry, peers))

    def swap_state(self, key: str, value: Any, expected_clock: int) -> tuple[StateEntry, Sequence[Effect]]:
        entry = self.state.swap(key, value, expected_clock, iso_moment(self._wall()))
        return entry, self._carry(self._exchange.written(entry, self._peers.reachable()))

    def sync_state(self, mode: str, target: Any) -> tuple[dict[str, Any], Sequence[Effect]]:
        peers = self._targets(target)
        effects: list[Effect] = []
        for peer in peers:
            if mode == "request":
                effects.append(self._exchange.request(peer))
            else:
                effects += self._exchange.snapshot(peer)
        if not peers:
            effects.append(self._rejected(target))
        return {"ok": bool(peers), "mode": mode, "used_target": target}, self._carry(effects)

    def send_file(
        self, source: FileSource, target: Any, options: SendOptions, now: float
    ) -> tuple[OutgoingFile, Sequence[Effect]]:
        outgoing, effects = self.files.send(source, self.file_target(target), options, now)
        return outgoing, self._carry(effects)

    def resume_file(
        self,
        transfer_id: str,
        target: Any,
        now: float,
        *,
        ack_timeout: float | None = None,
        max_retries: int | None = None,
    ) -> tuple[OutgoingFile, Sequence[Effect]]:
        """Resume a transfer; one that is completed or cancelled stays as it is."""
        outgoing = self.files.outgoing.get(transfer_id)
        if outgoing is None:
            raise InvalidError(f"unknown transfer_id: {transfer_id}")
        effects: list[Effect] = []
        if outgoing.status not in {"completed", "cancelled"}:
            found = None if target is not None else self._owner_of(outgoing)
            peer = found or self.file_target(target)
            outgoing.change_limits(ack_timeout, max_retries)
            effects = self.files.resume(outgoing, peer, now)
        return outgoing, self._carry(effects)

    def cancel_file(self, transfer_id: str) -> Sequence[Effect]:
        return self._carry(self.files.cancel(transfer_id))

    def file_target(self, target: Any) -> FilePeer:
        """Return the one peer a file goes to (peers 1.6)."""
        peers = self._targets(target)
        if self._life.state in {"idle", "stopped"}:
            raise InvalidError("not connected")
        if not peers:
            raise InvalidError("no connected peers" if target is None else "failed to send file.offer")
        if len(peers) > 1:
            raise InvalidError("ambiguous target: multiple peers connected")
        return self._peers.file_peer(peers[0])

    def read_events(
        self, reader: str, most: int, most_bytes: int | None = None
    ) -> tuple[list[dict[str, Any]], Sequence[Effect]]:
        """Return the next events. Messages among them were read: they need not survive a restart any more."""
        events = self.events.read(reader, most, self._wall(), most_bytes)
        return events, self._mark_read(events)

    def peek_events(
        self, reader: str, most: int, after: int | None, *, only_messages: bool
    ) -> list[tuple[int, dict[str, Any]]]:
        """Return events with their numbers; nothing was read by that."""
        if only_messages:
            return self.events.peek_messages(reader, most, after)
        return self.events.peek(reader, most, self._wall(), after)

    def acknowledge_events(self, reader: str, through: int) -> Sequence[Effect]:
        """Note that the reader has used all events up to this number: they were read."""
        return self._mark_read(self.events.acknowledge(reader, through))

    def _mark_read(self, events: Iterable[dict[str, Any]]) -> list[Effect]:
        return self._carry(self.messages.mark_read(events))

    def restore(
        self,
        *,
        outgoing: Sequence[dict[str, Any]] = (),
        incoming: Sequence[tuple[dict[str, Any], Mapping[int, bytes]]] = (),
        outbox: Sequence[dict[str, Any]] = (),
        inbox: Sequence[dict[str, Any]] = (),
        read_ids: Sequence[tuple[str, str]] = (),
        nodes: Mapping[str, str] | None = None,
        statuses: Sequence[dict[str, Any]] = (),
        now: float,
    ) -> Sequence[Effect]:
        """Restore what an earlier process stored: transfers, messages, and which node has which stream id."""
        effects: list[Effect] = []
        for record in outgoing:
            try:
                effects += self.files.restore_outgoing(record, now)
            except InvalidError as why:
                effects.append(_not_restored(record, "outgoing", why.message))
        for record, chunks in incoming:
            try:
                effects += self.files.restore_incoming(record, chunks, now)
            except InvalidError as why:
                effects.append(_not_restored(record, "incoming", why.message))
        effects += self.messages.restore(outbox, inbox, read_ids, nodes or {}, statuses, now)
        return self._carry(effects)

    # What others see of it.

    @property
    def connection_state(self) -> str:
        return self._life.state

    def status(self) -> dict[str, Any]:
        options, life = self.options, self._life.members()
        connected = [peer.uuid for peer in self._peers if peer.is_open]
        return {
            "session_id": self.session_id,
            "state": self._life.state,
            "connected": self._life.state == "connected",
            "room": options.room,
            "stream_id": options.stream_id,
            "target_stream_id": options.target_stream_id,
            "host": options.host,
            "force_turn": options.force_turn,
            "peers": connected,
            "peer_count": len(connected),
            "sync_peer_count": sum(1 for _ in self._peers),
            **life,
            "last_heartbeat_at": moment_or_none(self._last_heartbeat_at),
            "last_error": self._life.last_error,
            "state_keys": len(self.state),
            "outgoing_transfers": len(self.files.outgoing),
            "incoming_transfers": len(self.files.incoming),
        }

    @property
    def present(self) -> int:
        """How many others are linked and admitted."""
        return len({peer.stream_id or peer.uuid for peer in self._peers.reachable()})

    def sync_peers(self, now: float) -> list[dict[str, Any]]:
        return [self._peers.summary(peer, now) for peer in self._peers]

    # What happened.

    def _ready(self, _event: SignallingReady, _now: float) -> list[Effect]:
        options = self.options
        members = {
            "room": options.room,
            "streamID": options.stream_id,
            "targetStreamID": options.target_stream_id,
            "host": options.host,
            "forceTURN": options.force_turn,
        }
        return self._life.ready(members)

    def _problem(self, event: SignallingProblem, _now: float) -> list[Effect]:
        self._life.last_error = event.error
        code = {} if event.code is None else {"code": event.code}
        return [Report("sdk_error", {"detail": {"error": event.error, "details": None, **code}})]

    def _link_failed(self, event: LinkFailed, now: float) -> list[Effect]:
        peer = self._peers.get(event.uuid)
        detail = {
            "uuid": event.uuid,
            "type": None if peer is None else peer.role,
            "streamID": None if peer is None else peer.stream_id,
            "reason": event.reason,
        }
        report = Report("connection_failed", {"detail": detail})
        return [report, *self._dispatcher.closed(event.uuid, now)]

    def _timer(self, event: TimerFired, now: float) -> list[Effect]:
        name = event.name
        if name == HEARTBEAT_TIMER:
            return self._beat(now)
        if name == OUTBOX_TIMER:
            return self.messages.timer_fired(now)
        if name.startswith(HELLO_TIMER):
            return self._peers.no_hello(name.removeprefix(HELLO_TIMER))
        if name == SWEEP_TIMER or name.startswith(OUT_TIMER):
            return self.files.timer_fired(name, now)
        return []

    def _beat(self, now: float) -> list[Effect]:
        self._ticks += 1
        wall = self._wall()
        effects: list[Effect] = [SetTimer(HEARTBEAT_TIMER, now + self.options.heartbeat_ms / 1000)]
        payload = {"room": self.options.room, "stream_id": self.options.stream_id}
        reached = self._peers.reachable()
        for peer in reached:
            effects.append(ToPeer(peer.uuid, "sync.heartbeat", payload))
            effects.append(SendText(peer.uuid, write_control({"ping": int(wall * 1000)})))
        if reached:
            self._last_heartbeat_at = wall
            effects.append(Report("heartbeat_sent", {"ok": True}))
        if self._ticks % HELLO_EVERY == 0:
            for peer in self._peers:
                if peer.is_open:
                    effects += self._peers.greet(peer)
        return [*effects, *self._peers.end_stale(now)]

    # Targets, and how effects leave.

    def _wanted(self, target: Any) -> list[RoomPeer]:
        if target is None:
            return list(self._peers)
        name = target
        if isinstance(target, dict):
            name = target.get("uuid") or target.get("UUID") or target.get("streamID")
            if name is None:
                return list(self._peers)
        found = self._peers.resolve(name) if isinstance(name, str) else None
        return [] if found is None else [found]

    def _targets(self, target: Any) -> list[RoomPeer]:
        return [peer for peer in self._wanted(target) if peer.is_open and peer.is_admitted]

    def proven_node(self, stream_id: str) -> str | None:
        """Return the node behind a stream id that is linked now, where it has proven which one it is."""
        peer = self._peers.resolve(stream_id)
        return None if peer is None or peer.layer is None else peer.layer.vacant_id.hex()

    def stream_of(self, node: str) -> str | None:
        """Return the stream id under which a node is here now."""
        peer = self._peers.of_node(node)
        return None if peer is None else peer.stream_id

    def _node_of(self, peer: RoomPeer) -> str | None:
        """Of a peer that has not said hello on this link yet: the node that had its stream id before."""
        if peer.layer is not None:
            return peer.layer.vacant_id.hex()
        return None if peer.was_greeted else self.messages.absent_node(peer.stream_id)

    def _owner_of(self, outgoing: OutgoingFile) -> FilePeer | None:
        for peer in self._peers.reachable():
            if peer.owner == outgoing.peer.owner:
                return self._peers.file_peer(peer)
        return None

    def _rejected(self, target: Any) -> Effect:
        reason = "no_open_data_channel" if self._life.state != "idle" else "not_connected"
        return Report("send_rejected", {"reason": reason, "target": target})

    def _carry(self, effects: Sequence[Effect]) -> list[Effect]:
        """Seal what goes to peers, and log what is reported to the owner."""
        carried: list[Effect] = []
        for effect in effects:
            if isinstance(effect, ToPeer):
                carried += self._sealed(effect)
            elif isinstance(effect, FrameToPeer):
                peer = self._peers.get(effect.uuid)
                if peer is not None and peer.is_open and peer.is_admitted and peer.key is not None:
                    frame = write_file_frame(
                        effect.mark, effect.sequence, effect.digest, effect.data, peer.key
                    )
                    carried.append(SendBytes(effect.uuid, FILE_CHANNEL, frame))
            elif isinstance(effect, Report):
                carried.append(self._tell(effect))
            else:
                carried.append(effect)
        if self.state.highest_clock + _CLOCKS_AHEAD // 2 > self._clock_kept < LAST_CLOCK:
            self._clock_kept = min(self.state.highest_clock + _CLOCKS_AHEAD, LAST_CLOCK)
            carried.insert(0, KeepClock(self._clock_kept))
        return carried

    def _sealed(self, effect: ToPeer) -> list[Effect]:
        peer = self._peers.get(effect.uuid)
        if peer is None or not peer.is_open or not peer.is_admitted:
            return []
        text = self._peers.seal(peer, effect.kind, effect.payload)
        if len(text) <= peer.max_message:
            return [SendText(peer.uuid, text)]
        message = f"{effect.kind} of {len(text)} bytes exceeds the {peer.max_message} bytes of a message"
        return [self._tell(Report("send_error", {"message": message}))]

    def _tell(self, report: Report) -> Effect:
        event = session_event(report.kind, self._wall(), **report.members)
        self.events.append(event, report.size, promised=report.promised)
        return EmitEvent(event)

    _TABLE: ClassVar[Mapping[type[Event], _Handler]] = {
        SignallingReady: _ready,
        SignallingLost: lambda self, event, _now: self._life.lost(event.reason, event.retry_in),
        SignallingProblem: _problem,
        PeerAppeared: lambda self, event, now: self._peers.appeared(event, now),
        ChannelOpened: lambda self, event, now: self._peers.channel_opened(event, now),
        ChannelClosed: lambda self, event, now: self._dispatcher.closed(event.uuid, now),
        LinkFailed: _link_failed,
        SendFailed: lambda _self, event, _now: [Report("send_error", {"message": event.message})],
        LinkFull: lambda self, event, _now: self.files.link_full(event.uuid),
        LinkDrained: lambda self, event, _now: self.files.link_drained(event.uuid),
        TextArrived: lambda self, event, now: self._dispatcher.text(event, now),
        BytesArrived: lambda self, event, now: self._dispatcher.binary(event, now),
        WitnessReady: lambda self, event, _now: self._peers.keep_witness(event),
        TimerFired: _timer,
        FileAnswer: lambda self, event, now: self.files.answer(event, now),
        AdmissionDecided: lambda self, event, now: self._dispatcher.admission_decided(event, now),
        MembersChanged: lambda self, event, now: self._dispatcher.members_changed(event, now),
        MessageKept: lambda self, event, _now: self.messages.kept(event),
        MessageNotKept: lambda self, event, _now: self.messages.not_kept(event),
    }


def _not_restored(record: dict[str, Any], direction: str, reason: str) -> Effect:
    """Report a record that cannot be read; the session opens without it."""
    members = {"transfer_id": record.get("transfer_id"), "direction": direction, "reason": reason}
    return Report("file_transfer_failed", members)


def _envelope_bytes(options: SessionOptions) -> int:
    """Return what a sealed envelope takes beside its payload."""
    empty = BridgeEnvelope(
        kind="file.complete_ack",
        ts=10**13,
        nonce="p_00000000",
        room=options.room,
        from_stream_id=options.stream_id,
        payload={},
    )
    return len(write_envelope(empty, bytes(32)))
