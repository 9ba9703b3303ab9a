"""All transfers of a session: who may speak about which, how many there may be, and for how long (peers 4).

- A transfer belongs to its peer. What another peer says about it is answered as if it did not exist, and reported.
- Incomplete incoming files are limited in number, per peer and in all, and in bytes; without progress they end.
- Of finished transfers the newest are kept, in each direction.
- When a peer is back, what was under way to it is offered again; the receiver says where to go on.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.rooms.protocol import files
from comity.rooms.protocol.channel import FRAME_HEADER, FileFrame, transfer_mark
from comity.rooms.protocol.files import FileAnswer, FileOffer, FilePeer, FileSource, Report, ToPeer
from comity.rooms.protocol.incoming_file import IncomingFile
from comity.rooms.protocol.outgoing_file import OutgoingFile, Sending
from comity.wire.errors import InvalidError
from comity.wire.machine import Effect, SetTimer

MAX_FINISHED: Final = 12
MAX_OUTGOING: Final = 64
SWEEP_SECONDS: Final = 30.0
SWEEP_TIMER: Final = "files"
OUT_TIMER: Final = "file-out:"

_TO_RECEIVER: Final = ("file.chunk", "file.complete", "file.resume_req")
_TO_SENDER: Final = ("file.accept", "file.ack", "file.nack", "file.resume_state", "file.complete_ack")


class FileLimits(Struct, frozen=True, kw_only=True):
    """Times in seconds. `chunk_bytes` None: whatever suits the link."""

    chunk_bytes: int | None = None
    max_bytes: int = 67_108_864
    ack_timeout: float = 1.2
    max_retries: int = 6
    spool_threshold: int = 4_194_304
    max_incomplete: int = 64
    max_incomplete_per_peer: int = 16
    max_incomplete_bytes: int = 1 << 30
    incomplete_seconds: float = 3600.0


class SendOptions(Struct, frozen=True, kw_only=True):
    """What is None is the session's."""

    transfer_id: str
    name: str | None = None
    mime: str | None = None
    chunk_bytes: int | None = None
    ack_timeout: float | None = None
    max_retries: int | None = None


class Transfers:
    """`token` makes 8 hexadecimal digits; `envelope_bytes` is what a sealed envelope takes beside its payload."""

    def __init__(
        self, limits: FileLimits, *, wall: Callable[[], float], token: Callable[[], str], envelope_bytes: int
    ) -> None:
        self._limits = limits
        self._wall = wall
        self._token = token
        self._envelope_bytes = envelope_bytes
        self.outgoing: dict[str, OutgoingFile] = {}
        self.incoming: dict[str, IncomingFile] = {}
        self._marks: dict[bytes, str] = {}
        self._moved_at: dict[str, float] = {}
        self._sweeping = False

    def send(
        self, source: FileSource, peer: FilePeer, options: SendOptions, now: float
    ) -> tuple[OutgoingFile, list[Effect]]:
        """Raise InvalidError for what cannot be sent."""
        limits = self._limits
        if source.total_bytes < 1:
            raise InvalidError("file data must not be empty")
        if source.total_bytes > limits.max_bytes:
            raise InvalidError(f"file exceeds max {limits.max_bytes} bytes")
        transfer_id = files.read_transfer_id(options.transfer_id)
        if transfer_id is None:
            raise InvalidError("invalid transfer_id: use 1 to 128 printable characters")
        known = self.outgoing.get(transfer_id)
        if known is not None and not known.is_over:
            raise InvalidError(f"invalid transfer_id: {transfer_id} is under way already")
        if sum(not one.is_over for one in self.outgoing.values()) >= MAX_OUTGOING:
            raise InvalidError(f"{MAX_OUTGOING} transfers are under way; wait until one has ended")
        outgoing = OutgoingFile(
            self._offer(source, peer, options, transfer_id),
            source,
            peer,
            ack_timeout=limits.ack_timeout if options.ack_timeout is None else options.ack_timeout,
            max_retries=limits.max_retries if options.max_retries is None else options.max_retries,
            wall=self._wall,
        )
        self.outgoing[transfer_id] = outgoing
        return outgoing, [*self._sweep_from(transfer_id, now), *outgoing.begin(now), *self._prune()]

    def resume(self, outgoing: OutgoingFile, peer: FilePeer, now: float) -> list[Effect]:
        """Go on with a transfer that is paused or has failed, or is under way to another peer."""
        if outgoing.phase not in {Sending.PAUSED, Sending.ENDED} and outgoing.peer.uuid == peer.uuid:
            return []
        return [*self._sweep_from(outgoing.offer.transfer_id, now), *outgoing.restart_with(peer, now)]

    def cancel(self, transfer_id: str) -> list[Effect]:
        """Cancel a transfer in whichever direction it is under way; one that is over stays as it is."""
        outgoing, incoming = self.outgoing.get(transfer_id), self.incoming.get(transfer_id)
        if outgoing is None and incoming is None:
            raise InvalidError(f"unknown transfer_id: {transfer_id}")
        effects: list[Effect] = []
        for one in (outgoing, incoming):
            if one is not None and (not one.is_over or one.status == "failed"):
                effects += one.cancel(tell=True)
        return effects

    def receive(self, peer: FilePeer, kind: str, payload: dict[str, Any], now: float) -> list[Effect]:
        """Handle an envelope of the family `file.`"""
        if kind == "file.offer":
            return self._offered(peer, payload, now)
        transfer_id = files.read_transfer_id(payload.get("transfer_id"))
        if transfer_id is None:
            return [_protocol_error("missing_transfer_id", kind, peer)]
        if kind in _TO_SENDER:
            return self._from_receiver(peer, kind, transfer_id, payload, now)
        if kind == "file.cancel":
            return self._cancelled(peer, transfer_id, now)
        if kind not in _TO_RECEIVER:
            return [Report("file_protocol_unhandled", {"transfer_id": transfer_id, "kind": kind[:64]})]
        incoming = self.incoming.get(transfer_id)
        if incoming is None or incoming.peer.owner != peer.owner:
            return self._unknown(peer, kind, transfer_id, payload, wrong_peer=incoming is not None)
        incoming.peer = peer
        if kind == "file.complete":
            return incoming.complete(payload)
        if kind == "file.resume_req":
            return incoming.resume_state()
        return self._chunk(incoming, payload)

    def _from_receiver(
        self, peer: FilePeer, kind: str, transfer_id: str, payload: dict[str, Any], now: float
    ) -> list[Effect]:
        outgoing = self.outgoing.get(transfer_id)
        if outgoing is None or outgoing.peer.owner != peer.owner:
            reason = "unknown_transfer" if outgoing is None else "wrong_peer"
            return [_protocol_error(reason, kind, peer)]
        self._moved_at[transfer_id] = now
        return [*outgoing.receive(kind, payload, now), *self._prune()]

    def frame(self, peer: FilePeer, frame: FileFrame) -> list[Effect]:
        """Handle a file frame whose seal was checked."""
        incoming = self.incoming.get(self._marks.get(frame.mark, ""))
        if incoming is None or not incoming.offer.frames or incoming.peer.owner != peer.owner:
            reason = "unknown_transfer" if incoming is None else "wrong_peer"
            members = {"transfer_id": None, "seq": frame.sequence, "reason": reason}
            return [Report("file_chunk_rejected", members)]
        incoming.peer = peer
        return incoming.chunk(frame.sequence, frame.data, frame.digest)

    def answer(self, event: FileAnswer, now: float) -> list[Effect]:
        """Handle an answer of the shell about a source or a store; both directions have their own."""
        effects: list[Effect] = []
        outgoing, incoming = self.outgoing.get(event.transfer_id), self.incoming.get(event.transfer_id)
        if outgoing is not None:
            effects += outgoing.answer(event, now)
        if incoming is not None:
            self._moved_at[event.transfer_id] = now
            effects += incoming.answer(event)
        return [*effects, *self._prune()]

    def timer_fired(self, name: str, now: float) -> list[Effect]:
        if name == SWEEP_TIMER:
            return self._sweep(now)
        outgoing = self.outgoing.get(name.removeprefix(OUT_TIMER))
        return [] if outgoing is None else [*outgoing.timer_fired(now), *self._prune()]

    def peer_gone(self, uuid: str) -> list[Effect]:
        return [effect for outgoing in self._sent_to(uuid) for effect in outgoing.peer_gone()]

    def peer_back(self, peer: FilePeer, now: float) -> list[Effect]:
        """Continue what waits for this peer."""
        effects: list[Effect] = []
        for transfer_id, outgoing in list(self.outgoing.items()):
            if outgoing.phase is Sending.PAUSED and outgoing.peer.owner == peer.owner:
                effects += [*self._sweep_from(transfer_id, now), *outgoing.restart_with(peer, now)]
        for incoming in self.incoming.values():
            if incoming.peer.owner == peer.owner:
                incoming.peer = peer
        return effects

    def rename_owner(self, old: str, new: str) -> None:
        """Note who a peer is that began before its hello."""
        for _, one in self._unfinished():
            if one.peer.owner == old:
                one.peer = replace(one.peer, owner=new)

    def link_full(self, uuid: str) -> list[Effect]:
        for outgoing in self._sent_to(uuid):
            outgoing.link_full()
        return []

    def link_drained(self, uuid: str) -> list[Effect]:
        return [effect for outgoing in self._sent_to(uuid) for effect in outgoing.link_drained()]

    def restore_outgoing(self, record: dict[str, Any], now: float) -> list[Effect]:
        limits = self._limits
        outgoing = OutgoingFile.restored(
            record, ack_timeout=limits.ack_timeout, max_retries=limits.max_retries, wall=self._wall
        )
        self.outgoing[outgoing.offer.transfer_id] = outgoing
        return self._sweep_from(outgoing.offer.transfer_id, now)

    def restore_incoming(
        self, record: dict[str, Any], chunks: Mapping[int, bytes], now: float
    ) -> list[Effect]:
        incoming = IncomingFile.restored(record, chunks, wall=self._wall)
        transfer_id = incoming.offer.transfer_id
        self.incoming[transfer_id] = incoming
        self._marks[transfer_mark(transfer_id)] = transfer_id
        return self._sweep_from(transfer_id, now)

    def _offer(self, source: FileSource, peer: FilePeer, options: SendOptions, transfer_id: str) -> FileOffer:
        wanted = options.chunk_bytes or self._limits.chunk_bytes
        most = files.chunk_count(source.total_bytes, 1024)
        overhead = FRAME_HEADER
        if not peer.frames:
            overhead = self._envelope_bytes + files.chunk_payload_overhead(transfer_id, most)
        chunk = files.fitted_chunk(
            wanted, max_message=peer.max_message, frames=peer.frames, overhead=overhead
        )
        mime = options.mime or ""
        return FileOffer(
            transfer_id=transfer_id,
            name=files.shown_name(options.name) or transfer_id,
            mime=mime if files.is_mime(mime) else files.DEFAULT_MIME,
            total_bytes=source.total_bytes,
            total_chunks=files.chunk_count(source.total_bytes, chunk),
            chunk_bytes=chunk,
            frames=peer.frames,
        )

    def _offered(self, peer: FilePeer, payload: dict[str, Any], now: float) -> list[Effect]:
        try:
            offer = files.read_offer(payload, max_bytes=self._limits.max_bytes, takes_frames=peer.frames)
            known = self.incoming.get(offer.transfer_id)
            if known is not None and known.peer.owner == peer.owner and known.status != "failed":
                return known.offered_again(offer, peer)
            self._check_room_for(offer, peer)
        except InvalidError as why:
            return _offer_refused(peer, payload, why.message)
        spooled = offer.total_bytes >= self._limits.spool_threshold
        incoming = IncomingFile(offer, peer, spooled=spooled, token=self._token(), wall=self._wall)
        self.incoming.pop(offer.transfer_id, None)
        self.incoming[offer.transfer_id] = incoming
        self._marks[transfer_mark(offer.transfer_id)] = offer.transfer_id
        return [*self._sweep_from(offer.transfer_id, now), *incoming.begin()]

    def _check_room_for(self, offer: FileOffer, peer: FilePeer) -> None:
        known = self.incoming.get(offer.transfer_id)
        if known is not None and known.peer.owner != peer.owner:
            raise InvalidError("transfer_id in use")
        incomplete = [one for one in self.incoming.values() if not one.is_over]
        limits = self._limits
        if sum(one.peer.owner == peer.owner for one in incomplete) >= limits.max_incomplete_per_peer:
            raise InvalidError(f"more than {limits.max_incomplete_per_peer} incomplete transfers of one peer")
        if len(incomplete) >= limits.max_incomplete:
            raise InvalidError(f"more than {limits.max_incomplete} incomplete transfers")
        held = sum(one.offer.total_bytes for one in incomplete)
        if held + offer.total_bytes > limits.max_incomplete_bytes:
            raise InvalidError(f"incomplete transfers exceed {limits.max_incomplete_bytes} bytes")

    def _chunk(self, incoming: IncomingFile, payload: dict[str, Any]) -> list[Effect]:
        data, digest = _chunk_data(payload.get("data_base64")), None
        claimed = payload.get("chunk_hash")
        if claimed is not None:
            if not isinstance(claimed, str) or not files.HASH_TEXT.fullmatch(claimed.lower()):
                data = b""
            else:
                digest = bytes.fromhex(claimed)
        return incoming.chunk(payload.get("seq"), data, digest)

    def _cancelled(self, peer: FilePeer, transfer_id: str, now: float) -> list[Effect]:
        incoming, outgoing = self.incoming.get(transfer_id), self.outgoing.get(transfer_id)
        if incoming is not None and incoming.peer.owner == peer.owner and not incoming.is_over:
            members = {"transfer_id": transfer_id, "from_uuid": peer.uuid}
            return [*incoming.cancel(tell=False), Report("file_transfer_cancelled", members)]
        if outgoing is not None and outgoing.peer.owner == peer.owner:
            return outgoing.receive("file.cancel", {}, now)
        ended = incoming is not None and incoming.peer.owner == peer.owner
        return [] if ended else [_protocol_error("unknown_transfer", "file.cancel", peer)]

    def _unknown(
        self, peer: FilePeer, kind: str, transfer_id: str, payload: dict[str, Any], *, wrong_peer: bool
    ) -> list[Effect]:
        reason = "wrong_peer" if wrong_peer else "unknown_transfer"
        if kind == "file.resume_req":
            state = {"transfer_id": transfer_id, "next_seq": 0, "status": "unknown_transfer"}
            reply: Effect = ToPeer(peer.uuid, "file.resume_state", state)
        else:
            reply = files.first_nack(peer, transfer_id, "unknown_transfer")
        if kind == "file.chunk":
            members = {
                "transfer_id": transfer_id,
                "seq": files.shown_sequence(payload.get("seq")),
                "reason": reason,
            }
            return [reply, Report("file_chunk_rejected", members)]
        return [reply, _protocol_error(reason, kind, peer)]

    def _sent_to(self, uuid: str) -> list[OutgoingFile]:
        return [outgoing for outgoing in self.outgoing.values() if outgoing.peer.uuid == uuid]

    def _sweep_from(self, transfer_id: str, now: float) -> list[Effect]:
        self._moved_at[transfer_id] = now
        if self._sweeping:
            return []
        self._sweeping = True
        return [SetTimer(SWEEP_TIMER, now + SWEEP_SECONDS)]

    def _sweep(self, now: float) -> list[Effect]:
        """End what did not move for long."""
        effects: list[Effect] = []
        for transfer_id, one in self._unfinished():
            if now - self._moved_at.get(transfer_id, now) < self._limits.incomplete_seconds:
                continue
            if isinstance(one, IncomingFile):
                effects += one.fail("timed out: no chunk came")
            elif one.phase is Sending.PAUSED:
                effects += one.fail("timed out: the peer did not come back")
        effects += self._prune()
        self._sweeping = any(True for _ in self._unfinished())
        if self._sweeping:
            effects.append(SetTimer(SWEEP_TIMER, now + SWEEP_SECONDS))
        return effects

    def _unfinished(self) -> Iterator[tuple[str, OutgoingFile | IncomingFile]]:
        for transfer_id, outgoing in list(self.outgoing.items()):
            if not outgoing.is_over:
                yield transfer_id, outgoing
        for transfer_id, incoming in list(self.incoming.items()):
            if not incoming.is_over:
                yield transfer_id, incoming

    def _prune(self) -> list[Effect]:
        effects: list[Effect] = []
        if max(len(self.outgoing), len(self.incoming)) <= MAX_FINISHED:
            return effects
        over = [name for name, outgoing in self.outgoing.items() if outgoing.is_over]
        for transfer_id in over[:-MAX_FINISHED]:
            gone = self.outgoing.pop(transfer_id)
            self._moved_at.pop(transfer_id, None)
            if gone.status == "failed":
                effects += [files.CloseSource(transfer_id), files.ForgetTransfer(transfer_id, "outgoing")]
        over = [name for name, incoming in self.incoming.items() if incoming.is_over]
        for transfer_id in over[:-MAX_FINISHED]:
            dropped = self.incoming.pop(transfer_id)
            self._moved_at.pop(transfer_id, None)
            self._marks.pop(transfer_mark(transfer_id), None)
            if dropped.status == "completed":
                effects += [files.DropIncoming(transfer_id), files.ForgetTransfer(transfer_id, "incoming")]
        return effects


def _chunk_data(text: Any) -> bytes:
    """Empty for what is no base64; an empty chunk is refused."""
    if not isinstance(text, str):
        return b""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _offer_refused(peer: FilePeer, payload: dict[str, Any], reason: str) -> list[Effect]:
    transfer_id = files.read_transfer_id(payload.get("transfer_id"))
    refused = Report("file_offer_rejected", {"transfer_id": transfer_id, "reason": reason})
    return [refused] if transfer_id is None else [files.first_nack(peer, transfer_id, reason), refused]


def _protocol_error(reason: str, kind: str, peer: FilePeer) -> Effect:
    return Report("file_protocol_error", {"reason": reason, "kind": kind, "from_uuid": peer.uuid})
