"""Frames on a WebSocket: the same messages reach the application however the bytes are cut, and what is sent back
is frames. A fault ends the connection, and may overtake messages that were sent with it. The first byte decides
where the bytes are cut.
"""

import struct
from collections.abc import Iterator

from comity.http.asgi import Message, Receive, Scope, Send
from fuzz.wires import in_pieces, talk

LONGEST = 2048

_HANDSHAKE = (
    b"GET /socket HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


def _frame(first: int, payload: bytes) -> bytes:
    """Masked with zeros, so that the fuzzer sees what it changes."""
    if len(payload) < 126:
        return bytes([first, 0x80 | len(payload)]) + bytes(4) + payload
    return bytes([first, 0x80 | 126]) + struct.pack("!H", len(payload)) + bytes(4) + payload


EXAMPLES = [
    b"\0" + _frame(0x81, b"hello") + _frame(0x81, "é".encode()) + _frame(0x88, b"\x03\xe8"),
    b"\1" + _frame(0x01, b"hel") + _frame(0x89, b"ping") + _frame(0x80, b"lo") + _frame(0x8A, b"pong"),
    b"\2" + _frame(0x82, b"\0\1\2") + _frame(0x81, b"x" * 300),
    b"\3" + _frame(0xC1, b"compressed") + b"\x81\x02{}",
    b"\4" + _frame(0x81, b"\xff") + _frame(0x83, b""),
    b"\5" + _frame(0x01, b"") + _frame(0x00, b"") * 20,
    b"\6\x81\xff" + struct.pack("!Q", 1 << 40) + bytes(4) + b"x" * 50,
    b"\7\x81\xfe\0\2" + bytes(4) + b"{}" + _frame(0x81, b"hello"),
]
_FAULTS = {struct.pack("!H", code) for code in (1002, 1007, 1008, 1009, 1011)}


class _House:
    """Keeps what was said, and says it again."""

    def __init__(self) -> None:
        self.heard: list[str | bytes | None] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "websocket", scope["type"]
        assert (await receive())["type"] == "websocket.connect"
        try:
            await send({"type": "websocket.accept"})
            while True:
                message: Message = await receive()
                if message["type"] == "websocket.disconnect":
                    return
                said = message.get("text") if message.get("text") is not None else message.get("bytes")
                self.heard.append(said)
                if said is None:
                    await send({"type": "websocket.close", "code": 1009})
                    return
                await send({"type": "websocket.send", "text" if isinstance(said, str) else "bytes": said})
        except OSError:
            return  # the peer is gone


def check(data: bytes) -> None:
    seed, data = data[0] if data else 0, data[1:]
    whole, cut = _House(), _House()
    failed = _check_frames(talk(whole, [_HANDSHAKE, data] if data else [_HANDSHAKE], ["/socket"]))
    failed |= _check_frames(talk(cut, [_HANDSHAKE, *in_pieces(data, seed)], ["/socket"]))
    least = min(len(whole.heard), len(cut.heard)) if failed else None
    assert whole.heard[:least] == cut.heard[:least], (whole.heard, cut.heard)


def _check_frames(said: bytes) -> bool:
    """Unmasked, whole, without reserved bits; nothing follows a farewell. Whether it was one for a fault."""
    head, end, said = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    assert end
    frames = list(_frames(said))
    opcodes = [opcode for opcode, _ in frames]
    assert set(opcodes) <= {0x1, 0x2, 0x8, 0x9, 0xA}, opcodes
    assert 0x8 not in opcodes[:-1], opcodes
    return bool(frames) and opcodes[-1] == 0x8 and frames[-1][1][:2] in _FAULTS


def _frames(frames: bytes) -> Iterator[tuple[int, bytes]]:
    while frames:
        first, size, at = frames[0], frames[1], 2
        assert first & 0xF0 == 0x80, first
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(frames[2:at])
        assert len(frames) >= at + size, "half a frame"
        yield first & 0x0F, frames[at : at + size]
        frames = frames[at + size :]
