"""The events and the effects of the machines of files (peers 4).

Reading, writing and hashing are the shell's: it does them in threads and answers with the events below, under
the same transfer id. Answers may come in any order and late; the machines know what they still wait for.
"""

import hashlib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

from msgspec import Struct
from msgspec.structs import asdict

from comity.rooms.protocol.events import iso_moment, moment_or_none
from comity.rooms.protocol.tool_table import MAX_CHUNK, MIN_CHUNK
from comity.wire.canonical import js_stringify
from comity.wire.errors import InvalidError
from comity.wire.machine import Effect, Event

# The shape of a file on its way: offers, chunks that fit a message, names, the hash made of chunk hashes (peers 4).


DEFAULT_CHUNK: Final = 65_536
_PAGE: Final = 4096
MAX_ID_LENGTH: Final = 128
MAX_NAME_LENGTH: Final = 200
MAX_MIME_LENGTH: Final = 127
HASH_TEXT: Final = re.compile(r"[0-9a-f]{64}")
CHUNKS_PREFIX: Final = "chunks:"
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_PLAIN_MIME: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?")
_RESERVED: Final = frozenset((".", ".."))
DIGEST_BYTES: Final = 32
DEFAULT_MIME: Final = "application/octet-stream"


class FileOffer(Struct, frozen=True, kw_only=True):
    """`file_hash` is None when it comes at the end. `frames`: chunks come as frames, hashed once each."""

    transfer_id: str
    name: str
    mime: str
    total_bytes: int
    total_chunks: int
    chunk_bytes: int
    file_hash: str | None = None
    frames: bool = False

    def chunk_length(self, sequence: int) -> int:
        return min(self.chunk_bytes, self.total_bytes - sequence * self.chunk_bytes)

    def to_payload(self) -> dict[str, Any]:
        payload = asdict(self)
        del payload["frames"]
        return {**payload, "hash": "chunks"} if self.frames else payload


def read_transfer_id(value: Any) -> str | None:
    """None for what cannot be a transfer id: no text, too long, or with characters that are not shown."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID_LENGTH or not value.isprintable():
        return None
    return value


def shown_sequence(value: Any) -> int | None:
    """Return the number of a chunk as a peer said it; None for what is no number."""
    return value if type(value) is int and abs(value) < 2**63 else None


def read_offer(payload: dict[str, Any], *, max_bytes: int, takes_frames: bool) -> FileOffer:
    """Raise InvalidError with the reason that the sender gets."""
    transfer_id = read_transfer_id(payload.get("transfer_id"))
    if transfer_id is None:
        raise InvalidError("invalid transfer_id")
    total_bytes = payload.get("total_bytes")
    if type(total_bytes) is not int or not 1 <= total_bytes <= max_bytes:
        raise InvalidError(f"total_bytes must be 1..{max_bytes}")
    chunk_bytes = payload.get("chunk_bytes")
    if type(chunk_bytes) is not int or not MIN_CHUNK <= chunk_bytes <= MAX_CHUNK:
        raise InvalidError(f"chunk_bytes must be {MIN_CHUNK}..{MAX_CHUNK}")
    total_chunks = payload.get("total_chunks")
    if type(total_chunks) is not int or total_chunks != chunk_count(total_bytes, chunk_bytes):
        raise InvalidError("invalid total_chunks")
    frames = payload.get("hash") == "chunks" and takes_frames
    file_hash = payload.get("file_hash")
    if not frames and (not isinstance(file_hash, str) or not HASH_TEXT.fullmatch(file_hash.lower())):
        raise InvalidError("invalid file_hash: it must be the SHA-256 in hexadecimal digits")
    mime = payload.get("mime")
    return FileOffer(
        transfer_id=transfer_id,
        name=shown_name(payload.get("name")) or transfer_id,
        mime=mime if isinstance(mime, str) and is_mime(mime) else DEFAULT_MIME,
        total_bytes=total_bytes,
        total_chunks=total_chunks,
        chunk_bytes=chunk_bytes,
        file_hash=None if frames else str(file_hash).lower(),
        frames=frames,
    )


def chunk_count(total_bytes: int, chunk_bytes: int) -> int:
    return -(-total_bytes // chunk_bytes)


def is_mime(text: str) -> bool:
    return len(text) <= MAX_MIME_LENGTH and _PLAIN_MIME.fullmatch(text) is not None


def fitted_chunk(wanted: int | None, *, max_message: int, frames: bool, overhead: int) -> int:
    """Return the chunk size to use: `wanted`, or what a message of the link holds beside `overhead` bytes of its own. Where
    nobody asked for a size, a frame has whole pages, as many as fit: each chunk costs both sides the same work.
    """
    room = max_message - overhead if frames else (max_message - overhead) // 4 * 3
    if wanted is None:
        wanted = max(room // _PAGE * _PAGE, DEFAULT_CHUNK) if frames else DEFAULT_CHUNK
    size = min(max(wanted, MIN_CHUNK), MAX_CHUNK, room)
    if size < MIN_CHUNK:
        raise InvalidError(f"the link carries at most {max_message} bytes in a message, too little for files")
    return size


def chunk_payload_overhead(transfer_id: str, total_chunks: int) -> int:
    """Bytes of the payload of a `file.chunk` beside its data."""
    empty = {"transfer_id": transfer_id, "seq": total_chunks, "data_base64": "", "chunk_hash": "0" * 64}
    return len(js_stringify(empty))


def shown_name(value: Any) -> str:
    """Return the last part of a name, without what is not shown; empty when nothing is left."""
    if not isinstance(value, str):
        return ""
    last = value[-4096:].replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter for letter in last if letter.isprintable()).strip(" .")
    clean = unicodedata.normalize("NFC", clean)[:MAX_NAME_LENGTH]
    return "" if clean in _RESERVED else clean


def spool_name(transfer_id: str, now_ms: int, token: str) -> str:
    """Return the name of a spool file; `token` is 8 hexadecimal digits."""
    safe = _UNSAFE.sub("_", transfer_id)[:120]
    return f"incoming_{safe}_{now_ms}_spool_{token}.bin"


def chunks_hash(digests: bytes | bytearray) -> str:
    """Return the hash of a whole file that is made of the hashes of its chunks, in their order (ruling 55)."""
    return CHUNKS_PREFIX + hashlib.sha256(digests).hexdigest()


# Which chunks of an outgoing file are acknowledged, under way or being read, and how many may be.


FIRST_WINDOW: Final = 2 * 1024 * 1024
LAST_WINDOW: Final = 16 * 1024 * 1024
QUICK_ACK: Final = 0.002
"""An acknowledgement that takes longer lets the window grow: up to a thousand MiB a second fit into it."""

READ_AHEAD: Final = 1024 * 1024


class FileWindow:
    """`base` is the first chunk that is not acknowledged, `sent_end` follows the last one that was ever sent."""

    def __init__(self, offer: FileOffer) -> None:
        self.base = 0
        self.acked_count = 0
        self.sent_end = 0
        self.bytes_under_way = 0
        self.ack_time = 0.0
        self.link_is_full = False
        self._offer = offer
        self._acked = bytearray(offer.total_chunks)
        self._next = 0
        self._under_way: dict[int, float | None] = {}
        self._reading: set[int] = set()
        self._again: set[int] = set()

    @property
    def size(self) -> int:
        return int(min(LAST_WINDOW, max(FIRST_WINDOW, FIRST_WINDOW * self.ack_time / QUICK_ACK)))

    @property
    def is_all_acked(self) -> bool:
        return self.acked_count == self._offer.total_chunks

    @property
    def is_half_read(self) -> bool:
        """Whether half of what may be read at a time has come, or more."""
        return len(self._reading) * self._offer.chunk_bytes <= READ_AHEAD // 2

    def is_being_read(self, sequence: int) -> bool:
        """Under way, and not sent yet or to be sent again."""
        return self._under_way.get(sequence, 0.0) is None

    def can_be_acked(self, sequence: int, following: int) -> bool:
        """By an acknowledgement of this chunk that says that `following` is the next one in order."""
        if not (0 <= sequence < self.sent_end and 0 <= following <= self.sent_end):
            return False
        return bool(self._acked[sequence]) or sequence in self._under_way or sequence < following

    def sent_until(self, moment: float) -> list[int]:
        """Return those under way that were sent at this time or before."""
        return sorted(sequence for sequence, at in self._under_way.items() if at is not None and at <= moment)

    def take_reads(self) -> list[int]:
        """Return as many as the window still takes, at least one chunk; they are being read from now on."""
        offer, size = self._offer, self.size
        taken: list[int] = []
        while self._next < offer.total_chunks and not self.link_is_full:
            length = offer.chunk_length(self._next)
            if self._under_way and self.bytes_under_way + length > size:
                break
            if len(self._reading) * offer.chunk_bytes >= READ_AHEAD:
                break
            if not self._acked[self._next]:
                self._under_way[self._next] = None
                self.bytes_under_way += length
                self._reading.add(self._next)
                taken.append(self._next)
            self._next += 1
        return taken

    def take_again(self, sequence: int) -> bool:
        """Read it again; False if it is being read already, was acknowledged, or was never sent."""
        if self._under_way.get(sequence) is None:
            return False
        self._under_way[sequence] = None
        self._reading.add(sequence)
        self._again.add(sequence)
        return True

    def mark_sent(self, sequence: int, now: float) -> None:
        self._under_way[sequence] = now
        self._reading.discard(sequence)
        self.sent_end = max(self.sent_end, sequence + 1)

    def acknowledge(self, sequence: int, now: float) -> None:
        """One chunk. The time it took counts, unless it was sent twice: nobody knows which one was meant."""
        sent_at = self._under_way.get(sequence)
        if sent_at is not None and sequence not in self._again:
            took = now - sent_at
            self.ack_time = took if not self.ack_time else 0.875 * self.ack_time + 0.125 * took
        self._take_ack(sequence)

    def acknowledge_up_to(self, following: int) -> None:
        while self.base < following:
            self._take_ack(self.base)

    def restart_at(self, start: int) -> None:
        """The receiver has everything before `start`, and perhaps nothing after it."""
        self.clear()
        self._acked = bytearray(b"\x01" * start + bytes(self._offer.total_chunks - start))
        self.acked_count = self.base = self._next = start
        self.sent_end = max(self.sent_end, start)

    def clear(self) -> None:
        """Nothing is under way any more."""
        self._under_way.clear()
        self.bytes_under_way = 0
        self._reading.clear()
        self._again.clear()

    def _take_ack(self, sequence: int) -> None:
        if sequence in self._under_way:
            del self._under_way[sequence]
            self.bytes_under_way -= self._offer.chunk_length(sequence)
            self._reading.discard(sequence)
            self._again.discard(sequence)
        if not self._acked[sequence]:
            self._acked[sequence] = 1
            self.acked_count += 1
        while self.base < self._offer.total_chunks and self._acked[self.base]:
            self.base += 1


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


# What the sender and the receiver of a file have in common.


class FileTransfer(ABC):
    """`wall` gives wall time."""

    direction: ClassVar[str]

    def __init__(self, offer: FileOffer, peer: FilePeer, status: str, wall: Callable[[], float]) -> None:
        self.offer = offer
        self.peer = peer
        self.status = status
        self.last_error: str | None = None
        self.created_at = self.updated_at = wall()
        self.completed_at: float | None = None
        self._wall = wall
        self._digests = bytearray(DIGEST_BYTES * offer.total_chunks if offer.frames else 0)

    def _shared_record(self) -> dict[str, Any]:
        """What is stored of a transfer in either direction."""
        return {
            **self.offer.to_payload(),
            "frames": self.offer.frames,
            "owner": self.peer.owner,
            "created_at": self.created_at,
        }

    def cancel(self, *, tell: bool) -> list[Effect]:
        message = [self._message("file.cancel")] if tell else []
        return [*message, *self._end("cancelled", "cancelled")]

    @abstractmethod
    def _end(self, status: str, error: str | None) -> list[Effect]: ...

    def _message(self, kind: str, **members: Any) -> Effect:
        return ToPeer(self.peer.uuid, kind, {"transfer_id": self.offer.transfer_id, **members})

    def _report(self, kind: str, **members: Any) -> Effect:
        return Report(kind, {"transfer_id": self.offer.transfer_id, **members})

    def _failed(self, reason: str) -> Effect:
        return self._report("file_transfer_failed", direction=self.direction, reason=reason)

    def _summary(self, own: dict[str, Any], file_hash: str | None, *, has_data: bool) -> dict[str, Any]:
        """Return the members of the contract, in its order (peers 1.6); `own` are those of one direction."""
        offer = self.offer
        return {
            "transfer_id": offer.transfer_id,
            "direction": self.direction,
            "status": self.status,
            "name": offer.name,
            "mime": offer.mime,
            "total_bytes": offer.total_bytes,
            "total_chunks": offer.total_chunks,
            "chunk_bytes": offer.chunk_bytes,
            **own,
            "file_hash": file_hash,
            "created_at": iso_moment(self.created_at),
            "updated_at": iso_moment(self.updated_at),
            "completed_at": moment_or_none(self.completed_at),
            "last_error": self.last_error,
            "has_data": has_data,
        }


def read_record(record: dict[str, Any]) -> tuple[FileOffer, FilePeer]:
    """Return what a stored record says of the offer and the peer, who is not linked yet."""
    offer = FileOffer(**{name: record[name] for name in FileOffer.__struct_fields__})
    stream_id = record.get("stream_id")
    return offer, FilePeer(
        uuid="", owner=record["owner"], stream_id=stream_id, frames=offer.frames, max_message=0
    )


def first_nack(peer: FilePeer, transfer_id: str, reason: str) -> Effect:
    """To a peer whose transfer is none of ours: nothing of it is here."""
    return ToPeer(peer.uuid, "file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason})
