"""A connection of our HTTP server over a wire that is not there, in simulated time.

`talk` sends bytes in pieces, as long as they are read, lets time pass until nothing more happens, and hangs up.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from comity.http.asgi import App
from comity.http.connection import HttpConnection
from comity.http.serving import ServerLimits, Serving
from comity.testing import run_simulated

PATIENCE = 20.0
FOREVER = 1000.0


def connection_to(app: App, websockets: Sequence[str]) -> tuple[asyncio.BaseProtocol, Callable[[], int]]:
    """A connection as the server makes it, and a way to ask how much is still under way."""
    limits = ServerLimits(patience=PATIENCE, head_bytes=2048, headers=16)
    serving = Serving(app, limits, websockets=websockets)
    return HttpConnection(serving), lambda: len(serving.connections) + len(serving.tasks)


class Wire(asyncio.Transport):
    """The peer's end. Nothing is written after the end, and nothing is read while reading is paused."""

    def __init__(self, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": ("192.0.2.7", 4000), "sockname": ("127.0.0.1", 80)})
        self._protocol = protocol
        self.got = b""
        self.reading = True
        self.ended = self.closed = False

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "written after the end"
        if not self.closed:
            self.got += bytes(data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(lambda: self._protocol.connection_lost(None))

    def abort(self) -> None:
        self.close()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        assert not self.ended, "ended twice"
        self.ended = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_reading(self) -> bool:
        return self.reading and not self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def feed(self, data: bytes) -> None:
        while data and not self.closed:
            protocol: Any = self._protocol
            if not isinstance(protocol, asyncio.BufferedProtocol):
                cast("asyncio.Protocol", protocol).data_received(data)
                return
            buffer = memoryview(protocol.get_buffer(len(data)))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]


def talk(app: App, pieces: Sequence[bytes], websockets: Sequence[str] = ()) -> bytes:
    """What the peer was sent; nothing of the connection is left."""

    async def story() -> bytes:
        protocol, busy = connection_to(app, websockets)
        wire = Wire(protocol)
        protocol.connection_made(wire)
        for piece in pieces:
            for _ in range(20):
                await asyncio.sleep(0)
                if wire.is_reading():
                    break
            if not wire.is_reading():
                await asyncio.sleep(FOREVER)  # whatever holds it back comes to an end, or it is closed
            if wire.closed:
                break
            wire.feed(piece)
        await asyncio.sleep(FOREVER)
        wire.close()
        await asyncio.sleep(FOREVER)
        assert not busy(), "something is still under way after the peer has gone"
        return wire.got

    return run_simulated(story)


def in_pieces(data: bytes, seed: int) -> Iterator[bytes]:
    """Cut anywhere; the seed decides where."""
    chance = random.Random(seed)
    largest = chance.choice((1, 2, 7, 40, 500))
    while data:
        size = chance.randint(1, largest)
        yield data[:size]
        data = data[size:]
