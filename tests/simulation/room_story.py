"""One story of two to five peers, told by its seed: chaos first, then everything heals, then the accounts are checked.

In chaos links lose, double and reorder, break and come back, processes die, and clocks are set, by up to twenty minutes
to either side. A room is open or secure; in a
secure one somebody without the secret is there too, who replays what others said. Healing ends some seconds after the
accounts are right, for then nothing but heartbeats is left; one story in ten goes on to its last second. After it:

- every file is byte-exact where it arrived, and `completed` was said only of such,
- everybody holds the same state,
- a message that was receipted as stored was read, exactly once unless the reader died before it was written down that
  it has it, and every message has its receipt, unless the sender died in the moment in which it was sent,
- no message was refused because of its time,
- nothing of the one without the secret had any effect.
"""

import itertools

from msgspec import UNSET

from comity.rooms.protocol.channel import BridgeEnvelope, write_data, write_envelope
from comity.rooms.protocol.effects import BytesArrived, SendText, TextArrived
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.protocol.transfers import FileLimits
from comity.wire.canonical import js_stringify
from tests.simulation.rooms import FAIR, OPEN, SECURE, Host, Weather, World

CHAOS_SECONDS = 12.0
HEALING_SECONDS = 60.0
LOOK_EVERY = 3.0
CLOCKS = (0, 0, 90, -90, 1200, -1200)
TOKEN_MS = 3_600_000  # clocks that differ by more than a join token lasts keep a peer out
CALM_SECONDS = 9.0  # longer than what is sent again waits, and than two heartbeats are apart
EVIL = "evil"
LIMITS = FileLimits(spool_threshold=1, max_retries=40, ack_timeout=0.4)


class Story:
    def __init__(self, seed, host_type=Host):
        self.world = World(seed)
        self.draw = self.world.randomness.branch("story")
        self.secure = self.draw.chance(0.6)
        self.is_told_to_the_end = seed % 10 == 0
        self.host_type = host_type
        demands = SECURE if self.secure else OPEN
        self.hosts = []
        for number in range(self.draw.integer(2, 5)):
            own = self.secure or number == 0 or self.draw.chance(0.75)
            self.hosts.append(self._host(f"host{number}", demands=demands, own=own))
        self.shape = self.draw.choice(["mesh", "star", "line"])
        self.mallory = (
            self._host("mallory", demands=Demands(join_token_secret="wrong")) if self.secure else None
        )
        self.files = {}
        self.messages = {}
        self.read = {host.name: [] for host in self.hosts}
        self.written = 0

    def _host(self, name, **options):
        host = self.world.hosts[name] = self.host_type(
            self.world,
            name,
            heartbeat_ms=1000,
            join_token_ttl_ms=TOKEN_MS,
            files=LIMITS,
            clock_off=self.draw.choice(CLOCKS),
            **options,
        )
        return host

    def pairs(self):
        hosts = self.hosts
        if self.shape == "star":
            return [(hosts[0], other) for other in hosts[1:]]
        if self.shape == "line":
            return list(itertools.pairwise(hosts))
        return [(left, right) for at, left in enumerate(hosts) for right in hosts[at + 1 :]]

    def tell(self):
        world, draw = self.world, self.draw
        for left, right in self.pairs():
            world.link(left, right)
        world.run(0.5)
        world.weather = Weather(loss=0.06, duplication=0.08, reordering=0.15)
        while world.now < CHAOS_SECONDS:
            world.run(draw.between(0.02, 0.3))
            self._act(draw.integer(0, 99))
        self._heal()
        self._check()
        for host in self.hosts:
            world.trace += [str(event) for event in host.emitted]
        return self

    def _act(self, dice):
        host = self.draw.choice(self.hosts)
        if dice < 8:
            self._crash_or_boot(host)
        elif dice < 22:
            self._cut_or_link(*self.draw.choice(self.pairs()))
        elif not host.is_up:
            return
        elif dice < 50:
            self._write(host)
        elif dice < 72:
            self._send(host)
        elif dice < 84:
            self._send_file(host)
        elif dice < 90:
            self._read(host)
        elif dice < 93:
            self.world.happened["clocks set"] += 1
            host.clock_off = self.draw.choice(CLOCKS)
        elif self.mallory is not None:
            self._attack()

    def _crash_or_boot(self, host):
        if host.is_up:
            self.world.happened["crashes"] += 1
            host.crash()
        else:
            host.boot()

    def _cut_or_link(self, left, right):
        if self.world.is_linked(left, right):
            self.world.happened["cuts"] += 1
            self.world.cut(left, right)
        elif left.is_up and right.is_up:
            self.world.link(left, right)

    def _write(self, host):
        self.written += 1
        value = UNSET if self.draw.chance(0.2) else f"{host.name} {self.written}"
        host.put(f"key{self.draw.integer(0, 3)}", value)

    def _send(self, host):
        others = [other for other in self.hosts if other is not host and other.node_key is not None]
        if host.node_key is None or not others:
            host.send(f"plain {self.world.now}")
            return
        target = self.draw.choice(others).name
        text = f"from {host.name} at {self.world.now:.6f}"
        if self.draw.chance(0.4):
            for message_id in host.send_signed(text, target):
                self.messages[message_id] = (host.name, target, text)
        else:
            for message_id in host.send(text, target).get("message_ids", ()):
                self.messages[message_id] = (host.name, target, text)

    def _send_file(self, host):
        near = [peer for peer in host.session._peers.reachable() if peer.public_key is not None]
        if not near or len(self.files) > 10:
            return
        peer = self.draw.choice(near)
        name = f"file{len(self.files)}"
        data = self.draw.bytes(self.draw.integer(1, 60_000))
        host.send_file(data, peer.uuid, name, chunk_bytes=self.draw.choice([1024, 4096]))
        self.files[name] = (host.name, peer.stream_id, data)

    def _read(self, host):
        self.read[host.name] += [
            event["message_id"] for event in host.read() if "message_id" in event and "data" in event
        ]

    def _attack(self):
        victim = self.draw.choice(self.hosts)
        if not victim.is_up or not self.mallory.is_up:
            return
        if not self.world.is_linked(victim, self.mallory):
            self.world.link(victim, self.mallory)
        uuid = self.world.uuid("mallory", self.world.links[frozenset((victim.name, "mallory"))])
        if self.draw.chance(
            0.5
        ):  # until it was refused, and its link closed: what is still under way arrives
            self.world.run(0.05)
        patch = {"key": "key0", "value": EVIL, "actor": victim.name, "clock": 10**9}
        forged = BridgeEnvelope(
            kind="state.patch", ts=10**13, nonce="p_evil", room="lab", from_stream_id="host0", payload=patch
        )
        recorded = self.draw.choice(self.draw.choice(self.hosts).sent)
        messages = [
            TextArrived(uuid, write_data(EVIL)),
            TextArrived(uuid, write_envelope(forged, bytes(32))),
            TextArrived(uuid, recorded.data)
            if isinstance(recorded, SendText)
            else BytesArrived(uuid, recorded.channel, recorded.data),
        ]
        self.world.happened["attacks"] += 1
        for message in messages:
            victim.handle(message)

    def _heal(self):
        world = self.world
        world.weather = FAIR
        for host in self.hosts:
            if not host.is_up:
                host.boot()
        for left, right in self.pairs():
            if world.is_linked(left, right):
                world.cut(left, right)
            world.link(left, right)
        end = world.now + HEALING_SECONDS
        while world.now < end and (self.is_told_to_the_end or not self._is_right()):
            world.run(LOOK_EVERY)
            self._resume_failed()
            for host in self.hosts:
                self._read(host)
        world.run(CALM_SECONDS)
        for host in self.hosts:
            self._read(host)

    def _is_right(self):
        try:
            self._check()
        except AssertionError:
            return False
        return True

    def _resume_failed(self):
        for host in self.hosts:
            for name, outgoing in host.session.files.outgoing.items():
                if outgoing.status == "failed":
                    self.world.happened["resumed"] += 1
                    try:
                        host.run(host.session.resume_file(name, None, self.world.now)[1])
                    except Exception as why:  # noqa: BLE001 - told with the story
                        self.world.trace.append(str(why))

    def _check(self):
        self._check_state()
        self._check_files()
        self._check_messages()
        self._check_mallory()
        self._check_clocks()
        for host in self.hosts:
            assert len(host.session.events) <= 2000

    def _check_state(self):
        shown = {
            host.name: js_stringify(
                [entry.to_json() | {"updated_at": 0} for entry in host.session.state.entries()]
            )
            for host in self.hosts
        }
        assert len(set(shown.values())) == 1, shown

    def _check_files(self):
        world = self.world
        world.happened["files"] = 0
        for name, (sender, receiver, data) in self.files.items():
            outgoing = world.hosts[sender].session.files.outgoing.get(name)
            incoming = world.hosts[receiver].session.files.incoming.get(name)
            if outgoing is not None and self._knows_again(sender, receiver):
                assert outgoing.status == "completed", (name, outgoing.summary())
                world.happened["files"] += 1
            if incoming is not None and incoming.status == "completed":
                assert bytes(world.hosts[receiver].disk.files[name]) == data, f"{name} differs"
            for event in world.hosts[sender].events("file_transfer_complete"):
                if event["transfer_id"] == name:
                    assert world.hosts[receiver].events("file_received")

    def _knows_again(self, *names):
        """Where one has no node of its own, both know each other by session keys, and those end with the process."""
        hosts = [self.world.hosts[name] for name in names]
        return all(host.node_key is not None for host in hosts) or all(host.boots == 1 for host in hosts)

    def _check_messages(self):
        world = self.world
        world.happened["receipts"] = world.happened["read again"] = 0
        for message_id, (sender, target, text) in self.messages.items():
            read = self.read[target].count(message_id)
            status = world.hosts[sender].session.messages.status(message_id, world.now)
            result = [
                event["status"]
                for event in world.hosts[sender].events("message_status")
                if event["message_id"] == message_id
            ]
            reachable = self._is_near(sender, target)
            lost = world.hosts[target].lost
            again = lost["in", message_id] + lost["read", message_id]
            assert read <= 1 + again, (message_id, text, "was read twice")
            world.happened["read again"] += read > 1
            if {"stored", "read"} & set(result):
                assert read, (message_id, text, "was receipted and not delivered")
                world.happened["receipts"] += 1
            elif world.hosts[sender].lost["out", message_id]:
                assert status is None
            elif reachable:
                raise AssertionError((message_id, text, status, result, "has no receipt"))
            else:
                assert status is None or status[0] == "waiting"

    def _is_near(self, sender, target):
        return any({left.name, right.name} == {sender, target} for left, right in self.pairs())

    def _check_clocks(self):
        """Links double and reorder, so frames do come again; none is one that was refused for its stamp alone."""
        for host in self.hosts:
            refused = host.events("protocol_auth_failed")
            assert not [event for event in refused if event["reason"].startswith("too old")], host.name

    def _check_mallory(self):
        for host in self.hosts:
            assert EVIL not in host.data()
            assert EVIL not in host.session.state.values().values()
            for event in host.events("data_received"):
                assert event["streamID"] != "mallory"
