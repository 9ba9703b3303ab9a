"""What the sender and the receiver of a file have in common: what is known of it, and how it is told."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from comity.rooms.protocol.events import iso_moment, moment_or_none
from comity.rooms.protocol.file_shape import DIGEST_BYTES, FileOffer
from comity.rooms.protocol.files import FilePeer, Report, ToPeer
from comity.wire.machine import Effect


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

    def cancel(self, *, tell: bool) -> list[Effect]:
        told = [self._message("file.cancel")] if tell else []
        return [*told, *self._end("cancelled", "cancelled")]

    @abstractmethod
    def _end(self, status: str, error: str | None) -> list[Effect]: ...

    def _message(self, kind: str, **members: Any) -> Effect:
        return ToPeer(self.peer.uuid, kind, {"transfer_id": self.offer.transfer_id, **members})

    def _report(self, kind: str, **members: Any) -> Effect:
        return Report(kind, {"transfer_id": self.offer.transfer_id, **members})

    def _failed(self, reason: str) -> Effect:
        return self._report("file_transfer_failed", direction=self.direction, reason=reason)

    def _summary(self, own: dict[str, Any], file_hash: str | None, *, has_data: bool) -> dict[str, Any]:
        """The members of the contract, in its order (peers 1.6); `own` are those of one direction."""
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


def first_nack(peer: FilePeer, transfer_id: str, reason: str) -> Effect:
    """To a peer whose transfer is none of ours: nothing of it is here."""
    return ToPeer(peer.uuid, "file.nack", {"transfer_id": transfer_id, "expected_seq": 0, "reason": reason})
