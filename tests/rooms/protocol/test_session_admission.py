"""Who is let into a session, by token, MAC, allow list and name, and what becomes of all others."""

import json

import pytest
from msgspec.structs import replace

from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import write_data, write_envelope
from comity.rooms.protocol.effects import BytesArrived, ChannelOpened, CloseLink, TextArrived
from comity.rooms.protocol.tool_table import Demands
from comity.wire.errors import ConfigError
from tests.rooms.protocol.session_scene import BOTH, envelope, pair, peer_of, peer_of_name, say
from tests.simulation.rooms import OPEN, SECURE, Host, World


@pytest.mark.parametrize(
    ("demands", "reason"),
    [(Demands(), "join token required"), (Demands(join_token_secret="wrong"), "invalid token signature")],
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
    kinds = {event["type"] for event in a.emitted}
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
    assert a.session.sync_peers(world.now)[-1]["rejected_reason"].startswith("join token expired")


@pytest.mark.parametrize("off", [-3600, -600, 3600], ids=["an hour back", "ten minutes", "an hour ahead"])
@BOTH
def test_a_peer_whose_clock_is_set_is_still_heard(own, off):
    world, a, b = pair(own=own)
    b.send("before")
    world.run(1)
    b.clock_off = off
    b.send("after")
    b.put("key", "value")
    world.run(1)
    assert a.data() == ["before", "after"]
    assert a.session.state.values() == {"key": "value"}
    assert a.events("protocol_auth_failed") == []


@BOTH
def test_one_message_stamped_an_hour_ahead_silences_nobody(own):
    world, a, b = pair(own=own)
    b.clock_off = 3600
    b.put("key", "ahead")
    b.clock_off = 0
    world.run(200)
    b.send("later")
    world.run(1)
    assert a.data() == ["later"]
    assert a.events("protocol_auth_failed") == []


def test_clocks_that_differ_by_more_than_a_token_lasts_are_both_named():
    world = World()
    a = world.host("alice", demands=SECURE)
    b = world.host("bob", demands=SECURE, clock_off=-900)
    world.link(a, b)
    world.run(1)
    reason = peer_of(a)["rejected_reason"]
    assert reason.startswith("join token expired: it lasted until ")
    assert reason.endswith(
        "until 2025-12-31T23:55:00Z. The clock of bob says 2025-12-31T23:45:00Z, the clock of alice "
        "2026-01-01T00:00:00Z: set the wrong one, or make a new token"
    )
    assert b.events("sync_peer_rejected")[-1]["reason"] == reason


def test_an_invited_peer_may_have_a_clock_that_is_wrong_by_as_much_as_the_invite_lasts():
    world = World()
    end = int((world.wall() + 86_400) * 1000)
    a = world.host("alice", demands=SECURE, latest_exp=end)
    b = world.host("bob", demands=SECURE, latest_exp=end, clock_off=-900)
    world.link(a, b)
    world.run(1)
    assert peer_of(a)["handshake_state"] == peer_of(b)["handshake_state"] == "ready"


def _token(host, exp):
    from comity.rooms.protocol import hello as join_token

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
    a.handle(ChannelOpened(uuid, "publisher", 262144))
    for number in range(3):
        a.handle(TextArrived(uuid, write_data(number)))
    assert a.data() == []
    a.handle(TextArrived(uuid, write_envelope(envelope("sync.hello", {}, "bob"))))
    assert a.data() == [0, 1, 2]
    a.handle(TextArrived(uuid, write_data(3)))
    assert a.data() == [0, 1, 2, 3]
    assert b.is_up


def test_what_is_held_is_limited_in_number_and_bytes_and_dropped_on_refusal():
    for size, most in ((10, 64), (100_000, 10)):
        world = World()
        a = world.host("alice", demands=Demands(allow_peer_stream_ids=("bob",)))
        uuid = "x#1"
        a.handle(ChannelOpened(uuid, "publisher", 262144))
        for number in range(70):
            a.handle(TextArrived(uuid, write_data(f"{number} " + "x" * size)))
        assert a.events("protocol_error")[0]["reason"] == "too_much_before_hello"
        peer = a.session._peers.get(uuid)
        assert len(peer._held) == most
        a.handle(TextArrived(uuid, write_envelope(envelope("sync.hello", {}, "mallory"))))
        assert len(peer._held) == 0
        a.handle(TextArrived(uuid, write_data("more")))
        assert a.data() == []


def test_a_peer_that_never_says_hello_is_sent_away():
    world = World()
    a = world.host("alice", demands=SECURE)
    a.handle(ChannelOpened("x#1", "publisher", 262144))
    a.handle(TextArrived("x#1", write_data("let me in")))
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
    b.handle(BytesArrived(peer_of(b)["uuid"], "x-bin", b"data"))
    assert b.data() == []


@pytest.mark.parametrize("kind", ["state.patch", "file.offer", "msg.data", "sync.heartbeat"])
def test_an_envelope_without_its_mac_is_refused_and_told(kind):
    world, a, b = pair(SECURE)
    say(world, a, b, write_envelope(envelope(kind, {"key": "k", "value": 1, "clock": 1})))
    outcome = b.events("protocol_auth_failed")[-1]
    assert (outcome["kind"], outcome["stream_id"], outcome["reason"]) == (kind, "alice", "mac_missing")
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
    a.handle(ChannelOpened("evil#9", "publisher", 262144, ("fp alice 9", "fp evil 9")))
    a.handle(TextArrived("evil#9", hello))
    peer = a.session._peers.get("evil#9")
    assert not peer.is_admitted
    assert a.events("protocol_auth_failed")[-1]["reason"] == "replay"
    assert peer_of_name(a, "bob")["handshake_state"] == "ready"


def test_a_hello_made_for_another_channel_proves_nothing():
    world = World()
    a = world.host("alice")
    b = world.host("bob")
    b.handle(ChannelOpened("evil#5", "publisher", 262144, ("fp bob 5", "fp evil 5")))
    relayed = next(effect.data for effect in b.sent if b"sync.hello" in effect.data) if b.sent else None
    sent = []
    b.world.transmit = lambda host, effect: sent.append(effect.data)
    b.session.announce(None)
    _, effects = b.session.announce(None)
    relayed = next(effect.data for effect in effects if b"sync.hello" in getattr(effect, "data", b""))
    a.handle(ChannelOpened("evil#6", "publisher", 262144, ("fp alice 6", "fp evil 6")))
    a.handle(TextArrived("evil#6", relayed))
    assert a.events("sync_peer_rejected")[-1]["reason"] == "the identity proof does not hold on this channel"
    a.handle(TextArrived("evil#6", write_data("hi")))
    assert a.data() == []


def test_a_peer_cannot_change_its_identity_on_a_link():
    world, a, b = pair(own=False)
    say(world, b, a, write_envelope(envelope("sync.hello", {"public_key": None}, "carol")))
    assert a.events("sync_peer_rejected")[-1]["reason"] == "the peer changed its identity"
    say(world, b, a, "still bob?")
    assert a.data() == []


def named(world, host, stream_id, **options):
    """A host that says another stream id than its own."""
    newcomer = world.host(host, **options)
    newcomer.options = replace(newcomer.options, stream_id=stream_id)
    newcomer.boot()
    return newcomer


@pytest.mark.parametrize(
    ("own", "demands"), [(True, OPEN), (False, OPEN), (True, SECURE)], ids=["ours", "reference", "secure"]
)
def test_a_second_peer_of_a_taken_name_is_refused_and_told_until_the_first_has_gone(own, demands):
    world = World()
    a = world.host("alice", demands=demands, own=own)
    first = world.host("bob", demands=demands, own=own)
    world.link(a, first)
    world.run(1)
    second = named(world, "bob2", "bob", demands=demands, own=own)
    world.link(a, second)
    world.run(1)
    outcome = a.events("duplicate_stream_id")[-1]
    reason = "duplicate stream id: bob is taken here; join under another name"
    refused = a.session.sync_peers(world.now)[-1]
    assert (refused["handshake_state"], refused["rejected_reason"]) == ("rejected", reason)
    assert [peer.uuid for peer in a.session._peers.reachable()] == [outcome["other_uuid"]]
    [reported] = second.events("sync_peer_rejected")
    assert (reported["stream_id"], reported["reason"], reported["by_peer"]) == ("alice", reason, True)
    say(world, second, a, "I am bob")
    assert a.data() == []
    world.cut(a, first)
    world.run(1)
    second.send("now")
    world.run(1)
    assert a.data() == ["now"]


@BOTH
def test_a_second_peer_of_a_taken_name_replaces_one_that_has_gone_silent(own):
    world = World()
    a, first = world.host("alice", own=own), world.host("bob", own=own)
    world.link(a, first)
    world.run(1)
    first.is_up = False
    world.run(20)
    early = named(world, "bob2", "bob", own=own)
    world.link(a, early)
    world.run(1)
    assert early.events("sync_peer_rejected")
    world.run(20)
    late = named(world, "bob3", "bob", own=own)
    world.link(a, late)
    world.run(1)
    late.send("it is me")
    world.run(1)
    assert a.data() == ["it is me"]


@BOTH
def test_a_peer_under_our_own_name_is_refused_and_told(own):
    world = World()
    a = world.host("alice", own=own)
    impostor = named(world, "alice2", "alice", own=own)
    world.link(a, impostor)
    world.run(1)
    [reported] = impostor.events("sync_peer_rejected")[:1]
    assert reported["reason"] == "duplicate stream id: alice is ours; join under another name"
    assert a.session.present == 0
    say(world, impostor, a, "I am you", 1)
    assert a.data() == []


@pytest.mark.parametrize(
    "name",
    ["\x1b[31mbob", "bob\nroot", "<script>alert(1)</script>", "b\u202eob", "bób", "b b", "", "x" * 65],
    ids=["escape", "newline", "script", "bidi", "accent", "space", "empty", "long"],
)
@pytest.mark.parametrize("demands", [OPEN, SECURE], ids=["open", "secure"])
def test_a_name_that_is_no_stream_id_is_refused_with_a_reason_and_shown_nowhere(name, demands):
    world = World()
    a = world.host("alice", demands=demands)
    evil = named(world, "evil", name, demands=demands)
    world.link(a, evil)
    world.run(1)
    reason = "invalid from_stream_id: it must be 1 to 64 letters, digits and _"
    assert evil.events("sync_peer_rejected")[0]["reason"] == reason
    assert a.session.present == 0
    shown = json.dumps([a.emitted, a.session.sync_peers(world.now), a.session.status()])
    assert not name or json.dumps(name)[1:-1] not in shown


def test_words_of_a_peer_are_shown_without_what_a_terminal_obeys():
    world, a, b = pair(own=False)
    hello = {"capabilities": {"sync_v1": True, "\x1b[2J": True, "x" * 80: True}, "public_key": None}
    say(world, b, a, write_envelope(envelope("\x1b[2Jx.y", {}, "bob", nonce="p_1")))
    say(
        world,
        b,
        a,
        write_envelope(envelope("sync.reject", {"reason": "no\u202e\x1b[2J"}, "bob", nonce="p_2")),
    )
    assert a.events("sync_peer_rejected")[0]["reason"] == "no\ufffd\ufffd[2J"
    assert a.events("protocol_unknown")[0]["kind"] == "\ufffd[2Jx.y"
    other = world.host("carol", own=False)
    world.link(a, other)
    say(world, other, a, write_envelope(envelope("sync.hello", hello, "carol", nonce="p_3")))
    assert peer_of_name(a, "carol")["capabilities"] == {"sync_v1": True}


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
        a.handle(ChannelOpened(f"crowd#{number}", "publisher", 262144, ("fp", f"fp {number}")))
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
    kinds = [event["type"] for event in a.emitted]
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
