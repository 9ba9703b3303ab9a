"""What sessions exchange: state, messages with receipts, files."""

import json

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from comity.rooms.protocol.channel import write_envelope
from comity.rooms.protocol.effects import BytesArrived, ChannelClosed
from comity.rooms.protocol.messages import export_lines, verify_export
from comity.rooms.protocol.transfers import FileLimits
from comity.wire.errors import InvalidError
from tests.rooms.protocol.session_scene import BOTH, envelope, pair, peer_of, say
from tests.simulation.rooms import OPEN, SECURE, World

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
    assert a.session.messages.status(message_id, world.now) == ("sent", None)
    world.run(1)
    assert a.session.messages.status(message_id, world.now) == ("stored", None)
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
    assert a.session.messages.status(message_id, world.now) == ("waiting", None)
    a.crash()
    a.boot()
    world.run(10)
    world.link(a, b)
    world.run(1)
    assert b.data() == ["later"]
    assert a.session.messages.status(message_id, world.now) == ("stored", None)
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
    assert a.session.messages.status(message_id, world.now) == ("expired", "nobody took it in time")


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


def test_both_sides_see_that_a_message_was_stored_and_that_it_was_read():
    world, a, b = pair()
    [message_id] = a.send("x", "bob")["message_ids"]
    world.run(1)
    assert (a.status(message_id), b.status(message_id)) == ("stored", "stored")
    b.read()
    world.run(1)
    assert (a.status(message_id), b.status(message_id)) == ("read", "read")
    assert [event["status"] for event in a.events("message_status")] == ["stored"]
    a.crash()
    a.boot()
    assert a.status(message_id) == "read"


def test_what_was_read_while_the_sender_was_away_is_told_when_it_is_back():
    world, a, b = pair()
    ids = [a.send(number, "bob")["message_ids"][0] for number in range(3)]
    world.run(1)
    world.cut(a, b)
    b.read()
    world.run(1)
    b.crash()
    b.boot()
    assert [a.status(one) for one in ids] == ["stored"] * 3
    world.link(a, b)
    world.run(2)
    assert [a.status(one) for one in ids] == ["read"] * 3


def test_a_node_that_does_not_announce_it_is_not_told_what_was_read():
    world, a, b = pair()
    [known] = [peer for peer in b.session._peers if peer.stream_id == "alice"]
    known.layer = replace(known.layer, receipts=())
    [message_id] = a.send("x", "bob")["message_ids"]
    world.run(1)
    b.read()
    world.run(1)
    assert a.status(message_id) == "stored"


def test_a_message_to_a_peer_that_is_dead_waits_and_is_not_called_sent():
    world, a, b = pair()
    b.is_up = False
    world.run(40)
    result = a.send("are you there", "bob")
    assert (result["ok"], result["status"]) == (True, "waiting")
    assert result["reason"].startswith("bob does not answer; the message waits")
    world.cut(a, b)
    assert a.send("and now", "bob")["status"] == "waiting"


def test_who_sends_to_a_name_that_nobody_has_is_told_why_it_is_not_ok():
    world, a, _b = pair()
    result = a.send("x", "carl")
    assert (result["ok"], result["reason"]) == (False, "carl is not, and was not, in the room; here: bob")
    alone = world.host("dora").send("x")
    assert (alone["ok"], alone["reason"]) == (False, "nobody else is here")


def test_who_has_filled_its_share_of_an_inbox_is_told():
    world, a, b = pair()
    for _ in range(45):
        a.send("x" * 200_000)
        world.run(1)
    refused = [event for event in a.events("message_status") if event["status"] == "refused"]
    assert refused[0]["reason"] == "too many of your messages were not read here yet"
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
    assert a.session.messages.status(message_id, world.now) == ("sent", None)


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
    from comity.rooms.protocol.channel import transfer_mark, write_file_frame

    uuid = peer_of(b)["uuid"]
    b.handle(
        BytesArrived(uuid, "x-comity", write_file_frame(transfer_mark("t"), 0, bytes(32), b"data", bytes(32)))
    )
    b.handle(BytesArrived(uuid, "x-comity", b"short"))
    assert b.events("protocol_auth_failed")[-1]["kind"] == "file.frame"
    assert b.events("protocol_error")[-1]["reason"] == "malformed_file_frame"
