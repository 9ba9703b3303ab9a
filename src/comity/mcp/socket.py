"""MCP on a Unix socket in the data folder: how `comity mcp` of the same user joins a running node.

Every program that can open the socket counts as a model of the owner. Only the owner's can: the socket has mode 0600 and is
in a folder that only the owner can open, which the caller has checked, and the system is asked which user connects.
"""

import asyncio
import contextlib
import logging
import select
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.http.owner_socket import bind_private, is_owner
from comity.mcp.protocol.catalog import Selection
from comity.mcp.stdio import CHUNK, MAX_UNREAD, PATIENCE
from comity.mcp.stream import CLOSE_SECONDS, McpStream
from comity.wire.errors import ComityError, MalformedError, OverloadedError, PeerError

# How a connection to a running node is opened: one line from the client, one line back, then MCP.


MESSAGE_LIMIT: Final = 1_048_576
MAX_LIMIT: Final = 64 * MESSAGE_LIMIT
MAX_LINE_LENGTH: Final = 16_384
PROTOCOL: Final = 1


class Opening(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"groups": "rooms"}):
    comity: int = PROTOCOL
    groups: tuple[str, ...] | None = None
    profile: str = "full"
    max_message_bytes: int = MESSAGE_LIMIT
    demands: Mapping[str, Any] = {}
    folder: str | None = None
    vcp: tuple[str, ...] = ()

    def selection(self, profile: str, demands: object) -> Selection:
        """Return what the connection is for, with the profile and the demands as they were read."""
        groups = None if self.groups is None else frozenset(self.groups)
        return Selection(groups, profile, demands, self.folder, self.vcp)


class Opened(Struct, frozen=True, kw_only=True):
    """`error` is a sentence for the person who started the client; then nothing follows."""

    ok: bool
    error: str = ""


def line_of(message: Opening | Opened) -> bytes:
    return _encoder.encode(message) + b"\n"


def read_opening(line: bytes) -> Opening:
    try:
        opening = _opening.decode(line)
    except msgspec.MsgspecError as fault:
        raise malformed_opening(fault) from None
    if opening.comity != PROTOCOL or not 1 <= opening.max_message_bytes <= MAX_LIMIT:
        raise MalformedError("this node opens connections of version 1 with messages of up to 64 MiB")
    return opening


def malformed_opening(fault: msgspec.MsgspecError) -> MalformedError:
    return MalformedError(f"the first line does not open a connection: {fault}")


def read_opened(line: bytes) -> None:
    """Raise the refusal of the node, if the line has one."""
    try:
        opened = _opened.decode(line)
    except msgspec.MsgspecError:
        raise PeerError(
            "the program at this socket is not a node of this version; restart the node"
        ) from None
    if not opened.ok:
        raise ComityError(opened.error)


_encoder = msgspec.json.Encoder()
_opening = msgspec.json.Decoder(Opening)
_opened = msgspec.json.Decoder(Opened)


log = logging.getLogger("comity.mcp")

SOCKET_FILE: Final = "mcp.sock"
MAX_CONNECTIONS: Final = 256
_OPENING_SECONDS: Final = 5.0

OpenStream = Callable[[Selection, int, Callable[[bytes], None]], McpStream]
"""Open a stream for a connection with this selection, message limit and function that writes."""
Select = Callable[[Opening], Selection]
"""What a connection is for, by its first line; raises ComityError with a sentence for the person who started the client."""


class McpSocket:
    def __init__(self, path: Path, open_stream: OpenStream, select: Select) -> None:
        self._path = path
        self._open_stream = open_stream
        self._select = select
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(
            self._connected, sock=bind_private(self._path), limit=CHUNK
        )

    async def stop(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if not is_owner(writer.get_extra_info("socket")):
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, TimeoutError) as end:
            log.debug("a connection on the socket ended: %s", end)
        except asyncio.CancelledError:
            pass  # the node stops
        finally:
            self._connections.discard(task)
            await _close_after_flush(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_OPENING_SECONDS):
            line = await _first_line(reader)
        try:
            if len(self._connections) > MAX_CONNECTIONS:
                raise OverloadedError(f"{MAX_CONNECTIONS} clients are connected to this node; close one")
            if len(line) > MAX_LINE_LENGTH:
                raise OverloadedError("the first line is too long")
            opening = read_opening(line)
            selection = self._select(opening)
        except ComityError as refusal:
            writer.write(line_of(Opened(ok=False, error=refusal.message)))
            await writer.drain()
            return
        writer.write(line_of(Opened(ok=True)))
        writer.transport.set_write_buffer_limits(high=MAX_UNREAD)
        stream = self._open_stream(selection, opening.max_message_bytes, writer.write)
        stream.clogged = lambda: writer.transport.get_write_buffer_size() > MAX_UNREAD
        try:
            await self._converse(stream, reader, writer)
        finally:
            await asyncio.shield(stream.close(0.0))

    async def _converse(
        self, stream: McpStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve until the client says exit or ends its input. Then finish open answers, as on stdio, unless the client is
        gone.
        """
        leaving = asyncio.ensure_future(stream.exit_asked.wait())
        reading = asyncio.ensure_future(reader.read(CHUNK))
        try:
            while True:
                await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    break
                data = reading.result()
                if data:
                    stream.receive(data)
                else:
                    stream.end()
                await writer.drain()
                while stream.waits:
                    stream.proceed()
                    await writer.drain()
                if not data:
                    break
                reading = asyncio.ensure_future(reader.read(CHUNK))
        finally:
            leaving.cancel()
            reading.cancel()
        left = stream.exit_asked.is_set() or _is_gone(writer)
        await stream.close(CLOSE_SECONDS if left else PATIENCE)


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # the buffer is full and there is no end of the line in it
        return b" " * (MAX_LINE_LENGTH + 1)


def _is_gone(writer: asyncio.StreamWriter) -> bool:
    """Return whether the client has closed its side for good, and not only its input."""
    connection = writer.get_extra_info("socket")
    if connection.fileno() < 0:
        return True
    looking = select.poll()
    looking.register(connection, 0)
    return bool(looking.poll(0))


async def _close_after_flush(writer: asyncio.StreamWriter) -> None:
    """Close after the client has read what was written, or after a moment."""
    writer.close()
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await writer.wait_closed()
    writer.transport.abort()
