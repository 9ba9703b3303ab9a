"""A disk for files on their way, in memory: it does what the machines of files ask for, at once.

What is spooled survives `crash`, with the hashes of its chunks; what is in memory does not.
"""

import hashlib

from comity.rooms.protocol.files import (
    ChunkDiffers,
    ChunkRead,
    ChunkStored,
    CloseSource,
    DropIncoming,
    FinishIncoming,
    ForgetTransfer,
    HashSource,
    IncomingFinished,
    IncomingOpened,
    KeepTransfer,
    OpenIncoming,
    ReadChunk,
    SourceFailed,
    SourceHashed,
    StoreChunk,
    StoreFailed,
)

FILE_EFFECTS = (
    ReadChunk,
    HashSource,
    CloseSource,
    OpenIncoming,
    StoreChunk,
    FinishIncoming,
    DropIncoming,
    KeepTransfer,
    ForgetTransfer,
)


class Disk:
    def __init__(self):
        self.sources = {}
        self.files = {}
        self.chunks = {}
        self.spooled = set()
        self.finished = set()
        self.records = {}
        self.full = False
        self.reads = 0

    def crash(self):
        for transfer_id in [one for one in self.files if one not in self.spooled]:
            del self.files[transfer_id], self.chunks[transfer_id]

    def carry_out(self, effect):
        """The answer, or None where none is awaited."""
        match effect:
            case ReadChunk():
                return self._read(effect)
            case HashSource():
                return self._hash(effect)
            case OpenIncoming():
                return self._open(effect)
            case StoreChunk():
                return self._store(effect)
            case FinishIncoming():
                self.finished.add(effect.transfer_id)
                digest = hashlib.sha256(self.files[effect.transfer_id]).hexdigest()
                return IncomingFinished(effect.transfer_id, digest if effect.hashed else None)
            case DropIncoming():
                self.files.pop(effect.transfer_id, None)
                self.chunks.pop(effect.transfer_id, None)
                self.spooled.discard(effect.transfer_id)
            case KeepTransfer():
                self.records[effect.transfer_id, effect.direction] = effect.record
            case ForgetTransfer():
                self.records.pop((effect.transfer_id, effect.direction), None)
        return None

    def _hash(self, effect):
        data = self.sources.get(effect.transfer_id)
        if data is None:
            return SourceFailed(effect.transfer_id, "gone")
        return SourceHashed(effect.transfer_id, hashlib.sha256(data).hexdigest())

    def _open(self, effect):
        self.files[effect.transfer_id] = bytearray(effect.total_bytes)
        self.chunks[effect.transfer_id] = {}
        if not effect.spooled:
            return IncomingOpened(effect.transfer_id)
        self.spooled.add(effect.transfer_id)
        return IncomingOpened(effect.transfer_id, f"spool/{effect.spool_name}")

    def _read(self, effect):
        self.reads += 1
        data = self.sources.get(effect.transfer_id)
        if data is None:
            return SourceFailed(effect.transfer_id, "the file is gone")
        piece = bytes(data[effect.offset : effect.offset + effect.length])
        return ChunkRead(effect.transfer_id, effect.sequence, piece, hashlib.sha256(piece).digest())

    def _store(self, effect):
        if self.full:
            return StoreFailed(effect.transfer_id, "no space left on the disk")
        digest = hashlib.sha256(effect.data).digest()
        if effect.digest is not None and effect.digest != digest:
            return ChunkDiffers(effect.transfer_id, effect.sequence)
        file = self.files[effect.transfer_id]
        file[effect.offset : effect.offset + len(effect.data)] = effect.data
        self.chunks[effect.transfer_id][effect.sequence] = digest
        return ChunkStored(effect.transfer_id, effect.sequence, digest)
