"""The head of a request (request line and headers): read by httptools, or known from before.

`HeadReader` gives the parser one head and never a byte beyond its end: what follows is the body, or waits until this
request was answered. It refuses what two readers could understand differently; of what the parser lets pass these are
a version other than 1.0 and 1.1, a request line with more than two spaces, an absolute target that does not name the host, and transfer codings but chunked.

A client that stays connected repeats its request line and headers; only the length of the body changes. The bytes around
that number are the key to what the parser made of them the first time. A head is kept when it comes for the second time, and when its meaning is the same every time: one
piece, on a connection that goes on, with a body of a stated length or none.
"""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

import httptools

from comity.http.asgi import HEADERS_BY_NAME, LENGTH_DIGITS, Scope, by_name

KEPT_HEADS: Final = 512
MAX_HEAD_LENGTH: Final = 2048
SIGHTINGS: Final = 4096

_END: Final = b"\r\n\r\n"
_EMPTY_LINES: Final = (b"\r", b"\n")  # may come before a request, which then is not where the data begins
_LENGTH: Final = b"content-length"
_CODING: Final = b"transfer-encoding"
_LENGTH_LINES: Final = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_SAID_ANEW_EACH_TIME: Final = frozenset({_CODING, b"upgrade", b"expect"})
_SPACES_OF_LINE: Final = 2
_VERSIONS: Final = frozenset({"1.0", "1.1"})
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}

Lines = list[tuple[bytes, bytes]]


class HeadRefusal(NamedTuple):
    status: int
    code: str
    detail: str


class HeadRefused(Exception):  # noqa: N818 - it is answered to the peer, not raised to a caller of ours
    def __init__(self, refusal: HeadRefusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal


MALFORMED: Final = HeadRefusal(
    400, "malformed", "this is not an HTTP/1.1 request; check its first line and headers"
)
_SPACES: Final = HeadRefusal(
    400, "malformed", "the request line must have one space between method, target and version, and no other"
)
_CODING_UNKNOWN: Final = HeadRefusal(
    501, "unsupported", "the only Transfer-Encoding that is understood is chunked"
)
_OTHER_HOST: Final = HeadRefusal(400, "malformed", "the target names another host than the Host header")


class Head(NamedTuple):
    """The beginning of a scope, which the receiver may extend; the headers; and what follows them."""

    scope: Scope
    headers: Lines
    length: int | None
    """Of the body. None: it comes in chunks."""
    keep_alive: bool = True
    upgrade: bytes = b""
    expects_continue: bool = False


class HeadReader:
    def __init__(self, max_bytes: int, max_headers: int) -> None:
        self._seen = _Seen(max_headers)
        # The parser knows what was seen and not this reader: two that know each other are left to the collector.
        self._parser = httptools.HttpRequestParser(self._seen)
        self._max_bytes = max_bytes
        self._size = 0
        self._last = b""
        self._spaces: int | None = 0  # in the request line; None once it is complete
        self._upgrades = False  # or a tunnel is wanted

    @property
    def begun(self) -> bool:
        return self._size > 0

    def feed(self, data: bytes) -> int | None:
        """Return where in `data` the head ends, or None while it goes on. Raise HeadRefused."""
        skipped = 0
        if not self._last:
            skipped = len(data) - len(data.lstrip(b"\r\n"))
            data = data[skipped:]
        end = (self._last + data).find(_END)
        used = len(data) if end < 0 else end + len(_END) - len(self._last)
        self._size += skipped + used
        if self._size > self._max_bytes:
            raise HeadRefused(self._too_large())
        self._parse(data[:used])
        self._count_spaces(data[:used])
        if self._seen.complete != (end >= 0):
            raise HeadRefused(MALFORMED)
        self._last = (self._last + data)[-len(_END) + 1 :]
        return None if end < 0 else skipped + used

    def _count_spaces(self, data: bytes) -> None:
        if self._spaces is None:
            return
        end = data.find(b"\n")
        self._spaces += data.count(b" ", 0, len(data) if end < 0 else end)
        if self._spaces > _SPACES_OF_LINE:
            raise HeadRefused(_SPACES)
        if end >= 0:
            self._spaces = None

    def _parse(self, data: bytes) -> None:
        seen = self._seen
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._upgrades = True
        except httptools.HttpParserError:
            if len(seen.headers) > seen.max_headers:
                raise HeadRefused(self._too_large()) from None
            codings = [value for name, value in seen.headers if name == _CODING]
            known = not codings or codings[0].strip().lower() == b"chunked"
            raise HeadRefused(MALFORMED if known else _CODING_UNKNOWN) from None

    def head(self) -> Head:
        """Return the complete head. Raise HeadRefused."""
        seen, parser = self._seen, self._parser
        version = parser.get_http_version()
        named = by_name(seen.headers)
        if version not in _VERSIONS:
            raise HeadRefused(MALFORMED)
        upgrade = named.get(b"upgrade") if version == "1.1" and self._upgrades else None
        scope = _scope_of(parser.get_method().decode("ascii"), seen.url, version, named.get(b"host"))
        scope[HEADERS_BY_NAME] = named
        expected = named.get(b"expect")
        return Head(
            scope,
            seen.headers,
            _length_of(named, version),
            keep_alive=version == "1.1" and not self._upgrades and not _says_close(seen.headers),
            upgrade=upgrade.lower() if isinstance(upgrade, bytes) else b"",
            # a client of HTTP/1.0 would take 100 for the answer
            expects_continue=version == "1.1"
            and isinstance(expected, bytes)
            and expected.lower() == b"100-continue",
        )

    def _too_large(self) -> HeadRefusal:
        return HeadRefusal(
            431,
            "too_large",
            f"the request line and headers exceed {self._max_bytes:,} bytes or "
            f"{self._seen.max_headers} headers; send fewer",
        )


class _Seen:
    """What the parser reported of one head."""

    def __init__(self, max_headers: int) -> None:
        self.max_headers = max_headers
        self.url = b""
        self.headers: Lines = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))
        if len(self.headers) > self.max_headers:
            raise ValueError  # stops the parser

    def on_headers_complete(self) -> None:
        self.complete = True


def _scope_of(method: str, url: bytes, version: str, host: bytes | int | None) -> Scope:
    path, _, query = url.partition(b"?")
    if not url.startswith(b"/") or b"#" in url:
        path, query = _absolute(url, host)
    try:
        text = path.decode("ascii")
    except UnicodeDecodeError:
        raise HeadRefused(MALFORMED) from None
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": version,
        "root_path": "",
        "method": method,
        "path": unquote(text) if "%" in text else text,
        "raw_path": path,
        "query_string": query,
    }


def _absolute(url: bytes, host: bytes | int | None) -> tuple[bytes, bytes]:
    """Return path and query of a target that does not begin with its path, or that has a fragment."""
    try:
        target = httptools.parse_url(url)
    except httptools.HttpParserError:
        raise HeadRefused(MALFORMED) from None
    if target.host is not None:
        named = url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
        if not isinstance(host, bytes) or host.lower() != named.lower():
            raise HeadRefused(_OTHER_HOST)
    if target.path is None or not target.path.startswith(b"/"):
        raise HeadRefused(MALFORMED)
    return target.path, target.query or b""


def _says_close(headers: Lines) -> bool:
    return any(
        token.strip().lower() == b"close"
        for name, value in headers
        if name == b"connection"
        for token in value.split(b",")
    )


def _length_of(named: dict[bytes, bytes | int], version: str) -> int | None:
    coding, length = named.get(_CODING), named.get(_LENGTH, b"0")
    if coding is not None:
        if not isinstance(coding, bytes) or coding.strip().lower() != b"chunked":
            raise HeadRefused(_CODING_UNKNOWN)
        if version != "1.1":
            raise HeadRefused(MALFORMED)
        return None
    assert isinstance(length, bytes)  # the parser refuses a second one
    return int(length)


class _Known(NamedTuple):
    scope: Scope
    headers: Lines
    length_at: int | None
    """Which of the headers is the length; None when none is stated, and so there is no body."""


class HeadCache:
    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._seen_once: set[int] = set()

    def find(self, data: bytes) -> tuple[Head, int] | None:
        """Return the head that `data` begins with, and where it ends; None for any other data."""
        end = data.find(_END, 0, MAX_HEAD_LENGTH)
        if end < 0:
            return None
        key, length = _apart(data, end)
        known = self._known.get(key)
        if known is None or (known.length_at is None) != (not length):
            return None
        scope, headers = {**known.scope}, known.headers.copy()
        if known.length_at is not None:
            headers[known.length_at] = (_LENGTH, length)
            scope[HEADERS_BY_NAME] = {**known.scope[HEADERS_BY_NAME], _LENGTH: length}
        return Head(scope, headers, int(length or 0)), end + len(_END)

    def put(self, data: bytes, head: Head) -> None:
        """Store the head that `data` begins with."""
        end = data.find(_END, 0, MAX_HEAD_LENGTH)
        if end < 0 or data.startswith(_EMPTY_LINES) or not head.keep_alive:
            return
        key, length = _apart(data, end)
        if self._comes_again(key):
            headers, named = head.headers, head.scope[HEADERS_BY_NAME]
            if (
                # the parser saw as many headers as there are ends of lines, and no line ends in another way
                data.count(b"\n", 0, end) == data.count(b"\r\n", 0, end) == len(headers)
                and named.get(_LENGTH, b"") == length
                and named.keys().isdisjoint(_SAID_ANEW_EACH_TIME)
            ):
                if len(self._known) >= KEPT_HEADS:
                    self._known.clear()
                at = headers.index((_LENGTH, length)) if length else None
                self._known[key] = _Known({**head.scope}, headers.copy(), at)

    def _comes_again(self, key: bytes) -> bool:
        """Return whether the key was seen before, so that numbered requests do not push out the others."""
        sighting = hash(key)
        if sighting in self._seen_once:
            self._seen_once.remove(sighting)
            return True
        if len(self._seen_once) >= SIGHTINGS:
            self._seen_once.clear()
        self._seen_once.add(sighting)
        return False


def _apart(data: bytes, end: int) -> tuple[bytes, bytes]:
    """Split the digits of the length off the head; they are empty if it states no length in the usual form."""
    for line in _LENGTH_LINES:
        start = data.find(line, 0, end)
        if start > 0:
            start += len(line)
            stop = data.find(b"\r", start, end)
            stop = end if stop < 0 else stop
            length = data[start:stop]
            if len(length) <= LENGTH_DIGITS and length.isdigit():
                return data[:start] + data[stop:end], length
            break
    return data[:end], b""


# Decoder of a body in chunks (`Transfer-Encoding: chunked`).


MAX_SIZE_LINE_LENGTH: Final = 256

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
    def __init__(self, max_bytes: int, max_headers: int) -> None:
        """The limits of a head, which trailers are counted against."""
        self._max_bytes = max_bytes
        self._max_headers = max_headers
        self._line = b""
        self._left = 0
        self._after_data = False
        self._trailers: int | None = None  # how many there were; None before the last chunk
        self._trailer_bytes = 0
        self.ended = False

    def take(self, data: bytes) -> tuple[bytes, int]:
        """Return the body bytes in `data`, and how much of `data` was used. Raise HeadRefused."""
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
                if len(self._line) > (MAX_SIZE_LINE_LENGTH if self._trailers is None else self._max_bytes):
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
        if self._trailers > self._max_headers or self._trailer_bytes > self._max_bytes:
            raise HeadRefused(
                HeadRefusal(
                    431,
                    "too_large",
                    f"the trailers exceed {self._max_bytes:,} bytes or {self._max_headers}; send fewer",
                )
            )


# Heads of WebSocket frames: how long a frame says that it is, before any of it has come. The parser of frames reports a
# frame when it is complete; this one knows the announced length as soon as the head has come. A length that is not in its
# shortest form can be understood in two ways by two readers, so it is reported.


_FRAME_LENGTH_BITS: Final = 0x7F
_MASKED: Final = 0x80
_MASK_BYTES: Final = 4
_LONGER_BYTES: Final = {126: 2, 127: 8}
_MIN_LENGTH: Final = {126: 126, 127: 65_536}


class FrameHeads:
    def __init__(self) -> None:
        self.announced = 0
        """Bytes of payload that the frame has which is not complete; 0 while there is none."""
        self._head = b""
        self._left = 0  # of the mask and the payload

    def feed(self, data: bytes) -> bool:
        """Take the next bytes. Return False if a length is not in its shortest form."""
        at = 0
        while at < len(data):
            if self._left:
                used = min(self._left, len(data) - at)
                self._left -= used
                at += used
                if not self._left:
                    self.announced = 0
                continue
            self._head += data[at : at + 1]
            at += 1
            if not self._take_head():
                return False
        return True

    def _take_head(self) -> bool:
        head = self._head
        if len(head) == 1:
            return True
        length = head[1] & _FRAME_LENGTH_BITS
        more = _LONGER_BYTES.get(length, 0)
        if len(head) < 2 + more:
            return True
        if more:
            least, length = _MIN_LENGTH[length], int.from_bytes(head[2:])
            if length < least:
                return False
        self._head = b""
        self._left = length + (_MASK_BYTES if head[1] & _MASKED else 0)
        self.announced = length if self._left else 0
        return True
