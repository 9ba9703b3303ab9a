"""The shape of a file on its way: offers, chunks that fit a message, names, the hash made of chunk hashes (peers 4).

An offer has to agree with itself: so many chunks of such a size make so many bytes. What a peer calls a file is
text for people; it never becomes a path.
"""

import hashlib
import re
import unicodedata
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from comity.wire.canonical import js_stringify
from comity.wire.errors import InvalidError

LEAST_CHUNK: Final = 1024
MOST_CHUNK: Final = 262_144
DEFAULT_CHUNK: Final = 65_536
MOST_FILE_BYTES: Final = 268_435_456
_PAGE: Final = 4096
LONGEST_ID: Final = 128
LONGEST_NAME: Final = 200
LONGEST_MIME: Final = 127
HASH_TEXT: Final = re.compile(r"[0-9a-f]{64}")
CHUNKS_PREFIX: Final = "chunks:"
_UNSAFE: Final = re.compile(r"[^a-zA-Z0-9._-]+")
_PLAIN_MIME: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;[ -~]*)?")
_RESERVED: Final = frozenset((".", ".."))
DIGEST_BYTES: Final = 32
DEFAULT_MIME: Final = "application/octet-stream"


class FileOffer(Struct, frozen=True, kw_only=True):
    """`file_hash` is None when it is told at the end. `frames`: chunks come as frames, hashed once each."""

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
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_ID or not value.isprintable():
        return None
    return value


def shown_sequence(value: Any) -> int | None:
    """The number of a chunk as a peer said it; None for what is no number."""
    return value if type(value) is int and abs(value) < 2**63 else None


def read_offer(payload: dict[str, Any], *, max_bytes: int, takes_frames: bool) -> FileOffer:
    """Raises InvalidError with the reason that the sender is told."""
    transfer_id = read_transfer_id(payload.get("transfer_id"))
    if transfer_id is None:
        raise InvalidError("invalid transfer_id")
    total_bytes = payload.get("total_bytes")
    if type(total_bytes) is not int or not 1 <= total_bytes <= max_bytes:
        raise InvalidError(f"total_bytes must be 1..{max_bytes}")
    chunk_bytes = payload.get("chunk_bytes")
    if type(chunk_bytes) is not int or not LEAST_CHUNK <= chunk_bytes <= MOST_CHUNK:
        raise InvalidError(f"chunk_bytes must be {LEAST_CHUNK}..{MOST_CHUNK}")
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
    return len(text) <= LONGEST_MIME and _PLAIN_MIME.fullmatch(text) is not None


def fitted_chunk(wanted: int | None, *, max_message: int, frames: bool, overhead: int) -> int:
    """The chunk size to use: `wanted`, or what a message of the link holds beside `overhead` bytes of its own. Where
    nobody asked for a size, a frame has whole pages, as many as fit: each chunk costs both sides the same work.
    """
    room = max_message - overhead if frames else (max_message - overhead) // 4 * 3
    if wanted is None:
        wanted = max(room // _PAGE * _PAGE, DEFAULT_CHUNK) if frames else DEFAULT_CHUNK
    size = min(max(wanted, LEAST_CHUNK), MOST_CHUNK, room)
    if size < LEAST_CHUNK:
        raise InvalidError(f"the link carries at most {max_message} bytes in a message, too little for files")
    return size


def chunk_payload_overhead(transfer_id: str, total_chunks: int) -> int:
    """Bytes of the payload of a `file.chunk` beside its data."""
    empty = {"transfer_id": transfer_id, "seq": total_chunks, "data_base64": "", "chunk_hash": "0" * 64}
    return len(js_stringify(empty))


def shown_name(value: Any) -> str:
    """The last part of a name, without what is not shown; empty when nothing is left."""
    if not isinstance(value, str):
        return ""
    last = value[-4096:].replace("\\", "/").rsplit("/", 1)[-1]
    clean = "".join(letter for letter in last if letter.isprintable()).strip(" .")
    clean = unicodedata.normalize("NFC", clean)[:LONGEST_NAME]
    return "" if clean in _RESERVED else clean


def spool_name(transfer_id: str, now_ms: int, token: str) -> str:
    """The name of a spool file; `token` is 8 hexadecimal digits."""
    safe = _UNSAFE.sub("_", transfer_id)[:120]
    return f"incoming_{safe}_{now_ms}_spool_{token}.bin"


def chunks_hash(digests: bytes | bytearray) -> str:
    """The hash of a whole file that is made of the hashes of its chunks, in their order (ruling 55)."""
    return CHUNKS_PREFIX + hashlib.sha256(digests).hexdigest()
