"""The frame decoder: any chunks give the same events, and no more is held than the limits allow.

The first two bytes of the input choose the limit, the mode and the chunks; the rest is the stream.
"""

from comity.wire import frames
from comity.wire.frames import Event, FrameDecoder, Message, encode

LONGEST = 256

# Low enough for a short input to go beyond it.
HEADER_LIMIT = frames.HEADER_LIMIT = 64

_STREAMS = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n\n[]',
    encode(b"{}", framed=True) * 2 + b"5\n",
    b"Content-Type: a\nContent-Length: 3\n\nabc\n",
    b"content-length:0\n\nContent-Length: -5\r\n\r\n{}\n",
    b"Content-Length: 4\r\nContent-Length: 5\r\n{}\nContent-Length: 90\r\n\r\n" + b"y" * 90 + b"{}\n",
    b"x" * 90 + b"\r" + b"\ncontent-king\n" + b" Content-Length: 9",
    b"Content-A: " + b"z" * HEADER_LIMIT + b"\nb: c\r\n\r\n{}\n",
]
EXAMPLES = [bytes([limit, way]) + stream for stream in _STREAMS for limit, way in [(8, 0), (2, 3), (30, 1)]]


def check(data: bytes) -> None:
    limit, way, stream = data[0] if data else 0, data[1] if len(data) > 1 else 0, data[2:]
    limit = limit * 64 if way & 2 else limit
    whole = _events(stream, [len(stream)], limit, lines_only=bool(way & 1))
    for chunks in ([1], [way or 1, 1, 5]):
        assert _events(stream, chunks, limit, lines_only=bool(way & 1)) == whole
    bodies = [event.body for event in whole[0] if isinstance(event, Message)]
    assert sum(map(len, bodies)) <= len(stream)
    assert all(len(body) <= limit for body in bodies)


def _events(stream: bytes, chunks: list[int], limit: int, *, lines_only: bool) -> tuple[list[Event], bool]:
    decoder = FrameDecoder(limit, lines_only=lines_only)
    events: list[Event] = []
    at = turn = 0
    while at < len(stream):
        size = chunks[turn % len(chunks)]
        events += decoder.feed(stream[at : at + size])
        assert decoder.held <= max(limit, HEADER_LIMIT) + 1
        at += size
        turn += 1
    return events + decoder.end(), decoder.framed
