"""The signalling relay: the members of rooms, the owners of streams, and which peer may reach which (peers 7).

It passes handshakes on and reads nothing of them but the address. Its rules beyond the reference's:

- A message reaches only peers of the same room, or those that a `play` outside of rooms has introduced.
- A stream id belongs, within its room, to the first peer that seeds it, until it leaves.
- Where the relay is not open to everybody, strangers must join a room that it serves before anything else.
- Peers, rooms, streams, messages and bytes are limited, for each peer and in all. What breaks a rule of form is
  answered with an error and changes nothing; a peer that sends too much is disconnected.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

from comity.wire import strict_json
from comity.wire.errors import MalformedError
from comity.wire.rate_limit import RateLimiter

MESSAGE_LIMIT: Final = 262_144
"""Room for an SDP of 64 KiB, encrypted and in hex."""

POLICY: Final = 1008
TRY_LATER: Final = 1013

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MAX_ADDRESS_LENGTH: Final = 64
_FAULTS: Final = frozenset(
    {"MALFORMED", "UNKNOWN_REQUEST", "INVALID_ROOM", "INVALID_STREAM", "JOIN_FIRST", "ROOM_REFUSED"}
)
_DEPTH: Final = 32


class RelayLimits(Struct, frozen=True, kw_only=True):
    """`peers_per_address` does not bind this machine's own addresses. Messages and bytes are those of one peer."""

    peers: int = 2000
    peers_per_address: int = 64
    peers_per_room: int = 80
    rooms: int = 1000
    streams_per_peer: int = 8
    waiting_per_peer: int = 16
    messages: int = 600
    bytes: int = 8_388_608
    per_seconds: float = 10


class Deliver(Struct, frozen=True):
    """`is_fault`: it refuses a message that no honest peer sends often."""

    to: str
    message: bytes
    is_fault: bool = False


class Disconnect(Struct, frozen=True):
    """End the connection of a peer; `code` is a WebSocket close code."""

    peer_id: str
    code: int
    reason: str


RelayEffect = Deliver | Disconnect


class RelayCounts(Struct, frozen=True):
    peers: int
    rooms: int
    streams: int


class _Peer:
    def __init__(self, address: str | None, serves: Callable[[str], bool] | None) -> None:
        self.address = address
        self.serves = serves
        self.room: str | None = None
        self.streams: dict[str, None] = {}
        self.waiting: dict[str, None] = {}
        self.introduced: set[str] = set()


class _Room:
    def __init__(self) -> None:
        self.peers: dict[str, None] = {}
        self.director: str | None = None


class SignallingRelay:
    def __init__(
        self, limits: RelayLimits | None = None, serves: Callable[[str], bool] | None = None
    ) -> None:
        """`serves` says which rooms strangers may join; None: the relay is open to everybody."""
        self._limits = limits or RelayLimits()
        self._serves = serves
        self._peers: dict[str, _Peer] = {}
        self._rooms: dict[str, _Room] = {}
        self._owners: dict[tuple[str | None, str], str] = {}
        self._waiting: dict[str, dict[str, None]] = {}
        self._by_address: dict[str, int] = {}
        most = self._limits.peers
        self._messages = RateLimiter(self._limits.messages, self._limits.per_seconds, 2 * most)
        self._bytes = RateLimiter(self._limits.bytes, self._limits.per_seconds, 2 * most)

    @property
    def counts(self) -> RelayCounts:
        return RelayCounts(len(self._peers), len(self._rooms), len(self._owners))

    def connect(
        self,
        peer_id: str,
        address: str | None,
        *,
        trusted: bool,
        serves: Callable[[str], bool] | None = None,
    ) -> Disconnect | None:
        """Add a peer, by the id that it gets here, or return why not. `address` None is this machine. `serves` says which
        rooms this peer may join, where that is not what the relay serves to all strangers.
        """
        if len(self._peers) >= self._limits.peers:
            return Disconnect(peer_id, TRY_LATER, "the relay is full; try again later")
        if address is not None:
            count = self._by_address.get(address, 0)
            if count >= self._limits.peers_per_address:
                return Disconnect(peer_id, TRY_LATER, "too many connections from this address; close some")
            self._by_address[address] = count + 1
        self._peers[peer_id] = _Peer(address, None if trusted else serves or self._serves)
        return None

    def disconnect(self, peer_id: str) -> None:
        """Remove a peer and free its streams. No message is sent; other peers notice it on their links."""
        peer = self._peers.get(peer_id)
        if peer is None:
            return
        self._leave(peer_id, peer)
        del self._peers[peer_id]
        if peer.address is not None:
            self._by_address[peer.address] -= 1
            if not self._by_address[peer.address]:
                del self._by_address[peer.address]

    def receive(self, peer_id: str, text: bytes, now: float) -> list[RelayEffect]:
        peer = self._peers.get(peer_id)
        if peer is None:
            return []
        if len(text) > MESSAGE_LIMIT:
            return [Disconnect(peer_id, 1009, f"a message has at most {MESSAGE_LIMIT:,} bytes")]
        cost = min(max(len(text), 1), self._limits.bytes)
        if self._messages.take(peer_id, now) or self._bytes.take(peer_id, now, cost):
            return [Disconnect(peer_id, POLICY, "too many messages; send fewer")]
        try:
            message = strict_json.loads(text, depth=_DEPTH)
        except MalformedError as error:
            return [_error(peer_id, "MALFORMED", error.message)]
        if type(message) is not dict:
            return [_error(peer_id, "MALFORMED", "a signalling message is a JSON object")]
        return list(self._dispatch(peer_id, peer, message))

    def _dispatch(self, peer_id: str, peer: _Peer, message: dict[str, Any]) -> Iterator[RelayEffect]:
        request = message.get("request")
        if request == "joinroom":
            yield from self._join(peer_id, peer, message)
        elif peer.serves is not None and peer.room is None:
            yield _error(peer_id, "JOIN_FIRST", "join a room first; this relay is not open to everybody")
        elif request in ("seed", "play"):
            stream = _id_in(message, "streamID")
            if stream is None:
                yield _error(peer_id, "INVALID_STREAM", "streamID must be 1 to 80 letters, digits, - and _")
            else:
                yield from (self._seed if request == "seed" else self._play)(peer_id, peer, stream)
        elif request == "migrate":
            yield from self._migrate(peer_id, peer, message)
        elif request is not None:
            yield _error(
                peer_id, "UNKNOWN_REQUEST", "the request is none of joinroom, seed, play and migrate"
            )
        elif message.get("leave") is True:
            self._leave(peer_id, peer)
        elif "UUID" in message:
            yield self._pass_on(peer_id, peer, message)
        else:
            yield _error(
                peer_id, "MALFORMED", "a message has a request, or the UUID of the peer that it is for"
            )

    def _join(self, peer_id: str, peer: _Peer, message: dict[str, Any]) -> Iterator[RelayEffect]:
        name = _id_in(message, "roomid")
        if name is None:
            yield _error(peer_id, "INVALID_ROOM", "roomid must be 1 to 80 letters, digits, - and _")
            return
        if peer.serves is not None and not peer.serves(name):
            yield _error(
                peer_id, "ROOM_REFUSED", "this relay does not serve that room; ask its owner for an invite"
            )
            return
        if peer.room != name:
            refusal = self._refuse_room(name)
            if refusal is not None:
                yield _error(peer_id, *refusal)
                return
            self._leave(peer_id, peer)
            self._enter(peer_id, peer, name)
            yield from self._tell_room(peer_id, name, {"request": "someonejoined", "UUID": peer_id})
        room = self._rooms[name]
        listing: dict[str, Any] = {"request": "listing", "list": self._listing(name, peer_id)}
        if message.get("claim") is True and room.director is None:
            room.director = peer_id
        if room.director == peer_id:
            listing["claim"] = True
        elif room.director is not None:
            listing["director"] = room.director
        yield _say(peer_id, listing)

    def _refuse_room(self, name: str) -> tuple[str, str] | None:
        room = self._rooms.get(name)
        if room is None and len(self._rooms) >= self._limits.rooms:
            return "RELAY_FULL", "the relay has no place for another room; try again later"
        if room is not None and len(room.peers) >= self._limits.peers_per_room:
            return "ROOM_FULL", f"the room has {self._limits.peers_per_room} peers already"
        return None

    def _enter(self, peer_id: str, peer: _Peer, name: str) -> None:
        self._rooms.setdefault(name, _Room()).peers[peer_id] = None
        peer.room = name

    def _listing(self, name: str, without: str) -> list[dict[str, str]]:
        listed = []
        for other in self._rooms[name].peers:
            if other != without:
                streams = self._peers[other].streams
                listed += [{"UUID": other, "streamID": stream} for stream in streams] or [{"UUID": other}]
        return listed

    def _seed(self, peer_id: str, peer: _Peer, stream: str) -> Iterator[RelayEffect]:
        owner = self._owners.get((peer.room, stream))
        if owner is not None and owner != peer_id:
            # the words by which the reference recognises it
            alert = {"request": "alert", "message": "Stream ID is already in use.", "code": "STREAMID_IN_USE"}
            yield _say(peer_id, {**alert, "streamID": stream})
            return
        if owner is None and len(peer.streams) >= self._limits.streams_per_peer:
            yield _error(
                peer_id, "TOO_MANY_STREAMS", f"a peer has at most {self._limits.streams_per_peer} streams"
            )
            return
        self._owners[peer.room, stream] = peer_id
        peer.streams[stream] = None
        if peer.room is not None:
            added = {"request": "videoaddedtoroom", "UUID": peer_id, "streamID": stream}
            yield from self._tell_room(peer_id, peer.room, added)
            return
        for viewer in self._waiting.pop(stream, {}):
            self._peers[viewer].waiting.pop(stream, None)
            if viewer != peer_id:
                yield self._ask_for_offer(peer_id, viewer, stream)

    def _play(self, peer_id: str, peer: _Peer, stream: str) -> Iterator[RelayEffect]:
        owner = self._owners.get((peer.room, stream))
        if owner == peer_id:
            yield _error(peer_id, "OWN_STREAM", "this stream is your own; play another one")
        elif owner is not None:
            yield self._ask_for_offer(owner, peer_id, stream)
        elif peer.room is None:  # in a room the viewer gets a message when it is there, and plays again
            if len(peer.waiting) >= self._limits.waiting_per_peer:
                yield _error(
                    peer_id, "TOO_MANY_STREAMS", "too many streams are waited for; seed or leave some"
                )
                return
            peer.waiting[stream] = None
            self._waiting.setdefault(stream, {})[peer_id] = None

    def _ask_for_offer(self, owner: str, viewer: str, stream: str) -> RelayEffect:
        if self._peers[owner].room is None:
            self._peers[owner].introduced.add(viewer)
            self._peers[viewer].introduced.add(owner)
        return _say(owner, {"request": "offerSDP", "UUID": viewer, "streamID": stream})

    def _pass_on(self, peer_id: str, peer: _Peer, message: dict[str, Any]) -> RelayEffect:
        to = message["UUID"]
        other = self._peers.get(to) if isinstance(to, str) and len(to) <= _MAX_ADDRESS_LENGTH else None
        reachable = other is not None and (
            to in peer.introduced or (peer.room is not None and other.room == peer.room)
        )
        if not reachable or to == peer_id:
            gone = {"request": "error", "message": "no such peer is here", "code": "PEER_GONE"}
            return _say(
                peer_id,
                {**gone, "UUID": to} if isinstance(to, str) and len(to) <= _MAX_ADDRESS_LENGTH else gone,
            )
        return _say(to, {**message, "UUID": peer_id})

    def _migrate(self, peer_id: str, peer: _Peer, message: dict[str, Any]) -> Iterator[RelayEffect]:
        """Move a peer to another room, for the director of its room."""
        name, target = _id_in(message, "roomid"), message.get("target")
        room = self._rooms.get(peer.room or "")
        if (
            room is None
            or room.director != peer_id
            or not isinstance(target, str)
            or target not in room.peers
        ):
            yield _error(
                peer_id, "NOT_DIRECTOR", "only the director of a room moves peers, and only those in it"
            )
            return
        if name is None or (peer.serves is not None and not peer.serves(name)):
            yield _error(peer_id, "ROOM_REFUSED", "this relay does not serve that room")
            return
        refusal = (
            self._refuse_room(name) if name != peer.room else ("INVALID_ROOM", "the peer is there already")
        )
        if refusal is not None:
            yield _error(peer_id, *refusal)
            return
        moved = self._peers[target]
        if any((name, stream) in self._owners for stream in moved.streams):
            yield _error(peer_id, "TRANSFER_STREAMID_CONFLICT", "the other room has a stream of that id")
            return
        streams = moved.streams
        self._leave(target, moved)
        self._enter(target, moved, name)
        moved.streams = streams
        for stream in streams:
            self._owners[name, stream] = target
        joined = {"request": "someonejoined", "UUID": target}
        for notice in [{**joined, "streamID": stream} for stream in streams] or [joined]:
            yield from self._tell_room(target, name, notice)
        director = self._rooms[name].director
        moved_to = {"request": "transferred", "list": self._listing(name, target)}
        yield _say(target, {**moved_to, "director": director} if director else moved_to)

    def _tell_room(self, peer_id: str, name: str, message: dict[str, Any]) -> Iterator[RelayEffect]:
        text = strict_json.dumps(message)
        for other in self._rooms[name].peers:
            if other != peer_id:
                yield Deliver(other, text)

    def _leave(self, peer_id: str, peer: _Peer) -> None:
        introduced, peer.introduced = peer.introduced, set()
        for other in introduced:  # a peer that joins a room is not reached from outside of it
            self._peers[other].introduced.discard(peer_id)
        for stream in peer.streams:
            del self._owners[peer.room, stream]
        peer.streams = {}
        for stream in peer.waiting:
            viewers = self._waiting[stream]
            viewers.pop(peer_id, None)
            if not viewers:
                del self._waiting[stream]
        peer.waiting = {}
        if peer.room is not None:
            room = self._rooms[peer.room]
            del room.peers[peer_id]
            if room.director == peer_id:
                room.director = None
            if not room.peers:
                del self._rooms[peer.room]
            peer.room = None


def _id_in(message: dict[str, Any], name: str) -> str | None:
    value = message.get(name)
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def _say(to: str, message: dict[str, Any]) -> Deliver:
    return Deliver(to, strict_json.dumps(message))


def _error(to: str, code: str, message: str) -> Deliver:
    text = strict_json.dumps({"request": "error", "message": message, "code": code})
    return Deliver(to, text, is_fault=code in _FAULTS)
