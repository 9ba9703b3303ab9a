"""The relay's rules: rooms, streams, who reaches whom, and what it refuses."""

import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from comity.rooms.protocol.relay import MESSAGE_LIMIT, Deliver, Disconnect, RelayLimits, SignallingRelay
from comity.testing.vectors import format_runner


class Relay:
    """A relay with peers by name, and what each of them was told."""

    def __init__(self, **options):
        self.machine = SignallingRelay(**options)
        self.now = 0.0
        self.heard = {}
        self.gone = {}

    def come(self, *names, address=None, trusted=False):
        for name in names:
            refusal = self.machine.connect(name, address, trusted=trusted)
            self.heard[name] = []
            if refusal:
                self.gone[name] = refusal

    def says(self, name, message):
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        for effect in self.machine.receive(name, text, self.now):
            if isinstance(effect, Deliver):
                self.heard[effect.to].append(json.loads(effect.message))
            else:
                assert isinstance(effect, Disconnect)
                self.gone[effect.peer_id] = effect
                self.machine.disconnect(effect.peer_id)

    def received(self, name):
        """What a peer heard since it was last asked."""
        heard, self.heard[name] = self.heard[name], []
        return heard

    def join(self, *names, room="room"):
        for name in names:
            self.says(name, {"request": "joinroom", "roomid": room})
        for name in self.heard:
            self.received(name)


def codes(messages):
    return [message.get("code") for message in messages]


@format_runner("peers", "sig_relay", cases=lambda lines: [("all", {"lines": lines})])
def test_vector_peers_the_recorded_relay_is_answered_alike(case):
    relay = Relay()
    answers = {}
    for line in case["lines"]:
        if line.get("ev") == "open":
            relay.come(line["from"])
        elif line.get("ev") == "close":
            relay.machine.disconnect(line["from"])
        elif line["dir"] == "client->server":
            relay.says(line["from"], {key: line["msg"][key] for key in line["msg"] if key != "decrypted"})
        else:
            said = {key: line["msg"][key] for key in line["msg"] if key != "decrypted"}
            answers.setdefault(line["to"], []).append(said)
    assert len(answers) == 2
    for who, expected in answers.items():
        assert relay.heard[who] == expected
        assert [list(message) for message in relay.heard[who]] == [list(message) for message in expected]


def test_who_joins_is_listed_to_itself_and_told_to_the_others():
    relay = Relay()
    relay.come("a", "b")
    relay.says("a", {"request": "joinroom", "roomid": "r"})
    assert relay.received("a") == [{"request": "listing", "list": []}]
    relay.says("a", {"request": "seed", "streamID": "sa"})
    relay.says("b", {"request": "joinroom", "roomid": "r"})
    assert relay.received("b") == [{"request": "listing", "list": [{"UUID": "a", "streamID": "sa"}]}]
    assert relay.received("a") == [{"request": "someonejoined", "UUID": "b"}]
    relay.says("b", {"request": "joinroom", "roomid": "r"})
    assert relay.received("b")[0]["request"] == "listing"
    assert relay.received("a") == []


def test_a_play_asks_the_owner_for_an_offer():
    relay = Relay()
    relay.come("a", "b")
    relay.join("a", "b")
    relay.says("a", {"request": "seed", "streamID": "sa"})
    assert relay.received("b") == [{"request": "videoaddedtoroom", "UUID": "a", "streamID": "sa"}]
    relay.says("b", {"request": "play", "streamID": "sa"})
    assert relay.received("a") == [{"request": "offerSDP", "UUID": "b", "streamID": "sa"}]
    relay.says("b", {"request": "play", "streamID": "nobody's"})
    assert codes(relay.received("b")) == ["INVALID_STREAM"]
    relay.says("b", {"request": "play", "streamID": "not_there"})
    assert relay.received("b") == []
    relay.says("a", {"request": "play", "streamID": "sa"})
    assert codes(relay.received("a")) == ["OWN_STREAM"]


def test_outside_of_rooms_a_play_is_remembered():
    relay = Relay()
    relay.come("a", "b", "c")
    relay.says("b", {"request": "play", "streamID": "sa"})
    relay.says("c", {"request": "play", "streamID": "sa"})
    relay.machine.disconnect("c")
    relay.says("a", {"request": "seed", "streamID": "sa"})
    assert relay.received("a") == [{"request": "offerSDP", "UUID": "b", "streamID": "sa"}]
    relay.says("a", {"UUID": "b", "description": "x"})
    assert relay.received("b") == [{"UUID": "a", "description": "x"}]
    relay.says("b", {"UUID": "a", "description": "y"})
    assert relay.received("a") == [{"UUID": "b", "description": "y"}]


def test_a_message_carries_its_senders_id_whatever_it_says():
    relay = Relay()
    relay.come("a", "b")
    relay.join("a", "b")
    relay.says("a", {"session": "s", "UUID": "b", "from": "c", "nested": {"UUID": "x"}})
    assert relay.received("b") == [{"session": "s", "UUID": "a", "from": "c", "nested": {"UUID": "x"}}]


def test_nothing_crosses_from_room_to_room():
    relay = Relay()
    relay.come("a", "b", "c")
    relay.join("a", room="one")
    relay.join("b", room="two")
    for to in ("b", "c", "nobody", "a", 5, None, "x" * 500):
        relay.says("a", {"UUID": to, "description": "x"})
    assert codes(relay.received("a")) == ["PEER_GONE"] * 7
    assert relay.received("b") == relay.received("c") == []
    relay.says("b", {"request": "seed", "streamID": "s"})
    relay.says("a", {"request": "play", "streamID": "s"})
    assert relay.received("b") == []
    relay.says("a", {"request": "seed", "streamID": "s"})
    assert relay.received("a") == []


def test_a_stream_id_has_one_owner_until_it_leaves():
    relay = Relay()
    relay.come("a", "b")
    relay.join("a", "b")
    relay.says("a", {"request": "seed", "streamID": "s"})
    relay.says("a", {"request": "seed", "streamID": "s"})
    assert relay.received("a") == []
    relay.received("b")
    relay.says("b", {"request": "seed", "streamID": "s"})
    (alert,) = relay.received("b")
    assert alert["request"] == "alert"
    assert "Stream ID is already in use" in alert["message"]
    assert relay.received("a") == []
    relay.machine.disconnect("a")
    relay.says("b", {"request": "seed", "streamID": "s"})
    assert relay.received("b") == []
    assert relay.machine.counts.streams == 1


def test_who_leaves_is_out_of_the_room_and_may_come_back():
    relay = Relay()
    relay.come("a", "b")
    relay.join("a", "b")
    relay.says("a", {"request": "seed", "streamID": "s"})
    relay.says("a", {"leave": True})
    relay.received("b")
    relay.says("b", {"UUID": "a", "x": 1})
    assert codes(relay.received("b")) == ["PEER_GONE"]
    relay.says("a", {"request": "joinroom", "roomid": "room"})
    assert relay.received("a") == [{"request": "listing", "list": [{"UUID": "b"}]}]


def test_a_director_moves_peers_and_nobody_else_does():
    relay = Relay()
    relay.come("d", "p", "x")
    relay.says("d", {"request": "joinroom", "roomid": "one", "claim": True})
    assert relay.received("d")[0]["claim"] is True
    relay.says("p", {"request": "joinroom", "roomid": "one", "claim": True})
    assert relay.received("p")[0]["director"] == "d"
    relay.join("x", room="two")
    relay.says("p", {"request": "seed", "streamID": "s"})
    relay.says("p", {"request": "migrate", "roomid": "two", "target": "d"})
    assert codes(relay.received("p")) == ["NOT_DIRECTOR"]
    relay.received("d")
    relay.says("d", {"request": "migrate", "roomid": "two", "target": "p"})
    assert relay.received("p") == [{"request": "transferred", "list": [{"UUID": "x"}]}]
    assert relay.received("x") == [{"request": "someonejoined", "UUID": "p", "streamID": "s"}]
    relay.says("x", {"request": "play", "streamID": "s"})
    assert relay.received("p")[0]["request"] == "offerSDP"
    relay.come("q")
    relay.join("q", room="one")
    relay.says("q", {"request": "seed", "streamID": "s"})
    relay.received("d")
    relay.says("d", {"request": "migrate", "roomid": "two", "target": "q"})
    assert codes(relay.received("d")) == ["TRANSFER_STREAMID_CONFLICT"]
    relay.says("d", {"request": "migrate", "roomid": "two", "target": "p"})
    assert codes(relay.received("d")) == ["NOT_DIRECTOR"]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"", "MALFORMED"),
        (b"\xff", "MALFORMED"),
        (b"[]", "MALFORMED"),
        (b'"UUID"', "MALFORMED"),
        (b"{}", "MALFORMED"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "MALFORMED"),
        ({"request": "dance"}, "UNKNOWN_REQUEST"),
        ({"request": 7, "UUID": "b"}, "UNKNOWN_REQUEST"),
        ({"request": "joinroom"}, "INVALID_ROOM"),
        ({"request": "joinroom", "roomid": "x" * 81}, "INVALID_ROOM"),
        ({"request": "joinroom", "roomid": ["room"]}, "INVALID_ROOM"),
        ({"request": "joinroom", "roomid": "a\n"}, "INVALID_ROOM"),
        ({"request": "seed", "streamID": "../x"}, "INVALID_STREAM"),
        ({"request": "seed"}, "INVALID_STREAM"),
        ({"request": "migrate", "roomid": "r", "target": "b"}, "NOT_DIRECTOR"),
    ],
)
def test_what_is_no_message_is_answered_and_changes_nothing(message, code):
    relay = Relay()
    relay.come("a", "b")
    relay.join("a", "b")
    before = relay.machine.counts
    relay.says("a", message)
    (answer,) = relay.received("a")
    assert (answer["request"], answer["code"]) == ("error", code)
    assert answer["message"]
    assert relay.received("b") == []
    assert relay.machine.counts == before
    assert not relay.gone


def test_peers_rooms_and_streams_are_limited():
    limits = RelayLimits(
        peers=6, peers_per_address=2, peers_per_room=2, rooms=2, streams_per_peer=2, waiting_per_peer=1
    )
    relay = Relay(limits=limits)
    relay.come("a", "b", address="192.0.2.1")
    relay.come("c", address="192.0.2.1")
    assert relay.gone["c"].reason == "too many connections from this address; close some"
    relay.come("d", "e", "f", "g")
    relay.come("h")
    assert "relay is full" in relay.gone["h"].reason
    relay.join("a", "b", room="one")
    relay.says("d", {"request": "joinroom", "roomid": "one"})
    assert codes(relay.received("d")) == ["ROOM_FULL"]
    relay.join("d", room="two")
    relay.says("e", {"request": "joinroom", "roomid": "three"})
    assert codes(relay.received("e")) == ["RELAY_FULL"]
    for number in range(3):
        relay.says("a", {"request": "seed", "streamID": f"s{number}"})
    assert codes(relay.received("a")) == ["TOO_MANY_STREAMS"]
    relay.says("e", {"request": "play", "streamID": "w1"})
    relay.says("e", {"request": "play", "streamID": "w2"})
    assert codes(relay.received("e")) == ["TOO_MANY_STREAMS"]
    relay.machine.disconnect("a")
    relay.come("i", address="192.0.2.1")
    assert "i" not in relay.gone


def test_a_message_too_long_ends_the_connection():
    relay = Relay()
    relay.come("a")
    relay.says("a", b" " * (MESSAGE_LIMIT + 1))
    assert relay.gone["a"].code == 1009


def test_who_sends_too_much_is_let_go_and_others_are_not():
    relay = Relay(limits=RelayLimits(messages=5, bytes=10_000, per_seconds=10))
    relay.come("a", "b", "c")
    relay.join("a", "b", "c")
    for _ in range(5):
        relay.says("a", {"UUID": "b", "x": 1})
    assert relay.gone["a"].reason == "too many messages; send fewer"
    relay.says("b", {"UUID": "c", "x": "y" * 9000})
    assert "b" not in relay.gone
    relay.says("b", {"UUID": "c", "x": "y" * 9000})
    assert "b" in relay.gone
    relay.now = 10.0
    relay.says("c", {"UUID": "b", "x": "y" * 9000})
    assert "c" not in relay.gone


def test_strangers_only_join_rooms_that_are_served():
    relay = Relay(serves={"invited"}.__contains__)
    relay.come("stranger", "guest")
    relay.come("owner", trusted=True)
    relay.says("stranger", {"request": "joinroom", "roomid": "other"})
    relay.says("stranger", {"request": "seed", "streamID": "s"})
    relay.says("stranger", {"request": "play", "streamID": "s"})
    relay.says("stranger", {"UUID": "owner", "x": 1})
    assert codes(relay.received("stranger")) == ["ROOM_REFUSED", "JOIN_FIRST", "JOIN_FIRST", "JOIN_FIRST"]
    relay.says("guest", {"request": "joinroom", "roomid": "invited"})
    assert relay.received("guest")[0]["request"] == "listing"
    relay.says("owner", {"request": "joinroom", "roomid": "other"})
    assert relay.received("owner")[0]["request"] == "listing"
    assert relay.machine.counts.rooms == 2


PEERS = st.sampled_from("abcdef")
ROOMS = st.sampled_from(["one", "two"])
STREAMS = st.sampled_from(["s", "t", "u"])


def test_who_joins_a_room_is_no_longer_reached_by_whom_a_play_outside_has_introduced():
    machine = SignallingRelay(RelayLimits())
    for who in ("a", "b"):
        machine.connect(who, None, trusted=False)

    def say(who, message):
        return [effect.to for effect in machine.receive(who, json.dumps(message).encode(), 0.0)]

    say("b", {"request": "play", "streamID": "s"})
    say("a", {"request": "seed", "streamID": "s"})
    assert say("a", {"UUID": "b", "x": 1}) == ["b"]
    say("a", {"request": "joinroom", "roomid": "one"})
    assert say("a", {"UUID": "b", "x": 1}) == ["a"]
    assert say("b", {"UUID": "a", "x": 1}) == ["b"]


def test_who_waited_for_a_stream_and_seeds_it_itself_is_not_asked_for_an_offer():
    machine = SignallingRelay(RelayLimits())
    machine.connect("a", None, trusted=False)
    for request in ("play", "seed"):
        message = json.dumps({"request": request, "streamID": "s"}).encode()
        assert machine.receive("a", message, 0.0) == []
    machine.disconnect("a")
    assert machine.counts.streams == 0


class RelayWorld(RuleBasedStateMachine):
    """Whatever peers do, no message leaves its room, no stream has two owners, and nothing is left behind."""

    def __init__(self):
        super().__init__()
        self.machine = SignallingRelay(RelayLimits(peers=4, messages=10_000, bytes=10_000_000))
        self.rooms = {}
        self.streams = {}

    def say(self, who, message):
        effects = self.machine.receive(who, json.dumps(message).encode(), 0.0)
        received = [(effect.to, json.loads(effect.message)) for effect in effects]
        for to, heard in received:
            assert to in self.rooms
            if to != who and heard["request" if "request" in heard else "UUID"] != "offerSDP":
                assert self.rooms[to] == self.rooms[who]
        return received

    @rule(who=PEERS)
    def come(self, who):
        if who not in self.rooms and self.machine.connect(who, None, trusted=False) is None:
            self.rooms[who] = None

    @rule(who=PEERS)
    def go(self, who):
        self.machine.disconnect(who)
        self.rooms.pop(who, None)
        self.streams = {key: owner for key, owner in self.streams.items() if owner != who}

    @rule(who=PEERS, room=ROOMS)
    def join(self, who, room):
        if who in self.rooms:
            if self.rooms[who] != room:
                self.streams = {key: owner for key, owner in self.streams.items() if owner != who}
            self.rooms[who] = room
            received = [
                heard for to, heard in self.say(who, {"request": "joinroom", "roomid": room}) if to == who
            ]
            others = {other for other in self.rooms if other != who and self.rooms[other] == room}
            assert {entry["UUID"] for entry in received[0]["list"]} == others

    @rule(who=PEERS, stream=STREAMS)
    def seed(self, who, stream):
        if who in self.rooms:
            key = (self.rooms[who], stream)
            taken = self.streams.setdefault(key, who) != who
            received = [
                heard["request"]
                for to, heard in self.say(who, {"request": "seed", "streamID": stream})
                if to == who
            ]
            assert ("alert" in received) is taken

    @rule(who=PEERS, stream=STREAMS)
    def play(self, who, stream):
        if who in self.rooms:
            received = self.say(who, {"request": "play", "streamID": stream})
            owner = self.streams.get((self.rooms[who], stream))
            asked = [to for to, heard in received if heard["request"] == "offerSDP"]
            assert asked == ([owner] if owner not in (None, who) else [])

    @rule(who=PEERS, to=PEERS)
    def pass_on(self, who, to):
        if who in self.rooms and self.rooms[who] is not None:
            received = self.say(who, {"UUID": to, "x": 1})
            if to in self.rooms and to != who and self.rooms[to] == self.rooms[who]:
                assert received == [(to, {"UUID": who, "x": 1})]

    @invariant()
    def counts_are_true(self):
        counts = self.machine.counts
        assert counts.peers == len(self.rooms)
        assert counts.rooms == len({room for room in self.rooms.values() if room})
        assert counts.streams == len(self.streams)


TestRelayWorld = RelayWorld.TestCase
TestRelayWorld.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
