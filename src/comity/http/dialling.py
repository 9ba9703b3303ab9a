"""Opening a connection to the address that was given, and to no other: no redirect is followed, no proxy is used.

What cannot be reached now may be later (`UnreachableError`). An address at which something else answers stays of no use
(`UnusableAnswerError`), and so does a certificate that does not fit.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from comity.http.pins import PinMismatch
from comity.wire.errors import UnreachableError, UnusableAnswerError
from comity.wire.link import LinkClosed

OPEN_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 2.0


@asynccontextmanager
async def dialling(where: str, url: str, unusable: Callable[[int], str]) -> AsyncIterator[None]:
    """Report what fails in this block in a sentence about `where`. `unusable` says what an HTTP status means that no later
    attempt will change.
    """
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            yield
    except TimeoutError:
        raise UnreachableError(f"{where} did not answer within {OPEN_SECONDS:g} seconds") from None
    except PinMismatch as mismatch:
        raise UnusableAnswerError(
            f"{where} was not used: {mismatch.verify_message}; nothing was sent. If its owner made a new key, ask for a new "
            "invite or address"
        ) from None
    except ssl.SSLCertVerificationError as refusal:
        raise UnusableAnswerError(
            f"the certificate of {where} is not trusted ({refusal.verify_message}); nothing was sent"
        ) from None
    except ssl.SSLError:
        raise UnusableAnswerError(f"{where} does not speak TLS as we do; check scheme and port") from None
    except InvalidStatus as refusal:
        status = refusal.response.status_code
        if status >= 500 or status == 429:
            raise UnreachableError(
                f"{url} cannot take a connection now (status {status}); try later"
            ) from None
        raise UnusableAnswerError(unusable(status)) from None
    except (InvalidHandshake, WebSocketException):
        raise UnusableAnswerError(f"no WebSocket is spoken at {url}; check the address") from None
    except (EOFError, OSError) as fault:
        raise UnreachableError(f"{where} cannot be reached: {cause_of(fault)}") from None


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def open_websocket(
    url: str, tls: ssl.SSLContext | None, limit: int, headers: Mapping[str, str] | None = None
) -> ClientConnection:
    return await _Connect(
        url,
        ssl=tls,
        additional_headers=headers,
        compression=None,
        proxy=None,
        open_timeout=None,
        close_timeout=CLOSE_SECONDS,
        max_size=limit,
    )


class ClientWebSocket:
    """A message per text frame. `peer` names the other side where the connection ends: "the relay"."""

    def __init__(self, peer: str, connection: ClientConnection) -> None:
        self._lost = f"{peer} closed the connection"
        self._connection = connection

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message, text=True)
        except ConnectionClosed as end:
            raise self._closed(end) from None

    async def receive(self) -> bytes:
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as end:
            raise self._closed(end) from None

    async def close(self, reason: str = "") -> None:
        try:
            await self._connection.close(reason=reason)
        finally:  # also if the task is cancelled; a closed transport ignores it
            self._connection.transport.abort()

    def _closed(self, end: ConnectionClosed) -> LinkClosed:
        reason = end.rcvd.reason if end.rcvd is not None else ""
        said = "".join(letter if letter.isprintable() else " " for letter in reason)
        return LinkClosed(f"{self._lost}: {said}" if said else self._lost)


def cause_of(fault: Any) -> str:
    if isinstance(fault, ConnectionRefusedError):
        return "nobody listens there"
    return (getattr(fault, "strerror", None) or str(fault) or type(fault).__name__).lower()
