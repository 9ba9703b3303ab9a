"""The sockets of a TURN server: UDP and TCP for clients, and a UDP port for each allocation."""

import asyncio
import errno
import logging
import random
import secrets
import socket
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from comity.turn.protocol import access
from comity.turn.protocol.server import (
    Client,
    ClosePort,
    Effect,
    Forward,
    OpenPort,
    Reply,
    TurnCounts,
    TurnLimits,
    TurnServer,
)
from comity.turn.protocol.stun import Address, StunStream
from comity.wire.errors import ConfigError, MalformedError
from comity.wire.machine import Clock

log = logging.getLogger("comity.turn")

EXPIRY_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 30.0
"""A TCP connection without an allocation is closed after this time."""
MAX_CONNECTIONS: Final = 1000
MAX_CONNECTIONS_PER_ADDRESS: Final = 32
MAX_UNSENT_BYTES: Final = 1024 * 1024
"""What waits for a TCP client; beyond it packets are dropped, as they would be on a full line."""
_BUFFER_BYTES: Final = 4 * 1024 * 1024
_ATTEMPTS: Final = 32


class TurnSettings(Struct, frozen=True, kw_only=True):
    """`advertised` are the addresses of this machine as others reach them, where the system does not know them (behind a
    router that translates addresses). Relayed ports are among `ports`.
    """

    host: str
    port: int
    advertised: tuple[str, ...] = ()
    ports: tuple[int, int] = (49152, 65535)
    lan: bool = False
    realm: str = "comity"
    limits: TurnLimits = TurnLimits()


class TurnService:
    def __init__(self, settings: TurnSettings, relay_secret: bytes, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._machine = TurnServer(
            relay_secret,
            secrets.token_bytes(32),
            realm=settings.realm,
            is_own=self._is_own,
            families=self._families(),
            lan=settings.lan,
            limits=settings.limits,
        )
        self._ports: dict[int, asyncio.DatagramTransport] = {}
        self._tcp: dict[Client, _TcpClient] = {}
        self._by_host: Counter[str] = Counter()
        self._connections = 0
        self._udp: asyncio.DatagramTransport | None = None
        self._server: asyncio.Server | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self.port = settings.port

    @property
    def counts(self) -> TurnCounts:
        return self._machine.counts

    async def start(self) -> None:
        """Listen on UDP and TCP at the same port. Raise ConfigError if it is taken."""
        settings = self._settings
        attempts = 1 if settings.port else _ATTEMPTS
        for attempt in range(attempts):
            try:
                transport = await self._listen()
            except OSError as fault:
                await self.stop()
                if fault.errno != errno.EADDRINUSE or attempt == attempts - 1:
                    raise ConfigError(
                        f"the TURN relay cannot listen on {settings.host} port {settings.port} ({fault.strerror}); "
                        "choose another port"
                    ) from None
            else:
                break
        self._udp = transport
        _enlarge_buffers(transport)
        self._schedule_expiry()

    async def _listen(self) -> asyncio.DatagramTransport:
        """Where any port will do, the one that TCP gets may be taken for UDP."""
        loop, settings = asyncio.get_running_loop(), self._settings
        self._server = await loop.create_server(lambda: _TcpClient(self), settings.host, settings.port)
        self.port = self._server.sockets[0].getsockname()[1]
        transport, _ = await loop.create_datagram_endpoint(lambda: _UdpDoor(self), (settings.host, self.port))
        return transport

    async def stop(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for task in self._opening:
            task.cancel()
        if self._server is not None:
            self._server.close()
        for client in [*self._tcp.values()]:
            client.abort()
        for transport in [*self._ports.values(), *([self._udp] if self._udp else [])]:
            transport.abort()
        self._ports.clear()

    def from_client(self, client: Client, packet: bytes) -> None:
        self._run(self._machine.receive(client, packet, self._clock.now()))

    def from_peer(self, number: int, peer: Address, data: bytes) -> None:
        self._run(self._machine.from_peer(number, peer, data, self._clock.now()))

    def serves(self, client: Client) -> bool:
        return self._machine.serves(client)

    def join(self, client: "_TcpClient", address: Address) -> Client | None:
        """Count a TCP connection; return None if there is no place for it."""
        if len(self._tcp) >= MAX_CONNECTIONS or self._by_host[address.host] >= MAX_CONNECTIONS_PER_ADDRESS:
            return None
        self._connections += 1
        named = Client(address, self._connections)
        self._tcp[named] = client
        self._by_host[address.host] += 1
        return named

    def leave(self, client: Client) -> None:
        del self._tcp[client]
        host = client.address.host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self._run(self._machine.gone(client))

    def _run(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if type(effect) is Forward:
                port = self._ports.get(effect.allocation)
                if port is not None:
                    port.sendto(effect.data, effect.peer)
            elif type(effect) is Reply:
                self._reply(effect)
            elif type(effect) is OpenPort:
                task = asyncio.ensure_future(self._open(effect))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            elif type(effect) is ClosePort:
                port = self._ports.pop(effect.allocation, None)
                if port is not None:
                    port.abort()

    def _reply(self, reply: Reply) -> None:
        if reply.client.connection:
            connection = self._tcp.get(reply.client)
            if connection is not None:
                connection.send(reply.data)
        elif self._udp is not None:
            self._udp.sendto(reply.data, reply.client.address)

    async def _open(self, asked: OpenPort) -> None:
        relayed: Address | None = None
        try:
            transport = await self._bind(asked)
            self._ports[asked.allocation] = transport
            port = transport.get_extra_info("sockname")[1]
            relayed = Address(self._advertised(asked.family), port)
        except OSError as fault:
            log.warning("the TURN relay has no port for an allocation: %s", fault)
        self._run(self._machine.opened(asked.allocation, relayed, self._clock.now()))

    async def _bind(self, asked: OpenPort) -> asyncio.DatagramTransport:
        loop = asyncio.get_running_loop()
        first, last = self._settings.ports
        host = self._settings.host if _family_of(self._settings.host) == asked.family else ""
        wildcard = host or ("0.0.0.0" if asked.family == 4 else "::")  # noqa: S104 - as the door itself
        for attempt in range(_ATTEMPTS):
            port = random.randint(first, last)  # noqa: S311 - no secret
            try:
                transport, _ = await loop.create_datagram_endpoint(
                    lambda: _PeerDoor(self, asked.allocation), (wildcard, port)
                )
            except OSError as fault:
                if fault.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                    raise
            else:
                _enlarge_buffers(transport)
                return transport
        raise OSError(errno.EADDRINUSE, "every port tried is taken")

    def _advertised(self, family: int) -> str:
        for address in self._settings.advertised:
            if _family_of(address) == family:
                return address
        return own_address(self._settings.host)

    def _families(self) -> tuple[int, ...]:
        hosts = (self._settings.host, *self._settings.advertised)
        return tuple(sorted({_family_of(host) for host in hosts}))

    def _is_own(self, host: str) -> bool:
        return host in self._settings.advertised or _is_local(host, int(self._clock.monotonic() // 60))

    def _schedule_expiry(self) -> None:
        self._run(self._machine.expire(self._clock.now()))
        self._expiry = asyncio.get_running_loop().call_later(EXPIRY_SECONDS, self._schedule_expiry)


class _UdpDoor(asyncio.DatagramProtocol):
    def __init__(self, service: TurnService) -> None:
        self._service = service

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._service.from_client(Client(_address(addr)), data)

    def error_received(self, exc: Exception) -> None:
        """Pass over an unreachable client; it will stop asking."""


class _PeerDoor(asyncio.DatagramProtocol):
    def __init__(self, service: TurnService, number: int) -> None:
        self._service = service
        self._number = number

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._service.from_peer(self._number, _address(addr), data)

    def error_received(self, exc: Exception) -> None:
        """Pass over an unreachable peer."""


class _TcpClient(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self, service: TurnService) -> None:
        self._service = service
        self._stream = StunStream()
        self._client: Client | None = None
        self._silence: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._client = self._service.join(self, _address(transport.get_extra_info("peername")))
        if self._client is None:
            transport.abort()
        else:
            self._end_silence()

    def data_received(self, data: bytes) -> None:
        if self._client is None:
            return
        try:
            for packet in self._stream.feed(data):
                self._service.from_client(self._client, packet)
        except MalformedError:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if self._client is not None:
            client, self._client = self._client, None
            self._service.leave(client)

    def send(self, packet: bytes) -> None:
        if self._transport.get_write_buffer_size() < MAX_UNSENT_BYTES:
            self._transport.write(packet)

    def abort(self) -> None:
        self._transport.abort()

    def _end_silence(self) -> None:
        """Close the connection if it has no allocation by now, and look again later."""
        if self._silence is not None and self._client is not None and not self._service.serves(self._client):
            self._transport.abort()
            return
        self._silence = asyncio.get_running_loop().call_later(SILENT_SECONDS, self._end_silence)


def _address(name: tuple[str, int]) -> Address:
    """Return an address without the scope of IPv6."""
    return Address(name[0].partition("%")[0], name[1])


def _family_of(host: str) -> int:
    return 6 if ":" in host else 4


@lru_cache(1024)
def _is_local(host: str, _minute: int) -> bool:
    """Return whether an address is one of this machine: then a socket can be bound to it. It is asked again every minute."""
    if not access.names_one_machine(host):  # a socket can be bound to such addresses too
        return False
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        if family == socket.AF_INET6:  # an IPv4 address written as IPv6 is none of ours
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def own_address(host: str) -> str:
    """Return the address by which others reach this machine: the host itself, or that of the route to the outside."""
    if host not in ("0.0.0.0", "::"):  # noqa: S104 - compared only
        return host
    kind, outside = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((outside, 9))  # nothing is sent there
        except OSError:  # no network
            return "::1" if ":" in host else "127.0.0.1"
        return str(probe.getsockname()[0])


def _enlarge_buffers(transport: asyncio.DatagramTransport) -> None:
    bound: socket.socket = transport.get_extra_info("socket")
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        bound.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
