"""Requests, one after the other, over a few connections that stay open.

The client does as little as it can for each answer, because it shares the machine with the server:
no futures, no parsing beyond the end of the body, the next request in the callback of the answer.
Any answer but 200 ends the measurement, and is told; so does an answer that a check refuses.
"""

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from time import perf_counter
from typing import cast
from urllib.parse import urlsplit

CONNECTIONS = 16

Check = Callable[[bytes], None]

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_SHOWN_BYTES = 300


def request_bytes(
    method: str, url: str, *, headers: Sequence[tuple[str, str]] = (), body: bytes = b""
) -> bytes:
    target = urlsplit(url)
    lines = [f"{method} {target.path or '/'} HTTP/1.1", f"Host: {target.netloc}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


async def requests_per_second(
    url: str, request: bytes, seconds: float, *, connections: int = CONNECTIONS
) -> float:
    """Answers per second over all connections to one request, sent again and again."""
    rate, _ = await streams_per_second(url, [repeat(request) for _ in range(connections)], seconds)
    return rate


async def streams_per_second(
    url: str, streams: Sequence[Iterable[bytes]], seconds: float, *, checks: Sequence[Check] | None = None
) -> tuple[float, list[int]]:
    """Answers per second over one connection for each stream, and how many each stream got.

    The connections are open before time starts to count; it ends when all are answered, if that is earlier.
    `checks` look at the body of each answer, one for each stream, while time counts.
    """
    heard = checks or [_not_looked_at] * len(streams)
    callers = [_Caller(iter(stream), check) for stream, check in zip(streams, heard, strict=True)]
    try:
        for caller in callers:
            await caller.connect(url)
        start = perf_counter()
        for caller in callers:
            caller.ask_until(start + seconds)
        await asyncio.gather(*(caller.finished for caller in callers))
        answers = [caller.answers for caller in callers]
        return sum(answers) / (perf_counter() - start), answers
    finally:
        for caller in callers:
            caller.close()


def _not_looked_at(_body: bytes) -> None:
    pass


def body_of(received: bytes) -> bytes | None:
    """The body of one answer; None while some of it is still to come. Raises ConnectionError for any but 200."""
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return None
    length = _LENGTH.search(received, 0, head)
    chunked = length is None and _CHUNKED.search(received, 0, head) is not None
    if not (length or chunked) or not received.startswith(b"HTTP/1.1 200 "):
        raise ConnectionError(f"an answer of another kind came: {received[:_SHOWN_BYTES]!r}")
    if length is not None and len(received) < head + 4 + int(length[1]):
        return None
    if chunked and not received.endswith(b"\r\n0\r\n\r\n"):
        return None
    return received[head + 4 :]


class _Caller(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], check: Check) -> None:
        self.answers = 0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests = requests
        self._check = check
        self._deadline = 0.0
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = lambda _data: None

    async def connect(self, url: str) -> None:
        target = urlsplit(url)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, target.hostname or "127.0.0.1", target.port or 80)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write

    def ask_until(self, deadline: float) -> None:
        self._deadline = deadline
        self._ask(next(self._requests, None))

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        try:
            body = body_of(received)
        except ConnectionError as refusal:
            self._fail(str(refusal))
            return
        if body is None:
            return
        self._received = b""
        try:
            self._check(body)
        except ValueError as refusal:
            self._fail(f"an answer was refused: {refusal}")
            return
        self.answers += 1
        self._ask(next(self._requests, None) if perf_counter() < self._deadline else None)

    def _ask(self, request: bytes | None) -> None:
        if request is not None:
            self._write(request)
        elif not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc or 'the server closed it'}")

    def close(self) -> None:
        self.finished.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, why: str) -> None:
        with contextlib.suppress(asyncio.InvalidStateError):
            self.finished.set_exception(ConnectionError(why))
