"""A peer that says anything at all: nothing crashes, memory stays bounded, nothing unproven has an effect."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from comity.rooms.protocol.channel import BridgeEnvelope, write_data, write_envelope, write_file_frame
from comity.rooms.protocol.effects import BytesArrived, ChannelClosed, ChannelOpened, SignalLink, TextArrived
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.protocol.transfers import MAX_FINISHED
from tests.rooms.protocol.session_scene import envelope
from tests.simulation.rooms import OPEN, SECURE, World

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(
    [
        *("sync.hello", "sync.hello_ack", "sync.reject", "sync.heartbeat", "sync.x"),
        *(
            "file.offer",
            "file.accept",
            "file.chunk",
            "file.ack",
            "file.nack",
            "file.complete",
            "file.complete_ack",
        ),
        *("file.resume_req", "file.resume_state", "file.cancel", "file.x"),
        *(
            "state.patch",
            "state.snapshot",
            "state.snapshot_req",
            "state.x",
            "msg.data",
            "msg.receipt",
            "x.y",
            "x",
        ),
    ]
)
NAMES = st.sampled_from(
    [
        "transfer_id",
        "seq",
        "next_seq",
        "expected_seq",
        "reason",
        "total_bytes",
        "total_chunks",
        "chunk_bytes",
        "file_hash",
        "data_base64",
        "chunk_hash",
        "status",
        "key",
        "value",
        "actor",
        "clock",
        "entries",
        "actor_clock",
        "capabilities",
        "public_key",
        "join_token",
        "id",
        "data",
        "envelope",
        "re",
        "hash",
        "name",
        "mime",
        "received_bytes",
    ]
)
VALUES = JSON | st.sampled_from(
    ["t", "file_1", 0, 1, 1024, 65536, 2**53, "chunks", "00" * 32, [{"key": "k", "clock": 1}]]
)
ENVELOPES = st.builds(
    BridgeEnvelope,
    kind=KINDS,
    ts=st.integers(0, 2**53),
    nonce=st.text(max_size=5),
    room=st.just("lab"),
    from_stream_id=st.sampled_from(["evil", "alice", "bob", ""]),
    payload=st.dictionaries(NAMES, VALUES, max_size=6),
)


def room(demands):
    world = World()
    a = world.host("alice", demands=demands)
    b = world.host("bob", demands=demands)
    world.link(a, b)
    world.run(1)
    a.handle(ChannelOpened("evil#9", "publisher", 262144, ("fp alice", "fp evil")))
    return world, a, b


def test_fifty_hostile_peers_leave_nothing_behind():
    world, a, b = room(OPEN)
    a.handle(ChannelClosed("evil#9"))
    names = ["evil", "alice", "bob", "\x1b[2J", "<script>", "x" * 65, "", "mallory\n"]
    for number in range(50):
        uuid, name = f"evil#{100 + number}", names[number % len(names)]
        a.handle(ChannelOpened(uuid, "publisher", 262_144, ("fp alice", f"fp {uuid}")))
        hello = envelope("sync.hello", {"public_key": None}, name, nonce=f"p_{number}")
        offer = {"transfer_id": f"t{number}", "name": "x", "total_bytes": 60_000_000, "chunk_bytes": 65_536}
        offer |= {"total_chunks": 916, "file_hash": "00" * 32}
        for count in range(100):
            for text in (
                write_envelope(hello),
                write_envelope(envelope("file.offer", offer, name, nonce=f"p_{count}")),
                write_envelope(
                    envelope("msg.data", {"id": f"m{count}", "data": 1}, name, nonce=f"q_{count}")
                ),
                write_data({"flood": count}),
                b"garbage",
            ):
                a.handle(TextArrived(uuid, text))
        a.handle(ChannelClosed(uuid))
    b.send("still here", "alice")
    world.run(4000)
    assert [peer["stream_id"] for peer in a.session.sync_peers(world.now)] == ["bob"]
    assert {one.status for one in a.session.files.incoming.values()} == {"failed"}
    assert len(a.session.files.incoming) <= MAX_FINISHED
    assert a.disk.files == {}
    assert a.session.messages.unread == 1
    assert "still here" in a.data()


class AnythingGoes(RuleBasedStateMachine):
    @initialize(secure=st.booleans())
    def begin(self, secure):
        self.secure = secure
        self.world, self.alice, self.bob = room(SECURE if secure else OPEN)
        self.alice.send_file(b"x" * 5000, "bob", "file_1")

    def handle(self, event):
        self.alice.handle(event)

    @rule(envelope=ENVELOPES, sealed=st.booleans())
    def say(self, envelope, sealed):
        self.handle(TextArrived("evil#9", write_envelope(envelope, bytes(32) if sealed else None)))

    @rule(data=st.binary(max_size=200))
    def garble(self, data):
        self.handle(TextArrived("evil#9", data))

    @rule(channel=st.sampled_from(["x-comity", "x-bin", "sendChannel"]), data=st.binary(max_size=200))
    def pour(self, channel, data):
        self.handle(BytesArrived("evil#9", channel, data))

    @rule(sequence=st.integers(0, 2**64 - 1), data=st.binary(min_size=1, max_size=20))
    def frame(self, sequence, data):
        self.handle(
            BytesArrived(
                "evil#9", "x-comity", write_file_frame(bytes(16), sequence, bytes(32), data, bytes(32))
            )
        )

    @rule(value=JSON)
    def talk(self, value):
        self.handle(TextArrived("evil#9", write_data(value)))

    @rule(seconds=st.floats(0, 20))
    def wait(self, seconds):
        self.world.run(seconds)

    @invariant()
    def others_are_unharmed_and_memory_is_bounded(self):
        if not hasattr(self, "alice"):
            return
        alice = self.alice.session
        assert len(alice.events) <= 2000
        assert len(alice.files.incoming) <= 64
        if self.secure:
            assert alice.state.values() == {}
            assert self.alice.data() == []
            assert alice.files.incoming == {}

    def teardown(self):
        if not hasattr(self, "alice"):
            return
        self.bob.send("still there?")
        self.world.run(15)
        assert "still there?" in self.alice.data()
        assert self.alice.session.files.outgoing["file_1"].status == "completed"
        json.dumps(self.alice.emitted)


TestAnythingGoes = AnythingGoes.TestCase
TestAnythingGoes.settings = settings(max_examples=40, stateful_step_count=30)


def test_descriptions_and_candidates_over_the_channel_are_the_links_within_limits():
    world, a, _b = room(OPEN)
    uuid = f"bob#{world.links[frozenset(('alice', 'bob'))]}"
    small = {"description": "00", "vector": "00", "session": "x"}
    assert a.session.receive(TextArrived(uuid, json.dumps(small).encode()), world.now) == [
        SignalLink(uuid, small)
    ]
    a.handle(TextArrived(uuid, json.dumps({"description": "0" * 65_600}).encode()))
    a.handle(TextArrived(uuid, json.dumps({"candidates": [{}] * 101}).encode()))
    assert [event["reason"] for event in a.events("protocol_error")] == [
        "signal_too_large",
        "too_many_candidates",
    ]


def test_a_peer_that_is_not_admitted_does_not_signal():
    world, a, _b = room(Demands(allow_peer_stream_ids=("bob",)))
    assert a.session.receive(TextArrived("evil#9", b'{"description":"00"}'), world.now) == []


def test_a_flood_of_hellos_is_judged_only_so_often():
    _world, a, _b = room(OPEN)
    for number in range(500):
        hello = BridgeEnvelope(
            kind="sync.hello", ts=number, nonce=f"p_{number}", room="lab", from_stream_id="evil", payload={}
        )
        a.handle(TextArrived("evil#9", write_envelope(hello)))
    assert len([one for one in a.sent if b"hello_ack" in one.data and one.uuid == "evil#9"]) <= 64
    assert a.events("protocol_error")[-1]["reason"] == "too_many_hellos"


@given(ENVELOPES)
@settings(max_examples=300)
def test_no_envelope_of_an_admitted_peer_crashes(envelope):
    world, a, _b = room(OPEN)
    key = a.session._peers.get(f"bob#{world.links[frozenset(('alice', 'bob'))]}").key
    from msgspec.structs import replace

    said = replace(envelope, from_stream_id="bob", ts=10**14)
    a.handle(TextArrived(f"bob#{world.links[frozenset(('alice', 'bob'))]}", write_envelope(said, key)))
    world.run(1)
