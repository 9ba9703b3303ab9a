"""Signalling: whatever a peer tells the relay, or a relay tells a peer, nothing is raised and nothing grows.

The input is split at newlines; each piece is one message. With a password, a piece is also taken for what was
encrypted.
"""

from comity.rooms.protocol.meeting import MAX_PENDING, Attending, Meeting
from comity.rooms.protocol.relay import Deliver, Disconnect, SignallingRelay
from comity.rooms.protocol.signalling import RoomCipher
from comity.wire import strict_json

LONGEST = 2048

_OPEN, _CLOSED = RoomCipher(None), RoomCipher("secret")

EXAMPLES = [
    b'{"request":"joinroom","roomid":"r","claim":true}\n{"request":"seed","streamID":"s"}\n{"UUID":"b","x":1}',
    b'{"request":"play","streamID":"t"}\n{"request":"migrate","roomid":"q","target":"b"}\n{"leave":true}',
    b'{"request":"listing","list":[{"UUID":"u","streamID":"other"}]}\n{"request":"offerSDP","UUID":"u"}',
    b'{"request":"videoaddedtoroom","UUID":"u","streamID":"other"}',
    b'{"request":"alert","message":"Stream ID is already in use"}',
    b'{"UUID":"u","session":"s","streamID":"other","description":{"type":"offer","sdp":"v=0","comity":{"ticket":"t"}}}',
    b'{"UUID":"u","session":"s","candidates":[{"candidate":"c","sdpMid":"0","sdpMLineIndex":0}]}',
    b'{"request":"error","code":"PEER_GONE","UUID":"u"}',
]


def check(data: bytes) -> None:
    pieces = data.split(b"\n")
    _tell_relay(pieces)
    _tell_peer(pieces)


def _tell_relay(pieces: list[bytes]) -> None:
    relay = SignallingRelay()
    for peer in "abc":
        relay.connect(peer, None, trusted=False)
        relay.receive(peer, b'{"request":"joinroom","roomid":"r"}', 0.0)
    for piece in pieces:
        for effect in relay.receive("a", piece, 0.0):
            assert isinstance(effect, Disconnect) or (
                isinstance(effect, Deliver) and effect.to in ("a", "b", "c")
            )
            if isinstance(effect, Deliver):
                assert type(strict_json.loads(effect.message)) is dict
    for peer in "abc":
        relay.disconnect(peer)
    assert relay.counts.peers == relay.counts.rooms == relay.counts.streams == 0


def _tell_peer(pieces: list[bytes]) -> None:
    for cipher in (_OPEN, _CLOSED):
        meeting = Meeting(Attending(room="r", stream="me", cipher=cipher), bytes)
        meeting.view("other", 0.0)
        meeting.dial()
        meeting.connected(0.0)
        for at, piece in enumerate(pieces):
            meeting.receive(piece, float(at))
            if cipher.password is not None:
                text, vector = cipher.encrypt(piece.decode("utf-8", "replace"), bytes(16))
                sealed = {"UUID": "u", "session": "s", "description": text, "vector": vector}
                meeting.receive(strict_json.dumps(sealed), float(at))
            meeting.tick(float(at))
        assert sum(meeting.attempt(number) is not None for number in range(200)) <= MAX_PENDING + 1
