"""A stream of any length under a passphrase: Argon2id makes the key, secretstream hides and authenticates it.

    comity sealed
    {"version":1,"cost":{...},"salt":HEX}
    24 bytes, a frame that holds nothing, frames of 1 MiB, a last frame

- Each frame depends on all frames before it, and the last one is marked. So a stream that was cut, reordered or extended
  is refused. Do not use what was read before `SealedReader` has reached the end.
- The first frame can be opened only with the right passphrase. So a wrong passphrase and a damaged stream get different
  errors.
- The line with version, cost and salt is authenticated with every frame.
"""

import secrets
from typing import IO, Final, NoReturn

import msgspec
from msgspec import Struct

from comity.core.errors import InvalidError, KeyRefusedError, MalformedError
from comity.keys.sealing import SealingCost, stretch

MAGIC: Final = b"comity sealed\n"
VERSION: Final = 1
FRAME_BYTES: Final = 1024 * 1024

_MARK_BYTES: Final = 17  # what secretstream adds to each frame
_START_BYTES: Final = 24
_SALT_BYTES: Final = 16
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
        from nacl import bindings

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
        from nacl import bindings

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
        """With the passphrase, or with the `key` of whoever has just written it."""
        from nacl import bindings

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
        """The next bytes, fewer than `size` only at the end."""
        while len(self._held) < size and not self._ended:
            self._held += self._next_frame()
        taken, self._held = self._held[:size], self._held[size:]
        return taken

    def finish(self) -> None:
        """Read what is left, up to the marked end: only now is the stream known to be whole."""
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
        """What a frame holds; None for one that was changed, or is not of this stream."""
        from nacl import bindings
        from nacl.exceptions import CryptoError

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
