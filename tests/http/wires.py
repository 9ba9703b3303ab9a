"""A connection in simulated time: a wire whose other end is the test, and a runtime that answers on it."""

import asyncio
import json

from comity.http.connection import HttpConnection
from comity.http.serving import ServerLimits, Serving

PATIENCE = 20.0
KEEP_ALIVE = 75
GET = b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\n"


class Wire(asyncio.Transport):
    """The peer's end: what it was sent, and whether the connection is still there."""

    def __init__(self, connection, peer="192.0.2.7"):
        super().__init__({"peername": (peer, 4000), "sockname": ("127.0.0.1", 80)})
        self.connection = connection
        self.got = b""
        self.pieces = []
        self.reading = True
        self.closing = self.stuck = self.gone = self.ended = self.encrypted = False

    def write(self, data):
        assert not self.ended
        assert not self.gone, "uvloop refuses this with an error"
        if not self.closing:
            self.got += data
            self.pieces.append(data)

    def is_closing(self):
        return self.closing

    def close(self):
        self.closing = True
        if not self.stuck:
            self._end()

    def abort(self):
        self.closing = True
        self._end()

    def _end(self):
        if not self.gone:
            self.gone = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def can_write_eof(self):
        return not self.encrypted

    def write_eof(self):
        assert not self.ended
        self.ended = True

    def pause_reading(self):
        self.reading = False

    def resume_reading(self):
        self.reading = True

    @property
    def over(self):
        """Our side has said its last word."""
        return self.ended or self.closing

    @property
    def answers(self):
        """Status and body of each answer."""
        found, rest = [], self.got
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            lines = head.decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:])
            size = int(headers.get("content-length", 0))
            found.append((int(lines[0].split()[1]), rest[:size]))
            rest = rest[size:]
        return found


class NodeRuntime:
    """`work` is what the application does with a request; it answers with its path and its body."""

    def __init__(self, work=None, **limits):
        self.limits = ServerLimits(**{"patience": PATIENCE, "keep_alive": KEEP_ALIVE, **limits})
        self.refused = []
        self.state = Serving(self.app, self.limits, refused=self.refused.append)
        self.work = work
        self.heard = []

    def connect(self, peer="192.0.2.7"):
        connection = HttpConnection(self.state)
        wire = Wire(connection, peer)
        connection.connection_made(wire)
        return connection, wire

    async def app(self, scope, receive, send):
        if self.work:
            await self.work(scope)
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.heard.append("gone")
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.heard.append((scope["path"], len(body)))
        answer = scope["path"].encode() + b" " + body[:100]
        size = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": size})
        await send({"type": "http.response.body", "body": answer})


def code_of(wire):
    return json.loads(wire.answers[-1][1])["code"]
