"""One session that runs: a `RoomSession` with its links, timers, files and what it keeps.

- Everything happens on one loop. The machine says what to do; here it is done, in that order.
- Between two peers there is one link. Where both ask for one at the same moment, both keep the one that was offered by
  the smaller stream id; later a newer link replaces the older one.
- Without a target every peer of the room is joined. Of two, the smaller stream id asks first, the other one later, in
  case the first is a peer that asks for nobody. A peer that sees the other one asking does not ask as well.
"""

import asyncio
import contextvars
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, BinaryIO, ClassVar, Final, Protocol

import msgspec
from msgspec import Struct

from comity.identity.protocol.keys import SigningKey
from comity.requests.caller import OWN_PROCESS, Caller, room_peer
from comity.requests.record import Recorder
from comity.rooms.peer_connection import PeerConnection
from comity.rooms.protocol.effects import (
    AttemptBegun,
    AttemptFailed,
    ChannelClosed,
    ChannelOpened,
    CloseLink,
    EmitEvent,
    KeepClock,
    LinkFailed,
    PeerSeen,
    SendBytes,
    SendText,
    SignallingFault,
    SignallingLost,
    SignallingProblem,
    SignallingReady,
    SignalLink,
    TakeWitness,
)
from comity.rooms.protocol.files import ForgetTransfer, KeepTransfer
from comity.rooms.protocol.membership import AskAdmission, Epoch, KeepEpoch
from comity.rooms.protocol.message_dispatch import OpenSignalling
from comity.rooms.protocol.messages import ForgetMessage, KeepMessage, KeepStatus, MarkRead, MessageKept
from comity.rooms.protocol.outgoing_file import OutgoingFile
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.signalling import Listed
from comity.rooms.spool import SourceMark, Spool
from comity.rooms.storage import Restored, RoomStore, file_act, room_act
from comity.rooms.witness import RoomWitness
from comity.wire.errors import ComityError
from comity.wire.link import LinkClosed, LinkOpened
from comity.wire.machine import CancelTimer, Clock, Effect, Event, SetTimer, TimerFired

log = logging.getLogger("comity.rooms")

RACE_SECONDS: Final = 10.0
FIRST_ASKS_AFTER: Final = 0.15
SECOND_ASKS_AFTER: Final = 3.0
STATE_EVERY: Final = 0.5
_FEW_KEYS: Final = 64


class FileSender(Struct, frozen=True, kw_only=True):
    """Who sends a file. `path`: the file on this machine; None for one that has none."""

    caller: Caller = OWN_PROCESS
    name: str = ""
    path: str | None = None


class RoomLinks(Protocol):
    """The room at the relay, and links to its peers."""

    @property
    def peers(self) -> tuple[Listed, ...]: ...

    def start(self) -> None: ...

    def view(self, stream: str) -> None: ...

    def unview(self, stream: str) -> None: ...

    def handle_channel_signal(self, attempt: int, message: dict[str, Any]) -> None: ...

    async def next_event(self) -> Any: ...

    async def close(self, reason: str = "") -> None: ...


class Hosting(Protocol):
    """The rooms that this node invites to, and those it was invited to."""

    async def decide(self, live: "LiveRoom", asked: AskAdmission) -> None:
        """Ask the record whether somebody is admitted, and answer with `AdmissionDecided`."""

    async def met_host(self, live: "LiveRoom") -> None:
        """The host of the room has let us in."""


class LiveRoom:
    def __init__(
        self,
        session: RoomSession,
        *,
        links: RoomLinks,
        spool: Callable[[Callable[[Event], None]], Spool],
        keeping: RoomStore,
        record: Recorder,
        clock: Clock,
        key: SigningKey,
        hosting: Hosting,
        witness: RoomWitness,
    ) -> None:
        self.session = session
        self.id = session.session_id
        self.log_id = secrets.token_hex(8)
        """Names the numbers of its events: after a restart they begin again."""
        self.key = key
        self.keeping = keeping
        self.spool = spool(self.handle_event)
        self._record = record
        self._clock = clock
        self._links = links
        self._hosting = hosting
        self._witness = witness
        self._connections: dict[str, PeerConnection] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._marks: dict[str, SourceMark] = {}
        self._senders: dict[str, FileSender] = {}
        self._views: set[str] = set()
        self._attempts: dict[int, str] = {}
        self._admitted: set[str] = set()
        self._state_kept = 0
        self._state_due = False
        self._keys_kept: set[str] = set()
        self._nodes_kept: dict[str, str] = {}
        self._clock_kept = 0
        self._epoch_kept: Epoch | None = None
        self._closed = False
        self.counts: dict[str, int] = {"sent": 0, "received": 0, "refused": 0}

    @property
    def now(self) -> float:
        return self._clock.monotonic()

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def expects_peers(self) -> bool:
        """Whether the room has a peer that this session will connect to."""
        options = self.session.options
        return any(
            peer.stream not in (None, options.stream_id) and options.target_stream_id in (None, peer.stream)
            for peer in self._links.peers
        )

    @property
    def has_peer(self) -> bool:
        """Whether a peer was joined and has said hello, or was refused."""
        return any(one["handshake_state"] != "discovered" for one in self.session.sync_peers(self.now))

    @property
    def streams_at_relay(self) -> set[str]:
        """The stream ids of the others that the relay has told of."""
        return {peer.stream for peer in self._links.peers if peer.stream is not None}

    # Its life.

    def start(self, restored: Restored | None = None) -> None:
        if restored is not None:
            self._restore(restored)
        self.run(self.session.start(self.now))
        self._start_task(self._witness.announce(self.handle_event))

    async def close(self, *, ended: bool) -> None:
        """`ended`: for good. Otherwise it can be opened again as it was."""
        if self._closed:
            return
        self.run(self.session.stop(self.now))
        self._closed = True
        if not ended:
            await self.keep_state(None)
        for timer in self._timers.values():
            timer.cancel()
        connections = list(self._connections.values())
        await asyncio.gather(*(one.finish() for one in connections), return_exceptions=True)
        await self._links.close("the session ends")
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self.spool.close, ended=ended)
        self.wake()
        for reply in self._replies.values():
            reply.cancel()

    def _restore(self, kept: Restored) -> None:
        outgoing, incoming = [], []
        self._nodes_kept, self._clock_kept = dict(kept.nodes), kept.clock
        self._epoch_kept = kept.epoch
        for one in kept.outgoing:
            record, mark, sender = one["record"], one.get("mark"), one.get("sender")
            transfer_id = record["transfer_id"]
            if sender is not None:
                self._senders[transfer_id] = msgspec.convert(sender, FileSender)
            if mark is not None:
                self._marks[transfer_id] = SourceMark(*mark)
                self.spool.reopen_source(transfer_id, record["source_path"], self._marks[transfer_id])
            outgoing.append(record)
        for one in kept.incoming:
            record = one["record"]
            chunks = self.spool.reopen_incoming(
                record["transfer_id"],
                record["spool_path"] or "",
                record["total_bytes"],
                None if record["status"] == "completed" else record["chunk_bytes"],
            )
            if chunks is None:
                self.keeping.forget_transfer(self.id, "incoming", record["transfer_id"])
            else:
                incoming.append((record, chunks))
        for entry in kept.state:
            self.session.state.merge(entry, default_actor=self.session.options.stream_id, updated_at="")
        self._state_kept = self.session.state.revision
        self._keys_kept = {entry["key"] for entry in kept.state}
        self.run(
            self.session.restore(
                outgoing=outgoing,
                incoming=incoming,
                outbox=kept.outbox,
                inbox=kept.inbox,
                read_ids=kept.read_ids,
                nodes=kept.nodes,
                statuses=kept.statuses,
                now=self.now,
            )
        )

    # What its owner does with it.

    def handle_event(self, event: Event) -> None:
        if not self._closed:
            self.run(self.session.receive(event, self.now))

    def run(self, effects: Sequence[Effect]) -> None:
        """Carry out effects of the machine."""
        for effect in effects:
            act = self._ACTS.get(type(effect))
            if act is None:
                log.error("no handler for the effect %s", type(effect).__name__)
            else:
                act(self, effect)
        self._check_state()

    async def send_durably(self, effects: Sequence[Effect], caller: Caller) -> None:
        """Carry out effects, and wait until the messages that they send are durable here."""
        sent = [effect for effect in effects if isinstance(effect, KeepMessage)]
        self.run([effect for effect in effects if not isinstance(effect, KeepMessage)])
        self.counts["sent"] += len(sent)
        if sent:
            self.keeping.flush_batch()
        try:
            await asyncio.sleep(0)  # first it leaves
        finally:  # also when it is cancelled meanwhile: it was sent all the same
            if len(sent) == 1:  # awaited directly: the caller resumes as soon as the commit is reported
                await self.keeping.keep_out(self.id, sent[0], caller)
            else:
                await asyncio.gather(*(self.keeping.keep_out(self.id, one, caller) for one in sent))

    def offer_source(self, transfer_id: str, file: BinaryIO) -> None:
        """The file is the spool's from now on."""
        self._marks[transfer_id] = self.spool.offer_file(transfer_id, file)

    def name_sender(self, outgoing: OutgoingFile, caller: Caller) -> None:
        """Note who sends the file, and that a file of this machine is sent, before the first byte leaves."""
        transfer_id, under_way = outgoing.offer.transfer_id, self.session.files.outgoing
        self._senders = {one: self._senders[one] for one in self._senders if one in under_way}
        path = outgoing.source.path if outgoing.source.kind == "path" else None
        self._senders[transfer_id] = FileSender(caller=caller, name=outgoing.offer.name, path=path)
        if path is not None:
            summary = outgoing.summary()
            self._record.note(file_act("ROOM_FILE_OFFERED", caller, self.id, summary, path))

    async def wait_change(self, seconds: float) -> None:
        """Wait until an event was emitted, but no longer than this."""
        if self._closed or seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.add(waiter)
        timer = loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiters.discard(waiter)

    def expect_reply(self, message_id: str) -> "asyncio.Future[dict[str, Any]]":
        future = self._replies[message_id] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda _done: self._replies.pop(message_id, None))
        return future

    async def link_stats(self) -> dict[str, dict[str, Any]]:
        """Return how each peer is reached, by its uuid."""
        found = {}
        for connection in list(self._connections.values()):
            stats = await connection.link.stats()
            found[connection.name] = {
                "path": stats.path,
                "round_trip_ms": None if stats.round_trip is None else round(stats.round_trip * 1000, 3),
                "bytes_sent": stats.bytes_sent,
                "bytes_received": stats.bytes_received,
            }
        return found

    # What the machine wants.

    def _set_timer(self, effect: SetTimer) -> None:
        self._cancel_timer(effect.name)
        wait = max(0.0, effect.at - self.now)
        loop = asyncio.get_running_loop()
        self._timers[effect.name] = loop.call_later(
            wait, self._timer_fired, effect.name, context=contextvars.Context()
        )

    def _timer_fired(self, name: str) -> None:
        self._timers.pop(name, None)
        self.handle_event(TimerFired(name))

    def _cancel_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _open_signalling(self, _effect: OpenSignalling) -> None:
        contextvars.Context().run(self._links.start)
        target = self.session.options.target_stream_id
        if target is not None:
            self._view(target)
        self._start_task(self._attend())

    def _use_connection(self, uuid: str, act: Callable[[PeerConnection], None]) -> None:
        connection = self._connections.get(uuid)
        if connection is not None:
            act(connection)

    async def _keep_in(self, effect: KeepMessage) -> None:
        sender = room_peer(effect.node, "signature")
        await asyncio.sleep(0)  # let the waiting readers run first
        if "envelope" in effect.record:
            async with self.keeping.chain_lock:
                outcome = await self.keeping.keep_in(self.id, effect, sender)
        else:
            outcome = await self.keeping.keep_in(self.id, effect, sender)
        if isinstance(outcome, MessageKept):
            await asyncio.sleep(0)  # then those that waited for the same commit
            self.counts["received"] += 1
        self.handle_event(outcome)

    def _keep_transfer(self, effect: KeepTransfer) -> None:
        mark = self._marks.get(effect.transfer_id) if effect.direction == "outgoing" else None
        kept: dict[str, Any] = {"direction": effect.direction, "record": effect.record}
        if mark is not None:
            kept["mark"] = [mark.device, mark.inode, mark.size, mark.changed]
            kept["sender"] = msgspec.to_builtins(self._senders.get(effect.transfer_id, FileSender()))
        self.keeping.keep_transfer(self.id, effect.direction, effect.transfer_id, kept)

    def _keep_clock(self, effect: KeepClock) -> None:
        self._clock_kept = effect.clock
        self._keep_more()

    def _keep_epoch(self, effect: KeepEpoch) -> None:
        if self._epoch_kept is None:
            self._start_task(self._hosting.met_host(self))
        self._epoch_kept = effect.epoch
        self._keep_more()

    def _keep_more(self) -> None:
        self.keeping.keep_more(self.id, self._clock_kept, self._nodes_kept, self._epoch_kept)

    def _emitted(self, effect: EmitEvent) -> None:
        event = effect.event
        kind = event["type"]
        if kind == "data_received":
            reply = self._replies.get(event.get("re") or "")
            if reply is not None and not reply.done():
                reply.set_result(event)
            if "message_id" not in event:
                self.counts["received"] += 1
        elif kind == "sync_peer_updated":
            self._note_peer(event)
        elif kind in _REFUSALS:
            self.counts["refused"] += 1
            self._record.refuse("peers", kind)
        elif kind == "file_received":
            caller = self._caller(str(event["from_stream_id"] or ""))
            self._record.note(file_act("ROOM_FILE_RECEIVED", caller, self.id, event))
        elif kind == "file_transfer_complete":
            sender = self._senders.pop(event["transfer_id"], FileSender())
            file = {**event, "name": sender.name}
            self._record.note(file_act("ROOM_FILE_SENT", sender.caller, self.id, file, sender.path))
        self.wake()

    def _note_peer(self, event: dict[str, Any]) -> None:
        if event["uuid"] not in self._admitted:
            self._admitted.add(event["uuid"])
            self._record.note(room_act("ROOM_PEER_ADMITTED", self._caller(str(event["stream_id"])), self.id))
        nodes = self.session.messages.nodes
        if nodes != self._nodes_kept:
            self._nodes_kept = nodes
            self._keep_more()

    def _caller(self, stream_id: str) -> Caller:
        """Return a peer by the node that it has proven to be, or else by the name it has in the room."""
        node = self.session.proven_node(stream_id)
        return room_peer(stream_id) if node is None else room_peer(node, "signature")

    def wake(self) -> None:
        """Wake all readers that wait for an event."""
        waiters, self._waiters = self._waiters, set()
        for waiter in waiters:
            _wake(waiter)

    # Shared state.

    def _check_state(self) -> None:
        if self.session.state.revision != self._state_kept and not self._state_due and not self._closed:
            self._state_due = True
            loop = asyncio.get_running_loop()
            loop.call_later(STATE_EVERY, self._state_later, context=contextvars.Context())

    def _state_later(self) -> None:
        self._state_due = False
        if not self._closed:
            self._start_task(self.keep_state(None))

    async def keep_state(self, caller: Caller | None) -> None:
        """Store the changes of shared state. `caller` None: nobody waits until they are durable."""
        state = self.session.state
        changed, self._state_kept = state.changes_since(self._state_kept), state.revision
        self._keys_kept.update(entry.key for entry in changed)
        gone: list[str] = []
        if len(self._keys_kept) > 2 * state.entry_count + _FEW_KEYS:
            gone = [key for key in self._keys_kept if state.entry(key) is None]
            self._keys_kept.difference_update(gone)
        if changed or gone:
            await self.keeping.keep_state(self.id, changed, gone, caller)

    # The relay and the links.

    async def _attend(self) -> None:
        try:
            while True:
                self._handle_notice(await self._links.next_event())
        except LinkClosed:
            return

    def _handle_notice(self, notice: Any) -> None:
        match notice:
            case SignallingReady(peers):
                self.handle_event(notice)
                for peer in peers:
                    self._peer_seen(peer)
            case SignallingLost() | SignallingProblem():
                self.handle_event(notice)
            case PeerSeen(peer):
                self._peer_seen(peer)
            case AttemptBegun(attempt, uuid):
                self._forget_attempts(uuid)
                self._attempts[attempt] = uuid
            case LinkOpened():
                self._forget_attempts(notice.uuid)
                self._link_opened(notice)
            case AttemptFailed(attempt, uuid, reason):
                self._attempts.pop(attempt, None)
                if not any(one.uuid == uuid for one in self._connections.values()):
                    self.handle_event(LinkFailed(uuid, reason))
            case SignallingFault(reason):
                log.debug("the relay passed on what no honest peer sends: %s", reason)

    def _peer_seen(self, peer: Listed) -> None:
        stream = peer.stream
        options = self.session.options
        if stream is None or options.target_stream_id is not None or stream == options.stream_id:
            return
        if stream not in self._views:
            wait = FIRST_ASKS_AFTER if options.stream_id < stream else SECOND_ASKS_AFTER
            asyncio.get_running_loop().call_later(wait, self._view_unless_asked, stream)

    def _forget_attempts(self, uuid: str) -> None:
        self._attempts = {attempt: one for attempt, one in self._attempts.items() if one != uuid}

    def _view_unless_asked(self, stream: str) -> None:
        """View a stream, unless its peer has left or is asking for us."""
        there = {peer.uuid for peer in self._links.peers if peer.stream == stream}
        if self._closed or not there:
            return
        if there & set(self._attempts.values()):
            asyncio.get_running_loop().call_later(SECOND_ASKS_AFTER, self._view_unless_asked, stream)
        else:
            self._view(stream)

    def _view(self, stream: str) -> None:
        """Ask for a link to this stream, unless there is one."""
        if self._closed:
            return
        self._views.add(stream)
        if not any(one.stream == stream for one in self._connections.values()):
            self._links.view(stream)

    def _link_opened(self, opened: LinkOpened) -> None:
        rival = next((one for one in self._connections.values() if one.uuid == opened.uuid), None)
        if rival is not None:
            if self.now - rival.opened_at < RACE_SECONDS and self._is_kept(rival, opened):
                self._drop(opened)
                return
            rival.close_after_flush("replaced by a newer link of the same peer")
        name = opened.uuid if opened.uuid not in self._connections else f"{opened.uuid}~{opened.attempt}"
        connection = PeerConnection(
            name, opened, opened_at=self.now, notify=self.handle_event, wait_room=self.spool.wait_room
        )
        self._connections[name] = connection
        connection.start()
        role = "publisher" if opened.link.is_offerer else "viewer"
        if opened.link.is_offerer and opened.stream is not None:
            self._links.unview(opened.stream)
        self.handle_event(
            ChannelOpened(name, role, opened.link.max_message_bytes, opened.link.binding, opened.stream)
        )
        self._start_task(self._watch(connection))

    def _is_kept(self, rival: PeerConnection, opened: LinkOpened) -> bool:
        """Return whether the link that is there stays; the other side comes to the same answer."""
        if rival.link.is_offerer == opened.link.is_offerer:
            return False
        we_are_smaller = self.session.options.stream_id < (opened.stream or "")
        return rival.link.is_offerer == we_are_smaller

    def _drop(self, opened: LinkOpened) -> None:
        if not opened.link.is_offerer and opened.stream is not None:
            self._links.unview(opened.stream)  # gives the link up as well
        else:
            self._start_task(opened.link.close("there is another link already"))

    async def _watch(self, connection: PeerConnection) -> None:
        end = await connection.link.wait_closed()
        await connection.stop()
        if self._connections.get(connection.name) is connection:
            del self._connections[connection.name]
        self._admitted.discard(connection.name)
        self.handle_event(
            LinkFailed(connection.name, end.reason)
            if end.by == "fault"
            else ChannelClosed(connection.name, end.reason)
        )
        if connection.stream is not None and connection.stream in self._views and connection.link.is_offerer:
            self._view(connection.stream)

    def _start_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task that belongs to the session, and not to the request that is being handled."""
        task = asyncio.create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not isinstance(fault, ComityError):
            log.error("a task of a session failed", exc_info=fault)

    _ACTS: ClassVar[dict[type[Effect], Callable[["LiveRoom", Any], None]]] = {
        SendText: lambda self, effect: self._use_connection(
            effect.uuid, lambda connection: connection.send_text(effect.data)
        ),
        SendBytes: lambda self, effect: self._use_connection(
            effect.uuid, lambda connection: connection.send_bytes(effect.channel, effect.data)
        ),
        SetTimer: _set_timer,
        CancelTimer: lambda self, effect: self._cancel_timer(effect.name),
        EmitEvent: _emitted,
        CloseLink: lambda self, effect: self._use_connection(
            effect.uuid, lambda connection: connection.close_after_flush(effect.reason)
        ),
        SignalLink: lambda self, effect: self._use_connection(
            effect.uuid,
            lambda connection: self._links.handle_channel_signal(connection.attempt, effect.message),
        ),
        KeepMessage: lambda self, effect: self._start_task(self._keep_in(effect)),
        KeepClock: _keep_clock,
        KeepEpoch: _keep_epoch,
        AskAdmission: lambda self, effect: self._start_task(self._hosting.decide(self, effect)),
        TakeWitness: lambda self, effect: self._start_task(self._witness.take(effect, self.handle_event)),
        KeepTransfer: _keep_transfer,
        ForgetTransfer: lambda self, effect: self.keeping.forget_transfer(
            self.id, effect.direction, effect.transfer_id
        ),
        ForgetMessage: lambda self, effect: self.keeping.forget_out(self.id, effect.node, effect.message_id),
        KeepStatus: lambda self, effect: self.keeping.keep_status(
            self.id, effect.message_id, effect.record, effect.forget
        ),
        MarkRead: lambda self, effect: self.keeping.mark_read(self.id, effect.node, effect.message_id),
        OpenSignalling: _open_signalling,
        **dict.fromkeys(Spool.WORK, lambda self, effect: self.spool.carry_out(effect)),
    }


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


_REFUSALS: Final = ("sync_peer_rejected", "protocol_auth_failed", "file_offer_rejected", "message_rejected")
