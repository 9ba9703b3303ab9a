"""Files on their way: byte-exact, resumable, bound to their peer, and never believed too early."""

import hashlib
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from comity.rooms.protocol.channel import FRAME_HEADER
from comity.rooms.protocol.files import (
    FIRST_WINDOW,
    LAST_WINDOW,
    READ_AHEAD,
    FilePeer,
    FileSource,
    FrameToPeer,
)
from comity.rooms.protocol.outgoing_file import Sending
from comity.rooms.protocol.transfers import FileLimits, SendOptions
from comity.wire.errors import InvalidError
from tests.rooms.protocol.file_pair import FilePair

DATA = random.Random(7).randbytes(200_000)
BOTH = pytest.mark.parametrize("frames", [True, False], ids=["frames", "json"])


@BOTH
@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 65_536, 200_000])
def test_a_file_arrives_byte_for_byte(frames, size):
    pair = FilePair(frames=frames)
    outgoing = pair.send(DATA[:size], name="../x.bin", mime="text/plain", chunk_bytes=1024)
    pair.settle()
    assert pair.received() == DATA[:size]
    assert outgoing.status == "completed"
    summary = pair.books["b"].incoming["file_1"].summary()
    assert summary["status"] == "completed"
    assert summary["name"] == "x.bin"
    assert summary["file_hash"] == outgoing.offer.file_hash
    assert summary["acked_chunks"] == -(-size // 1024)
    [report] = pair.reports("b", "file_received")
    assert report["total_bytes"] == size
    [done] = pair.reports("a", "file_transfer_complete")
    assert done["retries_total"] == 0
    if not frames:
        assert done["file_hash"] == hashlib.sha256(DATA[:size]).hexdigest()
    else:
        assert done["file_hash"].startswith("chunks:")


def test_the_reference_gets_the_messages_that_it_knows():
    pair = FilePair(frames=False)
    pair.send(DATA[:2560], chunk_bytes=1024, name="bytes.bin")
    kinds = []
    while pair.wire:
        kinds.append(pair.wire[0][1].kind)
        pair.deliver()
    assert kinds[0] == "file.offer"
    assert kinds[1] == "file.accept"
    assert kinds.count("file.chunk") == kinds.count("file.ack") == 3
    assert kinds[-2:] == ["file.complete", "file.complete_ack"]


def test_between_our_nodes_each_byte_is_read_and_hashed_once():
    pair = FilePair()
    pair.send(DATA, chunk_bytes=4096)
    pair.settle()
    assert pair.disks["a"].reads == 49
    assert pair.reports("a", "file_transfer_complete")


def test_the_window_is_in_bytes_and_never_exceeded():
    pair = FilePair(limits=FileLimits(max_bytes=1 << 30))
    data = bytes(8 << 20)
    outgoing = pair.send(data, chunk_bytes=65536)
    pair.deliver(), pair.deliver()
    assert outgoing.phase is Sending.SENDING
    assert outgoing.bytes_in_flight == FIRST_WINDOW
    assert len(pair.wire) == FIRST_WINDOW // 65536
    while pair.wire:
        assert outgoing.bytes_in_flight <= outgoing.window
        pair.deliver()
    assert outgoing.status == "completed"


def test_the_window_grows_with_the_time_of_an_acknowledgement():
    pair = FilePair(limits=FileLimits(max_bytes=1 << 30))
    outgoing = pair.send(bytes(64 << 20))
    pair.deliver(), pair.deliver()
    for _ in range(100):
        pair.now += 0.3
        pair.deliver()
    assert outgoing.window == LAST_WINDOW
    assert FIRST_WINDOW < outgoing.bytes_in_flight <= LAST_WINDOW


def test_of_a_large_window_only_a_part_is_being_read_at_a_time():
    pair = FilePair(limits=FileLimits(max_bytes=1 << 30))
    pair.answers_wait = True
    outgoing = pair.send(bytes(16 << 20), chunk_bytes=65536)
    pair.deliver()
    pair.answer_one()  # the receiver has opened its file
    pair.deliver()
    most = 0
    while outgoing.bytes_in_flight < FIRST_WINDOW:
        most = max(most, len(pair.waiting))
        pair.answer_one()
    assert most == READ_AHEAD // 65536


def test_a_chunk_between_our_nodes_fills_a_message_of_the_link_unless_somebody_asked_for_a_size():
    assert FilePair().send(bytes(1 << 20)).offer.chunk_bytes == 258_048
    assert FilePair(max_message=1 << 20).send(bytes(1 << 20)).offer.chunk_bytes == 262_144
    assert FilePair(max_message=65_536).send(bytes(1 << 20)).offer.chunk_bytes == 65_536 - FRAME_HEADER
    assert FilePair(frames=False).send(bytes(1 << 20)).offer.chunk_bytes == 65_536
    assert FilePair().send(bytes(1 << 20), chunk_bytes=65_536).offer.chunk_bytes == 65_536
    assert FilePair(limits=FileLimits(chunk_bytes=4096)).send(bytes(1 << 20)).offer.chunk_bytes == 4096


@pytest.mark.parametrize(("seconds", "acks"), [(0.0, 16), (0.1, 32)], ids=["fast", "slow"])
def test_frames_are_acknowledged_each_half_mebibyte_and_on_a_slow_link_each(seconds, acks):
    pair = FilePair(max_message=1 << 20)
    pair.send(bytes(8 << 20))
    count = 0
    while pair.wire:
        count += getattr(pair.wire[0][1], "kind", "") == "file.ack"
        pair.now += seconds
        pair.deliver()
    assert pair.reports("a", "file_transfer_complete")
    assert count == acks


def test_nothing_is_read_while_the_link_is_full():
    pair = FilePair()
    outgoing = pair.send(bytes(10_000_000))
    pair.books["a"].link_full("b1")
    pair.deliver_all()
    reads = pair.disks["a"].reads
    assert reads == 0
    assert outgoing.phase is Sending.SENDING
    for _ in range(20):
        pair.fire_next()
    assert outgoing.status == "transferring"
    pair.run("a", pair.books["a"].link_drained("b1"))
    pair.settle()
    assert outgoing.status == "completed"


@BOTH
def test_what_was_lost_on_the_way_is_sent_again(frames):
    pair = FilePair(frames=frames)
    outgoing = pair.send(DATA, chunk_bytes=4096)
    pair.deliver(), pair.deliver()
    del pair.wire[3:9]
    pair.settle()
    assert outgoing.status == "completed"
    assert outgoing.retries_total >= 1
    assert pair.received() == DATA


@pytest.mark.parametrize("kind", ["file.offer", "file.accept", "file.complete", "file.complete_ack"])
@BOTH
def test_any_single_message_may_be_lost(frames, kind):
    pair = FilePair(frames=frames)
    outgoing = pair.send(DATA[:5000], chunk_bytes=1024)
    lost = 0
    for _ in range(2000):
        if not pair.wire:
            if outgoing.is_over:
                break
            pair.fire_next()
            continue
        if not lost and getattr(pair.wire[0][1], "kind", "") == kind:
            lost += 1
            del pair.wire[0]
            continue
        pair.deliver()
    assert lost == 1
    assert outgoing.status == "completed"
    assert pair.received() == DATA[:5000]
    assert len(pair.reports("b", "file_received")) == 1


@BOTH
def test_a_silent_receiver_fails_the_transfer_and_a_resume_revives_it(frames):
    pair = FilePair(frames=frames)
    outgoing = pair.send(DATA, chunk_bytes=4096, max_retries=2)
    pair.deliver(), pair.deliver()
    pair.deliver(), pair.deliver(), pair.deliver()
    pair.wire.clear()
    while not outgoing.is_over:
        pair.fire_next()
        pair.wire.clear()
    assert outgoing.status == "failed"
    assert outgoing.last_error.startswith("max retries exceeded at chunk")
    reads = pair.disks["a"].reads
    pair.run("a", pair.books["a"].resume(outgoing, pair.peer("b"), pair.now))
    pair.settle()
    assert outgoing.status == "completed"
    assert pair.received() == DATA
    assert pair.disks["a"].reads > reads


def test_no_answer_to_an_offer_is_said_in_the_words_of_the_contract():
    pair = FilePair()
    outgoing = pair.send(DATA, max_retries=0)
    pair.wire.clear()
    pair.fire_next()
    assert outgoing.last_error == "timed out waiting for file.accept"
    [report] = pair.reports("a", "file_transfer_failed")
    assert report == {"transfer_id": "file_1", "direction": "outgoing", "reason": outgoing.last_error}


def test_a_slow_link_is_given_more_time_with_each_try():
    pair = FilePair(frames=False)
    outgoing = pair.send(DATA, chunk_bytes=4096, max_retries=5, ack_timeout=1.0)
    pair.deliver(), pair.deliver()
    waits = []
    while not outgoing.is_over:
        pair.wire.clear()
        waits.append(pair.timers["a", "file-out:file_1"] - pair.now)
        pair.timers.pop(("a", "files"), None)
        pair.timers.pop(("b", "files"), None)
        pair.fire_next()
    assert waits == [4, 8, 16, 32, 32, 32]


def test_a_refused_offer_fails_at_once_with_its_reason():
    pair = FilePair(limits=FileLimits(max_bytes=100_000))
    pair.books["a"]._limits = FileLimits()
    outgoing = pair.send(DATA)
    pair.deliver_all()
    assert outgoing.status == "failed"
    assert outgoing.last_error == "total_bytes must be 1..100000"
    assert pair.reports("b", "file_offer_rejected") == [
        {"transfer_id": "file_1", "reason": outgoing.last_error}
    ]


@BOTH
def test_the_link_is_cut_and_only_what_is_missing_is_sent_again(frames):
    pair = FilePair(frames=frames)
    outgoing = pair.send(DATA, chunk_bytes=4096)
    for _ in range(30):
        pair.deliver()
    had = pair.books["b"].incoming["file_1"].summary()["acked_chunks"]
    assert 0 < had < 49
    pair.cut()
    assert outgoing.status == "transferring"
    assert outgoing.last_error == "link lost"
    pair.join()
    sent = [
        effect.sequence if isinstance(effect, FrameToPeer) else effect.payload.get("seq")
        for _, effect in pair.wire
    ]
    assert sent == [None]
    pair.deliver(), pair.deliver()
    first = pair.wire[0][1]
    assert (first.sequence if frames else first.payload["seq"]) == had
    pair.settle()
    assert outgoing.status == "completed"
    assert pair.received() == DATA
    assert outgoing.summary()["target_uuid"] == "b2"


@pytest.mark.parametrize("side", ["a", "b"])
@BOTH
def test_either_process_dies_and_the_file_goes_on_where_it_was(frames, side):
    pair = FilePair(frames=frames, limits=FileLimits(spool_threshold=1))
    pair.send(DATA, chunk_bytes=4096)
    for _ in range(40):
        pair.deliver()
    had = sorted(pair.disks["b"].chunks["file_1"])
    assert 0 < len(had) < 49
    pair.crash(side)
    pair.join()
    sent = []
    while pair.wire or not pair.books["a"].outgoing["file_1"].is_over:
        if not pair.wire:
            pair.fire_next()
            continue
        effect = pair.wire[0][1]
        if isinstance(effect, FrameToPeer):
            sent.append(effect.sequence)
        elif effect.kind == "file.chunk":
            sent.append(effect.payload["seq"])
        pair.deliver()
    assert sorted(sent) == [seq for seq in range(49) if seq not in had]
    assert pair.books["a"].outgoing["file_1"].status == "completed"
    assert pair.received() == DATA


def test_a_receiver_that_forgot_everything_gets_the_whole_file_again():
    pair = FilePair()
    outgoing = pair.send(DATA, chunk_bytes=4096)
    for _ in range(30):
        pair.deliver()
    pair.books["b"] = pair.book()
    pair.settle()
    assert outgoing.status == "completed"
    assert pair.received() == DATA


def test_a_file_that_changed_under_the_sender_is_not_called_completed():
    pair = FilePair(limits=FileLimits(spool_threshold=1))
    pair.send(DATA, chunk_bytes=4096)
    for _ in range(40):
        pair.deliver()
    pair.crash("a")
    pair.disks["a"].sources["file_1"] = bytes(len(DATA))
    pair.join()
    pair.settle()
    assert pair.books["a"].outgoing["file_1"].status == "failed"
    assert pair.books["a"].outgoing["file_1"].last_error == "file hash mismatch"
    assert "file_1" not in pair.disks["b"].files


def test_a_file_that_became_shorter_ends_the_transfer_for_both():
    pair = FilePair()
    outgoing = pair.send(DATA, chunk_bytes=4096)
    pair.disks["a"].sources["file_1"] = DATA[:1000]
    pair.settle()
    assert outgoing.last_error == "the file changed while it was sent"
    assert pair.books["b"].incoming["file_1"].status == "cancelled"


def test_a_source_that_is_gone_fails_the_transfer():
    pair = FilePair(frames=False)
    pair.answers_wait = True
    outgoing = pair.send(DATA)
    pair.waiting.clear()
    del pair.disks["a"].sources["file_1"]
    pair.answers_wait = False
    peer = FilePeer(uuid="b1", owner="owner b", stream_id=None, frames=False, max_message=262144)
    assert pair.books["a"].resume(outgoing, peer, 0) == []
    pair.cut()
    pair.join()
    assert outgoing.status == "failed"
    assert outgoing.last_error == "gone"


def test_a_full_disk_fails_the_transfer_at_both_ends():
    pair = FilePair()
    pair.disks["b"].full = True
    outgoing = pair.send(DATA)
    pair.settle()
    assert pair.books["b"].incoming["file_1"].last_error == "no space left on the disk"
    assert outgoing.status == "failed"


@pytest.mark.parametrize("side", ["a", "b"])
def test_either_end_cancels(side):
    pair = FilePair()
    outgoing = pair.send(DATA, chunk_bytes=4096)
    for _ in range(20):
        pair.deliver()
    pair.run(side, pair.books[side].cancel("file_1"))
    pair.deliver_all()
    assert outgoing.status == "cancelled"
    assert pair.books["b"].incoming["file_1"].status == "cancelled"
    assert "file_1" not in pair.disks["b"].files
    other = "b" if side == "a" else "a"
    assert len(pair.reports(other, "file_transfer_cancelled")) == 1
    assert pair.disks["a"].records == pair.disks["b"].records == {}
    pair.join()
    assert pair.wire == []


def test_a_cancelled_file_is_not_taken_again():
    pair = FilePair()
    pair.send(DATA)
    pair.deliver()
    pair.run("b", pair.books["b"].cancel("file_1"))
    pair.wire.clear()
    pair.fire_next()
    pair.deliver_all()
    assert pair.books["a"].outgoing["file_1"].last_error == "transfer cancelled"


def test_unknown_transfers_cannot_be_cancelled():
    with pytest.raises(InvalidError, match="unknown transfer_id: nope"):
        FilePair().books["a"].cancel("nope")


def test_a_large_file_tells_its_progress_about_a_hundred_times():
    pair = FilePair()
    pair.send(bytes(2_000_000), chunk_bytes=1024)
    pair.settle()
    assert 90 <= len(pair.reports("b", "file_chunk_received")) <= 110
    assert pair.reports("b", "file_chunk_received")[-1]["received_bytes"] == 2_000_000


def test_a_peer_that_came_back_without_frames_is_not_sent_any():
    pair = FilePair()
    outgoing = pair.send(DATA)
    pair.cut()
    pair.frames = False
    pair.join()
    assert outgoing.last_error == "the peer does not take file frames any more"


def test_what_is_only_in_memory_leaves_no_record_behind():
    pair = FilePair()
    pair.disks["a"].sources["m"] = DATA
    source = FileSource(kind="memory", total_bytes=len(DATA))
    _, effects = pair.books["a"].send(source, pair.peer("b"), SendOptions(transfer_id="m"), 0)
    pair.run("a", effects)
    pair.settle()
    assert pair.received("b", "m") == DATA
    assert pair.disks["a"].records == pair.disks["b"].records == {}


def test_two_files_in_both_directions_do_not_disturb_each_other():
    pair = FilePair()
    pair.send(DATA[:50_000], side="a", transfer_id="same", chunk_bytes=1024)
    pair.send(DATA[50_000:], side="b", transfer_id="same", chunk_bytes=1024)
    pair.settle()
    assert pair.received("b", "same") == DATA[:50_000]
    assert pair.received("a", "same") == DATA[50_000:]


class BadLink(RuleBasedStateMachine):
    """One file over a link that loses, doubles, reorders, breaks, between processes that die."""

    @initialize(frames=st.booleans(), size=st.integers(1, 40_000), spool=st.booleans())
    def begin(self, frames, size, spool):
        limits = FileLimits(spool_threshold=1 if spool else 1 << 30)
        self.pair = FilePair(frames=frames, limits=limits)
        self.data = DATA[:size]
        self.joined = True
        self.pair.send(self.data, chunk_bytes=1024, max_retries=1000)

    @precondition(lambda self: self.pair.wire)
    @rule(at=st.integers(0, 10**6))
    def deliver(self, at):
        self.pair.deliver(at % len(self.pair.wire))

    @precondition(lambda self: self.pair.wire)
    @rule(count=st.integers(1, 20))
    def deliver_some(self, count):
        for _ in range(min(count, len(self.pair.wire))):
            self.pair.deliver()

    @precondition(lambda self: self.pair.wire)
    @rule(at=st.integers(0, 10**6))
    def lose(self, at):
        self.pair.wire.pop(at % len(self.pair.wire))

    @precondition(lambda self: self.pair.wire)
    @rule(at=st.integers(0, 10**6))
    def double(self, at):
        self.pair.wire.append(self.pair.wire[at % len(self.pair.wire)])

    @precondition(lambda self: self.pair.timers)
    @rule()
    def wait(self):
        self.pair.fire_next()

    @precondition(lambda self: self.joined)
    @rule()
    def cut(self):
        self.pair.cut()
        self.joined = False

    @precondition(lambda self: not self.joined)
    @rule()
    def join(self):
        self.pair.join()
        self.joined = True

    @rule(side=st.sampled_from("ab"))
    def crash(self, side):
        self.pair.crash(side)
        self.joined = False

    @invariant()
    def completed_means_that_the_receiver_has_it(self):
        if not hasattr(self, "pair"):
            return
        outgoing = self.pair.books["a"].outgoing.get("file_1")
        if outgoing is not None and outgoing.status == "completed" and "file_1" in self.pair.disks["b"].files:
            assert self.pair.received() == self.data
        if outgoing is not None:
            assert outgoing.bytes_in_flight <= max(outgoing.window, 1024)

    def teardown(self):
        if not hasattr(self, "pair"):
            return
        self.pair.wire.clear()
        if self.joined:
            self.pair.cut()
        self.pair.join()
        self.pair.settle(5000)
        outgoing = self.pair.books["a"].outgoing.get("file_1")
        if outgoing is not None:
            assert outgoing.status == "completed"
            if "file_1" in self.pair.books["b"].incoming:
                assert self.pair.received() == self.data


TestBadLink = BadLink.TestCase
TestBadLink.settings = settings(max_examples=60, stateful_step_count=40)
