"""The sender of one file.

    hashing    the whole SHA-256 is known (only for peers that need it first)  -> offered
    offered    accept                   -> sending
               nack, or no answer       -> failed
    sending    all acknowledged         -> completing (after the chunk hashes that are still missing were read)
               no progress              -> asks where the receiver is, sends again; too often -> failed
    completing the receiver confirms    -> completed
    paused     the peer is gone; an offer is made again when it is back

- How much is under way at a time is the affair of `FileWindow`.
- A chunk that was not sent cannot be acknowledged: such an ack is reported and ignored.
- Completed means that the receiver confirmed the hash of the whole (peers 4).
"""

import base64
import enum
from collections.abc import Callable
from typing import Any, Final, Self

from msgspec.structs import replace

from comity.rooms.protocol import files
from comity.rooms.protocol.channel import transfer_mark
from comity.rooms.protocol.files import FileAnswer, FileOffer, FilePeer, FileTransfer
from comity.rooms.protocol.loose_values import printable
from comity.wire.errors import InvalidError
from comity.wire.machine import CancelTimer, Effect, SetTimer

_MAX_HASH_READS: Final = 8
_WORTH_ANOTHER_TRY: Final = frozenset(("chunk_hash_mismatch", "invalid_chunk_data", "missing_chunks"))


class Sending(enum.Enum):
    HASHING = "hashing"
    OFFERED = "offered"
    SENDING = "sending"
    COMPLETING = "completing"
    PAUSED = "paused"
    ENDED = "ended"


class OutgoingFile(FileTransfer):
    """`ack_timeout` is in seconds; `wall` gives wall time."""

    direction = "outgoing"

    def __init__(
        self,
        offer: FileOffer,
        source: files.FileSource,
        peer: FilePeer,
        *,
        ack_timeout: float,
        max_retries: int,
        wall: Callable[[], float],
    ) -> None:
        super().__init__(offer, peer, "offered", wall)
        self.source = source
        self.retries_total = 0
        self._ack_timeout = ack_timeout
        self._max_retries = max_retries
        self._phase = Sending.PAUSED
        self._mark = transfer_mark(offer.transfer_id)
        self._window = files.FileWindow(offer)
        self._hashed = bytearray(offer.total_chunks if offer.frames else 0)
        self._hash_reads: set[int] = set()
        self._retries = 0
        self._furthest = 0
        self._forgotten = 0
        self._asked_at = 0.0

    @classmethod
    def restored(cls, record: dict[str, Any], **given: Any) -> Self:
        """Return a transfer of an earlier process; it is paused until its peer is there again."""
        try:
            offer, peer = files.read_record(record)
            source = files.FileSource(
                kind=record["source"], total_bytes=offer.total_bytes, path=record["source_path"]
            )
            outgoing = cls(offer, source, peer, **given)
            outgoing.created_at = float(record["created_at"])
            outgoing.retries_total = int(record["retries_total"])
        except (KeyError, TypeError, ValueError):
            raise InvalidError("the record of an outgoing transfer cannot be read") from None
        outgoing.last_error = "link lost"
        return outgoing

    @property
    def phase(self) -> Sending:
        return self._phase

    @property
    def is_over(self) -> bool:
        return self._phase is Sending.ENDED

    @property
    def acked_bytes(self) -> int:
        return min(self.offer.total_bytes, self._window.acked_count * self.offer.chunk_bytes)

    @property
    def window(self) -> int:
        return self._window.size

    @property
    def bytes_in_flight(self) -> int:
        return self._window.bytes_under_way

    def begin(self, now: float) -> list[Effect]:
        """Start, or start again after a pause or a failure."""
        self.status = "offered"
        self.last_error = None
        self._retries = 0
        self._window.link_is_full = False
        self.updated_at = self._wall()
        keep: list[Effect] = []
        if self.source.kind != "memory":
            keep = [files.KeepTransfer(self.offer.transfer_id, "outgoing", self._record())]
        if self.offer.file_hash is None and not self.offer.frames:
            self._phase = Sending.HASHING
            return [*keep, files.HashSource(self.offer.transfer_id)]
        return [*keep, *self._make_offer(now)]

    def change_limits(self, ack_timeout: float | None, max_retries: int | None) -> None:
        if ack_timeout is not None:
            self._ack_timeout = ack_timeout
        if max_retries is not None:
            self._max_retries = max_retries

    def restart_with(self, peer: FilePeer, now: float) -> list[Effect]:
        """Continue with a peer that is back, perhaps under another uuid."""
        if self.offer.frames and not peer.frames:
            return self.fail("the peer does not take file frames any more")
        self.peer = peer
        return self.begin(now)

    def peer_gone(self) -> list[Effect]:
        if self._phase is Sending.ENDED:
            return []
        self._phase = Sending.PAUSED
        self.last_error = "link lost"
        self._clear_in_flight()
        return [CancelTimer(self._timer)]

    def link_full(self) -> None:
        self._window.link_is_full = True

    def link_drained(self) -> list[Effect]:
        self._window.link_is_full = False
        return self._pump() if self._phase is Sending.SENDING else []

    def receive(self, kind: str, payload: dict[str, Any], now: float) -> list[Effect]:
        """Handle an envelope of the receiver."""
        handler = self._HANDLERS.get(kind)
        if handler is None or self._phase in {Sending.ENDED, Sending.PAUSED, Sending.HASHING}:
            return []
        self.updated_at = self._wall()
        return handler(self, payload, now)

    def answer(self, event: FileAnswer, now: float) -> list[Effect]:
        if self._phase is Sending.ENDED:
            return []
        if isinstance(event, files.ChunkRead):
            return self._read(event, now)
        if isinstance(event, files.SourceHashed) and self._phase is Sending.HASHING:
            self.offer = replace(self.offer, file_hash=event.sha256)
            return self._make_offer(now)
        if isinstance(event, files.SourceFailed):
            return self.fail(event.reason, tell=self._phase is not Sending.HASHING)
        return []

    def timer_fired(self, now: float) -> list[Effect]:
        if self._phase not in {Sending.OFFERED, Sending.SENDING, Sending.COMPLETING}:
            return []
        window = self._window
        if window.link_is_full or self._hash_reads or window.is_being_read(window.base):
            return [self._wait(now)]  # it is we who are slow
        failed = self._count_retry()
        if failed:
            return failed
        self._asked_at = now
        asked = self._message("file.resume_req")
        if self._phase is Sending.OFFERED:
            return self._make_offer(now)
        if self._phase is Sending.COMPLETING:
            return [asked, self._complete(), self._wait(now)]
        return [asked, *self._send_again(window.base), self._wait(now)]

    def _given_up(self) -> str:
        if self._phase is Sending.OFFERED:
            return "timed out waiting for file.accept"
        if self._phase is Sending.COMPLETING:
            return "timed out waiting for file.complete_ack"
        return f"max retries exceeded at chunk {self._window.base}"

    def _make_offer(self, now: float) -> list[Effect]:
        self._phase = Sending.OFFERED
        self._clear_in_flight()
        return [files.ToPeer(self.peer.uuid, "file.offer", self.offer.to_payload()), self._wait(now)]

    def _offer_anew(self, now: float) -> list[Effect]:
        """Offer again to a receiver that forgot the transfer, but not again and again without progress."""
        base = self._window.base
        self._forgotten = 0 if base > self._furthest else self._forgotten + 1
        self._furthest = max(self._furthest, base)
        self.retries_total += 1
        if self._forgotten > self._max_retries:
            return self.fail("unknown_transfer")
        return self._make_offer(now)

    def _accepted(self, payload: dict[str, Any], now: float) -> list[Effect]:
        if self._phase is not Sending.OFFERED:
            return []
        start = payload.get("next_seq")
        if type(start) is not int or not 0 <= start <= self.offer.total_chunks:
            return self._not_sent(start)
        self.status = "transferring"
        self._retries = 0
        return self._send_from(start, now)

    def _send_from(self, start: int, now: float) -> list[Effect]:
        self._phase = Sending.SENDING
        self._window.restart_at(start)
        return [*self._go_on(now), self._wait(now)]

    def _acknowledged(self, payload: dict[str, Any], now: float) -> list[Effect]:
        if self._phase is not Sending.SENDING:
            return []
        sequence, following = payload.get("seq"), payload.get("next_seq")
        if type(sequence) is not int or type(following) is not int:
            return self._not_sent(sequence)
        window = self._window
        if not window.can_be_acked(sequence, following):
            return self._not_sent(sequence)
        before = window.acked_count
        window.acknowledge(sequence, now)
        window.acknowledge_up_to(following)
        if window.acked_count == before:
            return []
        self._retries = 0
        return [*self._go_on(now), self._wait(now)]

    def _refused(self, payload: dict[str, Any], now: float) -> list[Effect]:
        reason = payload.get("reason")
        reason = printable(reason[:200]) if isinstance(reason, str) else "refused"
        expected = payload.get("expected_seq")
        if self._phase is Sending.OFFERED:
            return [] if reason == "unknown_transfer" else self.fail(reason)
        if reason == "unknown_transfer":
            return self._offer_anew(now)
        if reason not in _WORTH_ANOTHER_TRY:
            return self.fail(reason)
        if type(expected) is not int or not 0 <= expected < self.offer.total_chunks:
            return self._not_sent(expected)
        failed = self._count_retry()
        if failed:
            return failed
        if self._phase is Sending.COMPLETING:
            return self._send_from(expected, now)
        return [*self._send_again(expected), self._wait(now)]

    def _resume_state(self, payload: dict[str, Any], now: float) -> list[Effect]:
        status, following = payload.get("status"), payload.get("next_seq")
        if self._phase is Sending.OFFERED:
            return []
        if status == "unknown_transfer":
            return self._offer_anew(now)
        if status in {"failed", "cancelled"}:
            return self.fail(f"the receiver says that the transfer is {status}")
        if status == "completed" and self._phase is Sending.COMPLETING:
            return self._completed()
        if type(following) is not int or not 0 <= following <= self._window.sent_end:
            return self._not_sent(following)
        if self._phase is Sending.SENDING:
            return self._catch_up(following, now)
        self._retries = 0
        if following == self.offer.total_chunks:
            return []  # it is there, and still busy with the hash
        return self._send_from(following, now)

    def _catch_up(self, following: int, now: float) -> list[Effect]:
        """Send again what the receiver lacks of all that was sent before we asked."""
        if following > self._window.base:
            self._retries = 0
        self._window.acknowledge_up_to(following)
        effects: list[Effect] = []
        for sequence in self._window.sent_until(self._asked_at):
            effects += self._send_again(sequence)
        return [*effects, *self._go_on(now), self._wait(now)]

    def _confirmed(self, payload: dict[str, Any], _now: float) -> list[Effect]:
        if self._phase is not Sending.COMPLETING:
            return self._not_sent(None)
        if payload.get("file_hash") != self.offer.file_hash:
            return self.fail("the receiver confirmed another hash")
        return self._completed()

    def _cancelled(self, _payload: dict[str, Any], _now: float) -> list[Effect]:
        report = self._report("file_transfer_cancelled", from_uuid=self.peer.uuid)
        return [report, *self.cancel(tell=False)]

    def _go_on(self, now: float) -> list[Effect]:
        if not self._window.is_all_acked:
            return self._pump()
        if self.offer.frames and len(self._digests):
            missing = self._hash_what_is_missing()
            if missing or self._hash_reads:
                return missing
            self.offer = replace(self.offer, file_hash=files.chunks_hash(self._digests))
        self._phase = Sending.COMPLETING
        return [self._complete()]

    def _hash_what_is_missing(self) -> list[Effect]:
        """Read chunks that an earlier process sent: their hashes are part of the hash of the whole."""
        effects: list[Effect] = []
        at = self._hashed.find(0)
        while at >= 0 and len(self._hash_reads) < _MAX_HASH_READS:
            if at not in self._hash_reads:
                self._hash_reads.add(at)
                effects.append(self._range(at))
            at = self._hashed.find(0, at + 1)
        return effects

    def _complete(self) -> Effect:
        offer = self.offer
        return self._message("file.complete", total_bytes=offer.total_bytes, file_hash=offer.file_hash)

    def _pump(self) -> list[Effect]:
        return [self._range(sequence) for sequence in self._window.take_reads()]

    def _send_again(self, sequence: int) -> list[Effect]:
        return [self._range(sequence)] if self._window.take_again(sequence) else []

    def _read(self, event: files.ChunkRead, now: float) -> list[Effect]:
        sequence = event.sequence
        if not 0 <= sequence < self.offer.total_chunks:
            return []
        if len(event.data) != self.offer.chunk_length(sequence):
            return self.fail("the file changed while it was sent", tell=True)
        if self.offer.frames:
            self._digests[sequence * files.DIGEST_BYTES : (sequence + 1) * files.DIGEST_BYTES] = event.digest
            self._hashed[sequence] = 1
        if sequence in self._hash_reads:
            self._hash_reads.discard(sequence)
            return self._go_on(now) if self._phase is Sending.SENDING else []
        if self._phase is not Sending.SENDING or not self._window.is_being_read(sequence):
            return []
        self._window.mark_sent(sequence, now)
        # when half of it has come, so that there is always something to read and little to count
        more = self._pump() if self._window.is_half_read else []
        return [self._chunk(event), *more]

    def _chunk(self, event: files.ChunkRead) -> Effect:
        sequence = event.sequence
        if self.offer.frames:
            return files.FrameToPeer(self.peer.uuid, self._mark, sequence, event.digest, event.data)
        payload = {
            "transfer_id": self.offer.transfer_id,
            "seq": sequence,
            "data_base64": base64.b64encode(event.data).decode(),
            "chunk_hash": event.digest.hex(),
        }
        return files.ToPeer(self.peer.uuid, "file.chunk", payload)

    def _range(self, sequence: int) -> Effect:
        offset = sequence * self.offer.chunk_bytes
        return files.ReadChunk(self.offer.transfer_id, sequence, offset, self.offer.chunk_length(sequence))

    def _clear_in_flight(self) -> None:
        self._window.clear()
        self._hash_reads.clear()

    def _count_retry(self) -> list[Effect]:
        self._retries += 1
        self.retries_total += 1
        if self._retries > self._max_retries:
            return self.fail(self._given_up())
        return []

    def _not_sent(self, sequence: Any) -> list[Effect]:
        return [self._report("file_ack_rejected", seq=files.shown_sequence(sequence), reason="not_sent")]

    def _completed(self) -> list[Effect]:
        self.completed_at = self._wall()
        offer = self.offer
        report = self._report(
            "file_transfer_complete",
            target_uuid=self.peer.uuid,
            total_bytes=offer.total_bytes,
            total_chunks=offer.total_chunks,
            retries_total=self.retries_total,
            file_hash=offer.file_hash,
        )
        return [*self._end("completed", None), report]

    def fail(self, reason: str, *, tell: bool = False) -> list[Effect]:
        message = [self._message("file.cancel")] if tell else []
        return [self._stop("failed", reason), *message, self._failed(reason)]

    def _end(self, status: str, error: str | None) -> list[Effect]:
        """End it for good and give the source back. A failed transfer keeps it, to be resumed."""
        transfer_id = self.offer.transfer_id
        stopped = self._stop(status, error)
        return [stopped, files.CloseSource(transfer_id), files.ForgetTransfer(transfer_id, "outgoing")]

    def _stop(self, status: str, error: str | None) -> Effect:
        self._phase = Sending.ENDED
        self.status = status
        self.last_error = error
        self.updated_at = self._wall()
        self._clear_in_flight()
        return CancelTimer(self._timer)

    @property
    def _timer(self) -> str:
        return f"file-out:{self.offer.transfer_id}"

    def _wait(self, now: float) -> Effect:
        """Set the timer. It is longer before the first acknowledgement, which may stand behind a whole window in the other
        direction, and twice as long after each try.
        """
        seconds = max(self._ack_timeout, 4 * self._window.ack_time)
        if self._phase is Sending.OFFERED:
            seconds = max(self._ack_timeout, 1.0)
        elif self._phase is Sending.COMPLETING:
            seconds = max(2 * seconds, 1.0)
        elif not self._window.ack_time:
            seconds = 4 * self._ack_timeout
        seconds *= 2 ** min(self._retries, 3)
        return SetTimer(self._timer, now + seconds)

    def _record(self) -> dict[str, Any]:
        source = {"source": self.source.kind, "source_path": self.source.path}
        return {**self._shared_record(), **source, "retries_total": self.retries_total}

    def summary(self) -> dict[str, Any]:
        kind = self.source.kind
        own = {
            "next_seq": self._window.base,
            "retries_total": self.retries_total,
            "acked_chunks": self._window.acked_count,
            "source": kind,
            "spooled": kind == "spool",
            "spool_path": self.source.path if kind == "spool" else None,
            "source_path": self.source.path if kind == "path" else None,
            "target_uuid": self.peer.uuid,
            "target_stream_id": self.peer.stream_id,
            "from_uuid": None,
            "from_stream_id": None,
        }
        has_data = kind == "memory" and self.status not in {"completed", "cancelled"}
        return self._summary(own, self.offer.file_hash, has_data=has_data)

    _HANDLERS: Final[dict[str, Callable[["OutgoingFile", dict[str, Any], float], list[Effect]]]] = {
        "file.accept": _accepted,
        "file.ack": _acknowledged,
        "file.nack": _refused,
        "file.resume_state": _resume_state,
        "file.complete_ack": _confirmed,
        "file.cancel": _cancelled,
    }
