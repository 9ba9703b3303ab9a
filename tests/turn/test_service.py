"""The relay over real sockets, beside coturn where that is installed."""

import asyncio
import random
import shutil
import socket
import struct
import subprocess

import aioice.turn
import pytest

from comity.runtime.system_clock import SystemClock
from comity.turn import service as service_module
from comity.turn.protocol import access, stun
from comity.turn.protocol.stun import Address, StunMessage
from comity.wire.errors import ConfigError
from tests.rooms.links.turn_server import RELAY_SECRET, login, turn_server
from tests.turn.clients import DTLS
from tests.waiting import eventually, wait_until


class Inbox(asyncio.DatagramProtocol):
    def __init__(self):
        self.received = []

    def datagram_received(self, data, addr):
        self.received.append((data, addr))


async def allocate(server, name="ann", transport="udp"):
    return await aioice.turn.create_turn_endpoint(
        Inbox, ("127.0.0.1", server.port), *login(name), transport=transport
    )


@pytest.mark.parametrize("right", ["udp", "tcp"])
@pytest.mark.parametrize("left", ["udp", "tcp"])
async def test_two_clients_reach_each_other_by_their_relayed_addresses(left, right):
    async with turn_server() as server:
        ann, at_ann = await allocate(server, "ann", left)
        bob, at_bob = await allocate(server, "bob", right)
        relayed = {one: one.get_extra_info("sockname") for one in (ann, bob)}
        await eventually(
            lambda: (bob.sendto(DTLS, relayed[ann]), ann.sendto(DTLS, relayed[bob]), at_bob.received)[2]
        )
        await eventually(lambda: (bob.sendto(DTLS + b"b", relayed[ann]), at_ann.received)[1])
        assert at_bob.received[0] == (DTLS, relayed[ann])
        assert at_ann.received[0][1] == relayed[bob]
        ann.close()
        bob.close()
        await eventually(lambda: server.counts.allocations == 0)


async def test_a_port_of_this_machine_that_is_not_relayed_is_not_reached():
    async with turn_server() as server:
        ann, _ = await allocate(server)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
            door.bind(("127.0.0.1", 0))
            door.setblocking(False)
            before = server.counts.dropped
            ann.sendto(DTLS, door.getsockname())
            await eventually(lambda: server.counts.dropped > before)
            with pytest.raises(BlockingIOError):
                door.recv(100)
        ann.close()


async def test_a_tcp_client_that_is_gone_takes_its_allocation_along():
    async with turn_server() as server:
        ann, _ = await allocate(server, transport="tcp")
        assert server.counts.allocations == 1
        ann.abort() if hasattr(ann, "abort") else ann._TurnTransport__inner_protocol.transport.abort()
        await eventually(lambda: server.counts.allocations == 0)


async def test_connections_that_say_nothing_or_garbage_are_closed(monkeypatch):
    monkeypatch.setattr(service_module, "SILENT_SECONDS", 0.05)
    async with turn_server() as server:
        for first in (b"", b"\xff" * 100, b"\x00\x01\x00"):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(first)
            assert await asyncio.wait_for(reader.read(), 20) == b""
            writer.close()


async def test_connections_of_one_address_are_limited(monkeypatch):
    monkeypatch.setattr(service_module, "MAX_CONNECTIONS_PER_ADDRESS", 2)
    async with turn_server() as server:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        binding = stun.write_message(StunMessage(stun.BINDING, stun.REQUEST, b"t" * 12))
        for reader, writer in held:
            writer.write(binding)
            assert len(await reader.readexactly(40)) == 40
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert await asyncio.wait_for(_read_rest(reader), 20) == b""
        for _, each in [*held, (reader, writer)]:
            each.close()


async def _read_rest(reader):
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_a_taken_port_is_named():
    async with turn_server() as server:
        with pytest.raises(ConfigError, match=str(server.port)):
            await _start_at(server.port)


async def test_where_any_port_will_do_it_takes_one_that_is_free_for_both(monkeypatch):
    """The port that the system gives for TCP is taken for UDP, once."""
    loop, taken = asyncio.get_running_loop(), []
    create_server = loop.create_server

    async def create_and_take(*args):
        server = await create_server(*args)
        if not taken:
            taken.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            taken[0].bind(server.sockets[0].getsockname())
        return server

    monkeypatch.setattr(loop, "create_server", create_and_take)
    async with turn_server() as server:
        assert server.port != taken[0].getsockname()[1]
    taken[0].close()


async def _start_at(port):
    settings = service_module.TurnSettings(host="127.0.0.1", port=port)
    await service_module.TurnService(settings, RELAY_SECRET, SystemClock()).start()


@pytest.fixture(scope="module")
def coturn(tmp_path_factory):
    """The port of a coturn with the same credentials as ours."""
    program = shutil.which("turnserver")
    if program is None:
        pytest.skip("coturn is not installed (Debian: apt-get install coturn)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("coturn")
    options = [
        "-n", "--use-auth-secret", f"--static-auth-secret={access.secret_of_name(RELAY_SECRET, 'ann')}", "--realm=comity",
        f"--listening-port={port}", "--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", "--no-tls", "--no-dtls", "--no-cli",
        "--allow-loopback-peers", f"--pidfile={folder}/pid", f"--log-file={folder}/log", "--no-stdout-log",
        f"--userdb={folder}/db", "--cli-password=x", "--min-port=40000", "--max-port=45000",
    ]  # fmt: skip
    with subprocess.Popen(
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until(lambda: process.poll() is not None or _exchange(port, _binding()) is not None)
            yield port
        finally:
            process.terminate()


def _binding():
    return stun.write_message(StunMessage(stun.BINDING, stun.REQUEST, b"t" * 12))


def _exchange(port, packet, client=None, seconds=0.5):
    """Send a packet; return the answer to it."""
    own = client or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.settimeout(seconds)
    try:
        own.sendto(packet, ("127.0.0.1", port))
        return own.recv(2000)
    except OSError:
        return None
    finally:
        if client is None:
            own.close()


class _Talk:
    """One client's requests, as a list of what a server says to each: its kind, and the number of the error."""

    def __init__(self, port):
        self.port = port
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.user, password = login()
        self.key = stun.long_term_key(self.user, "comity", password)
        self.nonce = b""
        self.heard = []

    def ask(self, method, *attributes, key=None, drop=(), transaction=None, logged_in=True):
        transaction = transaction or random.Random(len(self.heard)).randbytes(12)
        login = [
            (stun.A_USERNAME, self.user.encode()),
            (stun.A_REALM, b"comity"),
            (stun.A_NONCE, self.nonce),
        ]
        login = [one for one in login if one[0] not in drop] if logged_in else []
        request = StunMessage(method, stun.REQUEST, transaction, (*attributes, *login))
        answer = _exchange(
            self.port, stun.write_message(request, (key or self.key) if logged_in else None), self.socket, 5.0
        )
        assert answer is not None, "no answer"
        message = stun.read_message(answer)
        error = message.get(stun.A_ERROR_CODE)
        self.nonce = message.get(stun.A_NONCE) or self.nonce
        assert message.transaction == transaction
        signed = message.integrity is not None
        assert not signed or message.verifies(self.key)
        found = {kind for kind, _ in message.attributes} & {
            stun.A_RELAYED,
            stun.A_MAPPED,
            stun.A_LIFETIME,
            stun.A_UNKNOWN,
        }
        self.heard.append(
            (method, message.kind, stun.read_error(error) if error else 0, tuple(sorted(found)))
        )
        return message


def _peer(address, transaction):
    return stun.A_PEER, stun.write_address(Address(*address), transaction)


def _script(port):
    """Say the same to a server, whichever it is. Left out is where coturn departs from RFC 8656: 400 for 442, and for 437 to a
    permission without an allocation.
    """
    talk = _Talk(port)
    udp = (stun.A_TRANSPORT, bytes([17, 0, 0, 0]))
    t = b"t" * 12
    talk.ask(stun.BINDING, logged_in=False)
    talk.ask(stun.ALLOCATE, udp, logged_in=False)
    talk.ask(stun.ALLOCATE, udp, key=b"k" * 16)
    talk.ask(stun.ALLOCATE)
    talk.ask(stun.ALLOCATE, udp, (0x7ABC, b"abcd"))
    talk.ask(stun.REFRESH)
    allocated = talk.ask(stun.ALLOCATE, udp, transaction=b"a" * 12)
    again = talk.ask(stun.ALLOCATE, udp, transaction=b"a" * 12)
    assert again.get(stun.A_RELAYED) == allocated.get(stun.A_RELAYED)
    talk.ask(stun.ALLOCATE, udp)
    talk.ask(stun.CREATE_PERMISSION)
    talk.ask(stun.CREATE_PERMISSION, _peer(("127.0.0.1", 9), t), transaction=t)
    talk.ask(stun.CREATE_PERMISSION, _peer(("2001:db8::1", 9), t), transaction=t)
    for channel in (0x3FFF, 0x4000, 0x4000, 0x8000):
        number = (stun.A_CHANNEL, struct.pack("!HH", channel, 0))
        talk.ask(stun.CHANNEL_BIND, number, _peer(("127.0.0.1", 9), t), transaction=t)
    talk.ask(
        stun.CHANNEL_BIND, (stun.A_CHANNEL, b"\x40\x00\x00\x00"), _peer(("127.0.0.1", 10), t), transaction=t
    )
    talk.ask(
        stun.CHANNEL_BIND, (stun.A_CHANNEL, b"\x40\x01\x00\x00"), _peer(("127.0.0.1", 9), t), transaction=t
    )
    talk.ask(stun.CHANNEL_BIND, _peer(("127.0.0.1", 9), t), transaction=t)
    talk.ask(stun.REFRESH)
    talk.ask(stun.REFRESH, (stun.A_LIFETIME, (700).to_bytes(4, "big")))
    talk.ask(stun.REFRESH, (stun.A_LIFETIME, bytes(4)))
    talk.socket.close()
    return talk.heard


async def test_coturn_says_the_same_to_the_same_requests(coturn):
    async with turn_server() as server:
        ours = await asyncio.to_thread(_script, server.port)
    theirs = await asyncio.to_thread(_script, coturn)
    for number, (own, other) in enumerate(zip(ours, theirs, strict=True)):
        assert own == other, f"request {number}"
