"""Files on their way: what the machines of files want read, hashed and written, done in two threads.

- One thread reads, one writes, and neither waits for the loop between two chunks.
- A file above the threshold is written to the spool folder, with a journal beside it: sequence and hash of each chunk
  that was written. Both survive the death of the process; the journal says what need not be sent again.
- A third thread lets the disk begin early, so that little is left to be made durable when the last chunk has come.
- A source is opened once. After a restart it is opened again only if it is still the same file.
"""

import asyncio
import contextvars
import hashlib
import logging
import os
import struct
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO, ClassVar, Final

from msgspec import Struct

from comity.identity.private_files import ensure_private_folder
from comity.rooms.protocol import files
from comity.wire.machine import Effect, Event

log = logging.getLogger("comity.rooms")

MAX_UNWRITTEN: Final = 8 * 1024 * 1024
SYNC_EVERY: Final = 8 * 1024 * 1024
_BLOCK: Final = 1 << 20
_FREED_BLOCK: Final = 8 * 1024 * 1024
"""glibc gives freed memory back to the system at once, and each chunk then pays for fresh pages: a third of the work of
a transfer. After one block of this size was freed it keeps up to twice as much (mallopt(3), M_MMAP_THRESHOLD). The
block itself is never touched.
"""

_MARK: Final = struct.Struct(">Q32s")
_JOURNAL: Final = ".chunks"
_BINARY: Final = getattr(os, "O_BINARY", 0)
_SOURCE: Final = os.O_RDONLY | _BINARY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY

_READING: Final = frozenset((files.ReadChunk, files.HashSource, files.CloseSource))
Notify = Callable[[Event], None]
Job = Callable[[], Event | None]


class SourceMark(Struct, frozen=True):
    """What tells whether a file is still the one that was being sent."""

    device: int
    inode: int
    size: int
    changed: int


class _Incoming:
    """`memory` has the bytes of a file that is not written to disk."""

    def __init__(self, path: Path | None, file: BinaryIO | None, journal: BinaryIO | None, size: int) -> None:
        self.path = path
        self.file = file
        self.journal = journal
        self.memory = bytearray(size) if path is None else None
        self.unsynced = 0
        self.syncing: Future[None] | None = None

    def sync_early(self, syncer: ThreadPoolExecutor) -> None:
        """Raise the OSError of the last time: the system tells it only once."""
        if self.file is not None and (self.syncing is None or self.syncing.done()):
            self.wait_synced()
            self.unsynced = 0
            self.syncing = syncer.submit(os.fsync, self.file.fileno())

    def wait_synced(self) -> None:
        if self.syncing is not None:
            self.syncing.result()

    def close(self) -> None:
        if self.syncing is not None:
            self.syncing.exception()  # it has the file open
        for file in (self.file, self.journal):
            if file is not None:
                file.close()
        self.file = self.journal = None


class _Worker:
    """One thread, started by the first job. `notify` gets the answers on the event loop, in order."""

    def __init__(self, name: str, notify: Notify) -> None:
        self._name = name
        self._notify = notify
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._answers: deque[Event] = deque()
        self._delivering = self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        if self._thread is None:
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._work, args=(loop,), name=self._name, daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while (job := self._jobs.get()) is not None and not self._closed:
            try:
                answer = job()
            except Exception:
                log.exception("a file could not be worked on")
                continue
            if answer is not None:
                self._answers.append(answer)
                if not self._delivering:
                    self._delivering = True
                    loop.call_soon_threadsafe(self._deliver, context=contextvars.Context())

    def _deliver(self) -> None:
        self._delivering = False
        while self._answers:
            self._notify(self._answers.popleft())

    def close(self) -> None:
        """Waits for the job that is being done; those after it are left out."""
        self._closed = True
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()


class Spool:
    """The files of one session. `notify` takes the answers."""

    def __init__(self, folder: Path, notify: Notify, *, keep_files: bool) -> None:
        bytes(_FREED_BLOCK)
        self._folder = folder
        self._notify = notify
        self._keep_files = keep_files
        self._reader = _Worker("comity-read", notify)
        self._writer = _Worker("comity-write", self._written)
        self._syncer = ThreadPoolExecutor(1, thread_name_prefix="comity-sync")
        self._sources: dict[str, BinaryIO | bytes] = {}
        self._incoming: dict[str, _Incoming] = {}
        self._unwritten: dict[tuple[str, int], int] = {}
        self._unwritten_bytes = 0
        self._fell = asyncio.Event()

    def offer_bytes(self, transfer_id: str, data: bytes) -> None:
        self._sources[transfer_id] = data

    def offer_file(self, transfer_id: str, file: BinaryIO) -> SourceMark:
        """Take over an open file to send."""
        self._sources[transfer_id] = file
        return _mark_of(os.fstat(file.fileno()))

    def reopen_source(self, transfer_id: str, path: str, mark: SourceMark) -> bool:
        """Return whether the file is still there as it was."""
        try:
            file = os.fdopen(os.open(path, _SOURCE), "rb", buffering=0)
        except OSError:
            return False
        if _mark_of(os.fstat(file.fileno())) != mark:
            file.close()
            return False
        self._sources[transfer_id] = file
        return True

    def reopen_incoming(
        self, transfer_id: str, spool_path: str, total_bytes: int, check_chunks_of: int | None
    ) -> dict[int, bytes] | None:
        """Return the chunks that were written before, by sequence; None if the file is gone. After a power cut the disk may
        have the journal and not the bytes: a chunk counts only if it still has its hash. A file that was complete is
        durable, and need not be checked.
        """
        path = Path(spool_path)
        try:
            file = path.open("r+b", buffering=0)
        except OSError:
            return None
        if os.fstat(file.fileno()).st_size != total_bytes:
            file.close()
            return None
        try:
            journal = Path(spool_path + _JOURNAL).open("a+b", buffering=0)  # noqa: SIM115 - closed with the file
        except OSError:
            file.close()
            return None
        journal.seek(0)
        records = journal.read()
        whole = len(records) - len(records) % _MARK.size
        journal.truncate(whole)
        self._incoming[transfer_id] = _Incoming(path, file, journal, total_bytes)
        return {
            sequence: digest
            for sequence, digest in _MARK.iter_unpack(records[:whole])
            if check_chunks_of is None
            or hashlib.sha256(_range(file, sequence * check_chunks_of, check_chunks_of)).digest() == digest
        }

    def carry_out(self, effect: Effect) -> None:
        if isinstance(effect, files.StoreChunk):
            self._unwritten[effect.transfer_id, effect.sequence] = len(effect.data)
            self._unwritten_bytes += len(effect.data)
        kind = type(effect)
        work = self.WORK[kind]
        (self._reader if kind in _READING else self._writer).put(lambda: work(self, effect))

    async def wait_room(self) -> None:
        """Wait while too much was received and is not written."""
        while self._unwritten_bytes > MAX_UNWRITTEN:
            self._fell.clear()
            await self._fell.wait()

    def open_received(self, transfer_id: str) -> BinaryIO | None:
        """Return a file that has arrived, for reading; None if its bytes are gone."""
        incoming = self._incoming.get(transfer_id)
        if incoming is None:
            return None
        if incoming.path is None:
            return BytesIO(incoming.memory or b"")
        try:
            return incoming.path.open("rb")
        except OSError:
            return None

    def close(self, *, ended: bool) -> None:
        """`ended`: the session will not be opened again, so what it spooled goes too."""
        self._reader.close()
        self._writer.close()
        for source in self._sources.values():
            if not isinstance(source, bytes):
                source.close()
        for transfer_id in list(self._incoming):
            if ended:
                self._drop(transfer_id)
            else:
                self._incoming[transfer_id].close()
        self._syncer.shutdown(wait=True)

    def _written(self, answer: Event) -> None:
        if isinstance(answer, files.ChunkStored | files.ChunkDiffers):
            self._unwritten_bytes -= self._unwritten.pop((answer.transfer_id, answer.sequence), 0)
        elif isinstance(answer, files.StoreFailed):
            for key in [key for key in self._unwritten if key[0] == answer.transfer_id]:
                self._unwritten_bytes -= self._unwritten.pop(key)
        self._fell.set()
        self._notify(answer)

    # In the threads.

    def _read(self, wanted: files.ReadChunk) -> Event:
        def read(source: "BinaryIO | bytes") -> Event:
            data = _range(source, wanted.offset, wanted.length)
            if len(data) != wanted.length:
                return files.SourceFailed(wanted.transfer_id, "the file has become shorter")
            digest = hashlib.sha256(data).digest()
            return files.ChunkRead(wanted.transfer_id, wanted.sequence, data, digest)

        return self._from_source(wanted.transfer_id, read)

    def _hash(self, wanted: files.HashSource) -> Event:
        name = wanted.transfer_id
        return self._from_source(name, lambda source: files.SourceHashed(name, _sha256_of(source)))

    def _from_source(self, transfer_id: str, work: "Callable[[BinaryIO | bytes], Event]") -> Event:
        source = self._sources.get(transfer_id)
        if source is None:
            return files.SourceFailed(transfer_id, "the file to send is gone")
        try:
            return work(source)
        except (OSError, ValueError) as why:
            return files.SourceFailed(transfer_id, f"the file cannot be read: {_cause(why)}")

    def _close_source(self, wanted: files.CloseSource) -> None:
        source = self._sources.pop(wanted.transfer_id, None)
        if source is not None and not isinstance(source, bytes):
            source.close()

    def _open(self, wanted: files.OpenIncoming) -> Event:
        self._drop(wanted.transfer_id)
        if not wanted.spooled:
            self._incoming[wanted.transfer_id] = _Incoming(None, None, None, wanted.total_bytes)
            return files.IncomingOpened(wanted.transfer_id)
        path = self._folder / wanted.spool_name
        try:
            ensure_private_folder(self._folder)
            file = os.fdopen(os.open(path, _NEW, 0o600), "r+b", buffering=0)
            file.truncate(wanted.total_bytes)
            journal_path = f"{path}{_JOURNAL}"
            journal = os.fdopen(os.open(journal_path, _NEW, 0o600), "r+b", 0)
        except Exception as why:  # noqa: BLE001 - a folder that is refused is reported like a full disk
            return files.StoreFailed(wanted.transfer_id, f"the file cannot be stored: {_cause(why)}")
        self._incoming[wanted.transfer_id] = _Incoming(path, file, journal, wanted.total_bytes)
        return files.IncomingOpened(wanted.transfer_id, str(path))

    def _store(self, chunk: files.StoreChunk) -> Event:
        incoming = self._incoming.get(chunk.transfer_id)
        if incoming is None:
            return files.StoreFailed(chunk.transfer_id, "the file is not open any more")
        digest = hashlib.sha256(chunk.data).digest()
        if chunk.digest is not None and chunk.digest != digest:
            return files.ChunkDiffers(chunk.transfer_id, chunk.sequence)
        try:
            if incoming.memory is not None:
                incoming.memory[chunk.offset : chunk.offset + len(chunk.data)] = chunk.data
            else:
                assert incoming.file is not None
                assert incoming.journal is not None
                _write_all(incoming.file, chunk.data, chunk.offset)
                incoming.journal.write(_MARK.pack(chunk.sequence, digest))
                incoming.unsynced += len(chunk.data)
                if incoming.unsynced >= SYNC_EVERY:
                    incoming.sync_early(self._syncer)
        except OSError as why:
            return files.StoreFailed(chunk.transfer_id, f"the file cannot be stored: {_cause(why)}")
        return files.ChunkStored(chunk.transfer_id, chunk.sequence, digest)

    def _finish(self, wanted: files.FinishIncoming) -> Event:
        incoming = self._incoming.get(wanted.transfer_id)
        if incoming is None:
            return files.StoreFailed(wanted.transfer_id, "the file is not open any more")
        try:
            if incoming.file is not None:
                os.fsync(incoming.file.fileno())
            incoming.wait_synced()
            sha256 = None
            if wanted.hashed:
                source = incoming.memory if incoming.memory is not None else incoming.file
                assert source is not None
                sha256 = _sha256_of(source)
        except OSError as why:
            return files.StoreFailed(wanted.transfer_id, f"the file cannot be stored: {_cause(why)}")
        incoming.close()
        return files.IncomingFinished(wanted.transfer_id, sha256)

    def _drop(self, transfer_id: str) -> None:
        incoming = self._incoming.pop(transfer_id, None)
        if incoming is None:
            return
        incoming.close()
        if incoming.path is not None:
            paths = [Path(f"{incoming.path}{_JOURNAL}"), *([] if self._keep_files else [incoming.path])]
            self._syncer.submit(_remove, paths)  # a large file takes its time, and others wait to be written

    WORK: ClassVar[dict[type[Effect], Callable[["Spool", Any], Event | None]]] = {
        files.ReadChunk: _read,
        files.HashSource: _hash,
        files.CloseSource: _close_source,
        files.OpenIncoming: _open,
        files.StoreChunk: _store,
        files.FinishIncoming: _finish,
        files.DropIncoming: lambda self, wanted: self._drop(wanted.transfer_id),
    }


def _range(source: "BinaryIO | bytes | bytearray", offset: int, length: int) -> bytes:
    """Read a range. A file is used by one thread only: the one that reads, or the one that writes."""
    if isinstance(source, bytes | bytearray):
        return bytes(source[offset : offset + length])
    source.seek(offset)
    return source.read(length)


def _sha256_of(source: "BinaryIO | bytes | bytearray") -> str:
    digest = hashlib.sha256()
    at = 0
    while data := _range(source, at, _BLOCK):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


def _write_all(file: BinaryIO, data: bytes | memoryview, offset: int) -> None:
    file.seek(offset)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _remove(paths: list[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError:
            log.warning("a spool file could not be removed", exc_info=True)


def _mark_of(status: os.stat_result) -> SourceMark:
    return SourceMark(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _cause(why: Exception) -> str:
    return str(getattr(why, "strerror", None) or why).lower()
