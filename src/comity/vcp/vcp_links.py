"""The links of a VCP client: a WebSocket with a message per text frame, or TCP with a message per line.

TLS always checks the certificate and the name in it: a hello may carry an identity.
"""

import asyncio
import contextlib
import ssl
from typing import Final

from websockets.asyncio.client import ClientConnection

from comity.http.dialling import CLOSE_SECONDS, ClientWebSocket, cause_of, dialling, open_websocket
from comity.vcp.client_over_mcp import dial_mcp
from comity.vcp.client_targets import McpTarget, VcpTarget
from comity.wire.errors import TooLargeError
from comity.wire.link import LinkClosed, PeerLink

MESSAGE_LIMIT: Final = 1_048_576
_REASON_BYTES: Final = 123
_BY_THE_SERVER: Final = "the server closed the connection"


async def dial(target: VcpTarget | McpTarget, tls: ssl.SSLContext | None = None) -> PeerLink:
    """`tls` replaces the certificates that the system trusts."""
    if isinstance(target, McpTarget):
        return await dial_mcp(target, tls)
    tls = (tls or ssl.create_default_context()) if target.secure else None
    where = f"{target.host} port {target.port}"
    async with dialling(where, target.url, lambda status: _no_door(target, status)):
        if target.is_websocket:
            return VcpWebSocket(target.url, await open_websocket(target.url, tls, MESSAGE_LIMIT))
        reader, writer = await asyncio.open_connection(target.host, target.port, ssl=tls, limit=MESSAGE_LIMIT)
        return TcpClientLink(target.url, reader, writer)


class VcpWebSocket(ClientWebSocket):
    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, connection: ClientConnection) -> None:
        super().__init__("the server", connection)
        self.peer = peer

    async def send(self, message: bytes) -> None:
        _refuse_too_large(message)
        await super().send(message)

    async def close(self, reason: str = "") -> None:
        await super().close(reason.encode()[:_REASON_BYTES].decode(errors="ignore"))


class TcpClientLink:
    """TCP, a message per line. The last line counts also without its end (ruling 1)."""

    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._reader = reader
        self._writer = writer

    async def send(self, message: bytes) -> None:
        _refuse_too_large(message)
        try:
            self._writer.write(message + b"\n")
            await self._writer.drain()
        except OSError as fault:
            raise LinkClosed(cause_of(fault)) from None

    async def receive(self) -> bytes:
        while True:
            try:
                line = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                line = end.partial
                if not line.strip():
                    raise LinkClosed(_BY_THE_SERVER) from None
            except asyncio.LimitOverrunError:
                raise LinkClosed(f"the server sent a line of more than {MESSAGE_LIMIT:,} bytes") from None
            except OSError as fault:
                raise LinkClosed(cause_of(fault)) from None
            if message := line.strip():
                return message

    async def close(self, reason: str = "") -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        self._writer.transport.abort()  # where the peer says no goodbye; nothing happens to what is closed


def _refuse_too_large(message: bytes) -> None:
    if len(message) > MESSAGE_LIMIT:
        raise TooLargeError("the message", MESSAGE_LIMIT)


def _no_door(target: VcpTarget, status: int) -> str:
    return (
        f"no VCP door is open at {target.url} (status {status}); the door of a node is at /vcp, unless its owner has "
        "switched VCP off"
    )
