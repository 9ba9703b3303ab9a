"""A session and its peers: who is let in, what arrives, what is said about what went wrong."""

import json

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from comity.core.errors import ConfigError, InvalidError
from comity.core.peering.admission import RoomPeer
from comity.core.peering.demands import Demands
from comity.core.peering.exported_messages import export_lines, verify_export
from comity.core.peering.session import RoomSession
from comity.core.peering.session_work import (
    BytesArrived,
    ChannelClosed,
    ChannelOpened,
    CloseLink,
    LinkFailed,
    SendFailed,
    SessionOptions,
    SignallingProblem,
    SignallingReady,
    TextArrived,
)
from comity.core.peering.transfers import FileLimits
from comity.core.peering.wire import AppData, BridgeEnvelope, read_text_message, write_data, write_envelope
from tests.simulation.rooms import OPEN, SECURE, Host, World

BOTH = pytest.mark.parametrize("own", [True, False], ids=["our nodes", "like the reference"])


def pair(demands=OPEN, own=True, other=None, **options):
    world = World()
    a = world.host("alice", demands=demands, own=own, **options)
    b = world.host("bob", demands=demands if other is None else other, own=own, **options)
    world.run(0.1)
    world.link(a, b)
    world.run(1)
    return world, a, b


def peer_of(host):
    [peer] = host.session.sync_peers(host.world.now)
    return peer


def say(world, frm, to, value, generation=None):
    """Put a raw message on the link; `generation` is that of one that is being closed."""
    generation = generation or world.links[frozenset((frm.name, to.name))]
    data = value if isinstance(value, bytes) else write_data(value)
    to.hear(TextArrived(world.uuid(frm.name, generation), data))


def envelope(kind, payload, frm="alice", ts=10**13, nonce="p_00000001"):
    return BridgeEnvelope(kind=kind, ts=ts, nonce=nonce, room="lab", from_stream_id=frm, payload=payload)


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


def test_binary_on_the_raw_lane_arrives_as_base64():
    _world, _a, b = pair()
    uuid = peer_of(b)["uuid"]
    b.hear(BytesArrived(uuid, "x-bin", b"\x00\xff"))
    [event] = b.events("data_received")
    assert event["data"] is None
    assert event["binaryBase64"] == "AP8="


def test_binary_on_the_control_channel_and_on_unknown_lanes_is_a_named_fault():
    _world, _a, b = pair()
    uuid = peer_of(b)["uuid"]
    for lane in ("sendChannel", "x-other"):
        b.hear(BytesArrived(uuid, lane, b"\x00"))
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
    assert result == {"ok": False, "used_target": "nosuch"}
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


# Who is let in.


@pytest.mark.parametrize(
    ("demands", "reason"),
    [
        (Demands(), "join token required"),
        (Demands(join_token_secret="wrong"), "invalid token signature"),
    ],
)
@BOTH
def test_a_peer_without_the_right_token_gets_nothing_in(own, demands, reason):
    world, a, b = pair(SECURE, own, other=demands)
    assert peer_of(a)["handshake_state"] == "rejected"
    assert peer_of(a)["rejected_reason"] == reason
    assert a.events("sync_peer_rejected")[0]["reason"] == reason
    assert b.events("sync_peer_rejected")[0]["reason"] == reason
    say(world, b, a, "hello?", 1)
    patch = envelope("state.patch", {"key": "k", "value": 1, "clock": 1}, "bob")
    say(world, b, a, write_envelope(patch), 1)
    say(world, b, a, write_envelope(envelope("file.offer", {"transfer_id": "t"}, "bob", nonce="p_2")), 1)
    world.run(5)
    assert a.data() == []
    assert a.session.state.values() == {}
    assert a.session.files.incoming == {}
    assert a.disk.files == {}
    kinds = {event["type"] for event in a.told}
    assert not kinds & {"data_received", "state_updated", "file_offer_received", "state_snapshot_merged"}


def test_nothing_of_ours_reaches_a_peer_that_is_not_admitted():
    world, a, _b = pair(SECURE, own=False, other=Demands())
    before = len(a.sent)
    assert a.send("secret")["ok"] is False
    a.put("k", "secret")
    world.run(2)
    assert all(b"secret" not in effect.data for effect in a.sent[before:])


def test_an_expired_token_is_refused_and_a_fresh_one_taken():
    world, a, b = pair(SECURE, join_token_ttl_ms=1000)
    assert peer_of(a)["handshake_state"] == "ready"
    old = b.options
    b.options = replace(old, join_token=_token(b, exp=1))
    b.crash()
    b.boot()
    world.link(a, b)
    world.run(1)
    assert a.session.sync_peers(world.now)[-1]["rejected_reason"] == "join token expired"


def _token(host, exp):
    from comity.core.peering import join_token

    return join_token.mint("room secret", room="lab", stream_id=host.name, exp=exp, nonce="join_00000000")


def test_a_token_of_somebody_else_is_refused():
    world = World()
    a = world.host("alice", demands=SECURE)
    b = world.host("bob", demands=SECURE, join_token=_token(a, exp=10**14))
    world.link(a, b)
    world.run(1)
    assert peer_of(a)["rejected_reason"] == "join token stream mismatch"


def test_without_enforcement_a_bad_token_is_only_noted():
    world, a, b = pair(Demands(join_token_secret="x"), other=Demands(join_token_secret="y"))
    assert peer_of(a)["handshake_state"] == "ready"
    assert peer_of(a)["auth_ok"] is False
    b.send("still here")
    world.run(1)
    assert a.data() == ["still here"]


def test_the_allow_list_is_about_the_name_of_the_peer_and_tells_it_nothing():
    world, a, b = pair(Demands(allow_peer_stream_ids=("bob",)), other=OPEN)
    assert peer_of(a)["handshake_state"] == "ready"
    world, a, b = pair(Demands(allow_peer_stream_ids=("carol",)), other=OPEN)
    assert peer_of(a)["rejected_reason"] == "peer_not_allowed"
    assert b.events("sync_peer_rejected") == []
    b.send("x")
    b.put("k", 1)
    world.run(1)
    assert a.data() == []
    assert a.session.state.values() == {}


def test_enforcing_without_a_secret_refuses_to_start():
    with pytest.raises(ConfigError):
        Host(World(), "x", demands=Demands(enforce_join_token=True))


def test_what_comes_before_the_hello_is_held_and_delivered_in_order_when_it_passes():
    world = World()
    a = world.host("alice", demands=Demands(allow_peer_stream_ids=("bob",)))
    b = world.host("bob", own=False)
    world.relay_is_up = True
    uuid = "bob#7"
    a.hear(ChannelOpened(uuid, "publisher", 262144))
    for number in range(3):
        a.hear(TextArrived(uuid, write_data(number)))
    assert a.data() == []
    a.hear(TextArrived(uuid, write_envelope(envelope("sync.hello", {}, "bob"))))
    assert a.data() == [0, 1, 2]
    a.hear(TextArrived(uuid, write_data(3)))
    assert a.data() == [0, 1, 2, 3]
    assert b.is_up


def test_what_is_held_is_limited_in_number_and_bytes_and_dropped_on_refusal():
    for size, most in ((10, 64), (100_000, 10)):
        world = World()
        a = world.host("alice", demands=Demands(allow_peer_stream_ids=("bob",)))
        uuid = "x#1"
        a.hear(ChannelOpened(uuid, "publisher", 262144))
        for number in range(70):
            a.hear(TextArrived(uuid, write_data(f"{number} " + "x" * size)))
        assert a.events("protocol_error")[0]["reason"] == "too_much_before_hello"
        peer = a.session._peers.get(uuid)
        assert len(peer._held) == most
        a.hear(TextArrived(uuid, write_envelope(envelope("sync.hello", {}, "mallory"))))
        assert len(peer._held) == 0
        a.hear(TextArrived(uuid, write_data("more")))
        assert a.data() == []


def test_a_peer_that_never_says_hello_is_sent_away():
    world = World()
    a = world.host("alice", demands=SECURE)
    a.hear(ChannelOpened("x#1", "publisher", 262144))
    a.hear(TextArrived("x#1", write_data("let me in")))
    effects = []
    run, a.run = (
        a.run,
        lambda more: (effects.extend(more), run([one for one in more if not isinstance(one, CloseLink)])),
    )
    world.run(40)
    assert a.events("sync_peer_rejected")[0]["reason"] == "no hello came in time"
    assert any(isinstance(effect, CloseLink) for effect in effects)
    assert a.data() == []


def test_plain_data_is_refused_where_macs_are_required():
    world, a, b = pair(SECURE, own=False)
    b.send("plain")
    world.run(1)
    assert a.data() == []
    assert a.events("protocol_auth_failed")[-1]["kind"] == "pipe"
    b.hear(BytesArrived(peer_of(b)["uuid"], "x-bin", b"data"))
    assert b.data() == []


@pytest.mark.parametrize("kind", ["state.patch", "file.offer", "msg.data", "sync.heartbeat"])
def test_an_envelope_without_its_mac_is_refused_and_told(kind):
    world, a, b = pair(SECURE)
    say(world, a, b, write_envelope(envelope(kind, {"key": "k", "value": 1, "clock": 1})))
    told = b.events("protocol_auth_failed")[-1]
    assert (told["kind"], told["stream_id"], told["reason"]) == (kind, "alice", "mac_missing")
    assert b.session.state.values() == {}


def test_a_wrong_mac_another_name_and_a_replay_are_refused_and_told():
    world, a, b = pair()
    key = a.session._peers.get(peer_of(a)["uuid"]).key
    patch = envelope("state.patch", {"key": "k", "value": 1, "clock": 1, "actor": "alice"})
    say(world, a, b, write_envelope(patch, bytes(32)))
    say(world, a, b, write_envelope(replace(patch, from_stream_id="carol"), key))
    assert b.session.state.values() == {}
    say(world, a, b, write_envelope(patch, key))
    assert b.session.state.values() == {"k": 1}
    say(world, a, b, write_envelope(patch, key))
    assert [event["reason"] for event in b.events("protocol_auth_failed")] == ["mac", "stream_id", "replay"]


def test_a_replay_on_a_later_link_is_refused():
    world, a, b = pair()
    a.send("once")
    world.run(1)
    recorded = [effect.data for effect in a.sent if b"msg.data" in effect.data]
    world.cut(a, b)
    world.link(a, b)
    world.run(1)
    say(world, a, b, recorded[0])
    assert b.events("protocol_auth_failed")[-1]["reason"] == "replay"
    assert b.data() == ["once"]


def test_a_recorded_hello_lets_nobody_in():
    world = World()
    a = world.host("alice", demands=SECURE)
    b = world.host("bob", demands=SECURE)
    world.link(a, b)
    world.run(1)
    hello = next(effect.data for effect in b.sent if b"sync.hello" in effect.data)
    a.hear(ChannelOpened("evil#9", "publisher", 262144, ("fp alice 9", "fp evil 9")))
    a.hear(TextArrived("evil#9", hello))
    peer = a.session._peers.get("evil#9")
    assert not peer.is_admitted
    assert a.events("protocol_auth_failed")[-1]["reason"] == "replay"
    assert peer_of_name(a, "bob")["handshake_state"] == "ready"


def peer_of_name(host, name):
    return next(peer for peer in host.session.sync_peers(host.world.now) if peer["stream_id"] == name)


def test_a_hello_made_for_another_channel_proves_nothing():
    world = World()
    a = world.host("alice")
    b = world.host("bob")
    b.hear(ChannelOpened("evil#5", "publisher", 262144, ("fp bob 5", "fp evil 5")))
    relayed = next(effect.data for effect in b.sent if b"sync.hello" in effect.data) if b.sent else None
    sent = []
    b.world.transmit = lambda host, effect: sent.append(effect.data)
    b.session.announce(None)
    _, effects = b.session.announce(None)
    relayed = next(effect.data for effect in effects if b"sync.hello" in getattr(effect, "data", b""))
    a.hear(ChannelOpened("evil#6", "publisher", 262144, ("fp alice 6", "fp evil 6")))
    a.hear(TextArrived("evil#6", relayed))
    assert a.events("sync_peer_rejected")[-1]["reason"] == "the identity proof does not hold on this channel"
    a.hear(TextArrived("evil#6", write_data("hi")))
    assert a.data() == []


def test_a_peer_cannot_change_its_identity_on_a_link():
    world, a, b = pair(own=False)
    say(world, b, a, write_envelope(envelope("sync.hello", {"public_key": None}, "carol")))
    assert a.events("sync_peer_rejected")[-1]["reason"] == "the peer changed its identity"
    say(world, b, a, "still bob?")
    assert a.data() == []


def test_a_second_peer_of_the_same_name_is_reported_and_waits_where_hellos_are_demanded():
    world = World()
    a = world.host("alice", demands=SECURE)
    first = world.host("bob", demands=SECURE)
    world.link(a, first)
    world.run(1)
    second = world.host("bob2", demands=SECURE, own=True)
    second.options = replace(second.options, stream_id="bob")
    second.boot()
    world.link(a, second)
    world.run(1)
    told = a.events("duplicate_stream_id")[-1]
    assert told["stream_id"] == "bob"
    waiting = a.session.sync_peers(world.now)[-1]
    assert (waiting["handshake_state"], waiting["rejected_reason"]) == ("rejected", "duplicate stream id")
    assert [peer.uuid for peer in a.session._peers.reachable()] == [told["other_uuid"]]
    world.cut(a, first)
    world.run(1)
    second.send("now")
    world.run(1)
    assert a.data() == ["now"]


def test_in_an_open_room_a_second_peer_of_the_same_name_is_reported():
    world = World()
    a = world.host("alice", own=False)
    first = world.host("bob", own=False)
    second = world.host("bob2", own=False)
    second.options = replace(second.options, stream_id="bob")
    second.boot()
    world.link(a, first)
    world.link(a, second)
    world.run(1)
    assert a.events("duplicate_stream_id")
    impostor = world.host("alice2", own=False)
    impostor.options = replace(impostor.options, stream_id="alice")
    impostor.boot()
    world.link(a, impostor)
    world.run(1)
    assert a.events("duplicate_stream_id")[-1]["other_uuid"] is None


def test_the_same_peer_on_a_new_link_takes_over_from_the_old_one():
    world, a, b = pair(SECURE)
    old = world.links[frozenset(("alice", "bob"))]
    world.link(a, b)
    world.run(2)
    assert f"bob#{old}" not in [peer.uuid for peer in a.session._peers.reachable()]
    b.send("hi")
    world.run(1)
    assert a.data() == ["hi"]


def test_a_late_hello_on_the_old_link_does_not_end_the_new_one():
    world, a, b = pair(SECURE)
    old = world.links[frozenset(("alice", "bob"))]
    late = b.session.announce("alice")[1][0].data
    world.link(a, b)
    world.run(0.1)
    say(world, b, a, late, old)
    world.run(1)
    new = world.links[frozenset(("alice", "bob"))]
    assert [peer.uuid for peer in a.session._peers.reachable()] == [f"bob#{new}"]


def test_a_crowd_that_was_not_let_in_does_not_keep_others_out():
    world = World()
    a = world.host("alice", demands=SECURE)
    for number in range(300):
        a.hear(ChannelOpened(f"crowd#{number}", "publisher", 262144, ("fp", f"fp {number}")))
    assert a.session.status()["peer_count"] <= 256
    b = world.host("bob", demands=SECURE)
    world.link(a, b)
    world.run(1)
    assert peer_of_name(a, "bob")["handshake_state"] == "ready"


def test_a_uuid_is_never_taken_for_somebody_s_name():
    world, a, b = pair(own=False)
    mallory = world.host("mallory", own=False)
    mallory.options = replace(mallory.options, stream_id=peer_of(a)["uuid"])
    mallory.boot()
    world.link(a, mallory)
    world.run(1)
    a.send("for bob", peer_of_name(a, "bob")["uuid"])
    world.run(1)
    assert (b.data(), mallory.data()) == (["for bob"], [])


def test_the_link_of_who_was_refused_is_closed_at_once_after_the_refusal():
    world = World()
    a, b = world.host("alice", demands=SECURE), world.host("bob", demands=Demands(join_token_secret="wrong"))
    world.link(a, b)
    world.run(0.05)
    assert not world.is_linked(a, b)
    assert b.events("sync_peer_rejected")[0]["reason"] == "invalid token signature"
    assert a.session.status()["peer_count"] == 0
    kinds = [event["type"] for event in a.told]
    assert kinds[kinds.index("sync_peer_rejected") :][:3] == [
        "sync_peer_rejected",
        "peer_disconnected",
        "data_channel_close",
    ]


def test_who_was_refused_is_not_heard_while_the_link_is_being_closed():
    world = World()
    a, b = world.host("alice", demands=SECURE), world.host("bob", demands=Demands(join_token_secret="wrong"))
    good = World(1).host("bob", demands=SECURE)
    [hello, *_] = good.session._peers.greet(RoomPeer("alice#1", "viewer", "alice", 0, 0))
    world.link(a, b)
    world.run(1.5 * world.weather.delay)
    assert world.is_linked(a, b)
    assert peer_of(a)["handshake_state"] == "rejected"
    say(world, b, a, hello.data)
    assert peer_of(a)["handshake_state"] == "rejected"


def test_who_says_nothing_does_not_stay_on_the_link():
    world = World()
    a, b = world.host("alice", demands=SECURE), world.host("bob")
    b.is_up = False
    world.link(a, b)
    world.run(29)
    assert world.is_linked(a, b)
    world.run(2)
    assert not world.is_linked(a, b)
    assert a.events("sync_peer_rejected")[0]["reason"] == "no hello came in time"


def test_one_record_that_cannot_be_read_does_not_keep_a_session_from_opening():
    world, a, b = pair()
    world.cut(a, b)
    a.disk.records["broken", "outgoing"] = {"transfer_id": "broken"}
    a.crash()
    a.boot()
    assert (
        a.events("file_transfer_failed")[-1]["reason"] == "the record of an outgoing transfer cannot be read"
    )
    assert a.session.connection_state == "connecting"


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
    kinds = [event["type"] for event in b.told[-4:]]
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
    a.hear(LinkFailed(peer_of(a)["uuid"], "ICE failed"))
    [told] = a.events("connection_failed")
    assert set(told["detail"]) == {"uuid", "type", "streamID", "reason"}
    a.hear(SendFailed("x", "buffer full"))
    assert a.events("send_error")[-1]["message"] == "buffer full"
    a.hear(SignallingProblem("Stream ID is already in use", "STREAMID_IN_USE"))
    assert a.events("sdk_error")[-1]["detail"]["code"] == "STREAMID_IN_USE"
    assert a.session.status()["last_error"] == "Stream ID is already in use"


def test_a_stopped_session_says_good_bye_and_hears_nothing_more():
    world, a, b = pair()
    a.run(a.session.stop(world.now))
    world.run(1)
    assert a.session.status()["state"] == "stopped"
    assert a.told[-1]["type"] == "stopped"
    assert b.session.status()["peer_count"] == 0
    told = len(a.told)
    a.hear(SignallingReady())
    assert len(a.told) == told


def test_no_event_of_a_whole_session_holds_a_key_or_a_secret():
    world, a, b = pair(SECURE)
    a.send("x")
    a.put("k", 1)
    a.send_file(b"data" * 1000)
    world.run(70)
    shown = json.dumps(a.told + b.told)
    for secret in ("room secret", a.session._peers._keys.public_key, "fp alice", '"mac":', "join_"):
        assert secret not in shown


# State between sessions.


def test_a_star_forwards_and_everybody_has_the_same():
    for own in (True,):
        world = World()
        hub = world.host("hub", own=own)
        spokes = [world.host(f"s{n}", own=own) for n in range(3)]
        for spoke in spokes:
            world.link(hub, spoke)
        world.run(1)
        spokes[0].put("k", "from s0")
        spokes[2].put("l", "from s2")
        world.run(1)
        for host in (hub, *spokes):
            assert host.session.state.values() == {"k": "from s0", "l": "from s2"}


def test_state_is_the_same_again_after_a_partition():
    world, a, b = pair()
    a.put("k", "before")
    world.run(1)
    world.cut(a, b)
    a.put("k", "a alone")
    b.put("k", "b alone")
    b.put("k", "b again")
    a.put("only a", 1)
    b.put("gone", 1)
    b.put("gone", UNSET)
    world.run(1)
    world.link(a, b)
    world.run(2)
    assert a.session.state.values() == b.session.state.values() == {"k": "b again", "only a": 1}


def test_a_large_state_is_sent_in_parts_that_fit():
    world = World()
    a, b = world.host("alice"), world.host("bob")
    for number in range(300):
        a.put(f"k{number}", "x" * 10_000)
    world.link(a, b)
    world.run(2)
    assert len(b.session.state) == 300


def test_a_local_write_without_broadcast_is_told_to_nobody_yet():
    world, a, b = pair()
    a.put("quiet", 1, broadcast=False)
    world.run(1)
    assert b.session.state.values() == {}
    result, effects = a.session.sync_state("send", "bob")
    a.run(effects)
    assert result == {"ok": True, "mode": "send", "used_target": "bob"}
    world.run(1)
    assert b.session.state.values() == {"quiet": 1}


def test_a_restart_never_writes_under_a_clock_that_it_used_before():
    world, a, b = pair()
    first = a.put("k", "old")
    world.run(1)
    a.crash()
    a.boot()
    second = a.put("k", "new")
    assert second.clock > first.clock
    world.link(a, b)
    world.run(2)
    assert a.session.state.values() == b.session.state.values() == {"k": "new"}


# Messages with receipts.


def test_a_message_to_our_own_node_is_receipted_after_it_was_kept():
    world, a, b = pair()
    [message_id] = a.send({"n": 1})["message_ids"]
    assert a.session.messages.status(message_id) == ("sent", None)
    world.run(1)
    assert a.session.messages.status(message_id) == ("stored", None)
    assert a.events("message_status")[-1]["status"] == "stored"
    [event] = b.events("data_received")
    assert event["message_id"] == message_id
    assert event["vacant_id"] == a.node_key.vacant_id.hex()
    assert event["signed"] is False


def test_a_message_for_an_absent_node_waits_and_is_delivered_once():
    world, a, b = pair()
    world.cut(a, b)
    result = a.send("later", "bob")
    assert result["ok"] is True
    [message_id] = result["message_ids"]
    assert a.session.messages.status(message_id) == ("waiting", None)
    a.crash()
    a.boot()
    world.run(10)
    world.link(a, b)
    world.run(1)
    assert b.data() == ["later"]
    assert a.session.messages.status(message_id) == ("stored", None)
    world.cut(a, b)
    world.link(a, b)
    world.run(30)
    assert b.data() == ["later"]


def test_a_message_that_nobody_takes_expires():
    world, a, b = pair()
    world.cut(a, b)
    b.is_up = False
    [message_id] = a.send("too late", "bob")["message_ids"]
    world.run(1)
    world.run(90_000)
    assert a.session.messages.status(message_id) == ("expired", "nobody took it in time")


def test_an_unread_message_survives_a_restart_and_a_read_one_does_not_come_again():
    world, a, b = pair()
    a.send("one")
    world.run(1)
    assert [event["data"] for event in b.read() if event["type"] == "data_received"] == ["one"]
    a.send("two")
    world.run(1)
    b.crash()
    b.boot()
    again = [event for event in b.read() if event["type"] == "data_received"]
    assert [event["data"] for event in again] == ["two"]
    assert again[0]["streamID"] == "alice"
    world.run(1)
    b.crash()
    b.boot()
    assert [event for event in b.read() if event["type"] == "data_received"] == []


def test_a_receipted_message_outlives_a_flood_of_other_events_until_it_is_read():
    world, a, b = pair()
    a.send("do not lose me")
    world.run(1)
    for number in range(3000):
        b.put("k", number, broadcast=False)
    assert "do not lose me" in [event.get("data") for event in b.read(most=500)]
    assert b.session.messages.unread == 0


def test_a_request_and_its_reply_belong_together():
    world, a, b = pair()
    [request] = a.send({"ask": 1}, "bob")["message_ids"]
    world.run(1)
    _result, effects = b.session.reply(request, {"answer": 2}, world.now)
    b.run(effects)
    world.run(1)
    [event] = a.events("data_received")
    assert event["re"] == request
    assert event["data"] == {"answer": 2}
    with pytest.raises(InvalidError, match="unknown request_id"):
        b.session.reply("nope", 1, world.now)


def test_an_inbox_that_is_full_says_so_and_the_sender_knows():
    world, a, b = pair()
    for _ in range(45):
        a.send("x" * 200_000)
        world.run(1)
    refused = [event for event in a.events("message_status") if event["status"] == "refused"]
    assert refused[0]["reason"] == "the inbox is full"
    stored = [event for event in a.events("message_status") if event["status"] == "stored"]
    assert len(stored) == len(b.data())


def test_nobody_receipts_what_was_for_another_node():
    world, a, b = pair()
    carol = world.host("carol")
    world.link(a, carol)
    world.run(1)
    b.is_up = False
    [message_id] = a.send("x", "bob")["message_ids"]
    key = carol.session._peers.get(peer_of(carol)["uuid"]).key
    receipt = envelope("msg.receipt", {"id": message_id, "status": "stored"}, "carol")
    say(world, carol, a, write_envelope(receipt, key))
    assert a.session.messages.status(message_id) == ("sent", None)


def test_signed_messages_are_chained_and_can_be_verified_by_anybody():
    world, a, b = pair()
    for number in range(3):
        a.send_signed({"n": number})
        world.run(1)
    assert b.data() == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert all(event["signed"] for event in b.events("data_received"))
    kept = [record["envelope"] for (box, *_), record in b.kept.items() if box == "in"]
    lines = export_lines(kept)
    assert [json.loads(message.text) for message in verify_export(lines)] == b.data()
    with pytest.raises(InvalidError, match="line 2: the signature"):
        verify_export(lines.replace(b'{\\"n\\":1}', b'{\\"n\\":7}'))
    with pytest.raises(InvalidError, match="line 2 does not follow"):
        verify_export(b"\n".join(line for at, line in enumerate(lines.split(b"\n")) if at != 1))
    with pytest.raises(InvalidError, match="line 1 is no envelope"):
        verify_export(b"{}")


def test_a_signed_message_of_somebody_else_or_out_of_its_place_is_refused():
    world, a, b = pair()
    carol = world.host("carol")
    world.link(b, carol)
    world.run(1)
    a.send_signed("mine")
    world.run(1)
    [stolen] = [record["envelope"] for (box, *_), record in b.kept.items() if box == "in"]
    carol.run(carol.session.send_signed(stolen, "msg_x", b.node_key.vacant_id.hex(), world.now))
    world.run(1)
    assert (
        carol.events("message_status")[-1]["reason"]
        == "the envelope is of another node than the one that sent it"
    )
    a.run(a.session.send_signed(stolen, "msg_again", b.node_key.vacant_id.hex(), world.now))
    world.run(1)
    assert a.events("message_status")[-1]["status"] == "refused"
    assert b.events("message_rejected")[-1]["message_id"] == "msg_again"
    assert b.data() == ["mine"]


def test_nothing_can_be_signed_for_a_peer_without_a_vacant_id():
    world = World()
    a = world.host("alice")
    b = world.host("bob", own=False)
    world.link(a, b)
    world.run(1)
    with pytest.raises(InvalidError, match="invalid target: bob has no VacantId"):
        a.send_signed("x")


# Files between sessions.


@BOTH
@pytest.mark.parametrize("demands", [OPEN, SECURE], ids=["open", "secure"])
def test_a_file_goes_through_a_whole_session(own, demands):
    world, a, b = pair(demands, own)
    data = bytes(range(256)) * 2000
    outgoing = a.send_file(data, "bob", name="x.bin")
    world.run(5)
    assert outgoing.status == "completed"
    assert bytes(b.disk.files["file_1"]) == data
    assert (outgoing.offer.frames, outgoing.offer.file_hash.startswith("chunks:")) == (own, own)
    assert b.events("file_received")[0]["from_stream_id"] == "alice"


def test_a_file_goes_on_by_itself_when_the_link_is_back():
    world, a, b = pair()
    data = bytes(range(256)) * 40_000
    outgoing = a.send_file(data, "bob")
    world.run(0.017)
    world.cut(a, b)
    assert 0 < len(b.disk.chunks["file_1"]) < outgoing.offer.total_chunks
    world.run(5)
    world.link(a, b)
    world.run(5)
    assert outgoing.status == "completed"
    assert bytes(b.disk.files["file_1"]) == data


@pytest.mark.parametrize("told_after", [0.0, 0.004, 0.05, None], ids=["first", "amid", "late", "never"])
def test_a_file_goes_on_whenever_the_end_of_the_old_link_is_told(told_after):
    """A peer that was killed is back before anybody has noticed that its old link is dead."""
    world, a, b = pair(SECURE, files=FileLimits(spool_threshold=1))
    data = bytes(range(256)) * 40_000
    outgoing = a.send_file(data, "bob")
    world.run(0.017)
    old = world.uuid("bob", world.links.pop(frozenset(("alice", "bob"))))
    b.crash()
    b.boot()
    assert 0 < len(b.disk.chunks["file_1"]) < outgoing.offer.total_chunks
    world.link(a, b)
    if told_after is not None:
        world.later(told_after, a, ChannelClosed(old, "the peer cannot be reached any more"))
    world.run(1)
    assert outgoing.status == "completed"
    assert bytes(b.disk.files["file_1"]) == data


def test_a_file_needs_one_target():
    world = World()
    a = world.host("alice")
    with pytest.raises(InvalidError, match="no connected peers"):
        a.send_file(b"x")
    b, c = world.host("bob"), world.host("carol")
    world.link(a, b)
    world.link(a, c)
    world.run(1)
    with pytest.raises(InvalidError, match="ambiguous target: multiple peers connected"):
        a.send_file(b"x")
    with pytest.raises(InvalidError, match=r"failed to send file\.offer"):
        a.send_file(b"x", "dave")
    a.send_file(b"x", "carol")
    world.run(1)
    assert bytes(c.disk.files["file_1"]) == b"x"
    outgoing, effects = a.session.resume_file("file_1", None, world.now)
    assert (outgoing.status, effects) == ("completed", [])
    with pytest.raises(InvalidError, match="unknown transfer_id: nope"):
        a.session.resume_file("nope", None, world.now)


def test_a_file_frame_with_a_wrong_seal_is_refused_and_told():
    _world, _a, b = pair()
    from comity.core.peering.wire import transfer_mark, write_file_frame

    uuid = peer_of(b)["uuid"]
    b.hear(
        BytesArrived(uuid, "x-comity", write_file_frame(transfer_mark("t"), 0, bytes(32), b"data", bytes(32)))
    )
    b.hear(BytesArrived(uuid, "x-comity", b"short"))
    assert b.events("protocol_auth_failed")[-1]["kind"] == "file.frame"
    assert b.events("protocol_error")[-1]["reason"] == "malformed_file_frame"


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
