"""The way to a signalling relay: one WebSocket, one message per text frame.

- The address is the user's own, or of an invite; it is never one that a peer or a relay names. Redirects are not
  followed and no proxy is used.
- Beyond this machine only TLS is spoken. A relay with a certificate of its own making is known by its SHA-256,
  which is checked before the first byte of HTTP is sent: no token reaches anybody else.
"""

import asyncio
import hashlib
import hmac
import re
import ssl
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from comity.clients.refusals import UnreachableError, UnusableAnswerError
from comity.config import is_loopback
from comity.core.errors import ConfigError
from comity.core.peering.signalling_relay import MESSAGE_LIMIT
from comity.links.protocol import LinkClosed

OPEN_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 2.0

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_LOST: Final = "the relay closed the connection"


class RelayTarget(Struct, frozen=True):
    """`tls_sha256` is the certificate's fingerprint in hex; None: it must be one that the system trusts."""

    url: str
    token: str | None = None
    tls_sha256: str | None = None

    @property
    def where(self) -> str:
        """For people: the address without its query, which may hold a token."""
        return self.url.partition("?")[0]


def read_relay(url: str, token: str | None = None, tls_sha256: str | None = None) -> RelayTarget:
    """Raises ConfigError with what is wrong."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ConfigError("the relay's address cannot be read; it looks like wss://host/signal") from None
    if parts.scheme not in ("ws", "wss") or not host or parts.username is not None or parts.fragment:
        raise ConfigError("the relay's address must look like wss://host/signal")
    if parts.scheme == "ws" and not is_loopback(host):
        raise ConfigError(f"the relay on {host} is on another machine; its address must start with wss://")
    if tls_sha256 is not None:
        tls_sha256 = tls_sha256.replace(":", "").lower()
        if not _SHA256.fullmatch(tls_sha256) or parts.scheme != "wss":
            raise ConfigError("a certificate's SHA-256 has 64 hex digits, and belongs to a wss:// address")
    return RelayTarget(url, token, tls_sha256)


class RelaySocket:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, message: bytes) -> None:
        try:
            await self._connection.send(message, text=True)
        except ConnectionClosed as end:
            raise LinkClosed(_close_reason(end)) from None

    async def receive(self) -> bytes:
        try:
            return await self._connection.recv(decode=False)
        except ConnectionClosed as end:
            raise LinkClosed(_close_reason(end)) from None

    async def close(self) -> None:
        await self._connection.close()


async def dial_relay(target: RelayTarget, tls: ssl.SSLContext | None = None) -> RelaySocket:
    """`tls` replaces the certificates that the system trusts. Raises UnreachableError and UnusableAnswerError."""
    context = None
    if target.url.startswith("wss"):
        pinned = None if target.tls_sha256 is None else pinned_context(target.tls_sha256)
        context = pinned or tls or ssl.create_default_context()
    headers = {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            connection = await _Connect(
                target.url,
                ssl=context,
                additional_headers=headers,
                compression=None,
                proxy=None,
                open_timeout=None,
                close_timeout=CLOSE_SECONDS,
                max_size=MESSAGE_LIMIT,
            )
    except TimeoutError:
        raise UnreachableError(f"{target.where} did not answer within {OPEN_SECONDS:g} seconds") from None
    except ssl.SSLCertVerificationError as refusal:
        raise UnusableAnswerError(
            f"the certificate of {target.where} is not trusted ({refusal.verify_message}); nothing was sent"
        ) from None
    except ssl.SSLError:
        raise UnusableAnswerError(f"{target.where} does not speak TLS as we do; check the address") from None
    except InvalidStatus as refusal:
        raise _no_relay(target, refusal.response.status_code) from None
    except (InvalidHandshake, WebSocketException):
        raise UnusableAnswerError(f"no WebSocket is spoken at {target.where}; check the address") from None
    except (EOFError, OSError) as fault:
        raise UnreachableError(f"{target.where} cannot be reached: {_cause(fault)}") from None
    return RelaySocket(connection)


class _Connect(connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def pinned_context(sha256: str) -> ssl.SSLContext:
    """TLS with the one certificate that has this fingerprint, whoever signed it."""

    class Pinned(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            shown = hashlib.sha256(self.getpeercert(binary_form=True) or b"").hexdigest()
            if not hmac.compare_digest(shown, sha256):
                refusal = ssl.SSLCertVerificationError("another certificate")
                refusal.verify_message = "it is not the one of the invite"
                raise refusal

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class = Pinned
    return context


def _no_relay(target: RelayTarget, status: int) -> UnreachableError | UnusableAnswerError:
    if status >= 500 or status == 429:
        return UnreachableError(f"{target.where} cannot take a connection now (status {status}); try later")
    if status in (401, 403):
        return UnusableAnswerError(f"{target.where} refused the token or the caller (status {status})")
    return UnusableAnswerError(
        f"no relay is at {target.where} (status {status}); a node has its own at /signal"
    )


def _close_reason(end: ConnectionClosed) -> str:
    reason = end.rcvd.reason if end.rcvd is not None else ""
    said = "".join(letter if letter.isprintable() else " " for letter in reason)
    return f"{_LOST}: {said}" if said else _LOST


def _cause(fault: Any) -> str:
    if isinstance(fault, ConnectionRefusedError):
        return "nobody listens there"
    return (getattr(fault, "strerror", None) or str(fault) or type(fault).__name__).lower()
