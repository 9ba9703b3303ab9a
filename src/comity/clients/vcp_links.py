"""The links of a VCP client: a WebSocket with a message per text frame, or TCP with a message per line.

- TLS always checks the certificate and the name in it. Redirects are not followed and no proxy is used: a
  hello may carry an identity, and goes to the address that was given or nowhere.
- What cannot be reached now may be later (`UnreachableError`); an address at which something else lives
  stays of no use (`UnusableAnswerError`), and so does a certificate that does not fit.
"""

import asyncio
import contextlib
import ssl
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from comity.clients.refusals import UnreachableError, UnusableAnswerError
from comity.clients.vcp_mcp import dial_mcp
from comity.clients.vcp_targets import McpTarget, VcpTarget
from comity.core.errors import ComityError, TooLargeError
from comity.links.protocol import LinkClosed, PeerLink

MESSAGE_LIMIT: Final = 1_048_576
OPEN_SECONDS: Final = 10.0

_CLOSE_SECONDS: Final = 2.0
_REASON_BYTES: Final = 123
_BY_THE_SERVER: Final = "the server closed the connection"


async def dial(target: VcpTarget | McpTarget, tls: ssl.SSLContext | None = None) -> PeerLink:
    """`tls` replaces the certificates that the system trusts."""
    if isinstance(target, McpTarget):
        return await dial_mcp(target, tls)
    tls = (tls or ssl.create_default_context()) if target.secure else None
    where = f"{target.host} port {target.port}"
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            if target.is_websocket:
                return await _websocket(target, tls)
            reader, writer = await asyncio.open_connection(
                target.host, target.port, ssl=tls, limit=MESSAGE_LIMIT
            )
            return TcpClientLink(target.url, reader, writer)
    except TimeoutError:
        raise UnreachableError(f"{where} did not answer within {OPEN_SECONDS:g} seconds") from None
    except ssl.SSLCertVerificationError as refusal:
        raise UnusableAnswerError(
            f"the certificate of {where} is not trusted ({refusal.verify_message}); nothing was sent"
        ) from None
    except ssl.SSLError:
        raise UnusableAnswerError(f"{where} does not speak TLS as we do; check scheme and port") from None
    except InvalidStatus as refusal:
        raise _no_door(target, refusal.response.status_code) from None
    except (InvalidHandshake, WebSocketException):
        raise UnusableAnswerError(f"no WebSocket is spoken at {target.url}; check the address") from None
    except (EOFError, OSError) as fault:
        raise UnreachableError(f"{where} cannot be reached: {_cause(fault)}") from None


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def _websocket(target: VcpTarget, tls: ssl.SSLContext | None) -> "WebSocketClientLink":
    connection = await _Connect(
        target.url,
        ssl=tls,
        compression=None,
        proxy=None,
        open_timeout=None,
        close_timeout=_CLOSE_SECONDS,
        max_size=MESSAGE_LIMIT,
    )
    return WebSocketClientLink(target.url, connection)


class WebSocketClientLink:
    """A WebSocket."""

    max_message_bytes = MESSAGE_LIMIT

    def __init__(self, peer: str, connection: ClientConnection) -> None:
        self.peer = peer
        self._connection = connection

    async def send(self, message: bytes) -> None:
        _refuse_too_large(message)
        try:
            await self._connection.send(message, text=True)
        except ConnectionClosed as end:
            raise LinkClosed(_close_reason(end)) from None

    async def receive(self) -> bytes:
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as end:
            raise LinkClosed(_close_reason(end)) from None

    async def close(self, reason: str = "") -> None:
        cut = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
        await self._connection.close(reason=cut)


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
            raise LinkClosed(_cause(fault)) from None

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
                raise LinkClosed(_cause(fault)) from None
            if message := line.strip():
                return message

    async def close(self, reason: str = "") -> None:
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.wait_closed()


def _refuse_too_large(message: bytes) -> None:
    if len(message) > MESSAGE_LIMIT:
        raise TooLargeError("the message", MESSAGE_LIMIT)


def _close_reason(end: ConnectionClosed) -> str:
    reason = end.rcvd.reason if end.rcvd is not None else ""
    said = "".join(letter if letter.isprintable() else " " for letter in reason)
    return f"{_BY_THE_SERVER}: {said}" if said else _BY_THE_SERVER


def _no_door(target: VcpTarget, status: int) -> ComityError:
    if status >= 500 or status == 429:
        return UnreachableError(f"{target.url} cannot take a connection now (status {status}); try later")
    return UnusableAnswerError(
        f"no VCP door is open at {target.url} (status {status}); the door of a node is at /vcp"
    )


def _cause(fault: Any) -> str:
    if isinstance(fault, ConnectionRefusedError):
        return "nobody listens there"
    return (getattr(fault, "strerror", None) or str(fault) or type(fault).__name__).lower()
