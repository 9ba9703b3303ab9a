import random

import pytest

from comity.turn.protocol import access, stun
from comity.turn.protocol.server import TurnLimits
from comity.turn.protocol.stun import Address, StunMessage
from tests.turn.clients import (
    DTLS,
    PEER,
    RELAYED,
    STUN_CHECK,
    UDP,
    ClosePort,
    Forward,
    OpenPort,
    Reply,
    T,
    TurnClient,
    error_of,
    kinds,
    new_server,
    peer_at,
)

OTHER = Address("9.9.9.8", 6000)


def ready(**options):
    client = TurnClient(new_server(**options))
    client.allocate()
    return client


def test_a_client_learns_where_it_is_seen():
    server = new_server()
    client = TurnClient(server)
    [reply] = server.receive(client.me, STUN_CHECK, 1.0)
    message = stun.read_message(reply.data)
    assert stun.read_address(message.get(stun.A_MAPPED), message.transaction) == client.me.address


def test_an_allocation_passes_packets_in_both_directions():
    client = ready()
    assert client.permit(PEER) == 0
    assert client.tell(PEER, DTLS) == [Forward(client.number, PEER, DTLS)]
    [reply] = client.server.from_peer(client.number, PEER, DTLS, 2.0)
    message = stun.read_message(reply.data)
    assert (message.method, message.kind, message.get(stun.A_DATA)) == (stun.DATA, stun.INDICATION, DTLS)
    assert stun.read_address(message.get(stun.A_PEER), message.transaction) == PEER
    assert client.bind(0x4000, PEER) == 0
    packet = stun.write_channel_data(0x4000, DTLS, padded=False)
    assert client.send(packet) == (Forward(client.number, PEER, DTLS),)
    assert client.server.from_peer(client.number, PEER, DTLS, 2.0) == (Reply(client.me, packet),)


def test_an_answer_says_the_relayed_address_and_is_signed_with_the_key_of_the_user():
    client = TurnClient(new_server())
    answer = client.allocate()
    assert answer.verifies(client.key)
    assert stun.read_address(answer.get(stun.A_RELAYED), answer.transaction) == RELAYED
    assert answer.get(stun.A_LIFETIME) == (600).to_bytes(4, "big")


def test_who_is_not_logged_in_gets_a_challenge_and_nothing_is_kept():
    client = TurnClient(new_server())
    [reply] = client.send(client.request(stun.ALLOCATE, UDP, logged_in=False))
    message = stun.read_message(reply.data)
    assert error_of(reply.data) == 401
    assert message.get(stun.A_REALM) == b"comity"
    client.nonce = message.get(stun.A_NONCE).decode()
    client.allocate()
    assert client.server.counts.allocations == 1


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"nonce": "0-0"}, 438),
        ({"nonce": access.new_nonce(b"n" * 32, Address("192.0.2.10", 4000), 0)}, 438),
        ({"nonce": access.new_nonce(b"n" * 32, Address("192.0.2.9", 4001), 0)}, 438),
        ({"nonce": access.new_nonce(b"n" * 32, Address("192.0.2.9", 4000), -4000)}, 438),
        ({"nonce": "zz"}, 438),
        ({"key": b"k" * 16}, 401),
        ({"user": "10000:bob"}, 401),
        ({"user": "ann"}, 401),
        ({"user": ":ann"}, 401),
        ({"user": "99999999999999:ann"}, 401),
        ({"user": "10000:" + "a" * 65}, 401),
        ({"user": "10000:ännchen"}, 401),
    ],
)
def test_a_wrong_login_is_refused(change, code):
    client = TurnClient(new_server())
    for name, value in change.items():
        setattr(client, name, value)
    assert client.ask(stun.ALLOCATE, UDP) == code
    assert client.server.counts.allocations == 0


def test_a_user_that_is_no_text_is_refused():
    client = TurnClient(new_server())
    login = [
        (stun.A_USERNAME, b"10000:\x80nn"),
        (stun.A_REALM, b"comity"),
        (stun.A_NONCE, client.nonce.encode()),
    ]
    packet = stun.write_message(StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP, *login)), client.key)
    [reply] = client.send(packet)
    assert error_of(reply.data) == 401


def test_an_expired_user_is_refused_also_for_an_allocation_that_it_has():
    client = TurnClient(new_server(), expires=100)
    client.allocate()
    assert client.permit(PEER, now=99) == 0
    assert client.ask(stun.REFRESH, now=100) == 401


def test_another_user_cannot_take_over_an_allocation():
    client = ready()
    other = TurnClient(client.server, client.me.address, name="bob")
    assert other.ask(stun.REFRESH) == 441
    assert other.permit(PEER) == 441


def test_a_repeated_request_gets_the_same_answer_and_another_one_is_refused():
    client = TurnClient(new_server())
    packet = client.request(stun.ALLOCATE, UDP)
    [opening] = client.send(packet)
    assert client.send(packet) == (), "the port is being opened"
    first = client.server.opened(opening.allocation, RELAYED, 1.0)
    assert client.send(packet) == first
    assert client.ask(stun.ALLOCATE, UDP) == 437
    assert client.server.counts.allocations == 1


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ((), 400),
        (((stun.A_TRANSPORT, bytes([6, 0, 0, 0])),), 442),
        ((UDP, (stun.A_FAMILY, bytes([2, 0, 0, 0]))), 440),
        ((UDP, (stun.A_FAMILY, bytes([3, 0, 0, 0]))), 440),
        ((UDP, (stun.A_RESERVATION, bytes(8))), 508),
        ((UDP, (stun.A_EVEN_PORT, bytes(1))), 508),
        ((UDP, (0x7ABC, b"")), 420),
        ((UDP, (stun.A_LIFETIME, b"1")), 400),
    ],
)
def test_what_cannot_be_allocated_is_refused_with_its_code(attributes, code):
    assert TurnClient(new_server()).ask(stun.ALLOCATE, *attributes) == code


def test_without_a_free_port_the_client_is_told_and_nothing_stays():
    client = TurnClient(new_server())
    [opening] = client.send(client.request(stun.ALLOCATE, UDP))
    [reply] = client.server.opened(opening.allocation, None, 1.0)
    assert error_of(reply.data) == 508
    assert client.server.counts.allocations == 0
    client.allocate()


def test_a_client_that_is_gone_before_its_port_is_open_leaves_no_port():
    client = TurnClient(new_server(), connection=3)
    [opening] = client.send(client.request(stun.ALLOCATE, UDP))
    assert client.server.gone(client.me) == ()
    assert client.server.opened(opening.allocation, RELAYED, 1.0) == (ClosePort(opening.allocation),)


def test_an_allocation_ends_by_time_by_a_refresh_of_zero_and_with_its_connection():
    client = ready()
    assert client.server.expire(600.9) == []
    assert client.ask(stun.REFRESH, now=600) == 0
    assert client.server.expire(1100) == []
    assert client.server.expire(1200) == [ClosePort(client.number)]
    client.allocate()
    effects = client.send(client.request(stun.REFRESH, (stun.A_LIFETIME, bytes(4))))
    assert kinds(effects) == [Reply, ClosePort]
    client.allocate()
    assert client.server.gone(client.me) == (ClosePort(client.number),)
    assert client.ask(stun.REFRESH) == 437
    assert client.server.counts.allocations == 0


def test_permissions_and_channels_end_by_time():
    client = ready()
    client.permit(PEER, now=1)
    assert kinds(client.tell(PEER, now=300)) == [Forward]
    assert client.tell(PEER, now=301) == []
    assert client.server.from_peer(client.number, PEER, DTLS, 301) == ()
    client.bind(0x4000, PEER, now=301)
    packet = stun.write_channel_data(0x4000, DTLS, padded=False)
    client.permit(PEER, now=600)
    assert kinds(client.send(packet, 899)) == [Forward]
    assert client.send(packet, 901) == ()
    client.server.expire(590)
    assert client.bind(0x4000, OTHER, now=600) == 400, "it is bound to the first peer until it ends"


def test_nobody_sends_to_a_peer_without_a_permission():
    client = ready()
    assert client.tell(PEER) == []
    assert client.server.from_peer(client.number, PEER, DTLS, 1.0) == ()
    client.permit(PEER)
    assert client.tell(OTHER) == []
    assert client.server.from_peer(client.number, OTHER, DTLS, 1.0) == ()
    assert kinds(client.server.from_peer(client.number, Address(PEER.host, 9), DTLS, 1.0)) == [Reply], (
        "any port of it"
    )


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "224.0.0.1",
        "255.255.255.255", "100.64.0.1", "192.0.0.1", "240.0.0.1",
    ],
)  # fmt: skip
def test_addresses_of_this_machine_and_of_private_networks_are_no_peers(host):
    client = ready()
    assert client.permit((host, 80)) == 403
    assert client.bind(0x4000, (host, 80)) == 403
    assert client.tell((host, 80)) == []


@pytest.mark.parametrize(
    "host",
    ["::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "2002:7f00:1::", "64:ff9b::7f00:1",
     "2001:0:1::", "::7f00:1", "fec0::1", "::ffff:0:7f00:1", "100::1", "5f00::1"],
)  # fmt: skip
def test_addresses_of_ipv6_that_lead_home_are_no_peers(host):
    client = TurnClient(new_server(families=(6,)), ("2001:db8::9", 4000))
    family = (stun.A_FAMILY, bytes([2, 0, 0, 0]))
    [opening] = client.send(client.request(stun.ALLOCATE, UDP, family))
    client.server.opened(opening.allocation, Address("2606:4700::1", 50_000), 1.0)
    assert client.permit((host, 80)) == 403
    assert client.permit(("2606:4700::2", 80)) == 0


def test_with_lan_private_addresses_are_peers_but_never_this_machine():
    client = ready(lan=True)
    assert client.permit(("192.168.1.7", 80)) == 0
    for host in ("127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "240.0.0.1"):
        assert client.permit((host, 80)) == 403
    assert access.may_be_peer("fd00::1", lan=True)
    assert not access.may_be_peer("fd00::1", lan=False)
    assert not access.may_be_peer("fe80::1", lan=True)


def test_of_the_relays_own_addresses_only_relayed_ones_are_reached():
    server = new_server(is_own=lambda host: host == RELAYED.host)
    ann, bob = TurnClient(server), TurnClient(server, ("192.0.2.10", 4000))
    second = Address(RELAYED.host, RELAYED.port + 1)
    ann.allocate()
    bob.allocate(relayed=second)
    assert ann.permit((RELAYED.host, 0)) == 0
    assert ann.tell((RELAYED.host, 22)) == []
    assert ann.tell((RELAYED.host, 3478)) == []
    assert ann.tell(second) == [Forward(ann.number, second, STUN_CHECK)]
    assert server.from_peer(ann.number, Address(RELAYED.host, 53), DTLS, 1.0) == ()
    server.gone(bob.me)
    assert ann.tell(second) == []


def test_one_refused_address_among_several_permits_none():
    client = ready()
    assert client.permit(PEER, ("10.0.0.1", 0)) == 403
    assert client.tell(PEER) == []


def test_an_address_of_another_family_is_refused():
    client = ready()
    assert client.permit(("2606:4700::2", 80)) == 443


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x01" + bytes(30),
        stun.write_message(StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP,))),
        bytes([22, 3, 3]) + bytes(30),
        b"\x80\x60" + bytes(40),
        DTLS[:-1],
        b"\x2e\x00\x00\x00\x20" + bytes(31),
        b"\x2a\x00\x00\x00\x20" + bytes(32),
        b"2 plus 2 is four, said a line of text",
    ],
    ids=["nothing", "HTTP", "DNS", "TURN", "TLS", "RTP", "cut", "cut 1.3", "1.3 without length", "text"],
)
def test_only_webrtc_is_carried_in_either_direction(data):
    client = ready()
    client.permit(PEER)
    client.bind(0x4000, PEER)
    assert client.tell(PEER, data) == []
    assert client.send(stun.write_channel_data(0x4000, data, padded=False)) == ()
    assert client.server.from_peer(client.number, PEER, data, 1.0) == ()


@pytest.mark.parametrize(
    "data", [b"\x2e\x00\x00\x00\x20" + bytes(32), b"\x26\x00\x00\x20" + bytes(40), DTLS + DTLS]
)
def test_records_of_dtls_1_3_and_several_in_one_packet_are_carried(data):
    client = ready()
    client.permit(PEER)
    assert client.tell(PEER, data) == [Forward(client.number, PEER, data)]


def test_channels_are_bound_to_one_peer_each():
    client = ready()
    assert client.bind(0x4000, PEER) == 0
    assert client.bind(0x4000, PEER) == 0
    assert client.bind(0x4000, OTHER) == 400
    assert client.bind(0x4001, PEER) == 400
    for channel in (0x3FFF, 0x5000, 0):
        assert client.bind(channel, OTHER) == 400


def test_allocations_peers_and_bytes_are_limited():
    limits = TurnLimits(allocations=3, allocations_per_name=2, peers=2, bytes_per_name=100, per_seconds=10)
    server = new_server(limits=limits)
    clients = [TurnClient(server, ("192.0.2.9", port), name="ann") for port in range(3)]
    for client, port in zip(clients[:2], (50_001, 50_002), strict=True):
        client.allocate(relayed=Address(RELAYED.host, port))
    assert clients[2].ask(stun.ALLOCATE, UDP) == 486
    bob, eve = (TurnClient(server, ("192.0.2.9", 9 + n), name=name) for n, name in enumerate(("bob", "eve")))
    bob.allocate(relayed=Address(RELAYED.host, 50_003))
    assert eve.ask(stun.ALLOCATE, UDP) == 508
    ann = clients[0]
    assert ann.permit(PEER, OTHER) == 0
    assert ann.permit(("9.9.9.9", 1)) == 508
    sent = sum(len(ann.tell(PEER, DTLS)) for _ in range(10))
    assert sent == 3, "33 bytes each"
    assert len(bob.tell(PEER, DTLS)) == 0
    bob.permit(PEER)
    assert len(bob.tell(PEER, DTLS)) == 1, "another name has its own"
    assert len(ann.tell(PEER, DTLS, now=6)) == 1


def test_refusals_to_one_address_are_limited_so_that_nobody_is_flooded_through_us():
    server = new_server()
    client = TurnClient(server)
    answers = sum(len(client.send(client.request(stun.ALLOCATE, UDP, logged_in=False))) for _ in range(1000))
    answers += sum(len(client.send(STUN_CHECK)) for _ in range(1000))
    assert answers == TurnLimits().refusals
    assert len(TurnClient(server, ("192.0.2.77", 1)).send(STUN_CHECK)) == 1
    assert len(client.send(STUN_CHECK, now=20)) == 1


def test_garbage_changes_nothing_and_gets_no_answer():
    client = ready()
    client.permit(PEER)
    client.bind(0x4000, PEER)
    generator = random.Random(7)
    good = [
        client.request(stun.REFRESH),
        client.request(stun.CREATE_PERMISSION, peer_at(OTHER), transaction=T),
        stun.write_channel_data(0x4000, DTLS, padded=False),
    ]
    for _ in range(3000):
        packet = bytearray(generator.choice(good))
        for _ in range(generator.randrange(1, 4)):
            packet[generator.randrange(len(packet))] = generator.randrange(256)
        for effect in client.send(bytes(packet[: generator.randrange(len(packet) + 1)]), 2.0):
            assert type(effect) in (Reply, Forward)
            assert type(effect) is not OpenPort
    assert client.server.counts.allocations == 1
    assert client.ask(stun.REFRESH, now=30.0) == 0
