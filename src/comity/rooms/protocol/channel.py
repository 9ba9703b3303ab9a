"""What two peers put on a data channel (peers 3, ruling 55).

Text on `sendChannel` is one JSON object. A control member comes first, whatever else is there; else `pipe` is
data, or a bridge envelope if it carries the magic:

    {"pipe": {"__vdo_mcp", "kind", "ts", "nonce", "room", "from_stream_id", "payload", "mac"?}}

The MAC is HMAC-SHA-256 over the six members from `kind` to `payload` as JavaScript would write them. It is
computed from what was parsed, so spaces and the order of integer keys on the wire do not matter.

A file frame between our own nodes is binary, on the channel `x-comity`; integers are big-endian:

    0x01 | first 16 bytes of SHA-256(transfer id) | u64 sequence | SHA-256 of the data | HMAC | data

The HMAC covers all that precedes it; the hash in it binds the data.
"""

import hashlib
import hmac
from typing import Any, Final

from msgspec import Struct

from comity.wire import strict_json
from comity.wire.canonical import js_stringify
from comity.wire.errors import MalformedError

MAGIC: Final = "vdo_mcp_bridge_v1"
CONTROL_CHANNEL: Final = "sendChannel"
RAW_CHANNEL: Final = "x-bin"
FILE_CHANNEL: Final = "x-comity"
MESSAGE_LIMIT: Final = 262_144
"""What SDP announces on both sides; also the most that we read (peers 4)."""

FRAME_HEADER: Final = 89
_FRAME_FIRST: Final = b"\x01"
_MARK: Final = 16
_HASHED: Final = 57
_HASH: Final = 32

_CONTROL: Final = (
    "description",
    "candidate",
    "candidates",
    "info",
    "ping",
    "pong",
    "bye",
    "videoMuted",
    "iceRestartRequest",
)
_SIGNED: Final = (
    ("kind", str),
    ("ts", int | float),
    ("nonce", str),
    ("room", str),
    ("from_stream_id", str),
    ("payload", dict),
)


class BridgeEnvelope(Struct, frozen=True, kw_only=True):
    """`ts` is in milliseconds since 1970 by the sender's clock."""

    kind: str
    ts: int | float
    nonce: str
    room: str
    from_stream_id: str
    payload: dict[str, Any]
    mac: str | None = None

    def signed_bytes(self) -> bytes:
        return js_stringify(
            {
                "kind": self.kind,
                "ts": self.ts,
                "nonce": self.nonce,
                "room": self.room,
                "from_stream_id": self.from_stream_id,
                "payload": self.payload,
            }
        )

    def is_sealed_by(self, key: bytes) -> bool:
        if self.mac is None:
            return False
        expected = hmac.digest(key, self.signed_bytes(), "sha256").hex()
        return hmac.compare_digest(expected.encode(), self.mac.encode("utf-8", "surrogatepass"))


class Control(Struct, frozen=True):
    """A message about the link itself."""

    message: dict[str, Any]


class AppData(Struct, frozen=True):
    """Any JSON of the user's, null and false included."""

    value: Any


TextMessage = BridgeEnvelope | Control | AppData


def read_text_message(data: bytes) -> TextMessage:
    """Raise MalformedError, which says what is wrong. The caller has checked the size."""
    message = strict_json.loads(data, lone_surrogates=True)
    if type(message) is not dict:
        raise MalformedError("a message on the control channel must be a JSON object")
    if any(name in message for name in _CONTROL) or _is_media_wish(message):
        return Control(message)
    if "pipe" not in message:
        raise MalformedError("a message on the control channel holds neither pipe nor a control member")
    value = message["pipe"]
    if type(value) is dict and value.get("__vdo_mcp") == MAGIC and isinstance(value.get("kind"), str):
        return _envelope(value)
    return AppData(value)


def write_envelope(envelope: BridgeEnvelope, key: bytes | None = None, *, exact: bool = False) -> bytes:
    """Return the text of a bridge envelope; under a MAC when there is a key. `exact`: numbers that JavaScript would
    round are written as they are; the MAC is over its form all the same, which the reader makes again.
    """
    signed = envelope.signed_bytes()
    mac = b"" if key is None else b',"mac":"%s"' % hmac.digest(key, signed, "sha256").hex().encode()
    members = strict_json.dumps({name: getattr(envelope, name) for name, _ in _SIGNED}) if exact else signed
    return b'{"pipe":{"__vdo_mcp":"%s",%s%s}}' % (MAGIC.encode(), members[1:-1], mac)


def write_data(value: Any) -> bytes:
    return b'{"pipe":%s}' % strict_json.dumps(value)


def write_control(message: dict[str, Any]) -> bytes:
    return js_stringify(message)


class FileFrame(Struct, frozen=True):
    mark: bytes
    sequence: int
    digest: bytes
    mac: bytes
    head: bytes
    data: bytes | memoryview

    def is_sealed_by(self, key: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(key, self.head, "sha256"), self.mac)


def transfer_mark(transfer_id: str) -> bytes:
    return hashlib.sha256(transfer_id.encode("utf-8", "surrogatepass")).digest()[:_MARK]


def write_file_frame(mark: bytes, sequence: int, digest: bytes, data: bytes, key: bytes) -> bytes:
    head = _FRAME_FIRST + mark + sequence.to_bytes(8, "big") + digest
    return b"".join((head, hmac.digest(key, head, "sha256"), data))


def read_file_frame(frame: bytes) -> FileFrame:
    if len(frame) <= FRAME_HEADER:
        raise MalformedError(f"a file frame has a header of {FRAME_HEADER} bytes and data after it")
    if frame[:1] != _FRAME_FIRST:
        raise MalformedError("a file frame begins with the byte 0x01")
    head = frame[:_HASHED]
    return FileFrame(
        mark=head[1:17],
        sequence=int.from_bytes(head[17:25], "big"),
        digest=head[25:],
        mac=frame[_HASHED : _HASHED + _HASH],
        head=head,
        data=memoryview(frame)[FRAME_HEADER:],
    )


def _is_media_wish(message: dict[str, Any]) -> bool:
    return isinstance(message.get("audio"), bool) or isinstance(message.get("video"), bool)


def _envelope(value: dict[str, Any]) -> BridgeEnvelope:
    for name, kind in _SIGNED:
        member = value.get(name)
        if not isinstance(member, kind) or isinstance(member, bool):
            raise MalformedError(f"the member {name} of a bridge envelope is missing or of the wrong type")
    mac = value.get("mac")
    if mac is not None and not isinstance(mac, str):
        raise MalformedError("the member mac of a bridge envelope must be a string")
    return BridgeEnvelope(**{name: value[name] for name, _ in _SIGNED}, mac=mac)
