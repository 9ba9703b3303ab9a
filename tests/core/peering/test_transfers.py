"""Files on their way: byte-exact, resumable, bound to their peer, and never believed too early."""

import base64
import hashlib
import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from comity.core.errors import InvalidError
from comity.core.peering.file_window import FIRST_WINDOW, LAST_WINDOW, READ_AHEAD
from comity.core.peering.file_work import FilePeer, FileSource, FrameToPeer, ToPeer
from comity.core.peering.outgoing_file import Sending
from comity.core.peering.transfers import MOST_FINISHED, MOST_OUTGOING, FileLimits, SendOptions
from comity.core.peering.wire import FRAME_HEADER
from tests.core.peering.file_pair import FilePair

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
    [told] = pair.told("b", "file_received")
    assert told["total_bytes"] == size
    [done] = pair.told("a", "file_transfer_complete")
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
    assert pair.told("a", "file_transfer_complete")


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
    told = 0
    while pair.wire:
        told += getattr(pair.wire[0][1], "kind", "") == "file.ack"
        pair.now += seconds
        pair.deliver()
    assert pair.told("a", "file_transfer_complete")
    assert told == acks


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
    assert len(pair.told("b", "file_received")) == 1


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
    _, effects = pair.books["a"].resume("file_1", pair.peer("b"), pair.now)
    pair.run("a", effects)
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
    [told] = pair.told("a", "file_transfer_failed")
    assert told == {"transfer_id": "file_1", "direction": "outgoing", "reason": outgoing.last_error}


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
    assert pair.told("b", "file_offer_rejected") == [{"transfer_id": "file_1", "reason": outgoing.last_error}]


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
    _, effects = pair.books["a"].resume(
        "file_1", FilePeer(uuid="b1", owner="owner b", stream_id=None, frames=False, max_message=262144), 0
    )
    assert effects == []
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
    assert len(pair.told(other, "file_transfer_cancelled")) == 1
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


def test_unknown_transfers_cannot_be_resumed_or_cancelled():
    pair = FilePair()
    for act in (
        lambda: pair.books["a"].resume("nope", pair.peer("b"), 0),
        lambda: pair.books["a"].cancel("nope"),
    ):
        with pytest.raises(InvalidError, match="unknown transfer_id: nope"):
            act()


def offered(pair, side="b", owner=None, **changed):
    data = changed.pop("data", DATA[:3000])
    offer = {
        "transfer_id": "evil",
        "name": "x",
        "mime": "text/plain",
        "total_bytes": len(data),
        "total_chunks": -(-len(data) // 1024),
        "chunk_bytes": 1024,
        "file_hash": hashlib.sha256(data).hexdigest(),
    }
    pair.hear(side, "file.offer", owner, **{**offer, **changed})


def chunked(pair, seq, data, owner=None, **changed):
    payload = {
        "transfer_id": "evil",
        "seq": seq,
        "data_base64": base64.b64encode(data).decode(),
        "chunk_hash": hashlib.sha256(data).hexdigest(),
    }
    pair.hear("b", "file.chunk", owner, **{**payload, **changed})


def replies(pair):
    told = [
        effect.payload | {"kind": effect.kind} for side, effect in pair.wire if isinstance(effect, ToPeer)
    ]
    pair.wire.clear()
    return told


def rejected(pair):
    return [members["reason"] for members in pair.told("b", "file_chunk_rejected")]


def test_a_chunk_nobody_offered_is_refused():
    pair = FilePair(frames=False)
    chunked(pair, 0, b"x")
    assert replies(pair) == [
        {"kind": "file.nack", "transfer_id": "evil", "expected_seq": 0, "reason": "unknown_transfer"}
    ]
    assert rejected(pair) == ["unknown_transfer"]


def test_a_chunk_of_another_peer_is_refused_as_if_there_were_no_such_transfer():
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 0, b"E" * 1024, owner="somebody else")
    assert replies(pair)[0]["reason"] == "unknown_transfer"
    assert rejected(pair) == ["wrong_peer"]
    assert pair.books["b"].incoming["evil"].summary()["acked_chunks"] == 0


def test_nobody_else_offers_cancels_or_completes_a_transfer():
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    offered(pair, owner="somebody else")
    assert replies(pair)[0]["reason"] == "transfer_id in use"
    for kind in ("file.cancel", "file.complete", "file.resume_req"):
        pair.hear("b", kind, "somebody else", transfer_id="evil")
    assert pair.books["b"].incoming["evil"].status == "receiving"
    assert [told.get("status") for told in replies(pair)] == [None, "unknown_transfer"]


def test_nobody_else_speaks_for_the_receiver():
    pair = FilePair()
    outgoing = pair.send(DATA)
    for kind in ("file.accept", "file.nack", "file.complete_ack", "file.cancel", "file.resume_state"):
        pair.hear("a", kind, "somebody else", transfer_id="file_1", next_seq=1, reason="no", status="failed")
    assert outgoing.phase is Sending.OFFERED
    assert {told["reason"] for told in pair.told("a", "file_protocol_error")} == {
        "wrong_peer",
        "unknown_transfer",
    }


@pytest.mark.parametrize("seq", [3, -1, 10**30, None, "0", 1.0, True])
def test_a_chunk_beyond_the_total_is_refused(seq):
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, seq, b"x" * 1024)
    assert replies(pair)[0]["reason"] == "out_of_range_seq"


@pytest.mark.parametrize(
    "changed",
    [
        {"data_base64": ""},
        {"data_base64": "!!"},
        {"data_base64": None},
        {"chunk_hash": 5},
        {"chunk_hash": "zz"},
    ],
)
def test_a_chunk_without_its_data_is_refused(changed):
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 0, DATA[:1024], **changed)
    assert replies(pair)[0]["reason"] == "invalid_chunk_data"


@pytest.mark.parametrize("length", [1, 1023, 1025])
def test_a_chunk_of_another_length_is_refused(length):
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 0, b"x" * length)
    assert rejected(pair) == ["invalid_chunk_data"]


def test_a_chunk_twice_is_acknowledged_twice_and_counted_once():
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 0, DATA[:1024])
    chunked(pair, 0, b"E" * 1024)
    assert [told["received_bytes"] for told in replies(pair)] == [1024, 1024]
    assert pair.disks["b"].files["evil"][:1024] == DATA[:1024]


def test_a_hash_that_is_wrong_three_times_fails_the_transfer():
    pair = FilePair(frames=False)
    offered(pair)
    for count in (1, 2, 3):
        replies(pair)
        chunked(pair, 0, DATA[:1024], chunk_hash="00" * 32)
        assert replies(pair)[0]["reason"] == "chunk_hash_mismatch"
        status = pair.books["b"].incoming["evil"].status
        assert status == ("receiving" if count < 3 else "failed")
    assert rejected(pair) == ["chunk_hash_mismatch"] * 3
    assert "evil" not in pair.disks["b"].files


def test_a_missing_chunk_hash_is_no_fault():
    pair = FilePair(frames=False)
    offered(pair, data=DATA[:10])
    replies(pair)
    chunked(pair, 0, DATA[:10], chunk_hash=None)
    pair.hear("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1]["kind"] == "file.complete_ack"


def test_a_wrong_hash_of_the_whole_is_never_completed():
    pair = FilePair(frames=False)
    offered(pair, data=DATA[:10], file_hash="00" * 32)
    replies(pair)
    chunked(pair, 0, DATA[:10])
    pair.hear("b", "file.complete", transfer_id="evil", file_hash="00" * 32)
    assert replies(pair)[-1]["reason"] == "file hash mismatch"
    assert pair.told("b", "file_received") == []
    assert "evil" not in pair.disks["b"].files


def test_complete_before_all_chunks_is_told_what_is_missing_and_finishes_with_the_last():
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 1, DATA[1024:2048])
    pair.hear("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1] == {
        "kind": "file.nack",
        "transfer_id": "evil",
        "expected_seq": 0,
        "reason": "missing_chunks",
    }
    chunked(pair, 0, DATA[:1024])
    chunked(pair, 2, DATA[2048:3000])
    assert replies(pair)[-1]["kind"] == "file.complete_ack"
    pair.hear("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1]["kind"] == "file.complete_ack"
    assert len(pair.told("b", "file_received")) == 1


@pytest.mark.parametrize(
    "ack",
    [
        {"seq": 40, "next_seq": 41},
        {"seq": 0, "next_seq": 49},
        {"seq": None, "next_seq": 0},
        {"seq": 10**30, "next_seq": 1},
    ],
)
def test_what_was_not_sent_cannot_be_acknowledged(ack):
    pair = FilePair(frames=False)
    pair.answers_wait = True
    outgoing = pair.send(DATA, chunk_bytes=4096)
    pair.answer_one()
    pair.deliver()
    pair.answer_one()
    pair.deliver()
    for _ in range(3):
        pair.answer_one()
    pair.hear("a", "file.ack", transfer_id="file_1", **ack)
    assert pair.told("a", "file_ack_rejected")[0]["reason"] == "not_sent"
    assert outgoing.summary()["acked_chunks"] == 0


def test_completion_cannot_be_confirmed_before_it_was_asked_for_or_with_another_hash():
    pair = FilePair()
    outgoing = pair.send(DATA, chunk_bytes=4096)
    pair.deliver(), pair.deliver()
    pair.hear("a", "file.complete_ack", transfer_id="file_1", file_hash=None)
    assert outgoing.status == "transferring"
    assert len(pair.told("a", "file_ack_rejected")) == 1
    while outgoing.phase is not Sending.COMPLETING:
        pair.deliver()
    pair.hear("a", "file.complete_ack", transfer_id="file_1", file_hash="00" * 32)
    assert outgoing.status == "failed"
    assert outgoing.last_error == "the receiver confirmed another hash"


def test_ten_thousand_offers_leave_sixteen():
    pair = FilePair(frames=False)
    for number in range(10_000):
        offered(pair, transfer_id=f"evil{number}")
    assert len(pair.books["b"].incoming) == 16
    assert replies(pair)[-1]["reason"] == "more than 16 incomplete transfers of one peer"
    for number in range(100):
        offered(pair, transfer_id=f"other{number}", owner=f"peer {number}")
    assert len(pair.books["b"].incoming) == 64
    assert replies(pair)[-1]["reason"] == "more than 64 incomplete transfers"


def test_incomplete_files_are_limited_in_bytes():
    pair = FilePair(frames=False, limits=FileLimits(most_incomplete_bytes=5000))
    offered(pair, transfer_id="one")
    offered(pair, transfer_id="two")
    assert [told["reason"] for told in pair.told("b", "file_offer_rejected")] == [
        "incomplete transfers exceed 5000 bytes"
    ]


def test_an_incomplete_file_without_progress_ends():
    pair = FilePair(frames=False, limits=FileLimits(incomplete_seconds=100))
    offered(pair)
    for _ in range(10):
        if pair.timers:
            pair.fire_next()
    assert pair.books["b"].incoming["evil"].status == "failed"
    assert pair.books["b"].incoming["evil"].last_error == "timed out: no chunk came"
    assert "evil" not in pair.disks["b"].files
    assert pair.timers == {}
    offered(pair)
    assert pair.books["b"].incoming["evil"].status == "receiving"


def test_a_sender_does_not_wait_for_ever_for_its_peer():
    pair = FilePair(limits=FileLimits(incomplete_seconds=100))
    outgoing = pair.send(DATA)
    pair.cut()
    for _ in range(10):
        if pair.timers:
            pair.fire_next()
    assert outgoing.last_error == "timed out: the peer did not come back"


def test_of_finished_transfers_the_newest_are_kept():
    pair = FilePair()
    for number in range(20):
        pair.send(DATA[:10], transfer_id=f"f{number}")
        pair.settle()
    assert list(pair.books["b"].incoming) == [f"f{number}" for number in range(8, 20)]
    assert len(pair.disks["b"].files) == MOST_FINISHED
    assert len(pair.books["a"].outgoing) == MOST_FINISHED


def test_what_cannot_be_sent_is_refused_in_the_words_of_the_contract():
    pair = FilePair(limits=FileLimits(max_bytes=1000))
    for data, message in ((b"", "file data must not be empty"), (bytes(1001), "file exceeds max 1000 bytes")):
        with pytest.raises(InvalidError, match=message):
            pair.send(data)
    with pytest.raises(InvalidError, match="invalid transfer_id"):
        pair.send(b"x", transfer_id="\x00")
    pair.send(b"x")
    with pytest.raises(InvalidError, match="under way"):
        pair.send(b"x")
    for number in range(MOST_OUTGOING - 1):
        pair.send(b"x", transfer_id=f"f{number}")
    with pytest.raises(InvalidError, match="64 transfers are under way"):
        pair.send(b"x", transfer_id="one more")


def test_a_chunk_is_fitted_to_the_link():
    pair = FilePair(max_message=16_384)
    assert pair.send(DATA).offer.chunk_bytes == 16_384 - 89
    pair = FilePair(max_message=16_384, frames=False)
    outgoing = pair.send(DATA)
    assert 11_000 < outgoing.offer.chunk_bytes < 12_288
    with pytest.raises(InvalidError, match="too little for files"):
        FilePair(max_message=1000).send(DATA)


def test_a_flood_of_chunks_waits_for_the_disk_only_so_far():
    pair = FilePair(limits=FileLimits(max_bytes=1 << 30))
    pair.answers_wait = True
    size = 64 << 20
    pair.hear(
        "b",
        "file.offer",
        transfer_id="evil",
        total_bytes=size,
        total_chunks=256,
        chunk_bytes=262144,
        hash="chunks",
        name="x",
    )
    pair.answer_one()
    incoming = pair.books["b"].incoming["evil"]
    data = bytes(262144)
    for sequence in range(256):
        pair.run("b", incoming.chunk(sequence, data, None))
    assert incoming.bytes_unwritten == 32 << 20
    assert rejected(pair) == ["overrun"] * 128


def test_frames_of_a_transfer_in_json_and_of_nobody_are_refused():
    pair = FilePair()
    offered(pair)
    assert not pair.books["b"].incoming["evil"].offer.frames
    from comity.core.peering.wire import FileFrame, transfer_mark

    for mark in (transfer_mark("evil"), bytes(16)):
        frame = FileFrame(mark, 0, bytes(32), b"", b"", b"data")
        pair.run("b", pair.books["b"].frame(pair.peer("a"), frame))
    assert rejected(pair) == ["wrong_peer", "unknown_transfer"]


def test_envelopes_without_an_id_or_of_an_unknown_kind_are_told():
    pair = FilePair()
    pair.hear("b", "file.ack")
    pair.hear("b", "file.dance", transfer_id="t")
    assert pair.told("b", "file_protocol_error") == [
        {"reason": "missing_transfer_id", "kind": "file.ack", "from_uuid": "a1"}
    ]
    assert pair.told("b", "file_protocol_unhandled") == [{"transfer_id": "t", "kind": "file.dance"}]


def test_a_large_file_tells_its_progress_about_a_hundred_times():
    pair = FilePair()
    pair.send(bytes(2_000_000), chunk_bytes=1024)
    pair.settle()
    assert 90 <= len(pair.told("b", "file_chunk_received")) <= 110
    assert pair.told("b", "file_chunk_received")[-1]["received_bytes"] == 2_000_000


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
