"""The networks are what they are said to be: each kind of router by what it does to UDP, and the line by its delay and loss."""

import contextlib
import time

import pytest

from tests.nat.network import KINDS, RELAY

pytestmark = pytest.mark.nat

# (the same outer port for all destinations, who else gets in: any port of an address that was sent to, any address)
BEHAVIOUR = {
    "open": (True, True, True),
    "full cone": (True, True, True),
    "port-restricted cone": (True, False, False),
    "symmetric": (False, False, False),
}
SAME, PORT, HOST = "the one that was sent to", "another port of it", "another address"
SECONDS = 20


@pytest.fixture
def servers(network):
    """Who answers on the relay's machine, and tells what address it sees."""
    with contextlib.ExitStack() as sockets:
        opened = {
            SAME: network.udp_socket("relay", RELAY, 3478),
            PORT: network.udp_socket("relay", RELAY, 3479),
            HOST: network.udp_socket("relay", "9.0.3.3", 3478),
        }
        for each in opened.values():
            sockets.enter_context(each)
            each.settimeout(SECONDS)
        yield opened


@pytest.fixture
def client(network):
    with network.udp_socket("a") as opened:
        opened.settimeout(SECONDS)
        yield opened


def seen(client, server):
    """Return the address by which a server sees the client."""
    client.sendto(b"?", server.getsockname())
    return server.recvfrom(100)[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_router_maps_and_filters_as_its_kind_says(network, servers, client, kind):
    network.set_kind("a", kind)
    same, by_port, by_host = BEHAVIOUR[kind]
    outer = seen(client, servers[SAME])
    assert outer[0] == ("9.0.11.2" if kind == "open" else "9.0.1.2")
    assert outer == seen(client, servers[SAME]), "the same to the same server"
    # who comes in: only the first server was sent to; what it sends comes last
    for who in (HOST, PORT, SAME):
        servers[who].sendto(who.encode(), outer)
    heard = []
    while SAME not in heard:
        heard.append(client.recv(100).decode())
    assert (PORT in heard, HOST in heard) == (by_port, by_host)
    # where it is seen by others: more than once, because a random port may be the same by chance
    others = {seen(client, servers[who]) for who in (PORT, HOST)}
    assert (others == {outer}) == same


def test_nobody_gets_in_before_something_was_sent_out(network, servers, client):
    """Not even through a full cone: a port is mapped when the machine sends from it."""
    network.set_kind("a", "full cone")
    with network.udp_socket("a") as silent:
        silent.setblocking(False)
        servers[HOST].sendto(b"early", ("9.0.1.2", silent.getsockname()[1]))
        outer = seen(client, servers[SAME])
        servers[HOST].sendto(b"now", outer)
        assert client.recv(100) == b"now"
        with pytest.raises(BlockingIOError):
            silent.recv(100)


@pytest.mark.parametrize("kind", ["port-restricted cone", "symmetric"])
def test_a_packet_that_comes_too_early_does_not_change_the_mapping(network, servers, client, kind):
    network.set_kind("a", kind)
    port = client.getsockname()[1]
    servers[HOST].sendto(b"early", ("9.0.1.2", port))
    outer = seen(client, servers[SAME])
    assert (seen(client, servers[HOST]) == outer) == (kind == "port-restricted cone")


def test_another_uplink_is_another_address(network, servers, client):
    network.set_kind("a", "port-restricted cone")
    assert seen(client, servers[SAME])[0] == "9.0.1.2"
    network.use_uplink("wan2")
    try:
        client.sendto(
            b"lost: the router learns by it that the old mapping is over", servers[SAME].getsockname()
        )
        assert seen(client, servers[SAME])[0] == "9.0.4.2"
    finally:
        network.use_uplink("wan")


def test_the_line_is_as_slow_and_lossy_as_it_is_told(network, servers, client):
    network.set_kind("a", "open")
    server = servers[SAME]
    network.set_line(delay=0.05)
    start = time.monotonic()
    server.sendto(b"back", seen(client, server))
    assert client.recv(100) == b"back"
    assert time.monotonic() - start >= 0.1
    network.set_line(loss=0.5)
    for number in range(400):
        client.sendto(bytes(2) + number.to_bytes(2, "big"), server.getsockname())
    for _ in range(100):  # one of them arrives
        client.sendto(b"end", server.getsockname())
    arrived = list(iter(lambda: server.recv(100), b"end"))
    network.set_line()
    assert 100 < len(arrived) < 300
