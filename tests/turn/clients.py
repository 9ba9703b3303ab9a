"""A client of a TURN server without sockets: it makes requests as bytes, and reads answers."""

import os
import struct

from comity.turn.protocol import access, stun
from comity.turn.protocol.server import Client, ClosePort, Forward, OpenPort, Reply, TurnServer
from comity.turn.protocol.stun import Address, StunMessage

RELAY_SECRET = b"r" * 32
PEER = Address("9.9.9.7", 5000)
RELAYED = Address("203.0.113.1", 50_000)
STUN_CHECK = stun.write_message(StunMessage(stun.BINDING, stun.REQUEST, b"t" * 12))
DTLS = bytes([22, 254, 253]) + bytes(8) + bytes([0, 20]) + bytes(20)


def new_server(**options):
    return TurnServer(RELAY_SECRET, b"n" * 32, **options)


class TurnClient:
    def __init__(self, server, address=("192.0.2.9", 4000), *, name="ann", expires=10_000, connection=0):
        self.server = server
        self.me = Client(Address(*address), connection)
        self.user = access.user_of_name(name, expires)
        password = access.password_of_user(access.secret_of_name(RELAY_SECRET, name), self.user)
        self.key = stun.long_term_key(self.user, "comity", password)
        self.nonce = access.new_nonce(b"n" * 32, self.me.address, 0)
        self.number = None

    def request(self, method, *attributes, transaction=None, logged_in=True, key=None):
        transaction = transaction or os.urandom(12)
        login = ()
        if logged_in:
            login = (
                (stun.A_USERNAME, self.user.encode()),
                (stun.A_REALM, b"comity"),
                (stun.A_NONCE, self.nonce.encode()),
            )
        message = StunMessage(method, stun.REQUEST, transaction, (*attributes, *login))
        return stun.write_message(message, (key or self.key) if logged_in else None)

    def send(self, packet, now=1.0):
        return self.server.receive(self.me, packet, now)

    def ask(self, method, *attributes, now=1.0, **more):
        """Return the number of the error, or 0, of the only answer."""
        [reply] = [
            effect
            for effect in self.send(self.request(method, *attributes, **more), now)
            if type(effect) is Reply
        ]
        return error_of(reply.data)

    def allocate(self, now=1.0, relayed=RELAYED, **more):
        [opening] = self.send(self.request(stun.ALLOCATE, UDP, **more), now)
        assert type(opening) is OpenPort, error_of(opening.data)
        self.number = opening.allocation
        [reply] = self.server.opened(self.number, relayed, now)
        return stun.read_message(reply.data)

    def permit(self, *peers, now=1.0):
        return self.ask(stun.CREATE_PERMISSION, *map(peer_at, peers), now=now, transaction=T)

    def bind(self, channel, peer, now=1.0):
        number = (stun.A_CHANNEL, struct.pack("!HH", channel, 0))
        return self.ask(stun.CHANNEL_BIND, number, peer_at(peer), now=now, transaction=T)

    def tell(self, peer, data=STUN_CHECK, now=1.0):
        """Send data to a peer by an indication; return the effects."""
        message = StunMessage(stun.SEND, stun.INDICATION, T, (peer_at(peer), (stun.A_DATA, data)))
        return list(self.send(stun.write_message(message), now))


T = b"t" * 12
UDP = (stun.A_TRANSPORT, bytes([17, 0, 0, 0]))


def peer_at(address):
    return stun.A_PEER, stun.write_address(Address(*address), T)


def error_of(data):
    message = stun.read_message(data)
    value = message.get(stun.A_ERROR_CODE)
    assert (value is None) == (message.kind == stun.SUCCESS)
    return 0 if value is None else stun.read_error(value)


def kinds(effects):
    return [type(effect) for effect in effects]


__all__ = ["ClosePort", "Forward", "OpenPort", "Reply"]
