"""The messages between a peer and the relay, as a peer sends and reads them (peers 7).

Descriptions and candidates are encrypted with the room's cipher where the room has a password. Sizes are looked at
before anything is decrypted. A description of ours may name a ticket, for a peer on the same host, and a secret for the outside door of a host; the
reference ignores the member.
"""

import hashlib
import re
from typing import Any, Final, Literal
from urllib.parse import quote

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from msgspec import Struct

from comity.rooms.protocol.loose_values import is_stream_id, trim
from comity.wire import strict_json
from comity.wire.errors import InvalidError, MalformedError, TooLargeError

# What the password of a room does to signalling (peers 7): ids are hashed, descriptions and candidates encrypted.


SALT: Final = "vdo.ninja"
DEFAULT_PASSWORD: Final = "someEncryptionKey123"  # noqa: S105 - everybody's, by the protocol
MAX_ROOM_LENGTH: Final = 30
MAX_STREAM_LENGTH: Final = 64
IV_BYTES: Final = 16

_ROOM_DIGITS: Final = 16
_STREAM_DIGITS: Final = 6
_LEFT_BY_URI: Final = "-_.!~*'()"
_NOT_WORDS: Final = re.compile(r"[^A-Za-z0-9_]+")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*")


def signalling_room(room: str) -> str:
    return _NOT_WORDS.sub("_", room)[:MAX_ROOM_LENGTH]


def signalling_stream(stream: str) -> str:
    return _NOT_WORDS.sub("_", stream)[:MAX_STREAM_LENGTH]


def effective_password(password: str | bool | None) -> str | None:
    """None: nothing is hashed or encrypted. No password, an empty one and True are the one that everybody knows."""
    if password is False:
        return None
    if password is None or password is True or password == "":
        return DEFAULT_PASSWORD
    trimmed = trim(password)
    if not trimmed:
        raise InvalidError("the password has only spaces; choose another, or leave it out")
    try:
        return quote(trimmed, safe=_LEFT_BY_URI)
    except UnicodeEncodeError:
        raise InvalidError("the password has half a character in it; choose another") from None


class RoomCipher(Struct, frozen=True):
    """`password` is an effective one."""

    password: str | None

    def room_id(self, room: str) -> str:
        name = signalling_room(room)
        if self.password is None:
            return name
        return hashlib.sha256(f"{name}{self.password}{SALT}".encode()).hexdigest()[:_ROOM_DIGITS]

    def stream_id(self, stream: str) -> str:
        return signalling_stream(stream) + self._suffix

    def clear_stream(self, stream_id: str) -> str | None:
        """Return the stream behind an id on the wire; None for one that was not made with this password."""
        return stream_id.removesuffix(self._suffix) if stream_id.endswith(self._suffix) else None

    def encrypt(self, text: str, iv: bytes) -> tuple[str, str]:
        """Ciphertext and vector in hex. Only where there is a password."""
        padder = PKCS7(128).padder()
        padded = padder.update(text.encode()) + padder.finalize()
        encryptor = self._cipher(iv).encryptor()
        return (encryptor.update(padded) + encryptor.finalize()).hex(), iv.hex()

    def decrypt(self, text: str, vector: str) -> str:
        """Raise MalformedError when the password is another one, or something was changed on the way."""
        iv, sealed = _bytes(vector), _bytes(text)
        if len(iv) != IV_BYTES or not sealed or len(sealed) % 16:
            raise MalformedError("the encrypted part of a signalling message is damaged")
        decryptor = self._cipher(iv).decryptor()
        padded = decryptor.update(sealed) + decryptor.finalize()
        unpadder = PKCS7(128).unpadder()
        try:
            return (unpadder.update(padded) + unpadder.finalize()).decode()
        except ValueError:  # also a UnicodeDecodeError
            raise MalformedError("a signalling message cannot be decrypted; the passwords differ") from None

    @property
    def _suffix(self) -> str:
        if self.password is None:
            return ""
        return hashlib.sha256(f"{self.password}{SALT}".encode()).hexdigest()[:_STREAM_DIGITS]

    def _cipher(self, iv: bytes) -> Cipher[modes.CBC]:
        key = hashlib.sha256(f"{self.password}{SALT}".encode()).digest()
        return Cipher(algorithms.AES256(key), modes.CBC(iv))


def _bytes(text: str) -> bytes:
    if not _HEX.fullmatch(text):
        raise MalformedError("the encrypted part of a signalling message must be hexadecimal")
    return bytes.fromhex(text)


SDP_LIMIT: Final = 65_536
MAX_CANDIDATES: Final = 100
MAX_CANDIDATE_LENGTH: Final = 1024

_MAX_ID_LENGTH: Final = 128
_MAX_LISTED: Final = 1000
_TAKEN: Final = "Stream ID is already in use"
# in hex; JSON writes a line's end with two characters more
_ENCRYPTED_LIMIT: Final = 2 * (2 * SDP_LIMIT + 4096)


class IceCandidate(Struct, frozen=True):
    candidate: str
    mid: str | None = "0"
    line: int | None = 0


class Listed(Struct, frozen=True):
    """`stream` is in clear; None for a peer that has none, or one of another password."""

    uuid: str
    stream: str | None


class Listing(Struct, frozen=True):
    """Who is in the room that was joined, or to which the director moved us."""

    peers: tuple[Listed, ...]


class PeerJoined(Struct, frozen=True):
    peer: Listed


class StreamAdded(Struct, frozen=True):
    peer: Listed


class OfferWanted(Struct, frozen=True):
    uuid: str


class Described(Struct, frozen=True, kw_only=True):
    uuid: str
    session: str
    kind: Literal["offer", "answer"]
    sdp: str
    stream: str | None
    ticket: str | None
    door: str | None = None


class Candidates(Struct, frozen=True):
    uuid: str
    session: str
    candidates: tuple[IceCandidate, ...]


class StreamTaken(Struct, frozen=True):
    pass


class RelayRefusal(Struct, frozen=True):
    """`uuid` is the peer that it is about, if any."""

    code: str
    message: str
    uuid: str | None


RelayMessage = (
    Listing | PeerJoined | StreamAdded | OfferWanted | Described | Candidates | StreamTaken | RelayRefusal
)


def read_message(text: bytes, cipher: RoomCipher) -> RelayMessage | None:
    """None for what is none of our concern. Raise MalformedError, InvalidError and TooLargeError."""
    message = strict_json.loads(text, lone_surrogates=True)
    if type(message) is not dict:
        raise MalformedError("a signalling message is a JSON object")
    return _from_peer(message, cipher) if "request" not in message else _from_relay(message, cipher)


def _from_relay(message: dict[str, Any], cipher: RoomCipher) -> RelayMessage | None:
    request = message["request"]
    if request in ("listing", "transferred"):
        listed = message.get("list")
        if type(listed) is not list or len(listed) > _MAX_LISTED:
            raise InvalidError(f"a listing names at most {_MAX_LISTED} peers")
        return Listing(tuple(_listed(entry, cipher) for entry in listed if type(entry) is dict))
    if request == "someonejoined":
        return PeerJoined(_listed(message, cipher))
    if request == "videoaddedtoroom":
        return StreamAdded(_listed(message, cipher))
    if request == "offerSDP":
        return OfferWanted(_id(message, "UUID"))
    return _refusal(message) if request in ("alert", "error") else None


def _from_peer(message: dict[str, Any], cipher: RoomCipher) -> RelayMessage | None:
    if "description" in message:
        return _described(message, cipher)
    if "candidates" in message or "candidate" in message:
        candidates = read_candidates(message, cipher)
        return Candidates(_id(message, "UUID"), _id(message, "session"), candidates)
    return None


def read_candidates(message: dict[str, Any], cipher: RoomCipher) -> tuple[IceCandidate, ...]:
    """Return the candidates of a message, through the relay or on the channel. Those without an address are left out."""
    name = "candidates" if "candidates" in message else "candidate"
    content = _opened(message, name, cipher)
    entries = content if type(content) is list else [content]
    if len(entries) > MAX_CANDIDATES:
        raise InvalidError(f"a message has at most {MAX_CANDIDATES} candidates, not {len(entries)}")
    return tuple(_candidate(entry) for entry in entries if type(entry) is dict and entry.get("candidate"))


def join_room(room_id: str) -> bytes:
    return strict_json.dumps({"request": "joinroom", "roomid": room_id})


def seed(stream_id: str) -> bytes:
    return strict_json.dumps({"request": "seed", "streamID": stream_id})


def play(stream_id: str) -> bytes:
    return strict_json.dumps({"request": "play", "streamID": stream_id})


def leave() -> bytes:
    return strict_json.dumps({"leave": True})


def write_description(described: Described, cipher: RoomCipher, iv: bytes) -> bytes:
    """`uuid` is the peer it is for."""
    if len(described.sdp.encode()) > SDP_LIMIT:
        raise TooLargeError("the session description", SDP_LIMIT)
    description: dict[str, Any] = {"type": described.kind, "sdp": described.sdp}
    ways = {"ticket": described.ticket, "door": described.door}
    named = {name: way for name, way in ways.items() if way is not None}
    if named:
        description["comity"] = named
    message = {
        "UUID": described.uuid,
        "session": described.session,
        "streamID": cipher.stream_id(described.stream or ""),
    }
    return strict_json.dumps({**message, **_sealed("description", description, cipher, iv)})


def write_candidates(
    bundle: Candidates, role: Literal["local", "remote"], cipher: RoomCipher, iv: bytes
) -> bytes:
    """`role` is local from the peer that made the offer, remote from the other."""
    candidates = [
        {"candidate": found.candidate, "sdpMid": found.mid, "sdpMLineIndex": found.line}
        for found in bundle.candidates
    ]
    message = {"UUID": bundle.uuid, "type": role, "candidates": None, "session": bundle.session}
    return strict_json.dumps({**message, **_sealed("candidates", candidates, cipher, iv)})


def _sealed(name: str, value: Any, cipher: RoomCipher, iv: bytes) -> dict[str, Any]:
    if cipher.password is None:
        return {name: value}
    text, vector = cipher.encrypt(strict_json.dumps(value).decode(), iv)
    return {name: text, "vector": vector}


def _opened(message: dict[str, Any], name: str, cipher: RoomCipher) -> Any:
    value = message[name]
    if cipher.password is None:
        return value
    vector = message.get("vector")
    if not isinstance(value, str) or not isinstance(vector, str):
        raise MalformedError(f"{name} must be encrypted in a room with a password")
    if len(value) > _ENCRYPTED_LIMIT:
        raise TooLargeError(f"the member {name}", _ENCRYPTED_LIMIT)
    return strict_json.loads(cipher.decrypt(value, vector).encode(), lone_surrogates=True)


def _described(message: dict[str, Any], cipher: RoomCipher) -> Described:
    description = _opened(message, "description", cipher)
    if type(description) is not dict:
        raise MalformedError("a description is an object with type and sdp")
    kind, sdp = description.get("type"), description.get("sdp")
    if kind not in ("offer", "answer") or not isinstance(sdp, str):
        raise MalformedError("a description is an offer or an answer with its sdp")
    if len(sdp.encode("utf-8", "surrogatepass")) > SDP_LIMIT:
        raise TooLargeError("the session description", SDP_LIMIT)
    return Described(
        uuid=_id(message, "UUID"),
        session=_id(message, "session"),
        kind=kind,
        sdp=sdp,
        stream=_stream(message, cipher),
        ticket=_way(description.get("comity"), "ticket"),
        door=_way(description.get("comity"), "door"),
    )


def _way(ours: Any, name: str) -> str | None:
    way = ours.get(name) if type(ours) is dict else None
    return way if isinstance(way, str) and len(way) <= _MAX_ID_LENGTH else None


def _candidate(entry: dict[str, Any]) -> IceCandidate:
    text, mid, line = entry["candidate"], entry.get("sdpMid"), entry.get("sdpMLineIndex")
    if not isinstance(text, str) or len(text) > MAX_CANDIDATE_LENGTH:
        raise InvalidError(f"a candidate is a text of at most {MAX_CANDIDATE_LENGTH} characters")
    fits = isinstance(mid, str) and len(mid) <= _MAX_ID_LENGTH
    return IceCandidate(
        text,
        mid if fits else None,
        line if isinstance(line, int) and not isinstance(line, bool) and 0 <= line < 256 else None,
    )


def _listed(entry: dict[str, Any], cipher: RoomCipher) -> Listed:
    return Listed(_id(entry, "UUID"), _stream(entry, cipher))


def _stream(message: dict[str, Any], cipher: RoomCipher) -> str | None:
    stream = message.get("streamID")
    clear = cipher.clear_stream(stream) if isinstance(stream, str) and len(stream) <= _MAX_ID_LENGTH else None
    return clear if clear is not None and is_stream_id(clear) else None


def _refusal(message: dict[str, Any]) -> StreamTaken | RelayRefusal:
    words, code, uuid = message.get("message"), message.get("code"), message.get("UUID")
    sentence = words[:200] if isinstance(words, str) else ""
    if code == "STREAMID_IN_USE" or _TAKEN in sentence:
        return StreamTaken()
    return RelayRefusal(
        code[:_MAX_ID_LENGTH] if isinstance(code, str) else "",
        "".join(letter if letter.isprintable() else " " for letter in sentence),
        uuid[:_MAX_ID_LENGTH] if isinstance(uuid, str) else None,
    )


def _id(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID_LENGTH:
        raise InvalidError(f"{name} must be a text of 1 to {_MAX_ID_LENGTH} characters")
    return value
