"""Our session and a stand-in of the reference peer, in both roles."""

import pytest

from comity.rooms.protocol.effects import ChannelOpened, TextArrived
from comity.rooms.protocol.tool_table import Demands
from tests.rooms.protocol.reference_peer import ReferencePeer
from tests.simulation.rooms import SECURE, World

ROLES = pytest.mark.parametrize("role", ["publisher", "viewer"])
DATA = bytes(range(256)) * 100
SECRET = "room secret"


class Meeting:
    """`role` is ours. Both sides speak until nobody has anything more to say."""

    def __init__(self, role, demands=None, **reference):
        self.world = World()
        self.host = self.world.host("alice", demands=demands or Demands(), own=True)
        self.reference = ReferencePeer("nodejs", **reference)
        self.world.transmit = lambda _host, effect: self.reference.handle(effect.data)
        self.reference.opened("viewer" if role == "publisher" else "publisher", "alice")
        named = None if role == "publisher" else "nodejs"
        self.host.handle(ChannelOpened("ref#1", role, 262144, ("us", "them"), named))
        self.settle()

    def settle(self, seconds=2):
        for _ in range(200):
            while self.reference.out:
                self.host.handle(TextArrived("ref#1", self.reference.out.pop(0)))
            self.world.run(0.001)
            if not self.reference.out:
                break
        self.world.run(seconds)
        while self.reference.out:
            self.host.handle(TextArrived("ref#1", self.reference.out.pop(0)))
            self.world.run(0.001)

    @property
    def peer(self):
        [peer] = self.host.session.sync_peers(self.world.now)
        return peer


@ROLES
def test_they_greet_and_we_know_its_true_name(role):
    meeting = Meeting(role)
    assert meeting.peer["stream_id"] == "nodejs"
    assert meeting.peer["handshake_state"] == "ready"
    assert meeting.reference.state in {"ready", "hello_received"}
    assert meeting.reference.auth_failed == 0
    assert "comity_v1" in meeting.reference.capabilities


@ROLES
def test_messages_go_both_ways_and_heartbeats_are_no_data(role):
    meeting = Meeting(role)
    meeting.host.send({"hello": "reference"}, "nodejs")
    for value in (0, False, "", None, {"type": "request"}):
        meeting.reference.say(value)
    for _ in range(4):
        meeting.reference.beat()
    meeting.settle()
    assert meeting.reference.data == [{"hello": "reference"}]
    assert meeting.host.data() == [0, False, "", None, {"type": "request"}]
    assert meeting.peer["last_heartbeat_at"] is not None


@ROLES
def test_files_go_both_ways(role):
    meeting = Meeting(role)
    outgoing = meeting.host.send_file(DATA, "nodejs", chunk_bytes=2048)
    meeting.reference.send_file(DATA[::-1])
    meeting.settle(5)
    assert outgoing.status == "completed"
    assert not outgoing.offer.frames
    assert meeting.reference.incoming["file_1"]["data"] == DATA
    assert bytes(meeting.host.disk.files["file_ref"]) == DATA[::-1]
    assert meeting.reference.outgoing["status"] == "completed"


@ROLES
def test_state_goes_both_ways_and_our_write_wins_over_what_it_wrote(role):
    meeting = Meeting(role)
    for value in range(5):
        meeting.reference.set("k", value)
    meeting.settle()
    assert meeting.host.session.state.values() == {"k": 4}
    meeting.host.put("k", "ours")
    meeting.host.put("only ours", 1)
    meeting.settle()
    assert {key: entry["value"] for key, entry in meeting.reference.entries.items()} == {
        "k": "ours",
        "only ours": 1,
    }
    assert meeting.host.session.state.values() == {"k": "ours", "only ours": 1}


@ROLES
def test_a_deleted_key_has_no_value_there(role):
    from msgspec import UNSET

    meeting = Meeting(role)
    meeting.host.put("k", 1)
    meeting.host.put("k", UNSET)
    meeting.settle()
    assert "value" not in meeting.reference.entries["k"]


@ROLES
def test_where_macs_are_required_only_what_it_seals_passes(role):
    meeting = Meeting(role, Demands(require_session_mac=True), require_mac=True)
    meeting.reference.set("broadcast", 1)
    meeting.reference.set("to one", 2, to_one=True)
    meeting.reference.say("plain")
    meeting.settle()
    assert meeting.host.session.state.values() == {"to one": 2}
    assert meeting.host.data() == []
    assert [event["kind"] for event in meeting.host.events("protocol_auth_failed")] == ["state.patch", "pipe"]
    meeting.host.put("ours", 3)
    outgoing = meeting.host.send_file(DATA[:3000], "nodejs")
    meeting.settle(5)
    assert meeting.reference.entries["ours"]["value"] == 3
    assert meeting.reference.auth_failed == 0
    assert outgoing.status == "completed"


@ROLES
def test_a_reference_peer_with_the_right_token_is_admitted_and_with_a_wrong_one_is_not(role):
    meeting = Meeting(role, SECURE, secret=SECRET)
    assert meeting.peer["handshake_state"] == "ready"
    assert meeting.reference.rejected is None
    meeting = Meeting(role, SECURE, secret="wrong")
    assert meeting.peer["rejected_reason"] == "invalid token signature"
    assert meeting.reference.rejected == "invalid token signature"
    meeting.reference.say("x")
    meeting.reference.set("k", 1, to_one=True)
    meeting.settle()
    assert meeting.host.data() == []
    assert meeting.host.session.state.values() == {}


def test_its_own_enforcement_works_only_where_it_views_us():
    meeting = Meeting("publisher", Demands(join_token_secret=SECRET), secret=SECRET, enforce=True)
    assert meeting.reference.state == "ready"
    meeting = Meeting("viewer", Demands(join_token_secret=SECRET), secret=SECRET, enforce=True)
    assert meeting.reference.state == "rejected"
    assert meeting.host.events("sync_peer_rejected")[-1]["reason"] == "join token stream mismatch"
