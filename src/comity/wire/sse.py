"""Server-sent events: how messages stand in a stream that can be taken up again.

An id is `stream.number`: it names the stream and the place in it. The first event of a stream has no message;
it gives a client whose connection breaks early an id to come back with.
"""

import re
from typing import Final

CONTENT_TYPE: Final = b"text/event-stream"
KEEPALIVE: Final = b": still here\n\n"
_PLACE: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")


def event(message: bytes, id_: str | None = None) -> bytes:
    head = b"" if id_ is None else b"id: %b\n" % id_.encode()
    return b"%bevent: message\ndata: %b\n\n" % (head, message)


def priming(id_: str, retry: int | None = None) -> bytes:
    """`retry` is in milliseconds: how long to wait before coming back."""
    wait = b"" if retry is None else b"retry: %d\n" % retry
    return b"id: %b\n%bdata: \n\n" % (id_.encode(), wait)


def event_id(stream: str, number: int) -> str:
    return f"{stream}.{number}"


def place_of(id_: str) -> tuple[str, int] | None:
    found = _PLACE.fullmatch(id_)
    return (found[1], int(found[2])) if found else None
