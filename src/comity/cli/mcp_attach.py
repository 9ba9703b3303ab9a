"""Between a client's pipes and the socket of a running node: bytes both ways, and nothing else.

No event loop and no protocol: a client that attaches costs next to nothing. Standard output belongs to the stream.
"""

import os
import select
import signal
import socket
from typing import Final

from comity.core.errors import PeerError
from comity.doors.mcp.opening import Opening, line_of, read_opened

_CHUNK: Final = 1 << 18
_CONNECT_SECONDS: Final = 2.0
_OPENING_SECONDS: Final = 5.0
_LONGEST_LINE: Final = 65_536


def attach(path: str, opening: Opening) -> socket.socket | None:
    """A connection to the node that listens there, opened; None where nobody does."""
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
    link.settimeout(None)
    return link


def pump(link: socket.socket, source: int = 0, sink: int = 1) -> None:
    """Until either side ends. What the client has sent is delivered before its end is passed on."""
    woken, waker = os.pipe()
    for asked in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asked, lambda *_: os.close(waker))
    readable = select.poll()
    for descriptor in (source, link.fileno(), woken):
        readable.register(descriptor, select.POLLIN | select.POLLHUP)
    while True:
        for descriptor, _ in readable.poll():
            if descriptor == woken:
                return
            data = os.read(descriptor, _CHUNK)
            if descriptor == source:
                if data:
                    link.sendall(data)
                else:
                    readable.unregister(source)
                    link.shutdown(socket.SHUT_WR)
            elif not data:
                return
            else:
                _write_all(sink, data)


def _line(link: socket.socket) -> bytes:
    """One byte at a time: what follows the line is not ours."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        byte = link.recv(1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]
