"""What a transfer refuses: chunks, offers and receipts that are not right, and more than it has room for."""

import base64
import hashlib
import random

import pytest

from comity.rooms.protocol.files import ToPeer
from comity.rooms.protocol.outgoing_file import Sending
from comity.rooms.protocol.transfers import MAX_FINISHED, MAX_OUTGOING, FileLimits
from comity.wire.errors import InvalidError
from tests.rooms.protocol.file_pair import FilePair

DATA = random.Random(7).randbytes(200_000)


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
    pair.handle(side, "file.offer", owner, **{**offer, **changed})


def chunked(pair, seq, data, owner=None, **changed):
    payload = {
        "transfer_id": "evil",
        "seq": seq,
        "data_base64": base64.b64encode(data).decode(),
        "chunk_hash": hashlib.sha256(data).hexdigest(),
    }
    pair.handle("b", "file.chunk", owner, **{**payload, **changed})


def replies(pair):
    report = [
        effect.payload | {"kind": effect.kind} for side, effect in pair.wire if isinstance(effect, ToPeer)
    ]
    pair.wire.clear()
    return report


def rejected(pair):
    return [members["reason"] for members in pair.reports("b", "file_chunk_rejected")]


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
        pair.handle("b", kind, "somebody else", transfer_id="evil")
    assert pair.books["b"].incoming["evil"].status == "receiving"
    assert [report.get("status") for report in replies(pair)] == [None, "unknown_transfer"]


def test_nobody_else_speaks_for_the_receiver():
    pair = FilePair()
    outgoing = pair.send(DATA)
    for kind in ("file.accept", "file.nack", "file.complete_ack", "file.cancel", "file.resume_state"):
        pair.handle(
            "a", kind, "somebody else", transfer_id="file_1", next_seq=1, reason="no", status="failed"
        )
    assert outgoing.phase is Sending.OFFERED
    assert {report["reason"] for report in pair.reports("a", "file_protocol_error")} == {
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
    assert [report["received_bytes"] for report in replies(pair)] == [1024, 1024]
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
    pair.handle("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1]["kind"] == "file.complete_ack"


def test_a_wrong_hash_of_the_whole_is_never_completed():
    pair = FilePair(frames=False)
    offered(pair, data=DATA[:10], file_hash="00" * 32)
    replies(pair)
    chunked(pair, 0, DATA[:10])
    pair.handle("b", "file.complete", transfer_id="evil", file_hash="00" * 32)
    assert replies(pair)[-1]["reason"] == "file hash mismatch"
    assert pair.reports("b", "file_received") == []
    assert "evil" not in pair.disks["b"].files


def test_complete_before_all_chunks_is_told_what_is_missing_and_finishes_with_the_last():
    pair = FilePair(frames=False)
    offered(pair)
    replies(pair)
    chunked(pair, 1, DATA[1024:2048])
    pair.handle("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1] == {
        "kind": "file.nack",
        "transfer_id": "evil",
        "expected_seq": 0,
        "reason": "missing_chunks",
    }
    chunked(pair, 0, DATA[:1024])
    chunked(pair, 2, DATA[2048:3000])
    assert replies(pair)[-1]["kind"] == "file.complete_ack"
    pair.handle("b", "file.complete", transfer_id="evil")
    assert replies(pair)[-1]["kind"] == "file.complete_ack"
    assert len(pair.reports("b", "file_received")) == 1


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
    pair.handle("a", "file.ack", transfer_id="file_1", **ack)
    assert pair.reports("a", "file_ack_rejected")[0]["reason"] == "not_sent"
    assert outgoing.summary()["acked_chunks"] == 0


def test_completion_cannot_be_confirmed_before_it_was_asked_for_or_with_another_hash():
    pair = FilePair()
    outgoing = pair.send(DATA, chunk_bytes=4096)
    pair.deliver(), pair.deliver()
    pair.handle("a", "file.complete_ack", transfer_id="file_1", file_hash=None)
    assert outgoing.status == "transferring"
    assert len(pair.reports("a", "file_ack_rejected")) == 1
    while outgoing.phase is not Sending.COMPLETING:
        pair.deliver()
    pair.handle("a", "file.complete_ack", transfer_id="file_1", file_hash="00" * 32)
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
    pair = FilePair(frames=False, limits=FileLimits(max_incomplete_bytes=5000))
    offered(pair, transfer_id="one")
    offered(pair, transfer_id="two")
    assert [report["reason"] for report in pair.reports("b", "file_offer_rejected")] == [
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
    assert len(pair.disks["b"].files) == MAX_FINISHED
    assert len(pair.books["a"].outgoing) == MAX_FINISHED


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
    for number in range(MAX_OUTGOING - 1):
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
    pair.handle(
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
    from comity.rooms.protocol.channel import FileFrame, transfer_mark

    for mark in (transfer_mark("evil"), bytes(16)):
        frame = FileFrame(mark, 0, bytes(32), b"", b"", b"data")
        pair.run("b", pair.books["b"].frame(pair.peer("a"), frame))
    assert rejected(pair) == ["wrong_peer", "unknown_transfer"]


def test_envelopes_without_an_id_or_of_an_unknown_kind_are_told():
    pair = FilePair()
    pair.handle("b", "file.ack")
    pair.handle("b", "file.dance", transfer_id="t")
    assert pair.reports("b", "file_protocol_error") == [
        {"reason": "missing_transfer_id", "kind": "file.ack", "from_uuid": "a1"}
    ]
    assert pair.reports("b", "file_protocol_unhandled") == [{"transfer_id": "t", "kind": "file.dance"}]
