"""Opening connections: resolve the name, check all its addresses, connect to one of them.

Loaded with the first request, like the HTTP library.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

import httpcore

from comity.http.addresses import AllowList, literal
from comity.http.client import PIN_MARK
from comity.http.pins import pinned_context
from comity.wire.errors import TargetRefusedError, UnreachableError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, as text."""

_ADDRESSES_TRIED: Final = 4


class GuardedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, allowed: AllowList, resolve: Resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        host, _, pin = host.partition(PIN_MARK)
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._checked_addresses(host, port, pinned=bool(pin))
                share = None if timeout is None else timeout / len(addresses)
                for address in addresses[:-1]:
                    try:
                        return _Stream(await self._network.connect_tcp(address, port, share), host, pin)
                    except (httpcore.ConnectError, httpcore.ConnectTimeout):
                        continue
                return _Stream(await self._network.connect_tcp(addresses[-1], port, share), host, pin)
        except TimeoutError:
            raise httpcore.ConnectTimeout from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._network.connect_unix_socket(path, timeout))

    async def _checked_addresses(self, host: str, port: int, *, pinned: bool) -> Sequence[str]:
        found = [host] if literal(host) is not None else await self._resolve(host, port)
        if not found:
            raise UnreachableError(f"the name {host} has no address; check its spelling")
        for text in found:
            address = literal(text)
            refusal = (
                "an unreadable address"
                if address is None
                else self._allowed.refusal(host, address, pinned=pinned)
            )
            if refusal is not None:
                raise TargetRefusedError(
                    f"{host} is at {refusal}, which is not called unless the owner of this node allows it"
                )
        return found[:_ADDRESSES_TRIED]


class _Stream(httpcore.AsyncNetworkStream):
    """The library leaves a connection open when it is cancelled in the middle of a TLS handshake. With a pin, TLS trusts
    that key and nothing else.
    """

    def __init__(self, inner: httpcore.AsyncNetworkStream, host: str = "", pin: str = "") -> None:
        self._inner = inner
        self._host = host
        self._pin = pin

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - same
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - same
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - same
    ) -> httpcore.AsyncNetworkStream:
        if self._pin:
            ssl_context, server_hostname = pinned_context(self._pin), self._host
        try:
            return await self._inner.start_tls(ssl_context, server_hostname, timeout)
        except asyncio.CancelledError:
            await asyncio.shield(self._inner.aclose())
            raise


async def system_resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError):
        raise UnreachableError(f"the name {host} cannot be resolved; check its spelling") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
