"""Bytes in, messages out: NDJSON lines and `Content-Length` frames on one stream, distinguished per message.

- A line ends with LF or CRLF; a blank line is nothing. A line that is a header whose name begins with
  `content-` opens a header block instead: headers in any order, LF or CRLF, up to a blank line; then
  come exactly as many bytes as `Content-Length` says.
- The limit counts bytes and is enforced before more is kept: too long a line or frame is reported
  once, as soon as that is certain, and then exactly that line or frame is skipped unseen.
- A header block without one good `Content-Length`, or beyond `HEADER_LIMIT`, is reported once and
  skipped. It ends at its blank line, or at the first line that cannot be a header: that line is read
  as a message, so that a lost blank line does not swallow what follows.
- The events do not depend on how the bytes are cut into chunks. Each byte is read once; no more is kept than the
  limit (or one header block).

With `lines_only` nothing is a header, a lone CR ends a line too, and a blank line is a message.

No input and no output happens here: the owner of the stream feeds what arrived, calls `end` when it is over, and writes
what `encode` returns, in the framing that `framed` names at that moment.
"""

import re
from collections.abc import Callable

from msgspec import Struct

HEADER_LIMIT = 8192

_FIRST_NAME = b"content-"
_HEADER = re.compile(rb"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:(.*)", re.DOTALL)
_HEADER_STARTS = frozenset(b"!#$%&'*+.^_`|~0123456789-\r\n" + bytes(range(65, 91)) + bytes(range(97, 123)))
_MAY_OPEN_A_BLOCK = frozenset(b"cC \t")
_CR = 0x0D
_NO_BLANK_LINE = "a header block must end with a blank line"
_TOO_LONG = f"a header block must not exceed {HEADER_LIMIT} bytes"
_WHOLE_NUMBER = re.compile(rb"0*([0-9]{1,15})")


class Message(Struct, frozen=True):
    body: bytes
    framed: bool


class Oversize(Struct, frozen=True):
    limit: int
    framed: bool


class BadHeader(Struct, frozen=True):
    reason: str


class Truncated(Struct, frozen=True):
    """The stream ended inside a frame."""

    reason: str


Event = Message | Oversize | BadHeader | Truncated


def encode(body: bytes, framed: bool) -> bytes:
    """Return a message as it is written. As a line it must not contain a line end, which compact JSON never does."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body) if framed else body + b"\n"


class FrameDecoder:
    def __init__(self, limit: int, *, lines_only: bool = False) -> None:
        self._limit = limit
        # A header may be longer than a message may; until a line's end we cannot know which it is.
        self._max_line = limit if lines_only else max(limit, HEADER_LIMIT)
        self._lines_only = lines_only
        self._after_cr = False
        self._framed = False
        self._held = bytearray()
        self._step: _Step = FrameDecoder._read_line
        self._after_skip: _Step = FrameDecoder._read_line
        self._block = _Block()
        self._missing = 0

    @property
    def framed(self) -> bool:
        """Return whether to write frames: always, once a frame with a valid header block has come."""
        return self._framed

    @property
    def held(self) -> int:
        """Return how many bytes of an unfinished message are kept."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self._lines_only:
            data = self._with_one_line_end(data)
        at = 0
        while at < len(data):
            at = self._step(self, data, at, events)
        return events

    def end(self) -> list[Event]:
        """End the stream. A last line needs no line end; an incomplete frame is reported."""
        events: list[Event] = []
        if self._step is FrameDecoder._read_line and self._held:
            self._line(self._take(b""), events)
        if self._step is FrameDecoder._read_header and not self._block.reported:
            events.append(Truncated("the stream ended inside a header block"))
        if self._step is FrameDecoder._read_body:
            size = len(self._held) + self._missing
            events.append(Truncated(f"the stream ended after {len(self._held)} of {size} bytes"))
        self._held.clear()
        self._step = FrameDecoder._read_line
        return events

    def _with_one_line_end(self, data: bytes) -> bytes:
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data

    def _take(self, rest: bytes) -> bytes:
        """Return the whole line, held part and rest, without a CR at its end."""
        if self._held:
            self._held += rest
            rest = bytes(self._held)
            self._held.clear()
        return rest[:-1] if rest.endswith(b"\r") else rest

    def _read_line(self, data: bytes, at: int, events: list[Event]) -> int:
        while at < len(data):
            end = data.find(b"\n", at)
            stop = len(data) if end < 0 else end
            if len(self._held) + stop - at > self._limit and self._is_too_long(data, at, stop):
                events.append(Oversize(self._limit, framed=False))
                self._held.clear()
                self._skip_line_then(FrameDecoder._read_line)
                return at
            if end < 0:
                self._held += data[at:]
                return len(data)
            line = self._take(data[at:end])
            at = end + 1
            self._line(line, events)
            if self._step is not FrameDecoder._read_line:
                break
        return at

    def _is_too_long(self, data: bytes, at: int, stop: int) -> bool:
        """Return whether a line over the limit can no longer be a short one or a header."""
        size = len(self._held) + stop - at
        limit = self._limit
        start = (self._held[:8] + data[at : at + 8])[: min(size, 8)].lower()
        if _FIRST_NAME.startswith(start):
            limit = self._max_line
        last = data[stop - 1] if stop > at else self._held[-1]
        return size > limit + 1 or (size > limit and last != _CR)

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not self._lines_only:
            if not line or line.isspace():
                return
            if line[0] in _MAY_OPEN_A_BLOCK and self._opens_block(line, events):
                return
        if len(line) > self._limit:
            events.append(Oversize(self._limit, framed=False))
        else:
            events.append(Message(line, framed=False))

    def _opens_block(self, line: bytes, events: list[Event]) -> bool:
        header = _HEADER.fullmatch(line)
        if header is None or not header[1].lower().startswith(_FIRST_NAME):
            return False
        self._block = _Block()
        self._step = FrameDecoder._read_header
        self._add(header, events)
        return True

    def _add(self, header: re.Match[bytes], events: list[Event]) -> None:
        self._block.add(header[1].lower(), header[2].strip(b" \t"))
        self._block.size += len(header[0]) + 1
        if self._block.size > HEADER_LIMIT:
            self._spoil(events, _TOO_LONG)

    def _read_header(self, data: bytes, at: int, events: list[Event]) -> int:
        if not self._held and data[at] not in _HEADER_STARTS:
            self._spoil(events, _NO_BLANK_LINE)
            self._step = FrameDecoder._read_line
            return at
        end = data.find(b"\n", at)
        stop = len(data) if end < 0 else end
        # One more, for the CR of a blank line: the end of the block must not be skipped with what is too long.
        if self._block.size + len(self._held) + stop - at > HEADER_LIMIT + 1:
            self._spoil(events, _TOO_LONG)
            self._held.clear()
            self._skip_line_then(FrameDecoder._read_header)
            return at
        if end < 0:
            self._held += data[at:]
            return len(data)
        line = self._take(data[at:end])
        if not line:
            self._end_block(events)
        elif (header := _HEADER.fullmatch(line)) is not None:
            self._add(header, events)
        else:
            self._spoil(events, _NO_BLANK_LINE)
            self._step = FrameDecoder._read_line
            self._line(line, events)
        return end + 1

    def _spoil(self, events: list[Event], reason: str) -> None:
        """Report a bad block once. Its rest is skipped line by line, under a limit of its own."""
        self._block.size = 0
        if not self._block.reported:
            self._block.reported = True
            events.append(BadHeader(reason))

    def _end_block(self, events: list[Event]) -> None:
        self._step = FrameDecoder._read_line
        block = self._block
        if block.reported:
            return
        if block.fault or block.length is None:
            self._spoil(events, block.fault or "missing Content-Length header")
        elif block.length > self._limit:
            self._framed = True
            events.append(Oversize(self._limit, framed=True))
            self._missing = block.length
            self._step = FrameDecoder._skip_body
        elif block.length == 0:
            self._framed = True
            events.append(Message(b"", framed=True))
        else:
            self._missing = block.length
            self._step = FrameDecoder._read_body

    def _read_body(self, data: bytes, at: int, events: list[Event]) -> int:
        piece = data[at : at + self._missing]
        at += len(piece)
        self._missing -= len(piece)
        if self._missing:
            self._held += piece
        else:
            if self._held:
                self._held += piece
                piece = bytes(self._held)
                self._held.clear()
            self._framed = True
            events.append(Message(piece, framed=True))
            self._step = FrameDecoder._read_line
        return at

    def _skip_body(self, data: bytes, at: int, _events: list[Event]) -> int:
        skipped = min(self._missing, len(data) - at)
        self._missing -= skipped
        if not self._missing:
            self._step = FrameDecoder._read_line
        return at + skipped

    def _skip_line_then(self, step: "_Step") -> None:
        self._after_skip = step
        self._step = FrameDecoder._skip_line

    def _skip_line(self, data: bytes, at: int, _events: list[Event]) -> int:
        end = data.find(b"\n", at)
        if end < 0:
            return len(data)
        self._step = self._after_skip
        return end + 1


_Step = Callable[[FrameDecoder, bytes, int, list[Event]], int]


class _Block:
    """A header block as far as it has been read."""

    def __init__(self) -> None:
        self.size = 0
        self.length: int | None = None
        self.fault = ""
        self.reported = False

    def add(self, name: bytes, value: bytes) -> None:
        if name != b"content-length":
            return
        number = _WHOLE_NUMBER.fullmatch(value)
        if number is None:
            self.fault = "Content-Length must be a whole number of at most 15 digits"
        elif self.length is None:
            self.length = int(number[1])
        elif self.length != int(number[1]):
            self.fault = "Content-Length is given twice with different values"
