"""Serving an ASGI application on sockets of our own, started and stopped on request.

The port is bound before the address is printed, so the printed address is right. The socket of the owner's commands
(`owner_socket`) serves the same application; what comes through it names that listener.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Collection
from email.utils import formatdate
from pathlib import Path
from typing import Final

from comity.http.asgi import App
from comity.http.connection import HttpConnection
from comity.http.owner_socket import bind_private, is_owner
from comity.http.serving import NO_FAULT_POLICY, OUTSIDE, OWNER_SOCKET, FaultPolicy, ServerLimits, Serving
from comity.wire.errors import ConfigError

try:
    import resource
except ImportError:  # Windows knows no such limit
    resource = None  # type: ignore[assignment]

BACKLOG: Final = 2048
CANCEL_SECONDS: Final = 5.0
OWNER_CONNECTIONS: Final = 256

_POLL_SECONDS: Final = 0.005
_CONNECTIONS: Final = 10_000
_OTHER_FILES: Final = 224
_FILES: Final = 65_536


class HttpServer:
    def __init__(
        self,
        host: str,
        port: int,
        *,
        cert: Path | None,
        key: Path | None,
        limits: ServerLimits | None = None,
        listener: str = "",
    ) -> None:
        """`host` empty: all addresses. `listener` is the name that requests of this server find in their scope."""
        self._socket = bind(host, port) if host else bind_everywhere(port)
        self._listener = listener
        self._cert = cert
        self._key = key
        self._limits = limits or ServerLimits(connections=room_for_connections())
        bound = self._socket.getsockname()
        scheme = "https" if cert else "http"
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"{scheme}://{shown}:{bound[1]}"
        self.port: int = bound[1]
        self._servings: list[Serving] = []
        self._listening: list[asyncio.Server] = []
        self._tls: ssl.SSLContext | None = None
        self._owner_socket: Path | None = None
        self._date_timer: asyncio.TimerHandle | None = None
        self._shutdown_seconds = 0.0

    async def start(
        self,
        app: App,
        *,
        shutdown_seconds: float,
        refused: Callable[[str], None] = lambda _code: None,
        hung_up: Callable[[], None] = lambda: None,
        faults: FaultPolicy = NO_FAULT_POLICY,
        websockets: Collection[str] = (),
        owner_socket: Path | None = None,
    ) -> None:
        """`refused` is called with the code of what is refused before the application sees it, `hung_up` for peers that
        disconnect before their answer. `faults` says what is done about faulty peers. `owner_socket` serves the commands of
        this user.
        """
        loop = asyncio.get_running_loop()
        serving = Serving(
            app,
            self._limits,
            refused=refused,
            hung_up=hung_up,
            faults=faults,
            websockets=websockets,
            listener=self._listener,
        )
        self._servings.append(serving)
        self._shutdown_seconds = shutdown_seconds
        tls = self._tls = tls_context(self._cert, self._key)
        if tls is not None and self._listener == OUTSIDE:
            tls.minimum_version = ssl.TLSVersion.TLSv1_3
        self._listening.append(
            await loop.create_server(
                lambda: HttpConnection(serving),
                sock=self._socket,
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=self._limits.patience if tls else None,
            )
        )
        if owner_socket is not None:
            commands = Serving(app, ServerLimits(connections=OWNER_CONNECTIONS), listener=OWNER_SOCKET)
            self._servings.append(commands)
            self._owner_socket = owner_socket
            self._listening.append(
                await loop.create_unix_server(
                    lambda: HttpConnection(commands, admits=is_owner), sock=bind_private(owner_socket)
                )
            )
        self._format_date()

    async def stop(self) -> None:
        """Stop listening; what is under way may finish within the time given at the start, then it is ended."""
        if self._date_timer is not None:
            self._date_timer.cancel()
        for listening in self._listening:
            listening.close()
        await asyncio.gather(*map(self._finish, self._servings))
        self._socket.close()
        if self._owner_socket is not None:
            with contextlib.suppress(OSError):
                self._owner_socket.unlink()

    def read_certificate_again(self) -> None:
        """Show new connections what the files of the certificate hold now."""
        if self._tls is not None and self._cert is not None:
            self._tls.load_cert_chain(self._cert, self._key)

    async def _finish(self, serving: Serving) -> None:
        for connection in list(serving.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._shutdown_seconds):
                while serving.connections or serving.tasks:  # noqa: ASYNC110 - cheaper than an event at each answer
                    await asyncio.sleep(_POLL_SECONDS)
        for task in serving.tasks:
            task.cancel()
        if serving.tasks:
            await asyncio.wait(serving.tasks, timeout=CANCEL_SECONDS)
        for connection in list(serving.connections):
            connection.abort()

    def _format_date(self) -> None:
        """Format the date of all answers, once a second."""
        date = formatdate(usegmt=True).encode()
        for serving in self._servings:
            serving.date = date
        self._date_timer = asyncio.get_running_loop().call_later(1.0, self._format_date)


def bind(host: str, port: int) -> socket.socket:
    return _bound(socket.AF_INET6 if ":" in host else socket.AF_INET, host, port)


def bind_everywhere(port: int) -> socket.socket:
    """Bind all addresses of this machine, of both families where it has both."""
    if socket.has_dualstack_ipv6():
        try:
            return _bound(socket.AF_INET6, "::", port, both=True)
        except PortTakenError:
            raise
        except ConfigError:  # IPv6 is switched off
            pass
    return _bound(socket.AF_INET, "0.0.0.0", port)  # noqa: S104 - what the caller wants


def _bound(family: int, host: str, port: int, *, both: bool = False) -> socket.socket:
    # Named protocol: asyncio turns Nagle's delay off only on sockets that say they are TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if both:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as reason:
        listening.close()
        raise _refusal(host, port, reason) from None
    return listening


def tls_context(cert: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # a password for a locked key, so that OpenSSL does not ask on the terminal
        context.load_cert_chain(cert, key, password="")
    except OSError as reason:  # also ssl.SSLError
        raise ConfigError(
            f"the TLS certificate or key cannot be used ({reason.strerror or reason}); check tls.cert and tls.key"
        ) from None
    return context


def room_for_connections(share: float = 1.0) -> int:
    """Return how many connections fit into that share of the limit of open files, with some left for the store. Raise the
    soft limit first.
    """
    if resource is not None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
            if soft < wanted:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            files = max(soft, wanted)
            return min(_CONNECTIONS, int(share * max(files - _OTHER_FILES, files // 2)))
    return _CONNECTIONS


class PortTakenError(ConfigError):
    code = "port_taken"


def _refusal(host: str, port: int, reason: OSError) -> ConfigError:
    if reason.errno == errno.EADDRINUSE:
        return PortTakenError(f"port {port} on {host} is taken; choose another with --port, or --port 0")
    if reason.errno == errno.EACCES:
        return ConfigError(f"port {port} needs more rights than this user has; choose one above 1023")
    return ConfigError(f"{host} is not an address of this machine ({reason.strerror}); check --host")
