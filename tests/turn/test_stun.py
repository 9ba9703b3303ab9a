import random

import pytest

from comity.turn.protocol import stun
from comity.turn.protocol.stun import Address, StunMessage, StunStream
from comity.wire.errors import MalformedError

PASSWORD = b"VOkJxbRl1RmTxUk/WvJxBt"
_HEAD = "2112a442b7e7a701bc34d686fa87dfae"
REQUEST = bytes.fromhex(
    f"00010058{_HEAD}802200105354554e207465737420636c69656e74002400046e0001ff80290008932ff9b151263b36"
    "000600096576746a3a68367659202020000800149aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a280280004e57a3bcf"
)
ANSWER_4 = bytes.fromhex(
    f"0101003c{_HEAD}8022000b7465737420766563746f7220002000080001a147e112a643"
    "000800142b91f599fd9e90c38c7489f92af9ba53f06be7d780280004c07d4c96"
)
ANSWER_6 = bytes.fromhex(
    f"01010048{_HEAD}8022000b7465737420766563746f7220002000140002a1470113a9faa5d3f179bc25f4b5bed2b9d9"
    "00080014a382954e4be67bf11784c97c8292c275bfe3ed4180280004c8fb0b4c"
)
LOGGED_IN = bytes.fromhex(
    "000100602112a44278ad3433c6ad72c029da412e00060012e3839ee38388e383aae38383e382afe382b90000"
    "0015001c662f2f3439396b39353464364f4c33346f4c394653547679363473410014000b6578616d706c652e6f726700"
    "00080014f67024656dd64a3e02b8e0712e85c9a28ca89666"
)
VECTORS = [REQUEST, ANSWER_4, ANSWER_6, LOGGED_IN]


def test_the_vectors_of_rfc_5769_verify_and_say_what_they_should():
    request, answer, answer_6 = map(stun.read_message, (REQUEST, ANSWER_4, ANSWER_6))
    assert all(message.verifies(PASSWORD) for message in (request, answer, answer_6))
    assert not request.verifies(PASSWORD + b"x")
    assert request.get(stun.A_USERNAME) == b"evtj:h6vY"
    assert (request.method, request.kind) == (stun.BINDING, stun.REQUEST)
    assert (answer.method, answer.kind) == (stun.BINDING, stun.SUCCESS)
    assert stun.read_address(answer.get(stun.A_MAPPED), answer.transaction) == Address("192.0.2.1", 32853)
    address = Address("2001:db8:1234:5678:11:2233:4455:6677", 32853)
    assert stun.read_address(answer_6.get(stun.A_MAPPED), answer_6.transaction) == address
    logged_in = stun.read_message(LOGGED_IN)
    assert logged_in.verifies(stun.long_term_key("マトリックス", "example.org", "TheMatrIX"))


def test_what_is_written_is_read_again():
    for address in (Address("192.0.2.1", 1), Address("2001:db8::1", 65535)):
        value = stun.write_address(address, b"t" * 12)
        assert stun.read_address(value, b"t" * 12) == address
    for method in (stun.BINDING, stun.ALLOCATE, stun.CHANNEL_BIND, 0xFFF):
        for kind in (stun.REQUEST, stun.INDICATION, stun.SUCCESS, stun.ERROR):
            attributes = ((stun.A_USERNAME, b"abc"), (stun.A_ERROR_CODE, stun.write_error(438, "stale")))
            data = stun.write_message(
                StunMessage(method, kind, b"t" * 12, attributes), b"key", fingerprint=True
            )
            read = stun.read_message(data)
            assert (read.method, read.kind, read.attributes) == (method, kind, attributes)
            assert read.verifies(b"key")
            assert stun.read_error(read.get(stun.A_ERROR_CODE)) == 438


@pytest.mark.parametrize("vector", range(len(VECTORS)))
def test_a_message_that_is_cut_or_changed_is_refused_or_does_not_verify(vector):
    data, random_ = VECTORS[vector], random.Random(vector)
    key = PASSWORD if vector < 3 else stun.long_term_key("マトリックス", "example.org", "TheMatrIX")
    for end in range(len(data)):
        with pytest.raises(MalformedError):
            stun.read_message(data[:end])
    for _ in range(500):
        at = random_.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << random_.randrange(8)
        try:
            message = stun.read_message(bytes(changed))
        except MalformedError:
            continue
        padding = message.attributes == stun.read_message(data).attributes
        assert not message.verifies(key) or padding, f"bit changed in byte {at}"


def test_what_stands_behind_the_integrity_does_not_count():
    message = StunMessage(stun.ALLOCATE, stun.REQUEST, b"t" * 12, ((stun.A_USERNAME, b"ann"),))
    data = stun.write_message(message, b"key")
    more = b"\x00\x0d\x00\x04\xff\xff\xff\xff"
    forged = data[:2] + (len(data) - 20 + len(more)).to_bytes(2, "big") + data[4:] + more
    read = stun.read_message(forged)
    assert read.verifies(b"key")
    assert read.get(stun.A_LIFETIME) is None


def test_a_message_with_too_many_attributes_is_refused():
    many = StunMessage(stun.BINDING, stun.REQUEST, b"t" * 12, ((stun.A_SOFTWARE, b""),) * 33)
    with pytest.raises(MalformedError, match="32"):
        stun.read_message(stun.write_message(many))


def test_a_stream_is_cut_into_its_packets_however_it_arrives():
    packets = [REQUEST, stun.write_channel_data(0x4001, b"abc", padded=True), LOGGED_IN]
    data = b"".join(packets)
    for step in (1, 3, 7, len(data)):
        stream = StunStream()
        found = [packet for at in range(0, len(data), step) for packet in stream.feed(data[at : at + step])]
        assert found == packets
    assert stun.read_channel_data(packets[1]) == (0x4001, b"abc")


@pytest.mark.parametrize("data", [b"PUT / HTTP/1.1\r\n", b"\x80\x60\x01\x02\x00", b"\xff" * 8])
def test_a_stream_of_something_else_is_refused_at_once(data):
    with pytest.raises(MalformedError):
        list(StunStream().feed(data))
