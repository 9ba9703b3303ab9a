"""The relay as a target: every attempt to send anything through it that is not WebRTC between two who agreed on it.

A row is an attempt of Eve, who has a line of her own, and the code that she is answered (None: no answer). After it nothing
has come out of the relay, to no door of this machine and to nobody else, and the honest pair is served as before.
"""

import asyncio
import socket
import struct
import sys

import pytest

from comity.turn.protocol import stun
from comity.turn.protocol.stun import StunMessage
from comity.turn.service import own_address
from tests.turn.attackers import CHANNEL, LIMITS, UDP, T, User, at, in_channel, relay_with_users
from tests.turn.clients import DTLS, STUN_CHECK
from tests.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8")

PUBLIC = ("9.9.9.9", 53)
ATTEMPTS = {}


def attempt(name, answer=None, **more):
    """Add a row to the table."""

    def add(act):
        assert name not in ATTEMPTS
        ATTEMPTS[name] = answer, act, more
        return act

    return add


def attempt_to_reach(name, host, answer=403, **more):
    """Add a row: Eve asks for a permission and for a channel, and sends without waiting for either."""

    @attempt(name, answer, **more)
    async def reach(relay):
        eve = relay.eve
        peer = (host, relay.door_port)
        codes = {await eve.permit(peer), await eve.bind(peer)}
        await eve.send_to(peer)
        await eve.answers(in_channel(CHANNEL, DTLS))
        return codes.pop() if len(codes) == 1 else codes


def attempt_to_carry(name, data):
    """Add a row: Eve sends something else than WebRTC to a peer that is permitted and permits her."""

    @attempt(name)
    async def carry(relay):
        eve, bob = relay.eve, relay.bob
        assert await eve.bind(bob.relayed) == 0
        assert await bob.permit(eve.relayed) == 0
        await eve.send_to(bob.relayed, data)
        assert await eve.answers(in_channel(CHANNEL, data)) == []
        assert bob.received() == []


# Where to.

attempt_to_reach(
    "loopback by another of its addresses: on this machine like the relay itself", "127.0.0.2", 0
)
attempt_to_reach("nobody's address", "0.0.0.0")
attempt_to_reach("the address of cloud metadata (link-local)", "169.254.169.254")
attempt_to_reach("multicast in this network", "224.0.0.251")
attempt_to_reach("multicast beyond it", "239.255.255.250")
attempt_to_reach("broadcast", "255.255.255.255")
attempt_to_reach("a private network, 10.0.0.0/8", "10.0.0.1")
attempt_to_reach("a private network, 172.16.0.0/12", "172.17.0.1")
attempt_to_reach("a private network, 192.168.0.0/16", "192.168.0.1")
attempt_to_reach("a provider's network, 100.64.0.0/10", "100.64.0.1")
attempt_to_reach("a reserved address", "240.0.0.1")
attempt_to_reach("an address of IPv6 from an IPv4 allocation", "::1", 443)
attempt_to_reach("loopback of IPv4 written as IPv6", "::ffff:127.0.0.1", 443)
attempt_to_reach("IPv6: IPv4 loopback inside an address", "::ffff:127.0.0.1", on="::1")
attempt_to_reach("IPv6: link-local", "fe80::1", on="::1")
attempt_to_reach("IPv6: multicast to all nodes", "ff02::1", on="::1")
attempt_to_reach("IPv6: a private network", "fd00::1", on="::1")
attempt_to_reach("IPv6: a site-local network", "fec0::1", on="::1")
attempt_to_reach("IPv6: a 6to4 tunnel to 10.0.0.1", "2002:a00:1::1", on="::1")
attempt_to_reach("IPv6: a NAT64 translation to 10.0.0.1", "64:ff9b::a00:1", on="::1")


@attempt("a public address that nobody permitted")
async def _(relay):
    return await relay.eve.send_to(PUBLIC)


@attempt("a server of this machine", 0)
async def _(relay):
    door = (relay.host, relay.door_port)
    await relay.eve.send_to(door)
    answer = await relay.eve.permit(door)  # relayed peers have that address too
    await relay.eve.send_to(door)
    return answer


@attempt("a server of this machine, by its address in the network")
async def _(relay):
    host = own_address("0.0.0.0")
    if host == "127.0.0.1":
        pytest.skip("this machine is in no network")
    door = (host, relay.door_port)
    assert await relay.eve.permit(door) == 0
    await relay.eve.send_to(door)


@attempt("the relay's own port, with a request to itself inside", 0)
async def _(relay):
    answer = await relay.eve.bind(relay.at)
    await relay.eve.answers(in_channel(CHANNEL, STUN_CHECK))
    await relay.eve.send_to(relay.at, STUN_CHECK)
    return answer


@attempt("one forbidden address among permitted ones", 403)
async def _(relay):
    answer = await relay.eve.permit(PUBLIC, ("10.0.0.1", 80))
    await relay.eve.send_to(PUBLIC)
    return answer


# What.

attempt_to_carry(
    "a name server's question", b"\x12\x34\x01\0\0\x01" + bytes(6) + b"\x07example\x03org\0\0\x01\0\x01"
)
attempt_to_carry("a web request", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
attempt_to_carry("the first packet of QUIC", b"\xc3\0\0\0\x01\x08" + bytes(1194))
attempt_to_carry("a later packet of QUIC", b"\x43" + bytes(60))
attempt_to_carry("a packet of WireGuard", b"\x01\0\0\0" + bytes(144))
attempt_to_carry("DTLS by its first byte alone", b"\x16" + b"anything that one likes to send")
attempt_to_carry(
    "a record that says it is longer than the packet",
    bytes([22, 254, 253]) + bytes(8) + b"\xff\xff" + bytes(20),
)
attempt_to_carry(
    "a request to another TURN server",
    stun.write_message(StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP,))),
)
attempt_to_carry("channel data for another TURN server", in_channel(CHANNEL, DTLS))
attempt_to_carry("nothing at all", b"")


@attempt("anything from outside, from an address that nobody permitted")
async def _(relay):
    stranger = User(relay, "stranger", "127.0.0.9")
    stranger.send(DTLS, relay.eve.relayed)
    stranger.send(STUN_CHECK, relay.eve.relayed)
    await _has_read(relay, relay.eve.relayed)


@attempt("anything from outside, from a permitted address of the relay that is none of its relayed ports", 0)
async def _(relay):
    answer = await relay.eve.permit((relay.host, 0))
    relay.door.send(DTLS, relay.eve.relayed)
    await _has_read(relay, relay.eve.relayed)
    return answer


async def _has_read(relay, port):
    """Wait until what was sent to a relayed port has been dropped: it is counted."""
    before = relay.service.counts.dropped
    relay.door.send(b"no WebRTC", port)
    await eventually(lambda: relay.service.counts.dropped > before, interval=0)


# As whom.


def attempt_with_login(name, answer, **change):
    """Add a row: an allocation with a login that is not right."""

    @attempt(name, answer)
    async def log_in(relay):
        mallory = User(
            relay,
            change.get("name", "eve"),
            expires=change.get("expires", 600),
            secret=change.get("secret", b"r" * 32),
        )
        mallory.user = change.get("user", lambda user: user)(mallory.user)
        return await mallory.log_in_and_allocate()


attempt_with_login("a line of another relay", 401, secret=b"s" * 32)
attempt_with_login("a login that has expired", 401, expires=0)
attempt_with_login("a login whose end was moved", 401, user=lambda user: "9" + user)
attempt_with_login("a login whose name was changed", 401, user=lambda user: user.replace("eve", "ann"))
attempt_with_login("a login without an end", 401, user=lambda user: "eve")


@attempt("no login", 401)
async def _(relay):
    packet = stun.write_message(StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP,)))
    return await User(relay, "nobody").code(packet)


@attempt("a nonce of one's own making", 438)
async def _(relay):
    mallory = User(relay, "eve")
    mallory.nonce = b"ffffffffff-" + b"0" * 32
    return await mallory.ask(stun.ALLOCATE, UDP)


@attempt("a nonce that another address got", 438)
async def _(relay):
    mallory = User(relay, "eve", "127.0.0.9")
    mallory.nonce = relay.eve.nonce
    return await mallory.ask(stun.ALLOCATE, UDP)


@attempt("a nonce that has expired", 438)
async def _(relay):
    relay.clock.jump(3601)
    await relay.introduce()
    return await relay.eve.ask(stun.ALLOCATE, UDP)


@attempt("an allocation of Ann's, copied and sent again from another port", 438)
async def _(relay):
    return await User(relay, "copy").code(relay.ann.request(stun.ALLOCATE, UDP))


@attempt("a permission of Ann's, copied and sent again from Eve's port", 438)
async def _(relay):
    return await relay.eve.code(relay.ann.request(stun.CREATE_PERMISSION, at(relay.bob.relayed)))


@attempt("Ann's login for Eve's allocation", 441)
async def _(relay):
    relay.eve.user, relay.eve.password = relay.ann.user, relay.ann.password
    return await relay.eve.permit(PUBLIC)


@attempt("the permissions of Ann", 0)
async def _(relay):
    answer = await relay.ann.permit(relay.eve.relayed)  # Ann permits Eve, Eve permits nobody
    await relay.eve.send_to(relay.ann.relayed)
    assert await relay.eve.answers(in_channel(CHANNEL, DTLS)) == []
    return answer


@attempt("the channel of Ann, from a forged source address")
async def _(relay):
    """The address may be right: without the port of a client that has a channel nothing passes."""
    await relay.has_read_all()
    for port in range(relay.ann.address.port + 1, relay.ann.address.port + 20):
        _send_forged((relay.ann.address.host, port), relay.at, in_channel(CHANNEL, DTLS))
    await relay.has_read_all()
    assert relay.bob.received() == []


@attempt("a permitted peer's packet, from a forged source address")
async def _(relay):
    _send_forged(("9.9.9.9", 5000), relay.ann.relayed, DTLS)
    await _has_read(relay, relay.ann.relayed)


def _send_forged(source, to, data):
    try:
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    except PermissionError:
        pytest.skip("only root forges source addresses")
    with raw:
        packet = struct.pack(
            "!BBHHHBBH4s4sHHHH", 0x45, 0, 28 + len(data), 0, 0, 64, socket.IPPROTO_UDP, 0, socket.inet_aton(source[0]),
            socket.inet_aton(to[0]), source[1], to[1], 8 + len(data), 0,
        )  # fmt: skip
        raw.sendto(packet + data, (to[0], 0))


# By which way.


@attempt("a TCP allocation", 442)
async def _(relay):
    mallory = User(relay, "eve")
    await mallory.learn_nonce()
    return await mallory.ask(stun.ALLOCATE, (stun.A_TRANSPORT, bytes([6, 0, 0, 0])))


@attempt("a TCP connection to a peer", 400)
async def _(relay):
    connect = 0x00A
    return await relay.eve.ask(connect, at(PUBLIC))


@attempt("a reserved port", 508)
async def _(relay):
    return await User(relay, "eve").log_in_and_allocate((stun.A_RESERVATION, bytes(8)))


@attempt("an attribute that the relay does not know", 420)
async def _(relay):
    return await User(relay, "eve").log_in_and_allocate((0x7ABC, b"abcd"))


@attempt("SOCKS and a web proxy's CONNECT at the TCP port: the connection ends")
async def _(relay):
    for first in (b"\x05\x01\0\x05\x01\0\x01\x7f\0\0\x01\0\x50", b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n\r\n"):
        reader, writer = await asyncio.open_connection(*relay.at)
        writer.write(first + b"\xff" * 70_000)
        assert await _rest_of(reader) == b""
        writer.close()


async def _rest_of(reader):
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@attempt("channel data without a channel")
async def _(relay):
    assert (
        await relay.eve.answers(in_channel(CHANNEL, DTLS), in_channel(0x4FFF, DTLS), in_channel(0x5000, DTLS))
        == []
    )


@attempt("channel data longer than its packet", 0)
async def _(relay):
    answer = await relay.eve.bind(relay.bob.relayed)
    await relay.bob.permit(relay.eve.relayed)
    assert await relay.eve.answers(in_channel(CHANNEL, DTLS, size=60_000)) == []
    return answer


@attempt("a channel that is another peer's already", 400)
async def _(relay):
    assert await relay.eve.bind(relay.bob.relayed) == 0
    return await relay.eve.bind(PUBLIC)


@attempt("a channel number that is none", 400)
async def _(relay):
    return await relay.eve.bind(relay.bob.relayed, number=0x3FFF)


@attempt("an allocation that was given back", 437)
async def _(relay):
    await relay.eve.bind(relay.bob.relayed)
    await relay.bob.permit(relay.eve.relayed)
    assert await relay.eve.ask(stun.REFRESH, (stun.A_LIFETIME, bytes(4))) == 0
    await relay.eve.answers(in_channel(CHANNEL, DTLS))
    return await relay.eve.permit(PUBLIC)


# How much.


@attempt("more allocations than a name has", 486)
async def _(relay):
    for _ in range(LIMITS.allocations_per_name - 1):
        await User(relay, "eve").allocate()
    return await User(relay, "eve").log_in_and_allocate()


@attempt("more allocations than the relay has, by many names", 508)
async def _(relay):
    for number in range(LIMITS.allocations - 3):
        await User(relay, f"eve{number}").allocate()
    return await User(relay, "eve again").log_in_and_allocate()


@attempt("more permissions than an allocation has", 508)
async def _(relay):
    return await relay.eve.permit(*[(f"9.9.9.{number}", 53) for number in range(LIMITS.peers + 1)])


@attempt("more channels than an allocation has", 508)
async def _(relay):
    for number in range(LIMITS.peers):
        assert await relay.eve.bind(("9.9.9.9", 1000 + number), number=CHANNEL + number) == 0
    return await relay.eve.bind(("9.9.9.9", 999), number=CHANNEL + LIMITS.peers)


@attempt("a victim flooded with answers to requests in its name")
async def _(relay):
    """A real socket stands for the victim, in whose name others ask: it gets 60 short answers, and nothing is kept of it."""
    victim = User(relay, "victim", "127.0.0.9")
    binding = StunMessage(stun.BINDING, stun.REQUEST, T)
    login = StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP,))
    answers = []
    for _ in range(10):
        answers += await victim.answers(*[stun.write_message(one) for one in (binding, login)] * 15)
    assert len(answers) == 60
    assert max(map(len, answers)) < 150


@pytest.fixture
async def relay(request):
    host = getattr(request, "param", "127.0.0.1")
    if ":" in host and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    async with relay_with_users(host) as opened:
        yield opened


def _has_ipv6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
    return True


@pytest.mark.parametrize(
    ("relay", "answer", "act"),
    [(more.get("on", "127.0.0.1"), answer, act) for answer, act, more in ATTEMPTS.values()],
    ids=list(ATTEMPTS),
    indirect=["relay"],
)
async def test_nothing_comes_out_by(relay, answer, act):
    passed = relay.service.counts.bytes
    assert await act(relay) == answer
    await relay.has_read_all()
    assert relay.service.counts.bytes == passed, "something was passed on"
    assert relay.door.received() == []
    assert await relay.honest_packet_passes()


async def test_an_honest_packet_would_have_been_seen(relay):
    """All that the rows above look at changes when a packet does pass."""
    eve, bob, passed = relay.eve, relay.bob, relay.service.counts.bytes
    assert await eve.bind(bob.relayed) == 0
    assert await bob.bind(eve.relayed, number=CHANNEL + 1) == 0
    await eve.answers(in_channel(CHANNEL, DTLS))
    await eventually(lambda: in_channel(CHANNEL + 1, DTLS) in bob.received(), interval=0)
    assert relay.service.counts.bytes == passed + 2 * len(DTLS)
