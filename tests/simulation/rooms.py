"""A world of sessions in simulated time: hosts with disks, links between them, and weather.

Every host runs one session, carries out its effects and keeps what must survive. What it keeps of messages is durable a
moment later; a crash before that loses it, and `lost` says what it was, for the accounts. A link is one generation of
a connection between two hosts; a new generation has new uuids and fingerprints, as after a reconnect. In fair weather a
link is ordered and loses nothing; in bad weather it loses, doubles and reorders. Everything is drawn from a seed.
"""

import heapq
import itertools
from collections import Counter

from comity.envelopes.protocol.chain import PairKey, ReplayState
from comity.identity.protocol.keys import SigningKey, VacantId
from comity.rooms.protocol.effects import (
    BytesArrived,
    ChannelClosed,
    ChannelOpened,
    CloseLink,
    EmitEvent,
    KeepClock,
    PeerAppeared,
    SendBytes,
    SendText,
    SessionOptions,
    SignalLink,
    TextArrived,
)
from comity.rooms.protocol.files import FileSource
from comity.rooms.protocol.hello import SessionKeys
from comity.rooms.protocol.meeting import Attending, Meeting
from comity.rooms.protocol.message_dispatch import OpenSignalling
from comity.rooms.protocol.messages import (
    ForgetMessage,
    KeepMessage,
    KeepStatus,
    MarkRead,
    MessageKept,
    MessageNotKept,
    place_signed,
    sign_message,
    signed_pair,
)
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.signalling import RoomCipher
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.protocol.transfers import SendOptions
from comity.testing.links import Randomness
from comity.testing.loop import EPOCH
from comity.wire.machine import CancelTimer, SetTimer, TimerFired
from tests.rooms.protocol.disk import FILE_EFFECTS, Disk


class Weather:
    def __init__(self, loss=0.0, duplication=0.0, reordering=0.0, delay=0.005):
        self.loss = loss
        self.duplication = duplication
        self.reordering = reordering
        self.delay = delay


FAIR = Weather()


class Host:
    """`own` False: a peer like the reference, without a layer of our own. `clock_off`: seconds that its clock is ahead."""

    def __init__(self, world, name, *, own=True, clock_off=0.0, **options):
        self.world = world
        self.name = name
        self.clock_off = clock_off
        self.node_key = SigningKey.from_seed(world.randomness.bytes(32)) if own else None
        self.options = SessionOptions(
            room=options.pop("room", "lab"), stream_id=name, host="ws://relay", **options
        )
        self.disk = Disk()
        self.kept = {}
        self.read_ids = []
        self.statuses = {}
        self.writing = []
        self.lost = Counter()
        self.clock_kept = 0
        self.nodes = {}
        self.chains = {}
        self.boots = 0
        self.is_up = False
        self.emitted = []
        self.sent = []
        self.boot()

    def boot(self):
        self.boots += 1
        self.is_up = True
        self.timers = {}
        draws = self.world.randomness.branch(f"{self.name}/{self.boots}")
        self.session = RoomSession(
            self.options,
            session_id=f"vdo_{self.name}",
            keys=SessionKeys(draws.bytes(32)),
            node_key=self.node_key,
            wall=self.wall,
            draw=draws.bytes,
            clock_floor=self.clock_kept,
        )
        if self.node_key is None:  # the reference stamps what its clock says, also after it was set back
            self.session._peers._moment = lambda: int(self.wall() * 1000)
        attending = Attending(
            room=self.options.room,
            stream=self.name,
            cipher=RoomCipher(None),
            first_delay=self.options.reconnect_ms / 1000,
            longest_delay=self.options.max_reconnect_ms / 1000,
        )
        self.meeting = Meeting(attending, lambda count: bytes([255]) * count)
        records = self.disk.records.items()
        self.run(
            self.session.restore(
                outgoing=[record for (_, way), record in records if way == "outgoing"],
                incoming=[
                    (record, self.disk.chunks.get(name, {}))
                    for (name, way), record in records
                    if way == "incoming"
                ],
                outbox=[record for (box, *_), record in self.kept.items() if box == "out"],
                inbox=[record for (box, *_), record in self.kept.items() if box == "in"],
                read_ids=self.read_ids,
                nodes=self.nodes,
                statuses=list(self.statuses.values()),
                now=self.world.now,
            )
        )
        self.run(self.session.start(self.world.now))

    def wall(self):
        """Return the moment by the clock of this host, which may be wrong, and be set while it runs."""
        return self.world.wall() + self.clock_off

    def crash(self):
        self.nodes = self.session.messages.nodes
        self.is_up = False
        self.timers = {}
        self.lost.update((_box(effect), effect.message_id) for effect in self.writing)
        self.writing.clear()
        self.disk.crash()
        self.world.vanish(self)

    def handle(self, event):
        if self.is_up:
            self.run(self.session.receive(event, self.world.now))

    def run(self, effects):
        for effect in effects:
            self.carry_out(effect)

    def carry_out(self, effect):
        if isinstance(effect, FILE_EFFECTS):
            answer = self.disk.carry_out(effect)
            if answer is not None:
                self.world.later(0, self, answer)
        else:
            self._ACTS[type(effect)](self, effect)

    def _send(self, effect):
        self.sent.append(effect)
        self.world.transmit(self, effect)

    def _keep_clock(self, effect):
        self.clock_kept = effect.clock

    def _keep(self, effect):
        """Writes are durable in their order."""
        self.writing.append(effect)
        self.world.later(self.world.randomness.between(0, 0.02), self, _Written())

    def write(self):
        if self.writing:
            self.make_durable(self.writing.pop(0))

    def make_durable(self, effect):
        if isinstance(effect, MarkRead):
            self.kept.pop(("in", effect.node, effect.message_id), None)
            self.read_ids.append((effect.node, effect.message_id))
            return
        if isinstance(effect, KeepStatus):
            self.statuses[effect.message_id] = effect.record
            self.statuses.pop(effect.forget, None)
            return
        key = (effect.box, effect.node, effect.message_id)
        if isinstance(effect, ForgetMessage):
            self.kept.pop(key, None)
            return
        pair = signed_pair(effect)
        if pair is not None:
            after = place_signed(effect, self.chains.get(pair, ReplayState()))
            if isinstance(after, MessageNotKept):
                self.world.later(0, self, after)
                return
            self.chains[pair] = after
        self.kept[key] = effect.record
        if effect.box == "in":
            self.world.later(0, self, MessageKept(effect.node, effect.message_id))

    _ACTS = {  # noqa: RUF012 - a table
        SendText: _send,
        SendBytes: _send,
        SetTimer: lambda self, effect: self.world.set_timer(self, effect.name, effect.at),
        CancelTimer: lambda self, effect: self.timers.pop(effect.name, None),
        EmitEvent: lambda self, effect: self.emitted.append(effect.event),
        KeepClock: _keep_clock,
        CloseLink: lambda self, effect: self.world.close(self, effect.uuid),
        OpenSignalling: lambda self, _effect: self.world.signal(self),
        SignalLink: lambda _self, _effect: None,
        KeepMessage: _keep,
        ForgetMessage: _keep,
        KeepStatus: _keep,
        MarkRead: _keep,
    }

    # What its owner does.

    def send(self, data, target=None, **more):
        """What waits for its peer is durable before this returns."""
        result, effects = self.session.send(data, target, self.world.now, **more)
        self.run(effects)
        waiting = {one for one in result.get("message_ids", ()) if self.status(one) == "waiting"}
        while any(effect.message_id in waiting for effect in self.writing):
            self.write()
        return result

    def status(self, message_id):
        return self.session.messages.status(message_id, self.world.now)[0]

    def send_signed(self, data, target=None):
        ids = []
        for node in self.session.signed_targets(target):
            to = VacantId.from_hex(node)
            pair = PairKey(self.node_key.vacant_id, to)
            state = self.chains.get(pair, ReplayState())
            message_id = f"msg_{self.name}_{state.last_sequence_no + 1}_{node[:6]}"
            envelope, self.chains[pair] = sign_message(
                data, self.node_key, to, state, idempotency_key="", seconds=self.wall()
            )
            effects = self.session.send_signed(envelope, message_id, node, self.world.now)
            for effect in effects:
                if isinstance(effect, KeepMessage):
                    self.make_durable(effect)  # with its place in the chain, before it is sent
            self.run([effect for effect in effects if not isinstance(effect, KeepMessage)])
            ids.append(message_id)
        return ids

    def put(self, key, value, target=None, **more):
        entry, effects = self.session.put_state(key, value, target, **more)
        self.run(effects)
        return entry

    def send_file(self, data, target=None, transfer_id="file_1", **more):
        self.disk.sources[transfer_id] = data
        outgoing, effects = self.session.send_file(
            FileSource(kind="spool", total_bytes=len(data), path=f"spool/{transfer_id}"),
            target,
            SendOptions(transfer_id=transfer_id, **more),
            self.world.now,
        )
        self.run(effects)
        return outgoing

    def read(self, reader="owner", most=500):
        events, effects = self.session.read_events(reader, most)
        self.run(effects)
        return events

    def events(self, kind):
        return [event for event in self.emitted if event["type"] == kind]

    def data(self):
        return [event["data"] for event in self.events("data_received")]


class World:
    def __init__(self, seed=0):
        self.seed = seed
        self.randomness = Randomness(seed)
        self.now = 0.0
        self.weather = FAIR
        self.relay_is_up = True
        self.hosts = {}
        self.links = {}
        self.happened = Counter()
        self.trace = []
        self._queue = []
        self._order = itertools.count()
        self._generation = itertools.count(1)

    def wall(self):
        return EPOCH + self.now

    def host(self, name, **options):
        self.hosts[name] = Host(self, name, **options)
        return self.hosts[name]

    def later(self, seconds, host, event):
        heapq.heappush(self._queue, (self.now + seconds, next(self._order), host, host.boots, event, None))

    def set_timer(self, host, name, at):
        host.timers[name] = mark = next(self._order)
        heapq.heappush(self._queue, (max(at, self.now), mark, host, host.boots, TimerFired(name), name))

    def signal(self, host):
        """Dial the relay. When to come back to it is the room machine's affair."""
        host.meeting.dial()
        if not self.relay_is_up:
            self._lose_relay(host, "the relay does not answer")
            return
        host.meeting.connected(self.now)
        notify, _seed = host.meeting.receive(b'{"request": "listing", "list": []}', self.now)
        self.later(0.02, host, notify.notice)

    def stop_relay(self):
        self.relay_is_up = False
        for host in self.hosts.values():
            self._lose_relay(host, "the relay closed the connection")

    def _lose_relay(self, host, reason):
        [notify] = host.meeting.disconnected(reason, self.now)
        self.later(0, host, notify.notice)
        self.later(notify.notice.retry_in, host, _Dial())

    # Links.

    def uuid(self, name, generation):
        return f"{name}#{generation}"

    def is_linked(self, left, right):
        return frozenset((left.name, right.name)) in self.links

    def link(self, left, right, *, max_message=262_144, bound=True):
        """`left` is viewed and makes the offer."""
        generation = next(self._generation)
        self.links[frozenset((left.name, right.name))] = generation
        for here, there, role in ((left, right, "publisher"), (right, left, "viewer")):
            uuid = self.uuid(there.name, generation)
            ends = (f"fp {here.name} {generation}", f"fp {there.name} {generation}") if bound else None
            here.handle(PeerAppeared(uuid, role, there.name if role == "viewer" else here.name))
            here.handle(ChannelOpened(uuid, role, max_message, ends))
        self.trace.append(f"{self.now:.3f} link {left.name} {right.name}")

    def cut(self, left, right):
        generation = self.links.pop(frozenset((left.name, right.name)), None)
        if generation is None:
            return
        self.trace.append(f"{self.now:.3f} cut {left.name} {right.name}")
        for here, there in ((left, right), (right, left)):
            here.handle(ChannelClosed(self.uuid(there.name, generation), "cut"))

    def vanish(self, host):
        """Others notice the end of a process some time later, often when it is back already."""
        for pair in [pair for pair in self.links if host.name in pair]:
            (other,) = pair - {host.name}
            ended = ChannelClosed(self.uuid(host.name, self.links.pop(pair)), "gone")
            self.later(self.randomness.between(0, 3), self.hosts[other], ended)

    def close(self, host, uuid):
        """After what was sent before has arrived."""
        name, _, generation = uuid.rpartition("#")
        self.later(self.weather.delay, host, _Cut(name, int(generation)))

    def transmit(self, host, effect):
        name, _, number = effect.uuid.rpartition("#")
        pair = frozenset((host.name, name))
        if self.links.get(pair) != int(number):
            return
        assert len(effect.data) <= 262_144
        draw, weather = self.randomness, self.weather
        copies = 1
        if weather.loss and draw.chance(weather.loss):
            self.happened["lost"] += 1
            copies = 0
        elif weather.duplication and draw.chance(weather.duplication):
            self.happened["doubled"] += 1
            copies = 2
        sender = self.uuid(host.name, int(number))
        if isinstance(effect, SendText):
            event = TextArrived(sender, effect.data)
        else:
            event = BytesArrived(sender, effect.channel, effect.data)
        for _ in range(copies):
            delay = weather.delay
            if weather.reordering and draw.chance(weather.reordering):
                self.happened["reordered"] += 1
                delay += draw.between(0, 0.5)
            self.later(delay, self.hosts[name], event)

    # Time.

    def step(self):
        at, mark, host, boot, event, timer = heapq.heappop(self._queue)
        self.now = max(self.now, at)
        if boot != host.boots or not host.is_up:
            return
        if timer is not None and host.timers.get(timer) != mark:
            return
        if timer is not None:
            del host.timers[timer]
        if isinstance(event, _Dial):
            self.signal(host)
        elif isinstance(event, _Cut):
            if self.links.get(frozenset((host.name, event.name))) == event.generation:
                self.cut(host, self.hosts[event.name])
        elif isinstance(event, _Written):
            host.write()
        elif isinstance(event, TextArrived | BytesArrived):
            name, _, number = event.uuid.rpartition("#")
            if self.links.get(frozenset((host.name, name))) == int(number):
                host.handle(event)
        else:
            host.handle(event)

    def run(self, seconds):
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.step()
        self.now = end


def _box(effect):
    if isinstance(effect, MarkRead):
        return "read"
    if isinstance(effect, KeepStatus):
        return "status"
    return "forgotten" if isinstance(effect, ForgetMessage) else effect.box


class _Dial:
    """The relay is tried again."""


class _Written:
    """The oldest write is done."""


class _Cut:
    def __init__(self, name, generation):
        self.name = name
        self.generation = generation


OPEN = Demands()
SECURE = Demands(join_token_secret="room secret", enforce_join_token=True, require_session_mac=True)
