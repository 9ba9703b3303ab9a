"""Copy bytes between the standard input and output of a client and the socket of a running node.

There is no event loop and no protocol here, so a client costs very little. Only the stream is written to standard
output. The two directions are independent: if a receiver does not read, only its own direction waits.
"""

import contextlib
import os
import select
import signal
import socket
from collections.abc import Iterator
from typing import Final

from comity.mcp.socket import Opening, line_of, read_opened
from comity.wire.errors import PeerError

_CHUNK: Final = 1 << 18
_CONNECT_SECONDS: Final = 2.0
_OPENING_SECONDS: Final = 5.0
_LAST_MS: Final = 1000
_MAX_LINE_LENGTH: Final = 65_536


def attach(path: str, opening: Opening) -> socket.socket | None:
    """Return an opened connection to the node that listens there, or None."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(_CONNECT_SECONDS)
    try:
        link.connect(path)
    except OSError:
        link.close()
        return None
    link.settimeout(_OPENING_SECONDS)
    try:
        link.sendall(line_of(opening))
        read_opened(_line(link))
    except OSError as fault:
        link.close()
        raise PeerError(f"the running node does not answer on its socket ({fault}); restart it") from None
    except BaseException:
        link.close()
        raise
    link.setblocking(False)
    return link


def pump(link: socket.socket, source: int = 0, sink: int = 1) -> bool:
    """Until either side ends. What the client has sent is delivered before its end is passed on.

    False if the node was the one to end it, while the client was still there.
    """
    with _signals() as asked, _not_blocking(sink):
        return _Pump(link, source, sink, asked).run()


class _Pump:
    def __init__(self, link: socket.socket, source: int, sink: int, asked: int) -> None:
        self._link = link
        self._source = source
        self._sink = sink
        self._asked = asked
        self._to_node = bytearray()
        self._to_client = bytearray()
        self._client_ended = False
        self._node_ended = False

    def run(self) -> bool:
        while not self._node_ended:
            ready = self._wait()
            if not ready or self._asked in ready:
                return True
            if not self._serve(ready):
                return True  # the receiver does not read any more
        self._write_rest()
        return self._client_ended

    def _wait(self) -> dict[int, int]:
        """Return the descriptors that are ready; none if the client is gone without reading the rest."""
        waiting = select.poll()
        waiting.register(self._asked, select.POLLIN)
        both_ways = 0
        if len(self._to_client) < _CHUNK:
            both_ways |= select.POLLIN
        if self._to_node:
            both_ways |= select.POLLOUT
        if both_ways:
            waiting.register(self._link, both_ways)
        if self._to_client:
            waiting.register(self._sink, select.POLLOUT)
        if not self._client_ended and len(self._to_node) < _CHUNK:
            waiting.register(self._source, select.POLLIN)
        return dict(waiting.poll(_LAST_MS if self._client_ended and self._to_client else None))

    def _serve(self, ready: dict[int, int]) -> bool:
        if self._source in ready:
            self._read_client()
        if self._link.fileno() in ready:
            self._exchange_with_node(ready[self._link.fileno()])
        return self._sink not in ready or self._write()

    def _read_client(self) -> None:
        data = os.read(self._source, _CHUNK)
        self._to_node += data
        if not data:
            self._client_ended = True
            self._forward_end()

    def _exchange_with_node(self, events: int) -> None:
        try:
            if self._to_node and events & (select.POLLOUT | select.POLLHUP | select.POLLERR):
                del self._to_node[: self._link.send(self._to_node)]
                self._forward_end()
            if events & ~select.POLLOUT:
                data = self._link.recv(_CHUNK)
                self._to_client += data
                self._node_ended = not data
        except BlockingIOError:
            return
        except OSError:
            self._node_ended = True

    def _forward_end(self) -> None:
        if self._client_ended and not self._to_node:
            with contextlib.suppress(OSError):  # it may be gone as well
                self._link.shutdown(socket.SHUT_WR)

    def _write(self) -> bool:
        try:
            del self._to_client[: os.write(self._sink, self._to_client)]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def _write_rest(self) -> None:
        """Write the rest as long as the client reads any of it."""
        while self._to_client:
            waiting = select.poll()
            waiting.register(self._sink, select.POLLOUT)
            if not waiting.poll(_LAST_MS) or not self._write():
                return


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable with SIGTERM or SIGINT. Afterwards both are ignored."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    both = (signal.SIGTERM, signal.SIGINT)
    for asked in both:
        signal.signal(asked, lambda *_: os.write(writing, b"."))
    try:
        yield reading
    finally:
        for asked in both:
            signal.signal(asked, signal.SIG_IGN)
        os.close(reading)
        os.close(writing)


@contextlib.contextmanager
def _not_blocking(sink: int) -> Iterator[None]:
    before = os.get_blocking(sink)
    os.set_blocking(sink, False)
    try:
        yield
    finally:
        os.set_blocking(sink, before)


def _line(link: socket.socket) -> bytes:
    """Read one line byte by byte: what follows belongs to the client."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _MAX_LINE_LENGTH:
        byte = link.recv(1)
        if not byte:
            break
        line += byte
    return bytes(line)
