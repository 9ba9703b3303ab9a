"""Pages that are open, in a process of their own: `python -m bench.readers URL TOKEN-FILE COUNT`.

Each reads `/v1/events` as a page does, and counts what it is told. SIGTERM ends it; then the last line on stderr sums up,
as JSON: the fewest acts that one of them was told of, the most frames that one of them got, the resets of all, and for how
many seconds they were open. It runs at a low priority: what it takes is what node and callers leave over.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import uvloop

from bench.harness.http_load import request_bytes
from comity.node.event_stream import EVENTS_PATH


class Page(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.acts = self.frames = self.resets = 0
        self._request = request
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self._open(data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: ") and b'"number"' in line:
                self.acts += json.loads(line[6:]).get("count", 1)
            elif line.startswith(b"id: "):
                self.frames += 1
            elif line == b"event: reset":
                self.resets += 1

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(f"the node closed the stream: {exc}"))

    def _open(self, data: bytes) -> None:
        """What comes first has no acts in it: there are none before all are open."""
        if data.startswith(b"HTTP/1.1 200 "):
            self.opened.set_result(None)
        else:
            self.opened.set_exception(ConnectionError(f"the node refused the stream: {data[:300]!r}"))


async def read(url: str, token: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    request = request_bytes("GET", url + EVENTS_PATH, headers=[("Authorization", f"Bearer {token}")])
    host, port = urlsplit(url).hostname or "127.0.0.1", urlsplit(url).port or 80
    pages = [Page(request) for _ in range(count)]
    for page in pages:
        await loop.create_connection(lambda page=page: page, host, port)  # type: ignore[misc]
        await page.opened
    print(json.dumps({"url": url}), flush=True)
    begun = loop.time()
    await over.wait()
    told = {
        "acts": min(page.acts for page in pages),
        "frames": max(page.frames for page in pages),
        "resets": sum(page.resets for page in pages),
        "seconds": loop.time() - begun,
    }
    print(json.dumps(told), file=sys.stderr, flush=True)


def main(url: str, token_file: str, count: str) -> None:
    os.nice(10)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(read(url, Path(token_file).read_text("ascii").strip(), int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
