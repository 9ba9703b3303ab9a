"""Users of a relay over real UDP sockets, honest or not, and what comes out of the relay."""

import asyncio
import contextlib
import os
import socket
import struct

from comity.testing.loop import VirtualClock
from comity.turn.protocol import access, stun
from comity.turn.protocol.server import TurnLimits
from comity.turn.protocol.stun import Address, StunMessage
from comity.turn.service import TurnService, TurnSettings
from tests.rooms.links.turn_server import RELAY_SECRET
from tests.turn.clients import DTLS
from tests.waiting import eventually

T = b"t" * 12
UDP = (stun.A_TRANSPORT, bytes([17, 0, 0, 0]))
CHANNEL = 0x4000
LIMITS = TurnLimits(allocations=16, allocations_per_name=8, peers=8, bytes_per_name=4096)


def at(address):
    return stun.A_PEER, stun.write_address(Address(*address), T)


def in_channel(number, data, size=None):
    return struct.pack("!HH", number, len(data) if size is None else size) + data


class Socket:
    """A UDP socket that says what it has received so far."""

    def __init__(self, host, port=0):
        self.socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind((host, port))
        self.address = Address(*self.socket.getsockname()[:2])

    def send(self, data, to):
        self.socket.sendto(data, to)

    def received(self):
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.socket.recv(2000))
        return found


class User(Socket):
    """`expires` counts from the start of the relay's clock."""

    def __init__(self, relay, name, host=None, *, secret=RELAY_SECRET, expires=86_400):
        super().__init__(host or relay.host)
        relay.sockets.append(self)
        self.relay = relay
        self.user = access.user_of_name(name, relay.clock.now() + expires)
        self.password = access.password_of_user(access.secret_of_name(secret, name), self.user)
        self.nonce = b""
        self.relayed = None

    @property
    def key(self):
        return stun.long_term_key(self.user, "comity", self.password)

    def request(self, method, *attributes, transaction=T):
        login = (
            (stun.A_USERNAME, self.user.encode()),
            (stun.A_REALM, b"comity"),
            (stun.A_NONCE, self.nonce),
        )
        message = StunMessage(method, stun.REQUEST, transaction, (*attributes, *login))
        return stun.write_message(message, self.key)

    def tell(self, packet):
        self.send(packet, self.relay.at)

    async def answers(self, *packets):
        """Return what is answered to these packets until the relay has read them all."""
        for packet in packets:
            self.tell(packet)
        await self.relay.has_read_all()
        return self.received()

    async def code(self, packet):
        """Return the error that a packet is answered with; 0: it succeeded, None: there was no answer."""
        found = [stun.read_message(answer) for answer in await self.answers(packet)]
        if not found:
            return None
        [answer] = found
        self.nonce = answer.get(stun.A_NONCE) or self.nonce
        error = answer.get(stun.A_ERROR_CODE)
        assert (error is None) == (answer.kind == stun.SUCCESS)
        return 0 if error is None else stun.read_error(error)

    async def ask(self, method, *attributes, **more):
        return await self.code(self.request(method, *attributes, **more))

    async def learn_nonce(self):
        unsigned = stun.write_message(StunMessage(stun.ALLOCATE, stun.REQUEST, T, (UDP,)))
        assert await self.code(unsigned) == 401

    async def log_in_and_allocate(self, *attributes):
        await self.learn_nonce()
        return await self.ask(stun.ALLOCATE, UDP, *attributes)

    async def allocate(self):
        """Get an allocation; its port is opened while others are served."""
        await self.learn_nonce()
        family = (stun.A_FAMILY, bytes([2 if ":" in self.address.host else 1, 0, 0, 0]))
        self.tell(self.request(stun.ALLOCATE, UDP, family))
        [answer] = await eventually(self.received)
        message = stun.read_message(answer)
        assert message.kind == stun.SUCCESS, stun.read_error(message.get(stun.A_ERROR_CODE))
        self.relayed = stun.read_address(message.get(stun.A_RELAYED), T)
        return self

    async def permit(self, *peers):
        return await self.ask(stun.CREATE_PERMISSION, *map(at, peers))

    async def bind(self, peer, number=CHANNEL):
        return await self.ask(stun.CHANNEL_BIND, (stun.A_CHANNEL, struct.pack("!HH", number, 0)), at(peer))

    async def send_to(self, peer, data=DTLS):
        """Send data to a peer by an indication; return what is answered, which is nothing."""
        attributes = (at(peer), (stun.A_DATA, data))
        return await self.code(stun.write_message(StunMessage(stun.SEND, stun.INDICATION, T, attributes)))


class Relay:
    """A relay with a pair of honest users, Ann and Bob; Eve, who has a line of her own and an allocation; and a door of this
    machine, at all of its addresses, that is not the relay's.
    """

    def __init__(self, host):
        self.host = host
        self.clock = VirtualClock()
        self.service = TurnService(TurnSettings(host=host, port=0, limits=LIMITS), RELAY_SECRET, self.clock)
        self.sockets = []

    @property
    def at(self):
        return Address(self.host, self.service.port)

    async def open(self):
        await self.service.start()
        # the answers to each address are limited, so those who are to get one have addresses of their own
        self.witness = User(self, "witness", "127.0.0.200" if self.host == "127.0.0.1" else self.host)
        await self.introduce()
        self.eve = await User(self, "eve").allocate()
        self.door = User(self, "door", "::" if ":" in self.host else "0.0.0.0")
        self.door_port = self.door.address.port

    async def introduce(self):
        """Let Ann and Bob, who have just come, agree on each other."""
        self.ann, self.bob = await User(self, "ann").allocate(), await User(self, "bob").allocate()
        for one, other in ((self.ann, self.bob), (self.bob, self.ann)):
            assert await one.bind(other.relayed) == 0

    async def close(self):
        await self.service.stop()
        for each in self.sockets:
            each.socket.close()

    async def has_read_all(self):
        """Return when the relay has read what was sent until now: it reads in order."""
        mark = os.urandom(12)
        self.witness.tell(stun.write_message(StunMessage(stun.BINDING, stun.REQUEST, mark)))
        await eventually(lambda: any(mark in answer for answer in self.witness.received()), interval=0)

    async def honest_packet_passes(self):
        self.ann.tell(in_channel(CHANNEL, DTLS))
        return await eventually(lambda: in_channel(CHANNEL, DTLS) in self.bob.received(), interval=0)


@contextlib.asynccontextmanager
async def relay_with_users(host="127.0.0.1"):
    relay = Relay(host)
    try:
        async with asyncio.timeout(120):
            await relay.open()
            yield relay
    finally:
        await relay.close()
