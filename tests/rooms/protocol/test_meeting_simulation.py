"""Many machines of peers, with a relay, in a world that breaks: in the end every view has its link."""

import heapq

import pytest

from comity.rooms.protocol.effects import (
    Dial,
    GiveUp,
    HangUp,
    MakeAnswer,
    MakeOffer,
    SendToRelay,
    TakeAnswer,
)
from comity.rooms.protocol.meeting import (
    Attending,
    Meeting,
)
from comity.rooms.protocol.relay import Deliver, Disconnect, RelayLimits, SignallingRelay
from comity.rooms.protocol.signalling import (
    RoomCipher,
)
from comity.testing.links import Randomness

CIPHER = RoomCipher("secret")


class World:
    """A relay and peers in virtual time. Links are drawn: they open once both descriptions are applied."""

    def __init__(self, seed, peers, views):
        self.draw = Randomness(seed)
        self.now = 0.0
        self.queue = []
        self.order = 0
        self.relay = SignallingRelay(RelayLimits(messages=10_000))
        self.up = True
        self.uuids = {}
        self.epochs = dict.fromkeys(peers, 0)
        self.machines = {}
        self.sdps = {}
        self.links = {}
        self.chance = 0.0
        for name in peers:
            attending = Attending(room="room", stream=name, cipher=CIPHER, first_delay=1.0)
            self.machines[name] = Meeting(attending, self.draw.branch(name).bytes)
        for name in peers:
            self.do(name, self.machines[name].dial())
            for stream in views.get(name, ()):
                self.do(name, self.machines[name].view(stream, self.now))

    def after(self, seconds, act):
        self.order += 1
        heapq.heappush(self.queue, (self.now + seconds, self.order, act))

    def soon(self, act):
        self.after(self.draw.between(0.001, 0.05), act)

    def do(self, name, effects):
        for effect in effects:
            self.perform(name, effect)
        at = self.machines[name].next_at
        if at is not None:
            self.after(max(0.0, at - self.now), lambda: self.tick(name))

    def tick(self, name):
        at = self.machines[name].next_at
        if at is not None and at <= self.now + 1e-9:
            self.do(name, self.machines[name].tick(self.now + 1e-9))

    def perform(self, name, effect):
        machine = self.machines[name]
        if isinstance(effect, Dial):
            self.soon(lambda: self.dial(name))
        elif isinstance(effect, SendToRelay):
            epoch = self.epochs[name]
            self.speak(name, epoch, effect.text)
        elif isinstance(effect, HangUp):
            self.lose(name)
        elif isinstance(effect, MakeOffer | MakeAnswer):
            sdp = f"{name}:{effect.attempt}"
            self.sdps[sdp] = (name, effect.attempt)
            if isinstance(effect, MakeAnswer):
                self.links[sdp] = effect.sdp
            self.soon(lambda: self.do(name, machine.described(effect.attempt, sdp, None, self.now)))
        elif isinstance(effect, TakeAnswer):
            mine = f"{name}:{effect.attempt}"
            if self.links.get(effect.sdp) == mine:
                self.soon(lambda: self.open(mine, effect.sdp))
        elif isinstance(effect, GiveUp):
            self.cut(f"{name}:{effect.attempt}")

    def speak(self, name, epoch, text):
        def arrive():
            if self.up and self.epochs[name] == epoch and name in self.uuids:
                for effect in self.relay.receive(self.uuids[name], text, self.now):
                    assert not isinstance(effect, Disconnect)
                    self.deliver(effect)

        self.soon_in_order(("to", name), arrive)

    def deliver(self, effect):
        assert isinstance(effect, Deliver)
        name = next((name for name, uuid in self.uuids.items() if uuid == effect.to), None)
        if name is None:
            return
        epoch = self.epochs[name]

        def arrive():
            if self.epochs[name] == epoch:
                self.do(name, self.machines[name].receive(effect.message, self.now))

        self.soon_in_order(("from", name), arrive)

    def soon_in_order(self, channel, act):
        """A WebSocket keeps the order of its messages."""
        self.channels = getattr(self, "channels", {})
        at = max(self.channels.get(channel, 0.0), self.now + self.draw.between(0.001, 0.05))
        self.channels[channel] = at
        self.after(at - self.now, act)

    def dial(self, name):
        if not self.up:
            self.do(name, self.machines[name].disconnected("nobody listens", self.now))
            return
        self.epochs[name] += 1
        uuid = f"{name}-{self.epochs[name]}"
        assert self.relay.connect(uuid, None, trusted=False) is None
        self.uuids[name] = uuid
        self.do(name, self.machines[name].connected(self.now))

    def lose(self, name):
        uuid = self.uuids.pop(name, None)
        if uuid is None:
            return
        self.epochs[name] += 1
        late = self.draw.chance(0.3)  # the relay may notice later, as with a network that just went away
        self.after(20.0 if late else 0.0, lambda relay=self.relay: relay.disconnect(uuid))
        self.do(name, self.machines[name].disconnected("lost", self.now))

    def open(self, offerer, answerer):
        for sdp in (offerer, answerer):
            name, attempt = self.sdps[sdp]
            if self.machines[name].attempt(attempt) is None:
                self.cut(sdp)
                return
        self.links[offerer] = answerer
        for sdp in (offerer, answerer):
            name, attempt = self.sdps[sdp]
            self.do(name, self.machines[name].link_opened(attempt, self.now))

    def cut(self, sdp):
        """Both ends of a link see its end."""
        other = self.links.pop(sdp, None)
        for end in (sdp, other):
            if end in self.sdps:
                self.links.pop(end, None)
                name, attempt = self.sdps[end]
                self.soon(
                    lambda name=name, attempt=attempt: self.do(
                        name, self.machines[name].failed(attempt, "ended", self.now)
                    )
                )

    def crash_relay(self, seconds):
        self.up = False
        for name in list(self.uuids):
            self.lose(name)
        self.relay = SignallingRelay(RelayLimits(messages=10_000))
        self.after(seconds, self.restart_relay)

    def restart_relay(self):
        self.up = True

    def run(self, until, fault=None, every=0.0):
        next_fault = self.now + every
        while self.queue and self.queue[0][0] <= until:
            self.now, _, act = heapq.heappop(self.queue)
            act()
            if fault is not None and self.now >= next_fault:
                next_fault = self.now + every
                fault(self)
        self.now = until

    def open_between(self, viewer, viewed):
        """The open links by which `viewer` views `viewed`, as both machines know them."""
        found = []
        for sdp, (name, attempt) in self.sdps.items():
            known = self.machines[name].attempt(attempt)
            viewing = name == viewer and known is not None and not known.offering
            if viewing and known.stream == viewed and known.opened_at is not None:
                other_name, other = self.sdps[self.links[sdp]]
                seen = self.machines[other_name].attempt(other)
                assert other_name == viewed
                assert seen is not None
                assert seen.opened_at is not None
                found.append(sdp)
        return found


def break_something(world):
    kind = world.draw.integer(0, 3)
    names = list(world.machines)
    if kind == 0:
        world.crash_relay(world.draw.between(0.5, 10))
    elif kind == 1:
        world.lose(world.draw.choice(names))
    elif kind == 2 and world.links:
        world.cut(world.draw.choice(sorted(world.links)))


@pytest.mark.parametrize("seed", range(30))
def test_after_the_faults_every_view_has_exactly_one_link(seed):
    views = {"a": ["b", "c"], "b": ["c"], "c": ["a"], "d": ["a", "b", "c"]}
    world = World(seed, ["a", "b", "c", "d"], views)
    world.run(until=120, fault=break_something, every=4.0)
    if not world.up:
        world.restart_relay()
    world.run(until=400)
    for viewer, streams in views.items():
        for stream in streams:
            assert len(world.open_between(viewer, stream)) == 1, (seed, viewer, stream)
    assert all(machine.joined for machine in world.machines.values())


def test_a_quiet_room_is_joined_within_a_second():
    world = World(1, ["a", "b"], {"b": ["a"]})
    world.run(until=1.0)
    assert len(world.open_between("b", "a")) == 1


def test_a_crash_of_the_relay_touches_no_link():
    world = World(1, ["a", "b"], {"b": ["a"]})
    world.run(until=5.0)
    before = world.open_between("b", "a")
    world.crash_relay(5.0)
    world.run(until=60.0)
    assert world.open_between("b", "a") == before
    assert world.machines["a"].joined
