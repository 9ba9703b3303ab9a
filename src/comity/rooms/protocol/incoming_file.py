"""The receiver of one file.

    opening    there is room for it        -> receiving
    receiving  all chunks and a complete   -> finishing
               a hash is wrong three times -> failed
    finishing  the hash of the whole fits  -> completed, else failed

- A chunk is acknowledged after it was written, never before. Chunks may come in any order and twice.
- A chunk has exactly the length that its place demands.
- Frames are acknowledged some at a time: the number that follows the last one in order says it all.
- A finished or failed file takes no more chunks.
"""

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from comity.rooms.protocol import files
from comity.rooms.protocol.files import FileAnswer, FileOffer, FilePeer, FileTransfer
from comity.wire.errors import InvalidError
from comity.wire.machine import Effect

MAX_UNWRITTEN: Final = 32 * 1024 * 1024
MAX_WRONG_HASHES: Final = 3
ACK_EVERY: Final = 512 * 1024
"""Bytes of frames between two acknowledgements: an acknowledgement costs both sides as much as a chunk does."""

ACK_SECONDS: Final = 0.05
"""On a slow link each chunk is acknowledged that comes so long after the last one."""

MAX_PROGRESS_EVENTS: Final = 100


class Receiving(enum.Enum):
    OPENING = "opening"
    RECEIVING = "receiving"
    FINISHING = "finishing"
    ENDED = "ended"


class IncomingFile(FileTransfer):
    """`token` is 8 hexadecimal digits for the name of the spool file; `wall` gives wall time."""

    direction = "incoming"

    def __init__(
        self, offer: FileOffer, peer: FilePeer, *, spooled: bool, token: str, wall: Callable[[], float]
    ) -> None:
        super().__init__(offer, peer, "receiving", wall)
        self.spooled = spooled
        self.spool_path: str | None = None
        self.file_hash = offer.file_hash
        self._spool_name = files.spool_name(offer.transfer_id, int(self.created_at * 1000), token)
        self._phase = Receiving.OPENING
        self._have = bytearray(offer.total_chunks)
        self._count = 0
        self._bytes = 0
        self._next = 0
        self._unwritten: dict[int, int] = {}
        self._unwritten_bytes = 0
        self._unacknowledged = 0
        self._acknowledged_at = self.created_at
        self._wrong_hashes = 0
        self._claimed_hash: str | None = None
        self._complete = False

    @classmethod
    def restored(
        cls, record: dict[str, Any], chunks: Mapping[int, bytes], *, wall: Callable[[], float]
    ) -> Self:
        """Return a transfer of an earlier process, with what it had written, by sequence and hash."""
        try:
            offer, peer = files.read_record(record)
            incoming = cls(offer, peer, spooled=record["spooled"], token="", wall=wall)
            incoming.created_at = float(record["created_at"])
            for sequence, digest in chunks.items():
                if 0 <= sequence < offer.total_chunks and not incoming._have[sequence]:
                    incoming._take(sequence, digest)
            incoming.spool_path = record["spool_path"]
            incoming._phase = Receiving.RECEIVING
            if record["status"] == "completed":
                incoming._phase = Receiving.ENDED
                incoming.status = "completed"
                incoming.completed_at = float(record["completed_at"])
                incoming.file_hash = record["received_hash"]
        except (KeyError, TypeError, ValueError):
            raise InvalidError("the record of an incoming transfer cannot be read") from None
        return incoming

    @property
    def is_over(self) -> bool:
        return self._phase is Receiving.ENDED

    @property
    def bytes_unwritten(self) -> int:
        return self._unwritten_bytes

    def begin(self) -> list[Effect]:
        offer = self.offer
        return [files.OpenIncoming(offer.transfer_id, offer.total_bytes, self.spooled, self._spool_name)]

    def offered_again(self, offer: FileOffer, peer: FilePeer) -> list[Effect]:
        """Answer a second offer of the same file by the same peer with the missing chunks."""
        known = self.offer
        said = ("total_bytes", "chunk_bytes", "frames", "file_hash")
        same = all(getattr(offer, name) == getattr(known, name) for name in said)
        if not same or self.status in {"cancelled", "failed"}:
            reason = "transfer_id in use" if not same else f"transfer {self.status}"
            return [files.first_nack(peer, known.transfer_id, reason)]
        self.peer = peer
        return [] if self._phase is Receiving.OPENING else [self._accept()]

    def chunk(self, sequence: Any, data: bytes | memoryview, digest: bytes | None) -> list[Effect]:
        """`digest` is what the sender says the data's SHA-256 is; None when it says nothing."""
        if self.status == "completed":
            return [self._ack(sequence)] if type(sequence) is int else []
        if self._phase is not Receiving.RECEIVING:
            return self._reject(sequence, self.last_error or "unknown_transfer", expected=0)
        if type(sequence) is not int or not 0 <= sequence < self.offer.total_chunks:
            return self._reject(sequence, "out_of_range_seq")
        if self._have[sequence]:
            return [self._ack(sequence)]
        if sequence in self._unwritten:
            return []
        if len(data) != self.offer.chunk_length(sequence):
            return self._reject(sequence, "invalid_chunk_data")
        if self._unwritten_bytes + len(data) > MAX_UNWRITTEN:
            return self._reject(sequence, "overrun")
        self._unwritten[sequence] = len(data)
        self._unwritten_bytes += len(data)
        offset = sequence * self.offer.chunk_bytes
        return [files.StoreChunk(self.offer.transfer_id, sequence, offset, data, digest)]

    def complete(self, payload: dict[str, Any]) -> list[Effect]:
        if self.status == "completed":
            return [self._complete_ack()]
        if self._phase is Receiving.FINISHING:
            return []
        if self._phase is not Receiving.RECEIVING:
            return [self._nack(0, self.last_error or "unknown_transfer")]
        self._complete = True
        claimed = payload.get("file_hash")
        self._claimed_hash = claimed if isinstance(claimed, str) else None
        if self._count < self.offer.total_chunks:
            if self._unwritten:
                return []
            return [self._nack(self._next, "missing_chunks")]
        return self._finish()

    def resume_state(self) -> list[Effect]:
        return [self._message("file.resume_state", next_seq=self._next, status=self.status)]

    def answer(self, event: FileAnswer) -> list[Effect]:
        if self._phase is Receiving.ENDED:
            return []
        self.updated_at = self._wall()
        if isinstance(event, files.IncomingOpened) and self._phase is Receiving.OPENING:
            return self._opened(event)
        if isinstance(event, files.ChunkStored):
            return self._stored(event)
        if isinstance(event, files.ChunkDiffers):
            return self._differs(event)
        if isinstance(event, files.IncomingFinished) and self._phase is Receiving.FINISHING:
            return self._finished(event)
        return self.fail(event.reason) if isinstance(event, files.StoreFailed) else []

    def fail(self, reason: str) -> list[Effect]:
        nack = self._nack(self._next, reason)
        return [nack, *self._end("failed", reason), self._failed(reason)]

    def _opened(self, event: files.IncomingOpened) -> list[Effect]:
        self._phase = Receiving.RECEIVING
        self.spool_path = event.spool_path
        chunks = self.offer.total_chunks
        report = self._report_file("file_offer_received", total_chunks=chunks, next_seq=self._next)
        return [*self._keep(), report, self._accept()]

    def _report_file(self, kind: str, **members: Any) -> Effect:
        offer, peer = self.offer, self.peer
        sender = {"from_uuid": peer.uuid, "from_stream_id": peer.stream_id}
        about = {"name": offer.name, "mime": offer.mime, "total_bytes": offer.total_bytes}
        return self._report(kind, **sender, **about, **members)

    def _stored(self, event: files.ChunkStored) -> list[Effect]:
        length = self._unwritten.pop(event.sequence, None)
        if length is None:
            return []
        self._unwritten_bytes -= length
        if self._have[event.sequence]:
            return []
        self._take(event.sequence, event.digest)
        self._unacknowledged += length
        effects: list[Effect] = []
        if self._tells_progress(event.sequence):
            effects.append(self._progress(event.sequence))
        if self._acknowledges(event.sequence):
            self._unacknowledged = 0
            self._acknowledged_at = self.updated_at
            effects.append(self._ack(event.sequence))
        if self._complete and self._count == self.offer.total_chunks:
            effects += self._finish()
        return effects

    def _acknowledges(self, sequence: int) -> bool:
        if not self.offer.frames or self._unacknowledged >= ACK_EVERY:
            return True
        if abs(self.updated_at - self._acknowledged_at) >= ACK_SECONDS:
            return True
        in_order, total = sequence + 1 == self._next, self.offer.total_chunks
        return not in_order or self._count == total or sequence + 1 == total

    def _tells_progress(self, sequence: int) -> bool:
        """Each chunk of a small file; of a large one about every hundredth part."""
        total = self.offer.total_chunks
        step = -(-total // MAX_PROGRESS_EVENTS)
        return sequence % step == 0 or self._count == total

    def _differs(self, event: files.ChunkDiffers) -> list[Effect]:
        length = self._unwritten.pop(event.sequence, None)
        if length is None:
            return []
        self._unwritten_bytes -= length
        self._wrong_hashes += 1
        rejected = self._reject(event.sequence, "chunk_hash_mismatch")
        if self._wrong_hashes < MAX_WRONG_HASHES:
            return rejected
        return rejected + self.fail("chunk_hash_mismatch")

    def _finish(self) -> list[Effect]:
        if self.offer.frames:
            computed = files.chunks_hash(self._digests)
            if computed != self._claimed_hash:
                return self.fail("file hash mismatch")
            self.file_hash = computed
        self._phase = Receiving.FINISHING
        return [files.FinishIncoming(self.offer.transfer_id, not self.offer.frames)]

    def _finished(self, event: files.IncomingFinished) -> list[Effect]:
        if not self.offer.frames and event.sha256 != self.offer.file_hash:
            return self.fail("file hash mismatch")
        self._phase = Receiving.ENDED
        self.status = "completed"
        self.completed_at = self._wall()
        report = self._report_file(
            "file_received", file_hash=self.file_hash, spooled=self.spooled, spool_path=self.spool_path
        )
        return [*self._keep(), report, self._complete_ack()]

    def _take(self, sequence: int, digest: bytes) -> None:
        self._have[sequence] = 1
        self._count += 1
        self._bytes += self.offer.chunk_length(sequence)
        if self.offer.frames:
            self._digests[sequence * files.DIGEST_BYTES : (sequence + 1) * files.DIGEST_BYTES] = digest
        while self._next < self.offer.total_chunks and self._have[self._next]:
            self._next += 1

    def _reject(self, sequence: Any, reason: str, expected: int | None = None) -> list[Effect]:
        nack = self._nack(self._next if expected is None else expected, reason)
        rejected = self._report("file_chunk_rejected", seq=files.shown_sequence(sequence), reason=reason)
        return [rejected] if reason == "overrun" else [nack, rejected]

    def _end(self, status: str, error: str | None) -> list[Effect]:
        self._phase = Receiving.ENDED
        self.status = status
        self.last_error = error
        self.updated_at = self._wall()
        self._unwritten.clear()
        self._unwritten_bytes = 0
        self._digests = bytearray()
        transfer_id = self.offer.transfer_id
        return [files.DropIncoming(transfer_id), files.ForgetTransfer(transfer_id, "incoming")]

    def _accept(self) -> Effect:
        return self._message("file.accept", next_seq=self._next)

    def _nack(self, expected: int, reason: str) -> Effect:
        return self._message("file.nack", expected_seq=expected, reason=reason)

    def _progress(self, sequence: int) -> Effect:
        total = self.offer.total_bytes
        return self._report("file_chunk_received", **self._received_up_to(sequence), total_bytes=total)

    def _ack(self, sequence: int) -> Effect:
        return self._message("file.ack", **self._received_up_to(sequence))

    def _received_up_to(self, sequence: int) -> dict[str, Any]:
        return {"seq": sequence, "next_seq": self._next, "received_bytes": self._bytes}

    def _complete_ack(self) -> Effect:
        total = self.offer.total_bytes
        return self._message("file.complete_ack", file_hash=self.file_hash, total_bytes=total)

    def _keep(self) -> list[Effect]:
        """Store the record. A file that is only in memory has none, because both end with the process."""
        if not self.spooled:
            return []
        return [files.KeepTransfer(self.offer.transfer_id, "incoming", self._record())]

    def _record(self) -> dict[str, Any]:
        return {
            **self._shared_record(),
            "stream_id": self.peer.stream_id,
            "status": self.status,
            "spooled": self.spooled,
            "spool_path": self.spool_path,
            "completed_at": self.completed_at,
            "received_hash": self.file_hash,
        }

    def summary(self) -> dict[str, Any]:
        own = {
            "retries_total": 0,
            "acked_chunks": self._count,
            "source": "spool" if self.spooled else "memory",
            "spooled": self.spooled,
            "spool_path": self.spool_path,
            "source_path": None,
            "target_uuid": None,
            "target_stream_id": None,
            "from_uuid": self.peer.uuid,
            "from_stream_id": self.peer.stream_id,
        }
        return self._summary(own, self.file_hash, has_data=self.status == "completed")
