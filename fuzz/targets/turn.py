"""TURN: whatever a client or a peer sends, nothing is raised, nothing is lent to who has not logged in, and only what is permitted is
passed on.

The first byte of each piece says who sends it: one with an allocation, one without, a stream, or a peer. Pieces are split at
0xFFFE.
"""

from comity.turn.protocol import access, stun
from comity.turn.protocol.server import Client, Forward, OpenPort, Reply, TurnLimits, TurnServer
from comity.turn.protocol.stun import Address, StunMessage, StunStream
from comity.wire.errors import MalformedError

LONGEST = 2048

_SECRET = b"r" * 32
_PEER = Address("9.9.9.9", 5000)
_RELAYED = Address("203.0.113.1", 50_000)
_ANN, _EVE = Client(Address("192.0.2.9", 4000)), Client(Address("192.0.2.10", 4000), 7)
_USER = access.user_of_name("ann", 10_000)
_PASSWORD = access.password_of_user(access.secret_of_name(_SECRET, "ann"), _USER)
_KEY = stun.long_term_key(_USER, "comity", _PASSWORD)
_NONCE = access.new_nonce(b"n" * 32, _ANN.address, 0)


def _request(method: int, *attributes: tuple[int, bytes]) -> bytes:
    login = ((stun.A_USERNAME, _USER.encode()), (stun.A_REALM, b"comity"), (stun.A_NONCE, _NONCE.encode()))
    return stun.write_message(StunMessage(method, stun.REQUEST, b"t" * 12, (*attributes, *login)), _KEY)


_AT_PEER = (stun.A_PEER, stun.write_address(_PEER, b"t" * 12))
_PERMIT = _request(stun.CREATE_PERMISSION, _AT_PEER)
_BIND = _request(stun.CHANNEL_BIND, (stun.A_CHANNEL, b"\x40\x00\x00\x00"), _AT_PEER)
_CHECK = stun.write_message(StunMessage(stun.BINDING, stun.REQUEST, b"c" * 12), fingerprint=True)
_SENT = stun.write_message(
    StunMessage(stun.SEND, stun.INDICATION, b"t" * 12, (_AT_PEER, (stun.A_DATA, _CHECK)))
)

EXAMPLES = [
    b"\x00" + _PERMIT,
    b"\x00" + _BIND + b"\xff\xfe\x00" + stun.write_channel_data(0x4000, _CHECK, padded=False),
    b"\x00" + _request(stun.REFRESH, (stun.A_LIFETIME, bytes(4))),
    b"\x00" + _SENT + b"\xff\xfe\x03" + _CHECK,
    b"\x01" + _request(stun.ALLOCATE, (stun.A_TRANSPORT, bytes([17, 0, 0, 0]))),
    b"\x01" + _CHECK,
    b"\x02" + _CHECK + stun.write_channel_data(0x4000, b"abc", padded=True),
]


def check(data: bytes) -> None:
    server = TurnServer(_SECRET, b"n" * 32, limits=TurnLimits(refusals=10))
    [opening] = server.receive(_ANN, _request(stun.ALLOCATE, (stun.A_TRANSPORT, bytes([17, 0, 0, 0]))), 0.0)
    assert isinstance(opening, OpenPort)
    server.opened(opening.allocation, _RELAYED, 0.0)
    server.receive(_ANN, _PERMIT, 0.0)
    for piece in data.split(b"\xff\xfe"):
        kind, packet = piece[:1], piece[1:]
        if kind == b"\x03":
            effects = server.from_peer(opening.allocation, _PEER, packet, 1.0)
        elif kind == b"\x02":
            effects = [effect for one in _cut(packet) for effect in server.receive(_EVE, one, 1.0)]
        else:
            effects = server.receive(_EVE if kind == b"\x01" else _ANN, packet, 1.0)
        for effect in effects:
            assert not isinstance(effect, Forward) or access.may_carry(effect.data)
            if isinstance(effect, Reply) and not stun.is_channel_data(effect.data):
                stun.read_message(effect.data)
    assert server.counts.allocations <= 1, "nobody else knows a password"
    server.expire(10_000.0)
    assert server.counts.allocations == 0


def _cut(data: bytes) -> list[bytes]:
    try:
        return list(StunStream().feed(data))
    except MalformedError:
        return []
