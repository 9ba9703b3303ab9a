"""Decoder of a body in chunks (`Transfer-Encoding: chunked`).

The parser of heads is not used here: it would continue into the next request, and it treats trailers as headers. A line
with the size of a chunk has a length limit, which includes extensions. Trailers have the form of headers, count against
the limits of a head and are dropped.
"""

import re
from typing import Final

from comity.http.heads import HeadRefusal, HeadRefused

LONGEST_SIZE_LINE: Final = 256

_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")
_SIZE_DIGITS: Final = 15
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:")
_MALFORMED: Final = HeadRefusal(
    400, "malformed", "the chunks of the body are not as Transfer-Encoding demands"
)
_NO_TRAILER: Final = HeadRefusal(
    400, "malformed", "a line behind the body is no trailer; write a name, a colon and a value"
)


class Chunks:
    def __init__(self, most_bytes: int, most_headers: int) -> None:
        """The limits of a head, which trailers are counted against."""
        self._most_bytes = most_bytes
        self._most_headers = most_headers
        self._line = b""
        self._left = 0
        self._after_data = False
        self._trailers: int | None = None  # how many there were; None before the last chunk
        self._trailer_bytes = 0
        self.ended = False

    def take(self, data: bytes) -> tuple[bytes, int]:
        """What of the body is in `data`, and how much of `data` was used. Raises Refused."""
        parts: list[bytes] = []
        at = 0
        while at < len(data) and not self.ended:
            if self._left:
                part = data[at : at + self._left]
                parts.append(part)
                self._left -= len(part)
                at += len(part)
                self._after_data = not self._left
            else:
                end = data.find(b"\n", at) + 1
                self._line += data[at : end or len(data)]
                if len(self._line) > (LONGEST_SIZE_LINE if self._trailers is None else self._most_bytes):
                    raise HeadRefused(_MALFORMED)
                at = end or len(data)
                if end:
                    line, self._line = self._line, b""
                    if not line.endswith(b"\r\n") or line.count(b"\r") > 1:
                        raise HeadRefused(_MALFORMED)
                    self._take_line(line[:-2])
        return parts[0] if len(parts) == 1 else b"".join(parts), at

    def _take_line(self, line: bytes) -> None:
        if self._after_data:
            if line:
                raise HeadRefused(_MALFORMED)
            self._after_data = False
        elif self._trailers is not None:
            self._take_trailer(line)
        else:
            size = line.partition(b";")[0]
            if not 0 < len(size) <= _SIZE_DIGITS or not _HEXADECIMAL.issuperset(size):
                raise HeadRefused(_MALFORMED)
            self._left = int(size, 16)
            if not self._left:
                self._trailers = 0

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self.ended = True
            return
        if _TRAILER.match(line) is None:
            raise HeadRefused(_NO_TRAILER)
        assert self._trailers is not None
        self._trailers += 1
        self._trailer_bytes += len(line)
        if self._trailers > self._most_headers or self._trailer_bytes > self._most_bytes:
            raise HeadRefused(
                HeadRefusal(
                    431,
                    "too_large",
                    f"the trailers exceed {self._most_bytes:,} bytes or {self._most_headers}; send fewer",
                )
            )
