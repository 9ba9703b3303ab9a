"""A secret under a passphrase: Argon2id makes the key, secretbox hides and authenticates the secret.

- Salt and nonce are fresh for every sealing. The cost is written beside the box, so that it can be
  raised later without losing what was sealed before.
- The cost comes from a file, so it is bounded before any memory is given to it.
- A passphrase is compared as people see it: the same characters typed on another system may be other
  code points, so it is brought to NFC first.

A stream of any length (`SealedWriter`, `SealedReader`) gets its key in the same way; secretstream hides and
authenticates it:

    comity sealed
    {"version":1,"cost":{...},"salt":HEX}
    24 bytes, a frame that holds nothing, frames of 1 MiB, a last frame

- Each frame depends on all frames before it, and the last one is marked. So a stream that was cut, reordered or
  extended is refused. Do not use what was read before `SealedReader` has reached the end.
- The first frame can be opened only with the right passphrase. So a wrong passphrase and a damaged stream get
  different errors.
- The line with version, cost and salt is authenticated with every frame.
"""

import secrets
import unicodedata
from typing import IO, Final, NoReturn

import msgspec
from msgspec import Struct
from nacl import bindings
from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from comity.wire.errors import InvalidError, KeyRefusedError, MalformedError

_KEY_BYTES = 32
_SALT_BYTES = 16
_NONCE_BYTES = 24
_MIN_MEMORY = 8 * 1024
_MAX_MEMORY = 1024 * 1024 * 1024
_MAX_PASSES = 16


class SealingCost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Passes over the memory, and its size in bytes. The default takes about a second."""

    passes: int = 3
    memory: int = 256 * 1024 * 1024

    def __post_init__(self) -> None:
        if not (1 <= self.passes <= _MAX_PASSES and _MIN_MEMORY <= self.memory <= _MAX_MEMORY):
            raise InvalidError(
                f"the cost must be 1 to {_MAX_PASSES} passes over {_MIN_MEMORY:,} to {_MAX_MEMORY:,} bytes"
            )


class SealedBox(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may lie in the open: salt, and nonce with ciphertext, in hexadecimal."""

    cost: SealingCost
    salt: str
    box: str


def seal(secret: bytes, passphrase: str, cost: SealingCost) -> SealedBox:
    if not passphrase:
        raise InvalidError("an empty passphrase protects nothing; give one or leave it out")
    salt = secrets.token_bytes(_SALT_BYTES)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    box = bindings.crypto_secretbox(secret, nonce, stretch(passphrase, salt, cost))
    return SealedBox(cost=cost, salt=salt.hex(), box=(nonce + box).hex())


def unseal(sealed: SealedBox, passphrase: str) -> bytes:
    """Return the secret; refused when the passphrase is another one or the box was changed."""
    refusal = "the passphrase does not open it, or it was changed since it was sealed"
    try:
        salt, box = bytes.fromhex(sealed.salt), bytes.fromhex(sealed.box)
    except ValueError:
        raise KeyRefusedError(refusal) from None
    if len(salt) != _SALT_BYTES or len(box) < _NONCE_BYTES:
        raise KeyRefusedError(refusal)
    key = stretch(passphrase, salt, sealed.cost)
    try:
        return bindings.crypto_secretbox_open(box[_NONCE_BYTES:], box[:_NONCE_BYTES], key)
    except CryptoError:
        raise KeyRefusedError(refusal) from None


def stretch(passphrase: str, salt: bytes, cost: SealingCost) -> bytes:
    """Return the key of 32 bytes that a passphrase makes."""
    password = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    try:
        return argon2id.kdf(_KEY_BYTES, password, salt, opslimit=cost.passes, memlimit=cost.memory)
    except (CryptoError, MemoryError):
        needed = cost.memory // (1024 * 1024)
        raise KeyRefusedError(
            f"the passphrase needs {needed} MiB of memory to be checked; free some"
        ) from None


MAGIC: Final = b"comity sealed\n"
VERSION: Final = 1
FRAME_BYTES: Final = 1024 * 1024

_MARK_BYTES: Final = 17  # what secretstream adds to each frame
_START_BYTES: Final = 24
_LINE_LIMIT: Final = 1024


class StreamHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = VERSION
    cost: SealingCost
    salt: str


class _StreamPreface(Struct, frozen=True):
    version: int


class SealedWriter:
    """Give it everything with `write`, then `finish`. The file below stays open."""

    def __init__(self, file: IO[bytes], passphrase: str, cost: SealingCost | None = None) -> None:
        if not passphrase:
            raise InvalidError("an empty passphrase protects nothing; give one")
        self._file = file
        salt = secrets.token_bytes(_SALT_BYTES)
        self._line = msgspec.json.encode(StreamHead(cost=cost or SealingCost(), salt=salt.hex())) + b"\n"
        self.key = stretch(passphrase, salt, cost or SealingCost())
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        start = bindings.crypto_secretstream_xchacha20poly1305_init_push(self._state, self.key)
        self._held = bytearray()
        file.write(MAGIC + self._line + start)
        self._push(b"")

    def write(self, data: bytes) -> int:
        self._held += data
        while len(self._held) > FRAME_BYTES:
            self._push(bytes(self._held[:FRAME_BYTES]))
            del self._held[:FRAME_BYTES]
        return len(data)

    def finish(self) -> None:
        self._push(bytes(self._held), final=True)
        self._held.clear()

    def _push(self, frame: bytes, *, final: bool = False) -> None:
        tag = (
            bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL
            if final
            else bindings.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
        )
        self._file.write(
            bindings.crypto_secretstream_xchacha20poly1305_push(self._state, frame, self._line, tag)
        )


class SealedReader:
    """Reads a sealed stream from a file; `name` is what refusals call it."""

    def __init__(self, file: IO[bytes], name: str, passphrase: str | None = None, key: bytes = b"") -> None:
        """With the passphrase, or with the `key` of the writer."""
        self._file = file
        self._name = name
        self._line = _read_line(file, name)
        head = _head(self._line, name)
        if passphrase is not None:
            key = stretch(passphrase, bytes.fromhex(head.salt), head.cost)
        start = file.read(_START_BYTES)
        if len(start) < _START_BYTES:
            self._refuse_cut()
        self._state = bindings.crypto_secretstream_xchacha20poly1305_state()
        bindings.crypto_secretstream_xchacha20poly1305_init_pull(self._state, start, key)
        self._held = b""
        self._ended = False
        first = file.read(_MARK_BYTES)
        if len(first) < _MARK_BYTES:
            self._refuse_cut()
        if self._pull(first) is None:
            raise KeyRefusedError(
                f"the passphrase does not open {name}, or its beginning was changed; try another passphrase"
            )

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer than `size` only at the end."""
        while len(self._held) < size and not self._ended:
            self._held += self._next_frame()
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def finish(self) -> None:
        """Read up to the marked end. Only then is it certain that the stream is complete."""
        while not self._ended:
            self._next_frame()
        self._held = b""

    def _next_frame(self) -> bytes:
        sealed = self._file.read(FRAME_BYTES + _MARK_BYTES)
        if not sealed:
            self._refuse_cut()
        opened = self._pull(sealed)
        if opened is None:
            if len(sealed) < FRAME_BYTES + _MARK_BYTES:
                self._refuse_cut()
            raise MalformedError(f"{self._name} is damaged: a part of it was changed; use another copy")
        if self._ended and self._file.read(1):
            raise MalformedError(f"{self._name} goes on after its end; use another copy")
        return opened

    def _pull(self, sealed: bytes) -> bytes | None:
        """Return what a frame holds; None for one that was changed, or is not of this stream."""
        try:
            opened, tag = bindings.crypto_secretstream_xchacha20poly1305_pull(self._state, sealed, self._line)
        except (CryptoError, RuntimeError, ValueError):
            return None
        self._ended = tag == bindings.crypto_secretstream_xchacha20poly1305_TAG_FINAL
        return opened

    def _refuse_cut(self) -> NoReturn:
        raise MalformedError(f"{self._name} is cut short or damaged at its end; use another copy")


def _read_line(file: IO[bytes], name: str) -> bytes:
    if file.read(len(MAGIC)) != MAGIC:
        raise MalformedError(f"{name} is not a backup made by Comity; name the right file")
    line = file.readline(_LINE_LIMIT)
    if not line.endswith(b"\n"):
        raise MalformedError(f"{name} is cut short or damaged at its beginning; use another copy")
    return line


def _head(line: bytes, name: str) -> StreamHead:
    try:
        version = msgspec.json.decode(line, type=_StreamPreface).version
        if version > VERSION:
            raise MalformedError(
                f"{name} has format {version}, this release knows up to {VERSION}; upgrade comity to read it"
            )
        head = msgspec.json.decode(line, type=StreamHead)
        if len(bytes.fromhex(head.salt)) == _SALT_BYTES:
            return head
    except (msgspec.MsgspecError, InvalidError, ValueError):
        pass
    raise MalformedError(f"{name} is damaged at its beginning; use another copy")
