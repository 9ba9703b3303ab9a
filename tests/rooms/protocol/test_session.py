"""A session and its peers: what arrives, what is said about what went wrong, how a session lives on."""

import json

import pytest

from comity.rooms.protocol.channel import AppData, read_text_message, write_data, write_envelope
from comity.rooms.protocol.effects import (
    BytesArrived,
    LinkFailed,
    SendFailed,
    SessionOptions,
    SignallingProblem,
    SignallingReady,
)
from comity.rooms.protocol.session import RoomSession
from comity.wire.errors import InvalidError
from tests.rooms.protocol.session_scene import BOTH, envelope, pair, peer_of, say
from tests.simulation.rooms import OPEN, SECURE, World


@BOTH
@pytest.mark.parametrize("demands", [OPEN, SECURE], ids=["open", "secure"])
def test_two_peers_greet_and_know_each_other_by_their_own_names(own, demands):
    _, a, b = pair(demands, own)
    for host, name in ((a, "bob"), (b, "alice")):
        peer = peer_of(host)
        assert peer["stream_id"] == name
        assert peer["handshake_state"] == "ready"
        assert peer["auth_ok"] is True
        assert peer["shared_key_ready"] is True
        assert peer["connected"] is True
        assert ("vacant_id" in peer) is own
    if own:
        assert peer_of(a)["vacant_id"] == b.node_key.vacant_id.hex()


@BOTH
@pytest.mark.parametrize(
    "value",
    [
        0,
        False,
        "",
        None,
        [],
        {},
        1.5,
        "text",
        {"type": "request", "x": 1},
        {"type": "channelMessage"},
        {"bye": True},
        {"__proto__": 1},
        2**70,
    ],
)
def test_any_value_arrives_as_it_was(own, value):
    world, a, b = pair(own=own)
    assert a.send(value)["ok"]
    world.run(1)
    assert b.data() == [value]
    assert type(b.data()[0]) is type(value)
    [event] = b.events("data_received")
    assert event["streamID"] == "alice"
    assert event["fallback"] is False
    assert event["binaryBase64"] is None


def test_binary_on_the_raw_channel_arrives_as_base64():
    _world, _a, b = pair()
    uuid = peer_of(b)["uuid"]
    b.handle(BytesArrived(uuid, "x-bin", b"\x00\xff"))
    [event] = b.events("data_received")
    assert event["data"] is None
    assert event["binaryBase64"] == "AP8="


def test_binary_on_the_control_channel_and_on_unknown_channels_is_a_named_fault():
    _world, _a, b = pair()
    uuid = peer_of(b)["uuid"]
    for channel in ("sendChannel", "x-other"):
        b.handle(BytesArrived(uuid, channel, b"\x00"))
    assert [event["reason"] for event in b.events("protocol_error")] == ["binary_on_control_channel"] * 2


def test_keepalives_of_the_reference_are_no_data_and_data_that_looks_alike_is():
    world, a, b = pair()
    say(world, a, b, {"type": "bridge.keepalive", "ts": 5, "streamID": "alice"})
    assert b.data() == []
    say(world, a, b, {"type": "bridge.keepalive", "text": "hi"})
    assert len(b.data()) == 1


def test_a_target_is_a_stream_id_a_uuid_or_an_object():
    world, a, b = pair(own=False)
    uuid = peer_of(a)["uuid"]
    for target in ("bob", uuid, {"uuid": uuid}, {"streamID": "bob"}, {"UUID": uuid, "type": "viewer"}):
        result = a.send("x", target)
        assert result == {"ok": True, "used_target": target}
    result = a.send("x", "nosuch")
    assert (result["ok"], result["used_target"]) == (False, "nosuch")
    assert a.events("send_rejected")[-1]["reason"] == "no_open_data_channel"
    world.run(1)
    assert len(b.data()) == 5


def test_what_no_message_can_carry_is_refused_before_it_closes_the_link():
    for own in (True, False):
        world, a, b = pair(own=own)
        with pytest.raises(InvalidError, match="send it as a file"):
            a.send("x" * 262_144)
        assert a.send("x" * 200_000)["ok"]
        world.run(1)
        assert len(b.data()) == 1


def test_an_entry_that_a_small_link_cannot_carry_is_told_and_the_link_lives_on():
    world = World()
    a, b = world.host("alice"), world.host("bob")
    world.link(a, b, max_message=4096)
    world.run(1)
    a.put("big", "x" * 10_000)
    assert a.events("send_error")[-1]["message"].startswith("state.patch of 10")
    assert all(len(effect.data) <= 4096 for effect in a.sent)
    a.put("small", 1)
    world.run(1)
    assert b.session.state.values() == {"small": 1}


def test_a_broadcast_is_sealed_for_each_peer():
    world = World()
    hub = world.host("hub", demands=SECURE)
    others = [world.host(f"spoke{n}", demands=SECURE) for n in range(3)]
    for other in others:
        world.link(hub, other)
    world.run(1)
    hub.put("k", 1)
    world.run(1)
    assert all(other.session.state.values() == {"k": 1} for other in others)
    assert all(not other.events("protocol_auth_failed") for other in others)


# What goes wrong on a link.


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"nonsense", "malformed"),
        (b"[1,2]", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"[" * 100_000, "malformed"),
        (b"x" * 262_145, "message_too_large"),
        (b'{"pipe":"' + b"x" * 262_144 + b'"}', "message_too_large"),
    ],
)
def test_garbage_is_a_named_fault_and_the_next_message_is_heard(data, reason):
    world, a, b = pair()
    say(world, a, b, data)
    assert b.events("protocol_error")[-1]["reason"].startswith(reason)
    a.send("after")
    world.run(1)
    assert b.data() == ["after"]


def test_a_flood_of_faults_does_not_push_out_the_events_of_others():
    world, a, b = pair()
    carol = world.host("carol")
    world.link(b, carol)
    carol.send("hello")
    world.run(1)
    for number in range(5000):
        say(world, a, b, b"garbage")
        say(
            world,
            a,
            b,
            write_envelope(envelope("file.chunk", {"transfer_id": "t", "seq": number}, nonce=f"p_{number}")),
        )
    assert len(b.events("protocol_error")) + len(b.events("protocol_auth_failed")) <= 70
    assert b.data() == ["hello"]
    assert "hello" in [event.get("data") for event in b.read()]


def test_unknown_kinds_are_named():
    world, a, b = pair(own=False)
    for number, kind in enumerate(("dance.now", "state.dance", "file.dance", "sync.dance", "msg.data")):
        payload = {"transfer_id": "t"}
        say(world, a, b, write_envelope(envelope(kind, payload, nonce=f"p_{number}")))
    kinds = [event["type"] for event in b.emitted[-4:]]
    assert kinds == [
        "protocol_unknown",
        "state_protocol_unhandled",
        "file_protocol_unhandled",
        "protocol_auth_failed",
    ]
    assert b.events("protocol_unknown")[0]["kind"] == "dance.now"
    assert b.events("state_protocol_unhandled")
    assert b.events("file_protocol_unhandled")


def test_a_forged_actor_is_refused_and_told():
    world, a, b = pair(own=False)
    for number, actor in enumerate(("bob", "carol")):
        patch = {"key": f"k{number}", "value": 1, "actor": actor, "clock": 9}
        say(world, a, b, write_envelope(envelope("state.patch", patch, nonce=f"p_{number}")))
    assert b.session.state.values() == {}
    assert [event["reason"] for event in b.events("state_patch_rejected")] == ["forged_actor"] * 2
    say(
        world,
        a,
        b,
        write_envelope(envelope("state.patch", {"key": "k", "value": 1, "clock": 2**53}, nonce="p_9")),
    )
    assert b.events("state_patch_rejected")[-1]["reason"] == "invalid_clock"


def test_a_hostile_peer_of_our_own_kind_cannot_write_in_our_name():
    world, a, b = pair()
    key = a.session._peers.get(peer_of(a)["uuid"]).key
    patch = {"key": "k", "value": 1, "actor": "bob", "clock": 9}
    say(world, a, b, write_envelope(envelope("state.patch", patch), key))
    assert b.events("state_patch_rejected")[-1]["reason"] == "forged_actor"


def test_snapshots_are_given_only_so_often():
    world, a, b = pair(own=False)
    for number in range(100):
        say(world, a, b, write_envelope(envelope("state.snapshot_req", {}, nonce=f"p_{number}")))
    assert b.events("protocol_error")[-1]["reason"] == "too_many_snapshot_requests"
    given = [effect for effect in b.sent if b'"state.snapshot"' in effect.data]
    assert len(given) <= 70


def test_ping_is_answered_and_bye_closes():
    world, a, b = pair()
    say(world, a, b, b'{"ping":17}')
    assert b.sent[-1].data == b'{"pong":17}'
    say(world, a, b, b'{"bye":true}')
    assert b.events("peer_disconnected")
    assert b.session.status()["peer_count"] == 0


# Heartbeats, silence, reconnecting.


def test_a_heartbeat_is_told_once_per_tick_that_reached_a_peer():
    world, a, b = pair()
    world.run(61)
    assert len(a.events("heartbeat_sent")) == 4
    assert peer_of(b)["last_heartbeat_at"] is not None
    assert a.session.status()["last_heartbeat_at"] is not None
    world.cut(a, b)
    world.run(60)
    assert len(a.events("heartbeat_sent")) == 4


def test_a_silent_peer_is_stale_and_its_link_is_given_up():
    world, a, b = pair()
    b.is_up = False
    world.run(90)
    assert a.events("peer_stale")[0]["stream_id"] == "bob"
    assert a.session.status()["peer_count"] == 0


def test_lost_signalling_is_reconnected_and_links_live_on():
    world, a, b = pair()
    assert a.session.status()["state"] == "connected"
    world.stop_relay()
    world.run(0.01)
    assert a.session.status()["state"] == "reconnecting"
    assert a.events("disconnected")
    a.send("through the night")
    world.run(5)
    assert b.data() == ["through the night"]
    assert [event["inMs"] for event in a.events("reconnect_scheduled")] == [3000, 6000]
    assert a.events("connect_error")[-1]["message"] == "the relay does not answer"
    world.run(200)
    assert max(event["inMs"] for event in a.events("reconnect_scheduled")) == 30_000
    world.relay_is_up = True
    world.run(40)
    assert a.session.status()["state"] == "connected"
    assert a.session.status()["reconnect_delay_ms"] == 3000
    assert a.session.status()["peer_count"] == 1


def test_a_link_that_fails_is_told_without_its_secrets():
    _world, a, _b = pair()
    a.handle(LinkFailed(peer_of(a)["uuid"], "ICE failed"))
    [outcome] = a.events("connection_failed")
    assert set(outcome["detail"]) == {"uuid", "type", "streamID", "reason"}
    a.handle(SendFailed("x", "buffer full"))
    assert a.events("send_error")[-1]["message"] == "buffer full"
    a.handle(SignallingProblem("Stream ID is already in use", "STREAMID_IN_USE"))
    assert a.events("sdk_error")[-1]["detail"]["code"] == "STREAMID_IN_USE"
    assert a.session.status()["last_error"] == "Stream ID is already in use"


def test_a_stopped_session_says_good_bye_and_hears_nothing_more():
    world, a, b = pair()
    a.run(a.session.stop(world.now))
    world.run(1)
    assert a.session.status()["state"] == "stopped"
    assert a.emitted[-1]["type"] == "stopped"
    assert b.session.status()["peer_count"] == 0
    outcome = len(a.emitted)
    a.handle(SignallingReady())
    assert len(a.emitted) == outcome


def test_no_event_of_a_whole_session_holds_a_key_or_a_secret():
    world, a, b = pair(SECURE)
    a.send("x")
    a.put("k", 1)
    a.send_file(b"data" * 1000)
    world.run(70)
    shown = json.dumps(a.emitted + b.emitted)
    for secret in ("room secret", a.session._peers._keys.public_key, "fp alice", '"mac":', "join_"):
        assert secret not in shown


def test_the_status_has_the_members_of_the_contract():
    _world, a, _b = pair()
    assert list(a.session.status()) == [
        "session_id",
        "state",
        "connected",
        "room",
        "stream_id",
        "target_stream_id",
        "host",
        "force_turn",
        "peers",
        "peer_count",
        "sync_peer_count",
        "reconnect_count",
        "reconnect_delay_ms",
        "last_ready_at",
        "last_connected_at",
        "last_disconnected_at",
        "last_heartbeat_at",
        "last_error",
        "state_keys",
        "outgoing_transfers",
        "incoming_transfers",
    ]
    assert isinstance(a.session, RoomSession)
    assert SessionOptions(room="r", stream_id="s", host="h").heartbeat_ms == 15_000
    assert isinstance(read_text_message(write_data(1)), AppData)


def test_peers_that_left_are_forgotten_after_a_while():
    world, a, b = pair()
    world.cut(a, b)
    assert peer_of(a)["connected"] is False
    world.run(700)
    assert a.session.sync_peers(world.now) == []
