"""Messages on a data channel: read, written, sealed."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from comity.rooms.protocol.channel import (
    FRAME_HEADER,
    AppData,
    BridgeEnvelope,
    Control,
    read_file_frame,
    read_text_message,
    transfer_mark,
    write_data,
    write_envelope,
    write_file_frame,
)
from comity.wire.errors import MalformedError

KEY = bytes(range(32))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
ENVELOPES = st.builds(
    BridgeEnvelope,
    kind=st.text(),
    ts=st.integers(0, 2**53),
    nonce=st.text(),
    room=st.text(),
    from_stream_id=st.text(),
    payload=st.dictionaries(st.text(), JSON, max_size=4),
)
ENVELOPE = BridgeEnvelope(
    kind="state.patch", ts=5, nonce="p_1", room="r", from_stream_id="a", payload={"key": "k", "value": 1.0}
)


@given(ENVELOPES)
def test_a_sealed_envelope_reads_back_and_only_its_key_opens_it(envelope):
    read = read_text_message(write_envelope(envelope, KEY))
    assert isinstance(read, BridgeEnvelope)
    assert read.is_sealed_by(KEY)
    assert not read.is_sealed_by(bytes(32))
    assert read.signed_bytes() == envelope.signed_bytes()


@given(JSON)
def test_an_exact_envelope_keeps_every_digit_under_its_mac(value):
    envelope = replace(ENVELOPE, payload={"data": [value, 2**80, 1e300]})
    read = read_text_message(write_envelope(envelope, KEY, exact=True))
    assert read.payload == envelope.payload
    assert read.is_sealed_by(KEY)


def test_an_envelope_without_a_key_has_no_mac_and_is_sealed_by_nobody():
    wire = write_envelope(ENVELOPE)
    assert b"mac" not in wire
    assert not read_text_message(wire).is_sealed_by(KEY)


def test_the_members_stand_in_the_order_of_the_contract():
    pipe = json.loads(write_envelope(ENVELOPE, KEY))["pipe"]
    assert list(pipe) == ["__vdo_mcp", "kind", "ts", "nonce", "room", "from_stream_id", "payload", "mac"]


@pytest.mark.parametrize("member", ["kind", "ts", "nonce", "room", "from_stream_id", "payload"])
def test_each_member_is_under_the_mac(member):
    sealed = read_text_message(write_envelope(ENVELOPE, KEY))
    changed = {"payload": {"key": "k", "value": 2}, "ts": 6}.get(member, "other")
    assert not replace(sealed, **{member: changed}).is_sealed_by(KEY)


@pytest.mark.parametrize("mac", ["", "00", "\ud800", "é" * 64])
def test_a_mac_of_any_text_is_compared_and_refused(mac):
    assert not replace(ENVELOPE, mac=mac).is_sealed_by(KEY)


def test_spaces_and_order_on_the_wire_do_not_matter_to_the_mac():
    value = {"z": 1, "10": "x", "2": 1.5e300, "a": [0.1, -0.0]}
    pipe = json.loads(write_envelope(replace(ENVELOPE, payload=value), KEY))
    assert read_text_message(json.dumps(pipe, indent=3).encode()).is_sealed_by(KEY)


@given(JSON)
def test_any_data_arrives_as_it_was(value):
    read = read_text_message(write_data(value))
    assert isinstance(read, AppData)
    assert read.value == value
    assert type(read.value) is type(value) or isinstance(value, float)


def test_data_that_looks_almost_like_an_envelope_is_data():
    for value in (
        {"__vdo_mcp": "vdo_mcp_bridge_v2", "kind": "x"},
        {"__vdo_mcp": "vdo_mcp_bridge_v1", "kind": 5},
    ):
        assert read_text_message(write_data(value)) == AppData(value)


@pytest.mark.parametrize(
    "message",
    [
        {"ping": 0},
        {"bye": True, "pipe": 1},
        {"info": {"label": "x"}},
        {"audio": False, "video": False},
        {"candidates": []},
    ],
)
def test_a_control_member_comes_before_data(message):
    assert read_text_message(json.dumps(message).encode()) == Control(message)


def test_audio_as_data_of_the_user_needs_a_boolean_to_be_control():
    assert read_text_message(b'{"audio":"loud","pipe":1}') == AppData(1)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"nope",
        b"[]",
        b"5",
        b'"pipe"',
        b"{}",
        b'{"pope":1}',
        b"[" * 100_000,
        b'{"pipe":1',
        b'{"pipe":NaN}',
    ],
)
def test_what_is_no_message_is_malformed(text):
    with pytest.raises(MalformedError):
        read_text_message(text)


@pytest.mark.parametrize("member", ["ts", "nonce", "room", "from_stream_id", "payload", "mac"])
@pytest.mark.parametrize("value", [True, [], {"x": 1}.keys and None])
def test_an_envelope_with_a_wrong_member_names_it(member, value):
    pipe = json.loads(write_envelope(ENVELOPE, KEY))
    pipe["pipe"][member] = value
    if member == "mac" and value is None:
        assert read_text_message(json.dumps(pipe).encode()).mac is None
        return
    with pytest.raises(MalformedError, match=member):
        read_text_message(json.dumps(pipe).encode())


@given(st.text(), st.integers(0, 2**64 - 1), st.binary(min_size=1, max_size=50))
def test_a_file_frame_reads_back_and_only_its_key_opens_it(transfer_id, sequence, data):
    digest = hashlib.sha256(data).digest()
    frame = write_file_frame(transfer_mark(transfer_id), sequence, digest, data, KEY)
    assert len(frame) == FRAME_HEADER + len(data)
    read = read_file_frame(frame)
    assert (read.mark, read.sequence, read.digest, read.data) == (
        transfer_mark(transfer_id),
        sequence,
        digest,
        data,
    )
    assert read.is_sealed_by(KEY)
    assert not read.is_sealed_by(bytes(32))


@given(st.integers(0, FRAME_HEADER - 33))
def test_each_byte_of_the_header_is_under_the_mac(at):
    frame = bytearray(write_file_frame(transfer_mark("t"), 3, bytes(32), b"data", KEY))
    frame[at] ^= 1
    if at == 0:
        with pytest.raises(MalformedError):
            read_file_frame(bytes(frame))
    else:
        assert not read_file_frame(bytes(frame)).is_sealed_by(KEY)


@pytest.mark.parametrize("frame", [b"", b"\x01", b"\x01" + bytes(88), b"\x02" + bytes(100)])
def test_what_is_no_file_frame_is_malformed(frame):
    with pytest.raises(MalformedError):
        read_file_frame(frame)


def test_the_frame_is_laid_out_as_ruled():
    frame = write_file_frame(transfer_mark("file_1"), 258, b"h" * 32, b"DATA", KEY)
    assert frame[0] == 1
    assert frame[1:17] == hashlib.sha256(b"file_1").digest()[:16]
    assert frame[17:25] == bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert frame[25:57] == b"h" * 32
    assert frame[89:] == b"DATA"
