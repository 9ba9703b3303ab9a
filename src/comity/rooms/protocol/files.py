"""What the machines of files hear, and what they want done (peers 4).

Reading, writing and hashing are the shell's: it does them in threads and answers with the events below, under
the same transfer id. Answers may come in any order and late; the machines know what they still wait for.
"""

from typing import Any

from msgspec import Struct

from comity.wire.machine import Effect, Event


class FilePeer(Struct, frozen=True, kw_only=True):
    """The other end of a transfer. `owner` names the same peer again after it reconnected."""

    uuid: str
    owner: str
    stream_id: str | None
    frames: bool
    max_message: int


class FileSource(Struct, frozen=True, kw_only=True):
    """`kind`: `memory` (the shell has the bytes, only while the process runs), `path` or `spool`."""

    kind: str
    total_bytes: int
    path: str | None = None


class ToPeer(Effect, frozen=True):
    """A bridge envelope for one peer; the session seals it."""

    uuid: str
    kind: str
    payload: dict[str, Any]


class FrameToPeer(Effect, frozen=True):
    """A file frame for one peer; the session seals it."""

    uuid: str
    mark: bytes
    sequence: int
    digest: bytes
    data: bytes


class ReadChunk(Effect, frozen=True):
    """Read a range of the source and hash it; answered by `ChunkRead` or `SourceFailed`."""

    transfer_id: str
    sequence: int
    offset: int
    length: int


class HashSource(Effect, frozen=True):
    """The SHA-256 of the whole source; answered by `SourceHashed` or `SourceFailed`."""

    transfer_id: str


class CloseSource(Effect, frozen=True):
    """The source is not needed any more."""

    transfer_id: str


class OpenIncoming(Effect, frozen=True):
    """Make room for a file: on disk when `spooled`, else in memory; answered by `IncomingOpened` or `StoreFailed`."""

    transfer_id: str
    total_bytes: int
    spooled: bool
    spool_name: str


class StoreChunk(Effect, frozen=True):
    """Hash the data, compare with `digest` unless that is None, and write it at `offset`; answered by
    `ChunkStored`, `ChunkDiffers` or `StoreFailed`. What was answered survives the death of the process, together
    with sequence and hash, if the transfer is spooled.
    """

    transfer_id: str
    sequence: int
    offset: int
    data: bytes | memoryview
    digest: bytes | None


class FinishIncoming(Effect, frozen=True):
    """All is written: make it durable; with `hashed` the SHA-256 of the whole. Answered by `IncomingFinished`."""

    transfer_id: str
    hashed: bool


class DropIncoming(Effect, frozen=True):
    """Forget the bytes of an incoming file, and its spool."""

    transfer_id: str


class KeepTransfer(Effect, frozen=True):
    """Remember a transfer across a restart; `record` is JSON. It replaces what was kept under the id before."""

    transfer_id: str
    direction: str
    record: dict[str, Any]


class ForgetTransfer(Effect, frozen=True):
    transfer_id: str
    direction: str


class Report(Effect, frozen=True):
    """Tell the owner of the session: an event of this type with these members. `size` is what its data weighs;
    `promised`: it must not be lost before it was read.
    """

    kind: str
    members: dict[str, Any]
    size: int = 0
    promised: bool = False


class FileAnswer(Event, frozen=True):
    """An answer of the shell about one transfer."""

    transfer_id: str


class ChunkRead(FileAnswer, frozen=True):
    sequence: int
    data: bytes
    digest: bytes


class SourceHashed(FileAnswer, frozen=True):
    sha256: str


class SourceFailed(FileAnswer, frozen=True):
    reason: str


class IncomingOpened(FileAnswer, frozen=True):
    spool_path: str | None = None


class ChunkStored(FileAnswer, frozen=True):
    sequence: int
    digest: bytes


class ChunkDiffers(FileAnswer, frozen=True):
    """The data does not have the hash that came with it; nothing was written."""

    sequence: int


class StoreFailed(FileAnswer, frozen=True):
    reason: str


class IncomingFinished(FileAnswer, frozen=True):
    sha256: str | None = None
