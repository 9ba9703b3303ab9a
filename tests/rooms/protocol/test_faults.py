"""Each thing that may go wrong between peers, by name: a peer that was let in does it while another one is at work.

Every fault is a named event. After it the file of the other peer is whole, its messages were read once, the session
holds no more than it may, and the one who did it is heard again when it says something sensible.
"""

import base64
import hashlib
import json
from typing import NamedTuple

import pytest

from comity.rooms.protocol.channel import FILE_CHANNEL, write_data, write_file_frame
from comity.rooms.protocol.effects import BytesArrived, TextArrived
from comity.rooms.protocol.transfers import FileLimits
from comity.testing.links import Randomness
from tests.simulation.rooms import SECURE, World

DATA = bytes(range(256)) * 240
EVIL = b"evil" * 256
OFFER = {
    "transfer_id": "eves",
    "name": "x",
    "mime": "text/plain",
    "total_bytes": 2048,
    "total_chunks": 2,
    "chunk_bytes": 1024,
    "file_hash": hashlib.sha256(EVIL + EVIL).hexdigest(),
}


class Room:
    """Alice has a file of Bob's half, and half of hers is with Eve, when Eve begins."""

    def __init__(self):
        self.world = World()
        limits = FileLimits(spool_threshold=1)
        self.alice, self.bob, self.eve = (
            self.world.host(name, demands=SECURE, files=limits) for name in ("alice", "bob", "eve")
        )
        self.world.link(self.alice, self.bob)
        self.world.link(self.alice, self.eve)
        self.world.run(1)
        self.before = len(self.alice.emitted)
        self.bob.send("before", "alice")
        self.bob.put("key", "bob's")
        self.bob.send_file(DATA, "alice", "bobs", chunk_bytes=1024)
        self.alice.send_file(DATA, "eve", "for eve", chunk_bytes=1024)
        while not self.half_there():
            self.world.step()

    def half_there(self):
        incoming = self.alice.session.files.incoming.get("bobs")
        return incoming is not None and 0 < incoming.summary()["acked_chunks"] < 60

    @property
    def link(self):
        return self.world.uuid("eve", self.world.links[frozenset(("alice", "eve"))])

    def text(self, data):
        self.alice.handle(TextArrived(self.link, data))

    def say(self, kind, **payload):
        """As Eve's own node would: with its MAC."""
        peers = self.eve.session._peers
        self.text(peers.seal(peers.resolve("alice"), kind, payload))

    def offer(self, **changed):
        self.say("file.offer", **{**OFFER, **changed})

    def begin_file(self, **changed):
        self.offer(**changed)
        self.world.run(0.01)

    def chunk(self, transfer_id="eves", seq=0, data=EVIL, digest=None):
        digest = hashlib.sha256(data).hexdigest() if digest is None else digest
        encoded = base64.b64encode(data).decode()
        self.say("file.chunk", transfer_id=transfer_id, seq=seq, data_base64=encoded, chunk_hash=digest)
        self.world.run(0.01)

    def status(self, transfer_id="eves"):
        return self.alice.session.files.incoming[transfer_id].status

    def outcome(self, kind):
        return [event for event in self.alice.emitted[self.before :] if event["type"] == kind]


class Fault(NamedTuple):
    name: str
    happens: object
    event: str
    reason: str


def wrong_hash_three_times(room):
    room.begin_file()
    for _ in range(3):
        assert room.status() == "receiving"
        room.chunk(digest="00" * 32)
    assert room.status() == "failed"


def chunk_beyond_the_total(room):
    room.begin_file()
    room.chunk(seq=2)
    assert room.status() == "receiving"


def chunk_of_one_byte(room):
    room.begin_file()
    room.chunk(data=b"x")
    assert room.status() == "receiving"


def file_that_is_not_what_was_offered(room):
    room.begin_file(file_hash="00" * 32)
    room.chunk(seq=0), room.chunk(seq=1)
    room.say("file.complete", transfer_id="eves", file_hash="00" * 32)
    room.world.run(1)
    assert room.status() == "failed"


def ten_thousand_offers(room):
    for number in range(10_000):
        room.offer(transfer_id=f"eves {number}")
    assert len(room.alice.session.files.incoming) == 1 + 16


def chunk_frame_with_a_wrong_mac(room):
    frame = write_file_frame(bytes(16), 0, hashlib.sha256(EVIL).digest(), EVIL, bytes(32))
    room.alice.handle(BytesArrived(room.link, FILE_CHANNEL, frame))


def replayed_hello(room):
    hello = next(one.data for one in room.eve.sent if b"sync.hello" in one.data)
    room.text(hello)


def replayed_message(room):
    room.eve.send("twice", "alice")
    room.world.run(1)
    room.text(next(one.data for one in room.eve.sent if b"msg.data" in one.data))
    assert room.alice.data().count("twice") == 1


FAULTS = [
    Fault("chunk unknown", lambda room: room.chunk("nobody's"), "file_chunk_rejected", "unknown_transfer"),
    Fault("chunk of the wrong peer", lambda room: room.chunk("bobs"), "file_chunk_rejected", "wrong_peer"),
    Fault("chunk beyond the total", chunk_beyond_the_total, "file_chunk_rejected", "out_of_range_seq"),
    Fault("chunk of one byte", chunk_of_one_byte, "file_chunk_rejected", "invalid_chunk_data"),
    Fault(
        "chunk with a wrong hash, three times",
        wrong_hash_three_times,
        "file_transfer_failed",
        "chunk_hash_mismatch",
    ),
    Fault("frame with a wrong mac", chunk_frame_with_a_wrong_mac, "protocol_auth_failed", "mac"),
    Fault(
        "another file than offered",
        file_that_is_not_what_was_offered,
        "file_transfer_failed",
        "file hash mismatch",
    ),
    Fault(
        "offer of another's transfer",
        lambda room: room.offer(transfer_id="bobs"),
        "file_offer_rejected",
        "transfer_id in use",
    ),
    Fault("offer of 0 bytes", lambda room: room.offer(total_bytes=0), "file_offer_rejected", "total_bytes"),
    Fault(
        "offer of 2^53 bytes",
        lambda room: room.offer(total_bytes=2**53),
        "file_offer_rejected",
        "total_bytes",
    ),
    Fault(
        "offer with NUL", lambda room: room.offer(transfer_id="a\0b"), "file_offer_rejected", "transfer_id"
    ),
    Fault(
        "offer of chunks of one byte",
        lambda room: room.offer(chunk_bytes=1, total_chunks=2048),
        "file_offer_rejected",
        "chunk_bytes",
    ),
    Fault("10,000 offers at once", ten_thousand_offers, "file_offer_rejected", "more than 16"),
    Fault(
        "acknowledgement of what was not sent",
        lambda room: room.say("file.ack", transfer_id="for eve", seq=9_999, next_seq=10_000),
        "file_ack_rejected",
        "not_sent",
    ),
    Fault(
        "forged actor",
        lambda room: room.say("state.patch", key="key", value="evil", actor="alice", clock=10**9),
        "state_patch_rejected",
        "forged_actor",
    ),
    Fault(
        "clock beyond 2^53 - 2",
        lambda room: room.say("state.patch", key="key", value="evil", actor="eve", clock=2**53 - 1),
        "state_patch_rejected",
        "invalid_clock",
    ),
    Fault("text that is no JSON", lambda room: room.text(b"{evil"), "protocol_error", "malformed"),
    Fault(
        "binary on the control channel",
        lambda room: room.alice.handle(BytesArrived(room.link, "sendChannel", EVIL)),
        "protocol_error",
        "binary_on_control_channel",
    ),
    Fault(
        "message of 262,145 bytes",
        lambda room: room.text(write_data("x" * (262_145 - len(write_data(""))))),
        "protocol_error",
        "message_too_large",
    ),
    Fault(
        "SDP over 64 KiB",
        lambda room: room.text(json.dumps({"description": "x" * 65_537}).encode()),
        "protocol_error",
        "signal_too_large",
    ),
    Fault(
        "101 candidates",
        lambda room: room.text(json.dumps({"candidates": [{}] * 101}).encode()),
        "protocol_error",
        "too_many_candidates",
    ),
    Fault("replayed hello", replayed_hello, "protocol_auth_failed", "replay"),
    Fault("replayed message", replayed_message, "protocol_auth_failed", "replay"),
    Fault(
        "message without MAC",
        lambda room: room.text(write_data("evil")),
        "protocol_auth_failed",
        "mac_missing",
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_has_its_name_and_harms_nobody_else(fault):
    room = Room()
    fault.happens(room)
    room.world.run(1)
    named = room.outcome(fault.event)
    assert named, [event["type"] for event in room.alice.emitted[room.before :]]
    assert fault.reason in str(named[0].get("reason"))
    room.bob.send("after", "alice")
    room.eve.send("sorry", "alice")
    room.world.run(30)
    alice = room.alice.session
    assert room.bob.session.files.outgoing["bobs"].status == "completed"
    assert bytes(room.alice.disk.files["bobs"]) == DATA
    assert alice.files.outgoing["for eve"].status == "completed"
    assert alice.state.values() == {"key": "bob's"}
    read = [event["data"] for event in room.alice.read() if event["type"] == "data_received"]
    assert [data for data in read if data != "twice"] == ["before", "after", "sorry"]
    receipts = [event["status"] for event in room.bob.events("message_status")]
    assert receipts == ["stored", "stored"]
    assert len(alice.events) <= 2000
    assert len(alice.files.incoming) <= 64


def test_an_offer_of_a_path_is_shown_by_its_last_part():
    room = Room()
    room.begin_file(name="../x")
    assert room.outcome("file_offer_received")[-1]["name"] == "x"
    assert set(room.alice.disk.files) == {"bobs", "eves"}


@pytest.mark.parametrize("seed", range(40))
def test_a_link_that_is_cut_at_random_offsets_loses_nothing_that_was_acknowledged(seed):
    """Cut, and cut again, wherever that is in hellos, chunks, messages and receipts."""
    room = Room()
    draw = Randomness(seed)
    sent = {}
    for number in range(draw.integer(2, 6)):
        [message_id] = room.bob.send(f"message {number}", "alice")["message_ids"]
        sent[message_id] = f"message {number}"
        for _ in range(draw.integer(0, 60)):
            room.world.step()
        room.world.cut(room.alice, room.bob)
        room.world.run(draw.between(0, 2))
        had = set(room.alice.disk.chunks.get("bobs", ()))
        room.world.link(room.alice, room.bob)
        assert had <= set(room.alice.disk.chunks.get("bobs", ())), f"seed {seed}"
    room.world.run(60)
    assert bytes(room.alice.disk.files["bobs"]) == DATA, f"seed {seed}"
    assert room.bob.session.files.outgoing["bobs"].status == "completed", f"seed {seed}"
    read = [event["data"] for event in room.alice.read() if event["type"] == "data_received"]
    assert sorted(read) == sorted(["before", *sent.values()]), f"seed {seed}"
    stored = {
        event["message_id"] for event in room.bob.events("message_status") if event["status"] == "stored"
    }
    assert set(sent) <= stored, f"seed {seed}"


def test_two_peers_that_write_one_key_at_once_come_to_the_same_value():
    room = Room()
    room.world.run(5)
    for name in ("alice", "bob", "eve"):
        room.world.hosts[name].put("shared", f"{name}'s")
    room.world.run(5)
    held = [host.session.state.values()["shared"] for host in (room.alice, room.bob, room.eve)]
    assert len(set(held)) == 1, held
    assert held[0] == "eve's"  # of equal clocks the greater name wins
