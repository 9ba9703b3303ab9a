"""A server on 127.0.0.1 that says what a test wants said, byte for byte."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class LocalServer:
    def __init__(self, port: int) -> None:
        self.port = port
        self.connections = 0
        self.requests: list[bytes] = []

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


def reply(body: bytes = b"{}", status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
    return head + await reader.readexactly(length)


@contextlib.asynccontextmanager
async def serving(
    answer: Callable[[bytes], bytes | None] | Handler, tls: ssl.SSLContext | None = None
) -> AsyncIterator[LocalServer]:
    """`answer` gets each request and gives the bytes of its answer, None to hang up; or it is a handler."""
    busy: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            try:
                await talk(reader, writer)
            finally:
                writer.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if asyncio.iscoroutinefunction(answer):
            await answer(reader, writer)
            return
        while True:
            request = await read_request(reader)
            server.requests.append(request)
            said = answer(request)
            if said is None:
                return
            writer.write(said)
            await writer.drain()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        task = asyncio.ensure_future(handle(reader, writer))
        busy.add(task)
        task.add_done_callback(busy.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server = LocalServer(listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        for task in list(busy):
            task.cancel()
        await asyncio.gather(*busy, return_exceptions=True)
        for writer in writers:  # a peer that reads no more, or says no goodbye in TLS, holds nobody up
            writer.transport.abort()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
        await listener.wait_closed()
