"""Heads that were seen before.

A client that stays connected says the same request line and the same headers again and again; only the length of the
body changes. The bytes around that number are the key to what the parser made of them the first time; the parser
itself is then not asked. A head is kept when it comes for the second time, and when its meaning is the same every time:
one piece, on a connection that goes on, with a body of a stated length or none.
"""

from typing import NamedTuple

from comity.doors.http.asgi import HEADERS_BY_NAME, LENGTH_DIGITS, Scope, by_name

KEPT_HEADS = 512
LONGEST_HEAD = 2048
SIGHTINGS = 4096

_END = b"\r\n\r\n"
_EMPTY_LINES = (b"\r", b"\n")  # may come before a request, which then is not where the data begins
_LENGTH = b"content-length"
_LENGTH_LINES = (b"\r\nContent-Length: ", b"\r\ncontent-length: ")
_SAID_ANEW_EACH_TIME = frozenset({b"transfer-encoding", b"upgrade", b"expect"})

Lines = list[tuple[bytes, bytes]]


class Head(NamedTuple):
    """What a head says: the beginning of a scope, which whoever gets it may go on with, and its headers."""

    scope: Scope
    headers: Lines


class _Known(NamedTuple):
    scope: Scope
    headers: Lines
    length_at: int | None
    """Which of the headers is the length; None when none is stated, and so there is no body."""


class KnownHeads:
    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._seen_once: set[int] = set()

    def find(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head and the body of a request that is all of `data`; None for any other data."""
        end = data.find(_END, 0, LONGEST_HEAD)
        if end < 0:
            return None
        key, length = _apart(data, end)
        known = self._known.get(key)
        if known is None or (known.length_at is None) != (not length):
            return None
        body = data[end + len(_END) :]
        if len(body) != (int(length) if length else 0):
            return None
        scope, headers = {**known.scope}, known.headers.copy()
        if known.length_at is not None:
            headers[known.length_at] = (_LENGTH, length)
            scope[HEADERS_BY_NAME] = {**known.scope[HEADERS_BY_NAME], _LENGTH: length}
        return Head(scope, headers), body

    def learn(self, data: bytes, head: Head) -> None:
        """`data` begins with what `head` was read from."""
        end = data.find(_END, 0, LONGEST_HEAD)
        if end < 0 or data.startswith(_EMPTY_LINES):
            return
        key, length = _apart(data, end)
        if self._comes_again(key):
            headers, named = head.headers, by_name(head.headers)
            if (
                # the parser saw as many headers as there are ends of lines, and no line ends in another way
                data.count(b"\n", 0, end) == data.count(b"\r\n", 0, end) == len(headers)
                and named.get(_LENGTH, b"") == length
                and named.keys().isdisjoint(_SAID_ANEW_EACH_TIME)
            ):
                if len(self._known) >= KEPT_HEADS:
                    self._known.clear()
                at = headers.index((_LENGTH, length)) if length else None
                self._known[key] = _Known({**head.scope, HEADERS_BY_NAME: named}, headers.copy(), at)

    def _comes_again(self, key: bytes) -> bool:
        """Clients that number their requests would otherwise have each one learned, and the others forgotten."""
        sighting = hash(key)
        if sighting in self._seen_once:
            self._seen_once.remove(sighting)
            return True
        if len(self._seen_once) >= SIGHTINGS:
            self._seen_once.clear()
        self._seen_once.add(sighting)
        return False


def _apart(data: bytes, end: int) -> tuple[bytes, bytes]:
    """The head without the digits of the length, and those; none where it states no length as most do."""
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
