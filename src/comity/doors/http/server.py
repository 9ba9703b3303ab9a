"""Serving an ASGI application on a socket of our own, started and stopped on request.

The socket is bound before anything else is said, so that the address is true when it is printed.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import uvicorn

from comity.core.errors import ConfigError
from comity.doors.http.asgi import App

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 75
HEADER_LIMIT = 64 * 1024


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the node's affair."""
        yield


class HttpServer:
    def __init__(self, host: str, port: int, *, cert: Path | None, key: Path | None) -> None:
        self._socket = _bind(host, port)
        self._cert = cert
        self._key = key
        bound = self._socket.getsockname()
        scheme = "https" if cert else "http"
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        self.url = f"{scheme}://{shown}:{bound[1]}"
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, app: App, *, shutdown_seconds: float) -> None:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type]  # the same shape, spelled in our own names
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(shutdown_seconds)),
            ssl_certfile=self._cert,
            ssl_keyfile=self._key,
        )
        try:
            config.load()
        except (OSError, ssl.SSLError) as reason:
            raise ConfigError(
                f"the TLS certificate or key cannot be used ({reason}); check tls.cert and tls.key"
            ) from None
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started:
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Stop listening, let what is under way finish within the time given at the start."""
        if self._server is None or self._task is None:
            self._socket.close()
            return
        self._server.should_exit = True
        await self._task


def _bind(host: str, port: int) -> socket.socket:
    # Named protocol: asyncio turns Nagle's delay off only on sockets that say they are TCP.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError as reason:
        listening.close()
        raise _refusal(host, port, reason) from None
    return listening


class PortTakenError(ConfigError):
    code = "port_taken"


def _refusal(host: str, port: int, reason: OSError) -> ConfigError:
    if reason.errno == errno.EADDRINUSE:
        return PortTakenError(f"port {port} on {host} is taken; choose another with --port, or --port 0")
    if reason.errno == errno.EACCES:
        return ConfigError(f"port {port} needs more rights than this user has; choose one above 1023")
    return ConfigError(f"{host} is not an address of this machine ({reason.strerror}); check --host")
