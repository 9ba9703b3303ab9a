"""STUN messages as bytes (RFC 8489), and the channel data of TURN.

Reading is strict: what breaks the form of RFC 8489 raises MalformedError, and is dropped by a server without an answer.
"""

import binascii
import hmac
import ipaddress
import struct
from collections.abc import Iterator
from hashlib import md5
from typing import Final, NamedTuple

from msgspec import Struct

from comity.wire.errors import MalformedError

MAGIC: Final = 0x2112A442
HEADER: Final = 20
MAX_ATTRIBUTES: Final = 32

REQUEST: Final = 0
INDICATION: Final = 1
SUCCESS: Final = 2
ERROR: Final = 3

BINDING: Final = 0x001
ALLOCATE: Final = 0x003
REFRESH: Final = 0x004
SEND: Final = 0x006
DATA: Final = 0x007
CREATE_PERMISSION: Final = 0x008
CHANNEL_BIND: Final = 0x009

A_USERNAME: Final = 0x0006
A_INTEGRITY: Final = 0x0008
A_ERROR_CODE: Final = 0x0009
A_UNKNOWN: Final = 0x000A
A_CHANNEL: Final = 0x000C
A_LIFETIME: Final = 0x000D
A_PEER: Final = 0x0012
A_DATA: Final = 0x0013
A_REALM: Final = 0x0014
A_NONCE: Final = 0x0015
A_RELAYED: Final = 0x0016
A_FAMILY: Final = 0x0017
A_EVEN_PORT: Final = 0x0018
A_TRANSPORT: Final = 0x0019
A_DONT_FRAGMENT: Final = 0x001A
A_MAPPED: Final = 0x0020
A_RESERVATION: Final = 0x0022
A_SOFTWARE: Final = 0x8022
A_FINGERPRINT: Final = 0x8028

_COMPREHENSION_OPTIONAL: Final = 0x8000
_FINGERPRINT_MASK: Final = 0x5354554E
_INTEGRITY_BYTES: Final = 20
_SHORTEST_RECORD: Final = 13
_HEAD: Final = struct.Struct("!HHI12s")
_PAIR: Final = struct.Struct("!HH")


class Address(NamedTuple):
    host: str
    port: int


class StunMessage(Struct, frozen=True):
    """`attributes` are those before MESSAGE-INTEGRITY, in their order; nothing that stands behind it counts. `covered` are the
    bytes that `integrity` is made of.
    """

    method: int
    kind: int
    transaction: bytes
    attributes: tuple[tuple[int, bytes], ...] = ()
    integrity: bytes | None = None
    covered: bytes = b""

    def get(self, attribute: int) -> bytes | None:
        """Return the first attribute of that type; later ones do not count (RFC 8489, 14)."""
        return next((value for found, value in self.attributes if found == attribute), None)

    def all(self, attribute: int) -> Iterator[bytes]:
        return (value for found, value in self.attributes if found == attribute)

    def verifies(self, key: bytes) -> bool:
        if self.integrity is None:
            return False
        return hmac.compare_digest(hmac.digest(key, self.covered, "sha1"), self.integrity)


def is_stun(data: bytes) -> bool:
    """Return whether a packet has the form of a STUN message, by its first bytes."""
    return len(data) >= HEADER and data[0] < 64 and data[4:8] == b"\x21\x12\xa4\x42"


def is_dtls(data: bytes) -> bool:
    """Return whether a packet begins with a whole DTLS record: a plain one (RFC 6347, 4.1), or one of DTLS 1.3 with a length and
    without a connection id (RFC 9147, 4).
    """
    if len(data) < _SHORTEST_RECORD:
        return False
    if 19 < data[0] < 27:
        return data[1] == 254 and int.from_bytes(data[11:13], "big") <= len(data) - 13
    if data[0] & 0xF4 != 0x24:
        return False
    at = 3 if data[0] & 8 else 2
    return int.from_bytes(data[at : at + 2], "big") <= len(data) - at - 2


def read_message(data: bytes) -> StunMessage:
    """Read a message. Raise MalformedError."""
    if not is_stun(data):
        raise MalformedError("this is no STUN message")
    kind_bits, length, _magic, transaction = _HEAD.unpack_from(data)
    if length % 4 or length != len(data) - HEADER:
        raise MalformedError("the length of the message is wrong")
    attributes, integrity, covered = _read_attributes(data)
    method = kind_bits & 0x000F | (kind_bits & 0x00E0) >> 1 | (kind_bits & 0x3E00) >> 2
    kind = (kind_bits & 0x0010) >> 4 | (kind_bits & 0x0100) >> 7
    return StunMessage(method, kind, transaction, tuple(attributes), integrity, covered)


def _read_attributes(data: bytes) -> tuple[list[tuple[int, bytes]], bytes | None, bytes]:
    """Return the attributes before MESSAGE-INTEGRITY, that, and the bytes that it covers."""
    attributes: list[tuple[int, bytes]] = []
    integrity, covered = None, b""
    at = HEADER
    for _ in range(MAX_ATTRIBUTES):
        if at >= len(data):
            break
        attribute, size = _PAIR.unpack_from(data, at)
        value = data[at + 4 : at + 4 + size]
        if len(value) != size:
            raise MalformedError("an attribute is longer than its message")
        if attribute == A_FINGERPRINT:
            _check_fingerprint(data, at, value)
        elif attribute == A_INTEGRITY and integrity is None:
            if size != _INTEGRITY_BYTES:
                raise MalformedError("MESSAGE-INTEGRITY is 20 bytes")
            integrity = value
            covered = data[:2] + struct.pack("!H", at - HEADER + 24) + data[4:at]
        elif integrity is None:
            attributes.append((attribute, value))
        at += 4 + size + -size % 4
    if at != len(data):
        raise MalformedError(f"there are more than {MAX_ATTRIBUTES} attributes, or the last is not padded")
    return attributes, integrity, covered


def write_message(message: StunMessage, key: bytes | None = None, *, fingerprint: bool = False) -> bytes:
    """Return the bytes of a message, with MESSAGE-INTEGRITY if there is a key."""
    method = message.method
    bits = method & 0x000F | (method & 0x0070) << 1 | (method & 0x0F80) << 2
    bits |= (message.kind & 1) << 4 | (message.kind & 2) << 7
    body = b"".join(_attribute(attribute, value) for attribute, value in message.attributes)

    def head(more: int) -> bytes:
        return _HEAD.pack(bits, len(body) + more, MAGIC, message.transaction)

    if key is not None:
        body += _attribute(A_INTEGRITY, hmac.digest(key, head(24) + body, "sha1"))
    if fingerprint:
        check = binascii.crc32(head(8) + body) ^ _FINGERPRINT_MASK
        body += _attribute(A_FINGERPRINT, struct.pack("!I", check))
    return head(0) + body


def _attribute(attribute: int, value: bytes) -> bytes:
    return _PAIR.pack(attribute, len(value)) + value + b"\0" * (-len(value) % 4)


def _check_fingerprint(data: bytes, at: int, value: bytes) -> None:
    if at + 8 != len(data):
        raise MalformedError("FINGERPRINT stands at the end")
    check = binascii.crc32(data[:at]) ^ _FINGERPRINT_MASK
    if value != struct.pack("!I", check):
        raise MalformedError("the fingerprint does not fit the message")


def comprehension_required(attribute: int) -> bool:
    return attribute < _COMPREHENSION_OPTIONAL


def long_term_key(username: str, realm: str, password: str) -> bytes:
    """Return the key of the long-term credential (RFC 8489, 9.2.2)."""
    return md5(f"{username}:{realm}:{password}".encode(), usedforsecurity=False).digest()


def write_address(address: Address, transaction: bytes) -> bytes:
    """Return the value of an XOR-…-ADDRESS."""
    host = ipaddress.ip_address(address.host)
    mask = struct.pack("!I", MAGIC) + transaction
    packed = bytes(one ^ other for one, other in zip(host.packed, mask, strict=False))
    return struct.pack("!BBH", 0, 1 if host.version == 4 else 2, address.port ^ MAGIC >> 16) + packed


def read_address(value: bytes, transaction: bytes) -> Address:
    """Read the value of an XOR-…-ADDRESS. Raise MalformedError."""
    sizes = {1: 8, 2: 20}
    if len(value) < 4 or sizes.get(value[1]) != len(value):
        raise MalformedError("an address has 8 bytes in IPv4, and 20 in IPv6")
    port = struct.unpack_from("!H", value, 2)[0] ^ MAGIC >> 16
    mask = struct.pack("!I", MAGIC) + transaction
    packed = bytes(one ^ other for one, other in zip(value[4:], mask, strict=False))
    return Address(str(ipaddress.ip_address(packed)), port)


def write_error(code: int, reason: str) -> bytes:
    return struct.pack("!HBB", 0, code // 100, code % 100) + reason.encode()


def read_error(value: bytes) -> int:
    """Read the number of an ERROR-CODE. Raise MalformedError."""
    if len(value) < 4:
        raise MalformedError("ERROR-CODE has at least 4 bytes")
    return (value[2] & 7) * 100 + value[3]


# Channel data: a number from 0x4000 to 0x4FFF, a length, and the data of a peer.

CHANNELS: Final = range(0x4000, 0x5000)


class ChannelData(NamedTuple):
    channel: int
    data: bytes


def is_channel_data(data: bytes) -> bool:
    return len(data) >= 4 and 0x40 <= data[0] < 0x50


def read_channel_data(packet: bytes) -> ChannelData:
    """Read a packet of channel data; it may be padded. Raise MalformedError."""
    channel, size = _PAIR.unpack_from(packet)
    if size > len(packet) - 4:
        raise MalformedError("channel data is longer than its packet")
    return ChannelData(channel, packet[4 : 4 + size])


def write_channel_data(channel: int, data: bytes, *, padded: bool) -> bytes:
    """Return a packet of channel data; over TCP it is `padded` to four bytes."""
    return _PAIR.pack(channel, len(data)) + data + (b"\0" * (-len(data) % 4) if padded else b"")


class StunStream:
    """Cuts the bytes of a TCP connection into messages and channel data."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Return the packets that are complete. Raise MalformedError where the stream is neither."""
        self._unread += data
        while len(self._unread) >= 4:
            first = self._unread[0]
            size = int.from_bytes(self._unread[2:4], "big")
            if first < 64:
                size += HEADER
            elif 0x40 <= first < 0x50:
                size += 4 + -size % 4
            else:
                raise MalformedError("this connection carries STUN and channel data only")
            if len(self._unread) < size:
                return
            packet = bytes(self._unread[:size])
            del self._unread[:size]
            yield packet
