"""Offers, chunk sizes and names: what fits, what is refused, what is shown."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comity.rooms.protocol.files import (
    chunk_count,
    chunk_payload_overhead,
    chunks_hash,
    fitted_chunk,
    is_mime,
    read_offer,
    read_transfer_id,
    shown_name,
    spool_name,
)
from comity.wire.errors import InvalidError

GOOD = {
    "transfer_id": "file_1",
    "name": "a.bin",
    "mime": "text/plain",
    "total_bytes": 2560,
    "total_chunks": 3,
    "chunk_bytes": 1024,
    "file_hash": "AB" * 32,
}


def offer(frames=False, **changed):
    return read_offer({**GOOD, **changed}, max_bytes=67_108_864, takes_frames=frames)


def test_a_good_offer_reads_back_as_it_was():
    read = offer()
    assert read.to_payload() == {**GOOD, "file_hash": "ab" * 32}
    assert [read.chunk_length(seq) for seq in range(3)] == [1024, 1024, 512]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"total_bytes": 0}, "total_bytes must be 1..67108864"),
        ({"total_bytes": 2**53}, "total_bytes must be 1..67108864"),
        ({"total_bytes": -1}, "total_bytes must be 1..67108864"),
        ({"total_bytes": 2560.0}, "total_bytes must be 1..67108864"),
        ({"total_bytes": True}, "total_bytes must be 1..67108864"),
        ({"total_bytes": "2560"}, "total_bytes must be 1..67108864"),
        ({"chunk_bytes": 1, "total_chunks": 2560}, "chunk_bytes must be 1024..262144"),
        ({"chunk_bytes": 262145, "total_chunks": 1}, "chunk_bytes must be 1024..262144"),
        ({"total_chunks": 4}, "invalid total_chunks"),
        ({"total_chunks": 10**9}, "invalid total_chunks"),
        ({"total_chunks": None}, "invalid total_chunks"),
        ({"transfer_id": ""}, "invalid transfer_id"),
        ({"transfer_id": "a\x00b"}, "invalid transfer_id"),
        ({"transfer_id": "x" * 129}, "invalid transfer_id"),
        ({"transfer_id": 5}, "invalid transfer_id"),
        ({"file_hash": None}, "invalid file_hash"),
        ({"file_hash": "chunks:" + "0" * 64}, "invalid file_hash"),
    ],
)
def test_an_offer_that_does_not_fit_is_refused_with_its_reason(changed, reason):
    with pytest.raises(InvalidError, match=reason.replace(".", r"\.")):
        offer(**changed)


def test_frames_are_read_only_from_those_who_send_them():
    assert offer(frames=True, hash="chunks", file_hash=None).frames
    assert not offer(frames=True).frames
    assert not offer(hash="chunks").frames


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.txt", "a.txt"),
        ("../x", "x"),
        ("/etc/passwd", "passwd"),
        ("C:\\temp\\a.exe", "a.exe"),
        ("a\x00b\n.txt", "ab.txt"),
        ("..", ""),
        ("...", ""),
        ("", ""),
        ("  x ", "x"),
        ("\u202egnp.exe", "gnp.exe"),
        (None, ""),
        (5, ""),
        ("x" * 500, "x" * 200),
    ],
)
def test_a_name_is_shown_without_what_could_mislead(name, shown):
    assert shown_name(name) == shown


@given(st.text())
def test_a_shown_name_is_never_a_path(name):
    shown = shown_name(name)
    assert "/" not in shown
    assert "\\" not in shown
    assert "\x00" not in shown
    assert shown not in {".", ".."}
    assert shown == shown_name(shown)


def test_a_name_that_shows_nothing_is_replaced_by_the_id():
    assert offer(name="..").name == "file_1"
    assert offer(mime="text/html\r\nx: y").mime == "application/octet-stream"


@given(st.text(min_size=1, max_size=200))
def test_a_spool_name_is_safe_whatever_the_id(transfer_id):
    name = spool_name(transfer_id, 1_794_722_067_283, "0011aabb")
    assert name.startswith("incoming_")
    assert name.endswith("_1794722067283_spool_0011aabb.bin")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert len(name) < 180


@pytest.mark.parametrize("mime", ["text/plain", "text/plain; charset=utf-8", "image/svg+xml"])
def test_a_mime_type_is_known_by_its_form(mime):
    assert is_mime(mime)
    assert not is_mime(mime + "\n")
    assert not is_mime("x" + mime.replace("/", ""))


@given(st.integers(1, 400_000), st.integers(2048, 262_144), st.booleans(), st.text(min_size=1, max_size=40))
def test_a_chunk_with_all_around_it_fits_the_message(wanted, max_message, frames, transfer_id):
    overhead = 89 if frames else 400 + chunk_payload_overhead(transfer_id, 65536)
    try:
        chunk = fitted_chunk(wanted, max_message=max_message, frames=frames, overhead=overhead)
    except InvalidError:
        assert max_message < 4096
        return
    carried = chunk if frames else -(-chunk // 3) * 4
    assert carried + overhead <= max_message
    assert 1024 <= chunk <= 262_144
    assert chunk <= max(wanted, 1024)


def test_the_hash_of_chunk_hashes_is_marked_as_such():
    digests = b"".join(hashlib.sha256(piece).digest() for piece in (b"a", b"b"))
    assert chunks_hash(digests) == "chunks:" + hashlib.sha256(digests).hexdigest()


@given(st.integers(1, 10**9), st.integers(1024, 262144))
def test_chunks_cover_the_file(total, chunk):
    count = chunk_count(total, chunk)
    assert (count - 1) * chunk < total <= count * chunk


@pytest.mark.parametrize("value", ["", None, 5, "\n", "x" * 129, []])
def test_what_cannot_be_a_transfer_id_is_none(value):
    assert read_transfer_id(value) is None
