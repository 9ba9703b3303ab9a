"""What the password of a room does to signalling (peers 7): ids are hashed, descriptions and candidates encrypted.

The scheme is the reference's, and weak: no stretching of the password, AES-CBC without authentication, a password
that everybody knows when none is chosen. It keeps a relay from reading along. Who a peer is, is proven on the
channel itself.
"""

import hashlib
import re
from typing import Final
from urllib.parse import quote

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7
from msgspec import Struct

from comity.rooms.protocol.loose_values import trim
from comity.wire.errors import InvalidError, MalformedError

SALT: Final = "vdo.ninja"
DEFAULT_PASSWORD: Final = "someEncryptionKey123"  # noqa: S105 - everybody's, by the protocol
LONGEST_ROOM: Final = 30
LONGEST_STREAM: Final = 64
IV_BYTES: Final = 16

_ROOM_DIGITS: Final = 16
_STREAM_DIGITS: Final = 6
_LEFT_BY_URI: Final = "-_.!~*'()"
_NOT_WORDS: Final = re.compile(r"[^A-Za-z0-9_]+")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2})*")


def signalling_room(room: str) -> str:
    return _NOT_WORDS.sub("_", room)[:LONGEST_ROOM]


def signalling_stream(stream: str) -> str:
    return _NOT_WORDS.sub("_", stream)[:LONGEST_STREAM]


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
        """The stream behind an id on the wire; None for one that was not made with this password."""
        return stream_id.removesuffix(self._suffix) if stream_id.endswith(self._suffix) else None

    def encrypt(self, text: str, iv: bytes) -> tuple[str, str]:
        """Ciphertext and vector in hex. Only where there is a password."""
        padder = PKCS7(128).padder()
        padded = padder.update(text.encode()) + padder.finalize()
        encryptor = self._cipher(iv).encryptor()
        return (encryptor.update(padded) + encryptor.finalize()).hex(), iv.hex()

    def decrypt(self, text: str, vector: str) -> str:
        """Raises MalformedError when the password is another one, or something was changed on the way."""
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
