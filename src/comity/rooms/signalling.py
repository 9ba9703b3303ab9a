"""The way to a signalling relay: one WebSocket, one message per text frame.

- The address comes from the user or from an invite, never from a peer or a relay.
- Connections to other machines use TLS. A relay with a self-signed certificate is recognised by the SHA-256 of the
  certificate. It is checked before the first byte of HTTP is sent, so no other server gets the token.
"""

import hashlib
import hmac
import re
import ssl
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from comity.http.dialling import ClientWebSocket, dialling, open_websocket
from comity.rooms.protocol.relay import MESSAGE_LIMIT
from comity.system import is_loopback
from comity.wire.errors import ConfigError

_SHA256: Final = re.compile(r"[0-9a-f]{64}")


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


async def dial_relay(target: RelayTarget, tls: ssl.SSLContext | None = None) -> ClientWebSocket:
    """`tls` replaces the certificates that the system trusts. Raises UnreachableError and UnusableAnswerError."""
    context = None
    if target.url.startswith("wss"):
        pinned = None if target.tls_sha256 is None else pinned_context(target.tls_sha256)
        context = pinned or tls or ssl.create_default_context()
    headers = {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
    async with dialling(target.where, target.where, lambda status: _no_relay(target, status)):
        connection = await open_websocket(target.url, context, MESSAGE_LIMIT, headers)
        return ClientWebSocket("the relay", connection)


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


def _no_relay(target: RelayTarget, status: int) -> str:
    if status in (401, 403):
        return f"{target.where} refused the token or the caller (status {status})"
    return f"no relay is at {target.where} (status {status}); a node has its own at /signal"
