"""A TURN server (RFC 8656) that relays WebRTC and nothing else. Packets in, effects out.

- Only users of this relay get an allocation (`access.py`). Nothing is kept of a client before it has proven to be one: its
  nonce says itself when it ends, and a client that is refused too often gets no answer.
- Packets pass between an allocation and peers that it has permitted, in both directions only STUN bindings and DTLS, never
  to addresses of this machine or its network. Of the relay's own addresses only relayed ones can be peers.
- Allocations, permissions, channels and bytes are limited, for each NAME and in all. What exceeds its bytes is dropped,
  as a full line would.
"""

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from comity.turn.protocol import access, stun
from comity.turn.protocol.stun import Address, StunMessage
from comity.wire.errors import MalformedError
from comity.wire.rate_limit import RateLimiter

DEFAULT_LIFETIME: Final = 600
MAX_LIFETIME: Final = 3600
PERMISSION_SECONDS: Final = 300
CHANNEL_SECONDS: Final = 600
UDP: Final = 17
_FAMILIES: Final = {1: 4, 2: 6}
_KNOWN: Final = frozenset(
    {
        stun.A_USERNAME,
        stun.A_INTEGRITY,
        stun.A_CHANNEL,
        stun.A_LIFETIME,
        stun.A_PEER,
        stun.A_DATA,
        stun.A_REALM,
        stun.A_NONCE,
        stun.A_FAMILY,
        stun.A_EVEN_PORT,
        stun.A_TRANSPORT,
        stun.A_RESERVATION,
    }
)


class TurnLimits(Struct, frozen=True, kw_only=True):
    """`bytes_per_name` in `per_seconds`. `refusals` are answered to one address in `refusal_seconds`."""

    allocations: int = 1000
    allocations_per_name: int = 64
    peers: int = 64
    bytes_per_name: int = 8 * 1024**3
    per_seconds: float = 3600.0
    refusals: int = 60
    refusal_seconds: float = 10.0


class Client(NamedTuple):
    """`connection` is the number of a TCP connection; 0 is UDP."""

    address: Address
    connection: int = 0


class Reply(NamedTuple):
    client: Client
    data: bytes


class Forward(NamedTuple):
    """Send data to a peer from the relayed address of an allocation."""

    allocation: int
    peer: Address
    data: bytes


class OpenPort(NamedTuple):
    """Open a port for an allocation, and say which by `opened`."""

    allocation: int
    family: int


class ClosePort(NamedTuple):
    allocation: int


Effect = Reply | Forward | OpenPort | ClosePort


class TurnCounts(NamedTuple):
    allocations: int
    bytes: int
    dropped: int


class _Allocation:
    __slots__ = (
        "channels",
        "client",
        "expires",
        "key",
        "lifetime",
        "name",
        "number",
        "own_hosts",
        "peers",
        "permissions",
        "relayed",
        "transaction",
        "user",
    )

    def __init__(self, number: int, client: Client, name: str, user: bytes, key: bytes) -> None:
        self.number = number
        self.client = client
        self.name = name
        self.user = user
        self.key = key
        self.transaction = b""
        self.lifetime = DEFAULT_LIFETIME
        self.expires = 0.0
        self.relayed: Address | None = None
        self.permissions: dict[str, float] = {}
        self.own_hosts: set[str] = set()
        self.channels: dict[int, tuple[Address, float]] = {}
        self.peers: dict[Address, int] = {}


class _RefusedError(Exception):
    def __init__(self, code: int, reason: str, *attributes: tuple[int, bytes]) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.attributes = attributes


class TurnServer:
    def __init__(
        self,
        relay_secret: bytes,
        nonce_secret: bytes,
        *,
        realm: str = "comity",
        is_own: Callable[[str], bool] = lambda _host: False,
        families: Collection[int] = (4,),
        lan: bool = False,
        limits: TurnLimits | None = None,
    ) -> None:
        """`is_own` says which addresses are this machine's; of these only relayed ones can be peers. `families` are those for which ports can be opened. With `lan`, peers may
        have private addresses.
        """
        self._relay_secret = relay_secret
        self._nonce_secret = nonce_secret
        self._realm = realm
        self._is_own = is_own
        self._families = frozenset(families)
        self._lan = lan
        self._limits = limits or TurnLimits()
        self._by_client: dict[Client, _Allocation] = {}
        self._by_number: dict[int, _Allocation] = {}
        self._relayed: set[Address] = set()
        self._names: Counter[str] = Counter()
        self._number = 0
        self._bytes = RateLimiter(self._limits.bytes_per_name, self._limits.per_seconds)
        self._refusals = RateLimiter(self._limits.refusals, self._limits.refusal_seconds)
        self._passed = self._dropped = 0
        self._methods: dict[int, Callable[[_Call], Sequence[Effect]]] = {
            stun.ALLOCATE: self._allocate,
            stun.REFRESH: self._refresh,
            stun.CREATE_PERMISSION: self._create_permission,
            stun.CHANNEL_BIND: self._bind_channel,
        }

    @property
    def counts(self) -> TurnCounts:
        return TurnCounts(len(self._by_number), self._passed, self._dropped)

    def receive(self, client: Client, packet: bytes, now: float) -> Sequence[Effect]:
        """Process a packet of a client. What has no form is dropped."""
        try:
            if stun.is_channel_data(packet):
                return self._from_channel(client, packet, now)
            message = stun.read_message(packet)
            if message.kind == stun.INDICATION:
                return self._send_indication(client, message, now) if message.method == stun.SEND else ()
        except MalformedError:
            self._dropped += 1
            return ()
        return self._answer(client, message, now) if message.kind == stun.REQUEST else ()

    def serves(self, client: Client) -> bool:
        """Return whether a client has an allocation."""
        return client in self._by_client

    def opened(self, number: int, relayed: Address | None, now: float) -> Sequence[Effect]:
        """Finish an allocation whose port was opened; None: none could be."""
        allocation = self._by_number.get(number)
        if allocation is None:
            return (ClosePort(number),) if relayed is not None else ()
        if relayed is None:
            self._forget(allocation)
            full = _RefusedError(508, "no port is free")
            return (
                self._refusal(allocation.client, stun.ALLOCATE, allocation.transaction, full, allocation.key),
            )
        allocation.relayed = relayed
        allocation.expires = now + allocation.lifetime
        self._relayed.add(relayed)
        return (self._allocated(allocation),)

    def from_peer(self, number: int, peer: Address, data: bytes, now: float) -> Sequence[Effect]:
        """Pass on a packet that came to a relayed address."""
        allocation = self._by_number.get(number)
        if allocation is None or allocation.permissions.get(peer.host, 0.0) <= now:
            self._dropped += 1
            return ()
        if not access.may_carry(data) or not self._may_reach(allocation, peer):
            self._dropped += 1
            return ()
        if not self._pay(allocation, len(data), now):
            return ()
        channel = allocation.peers.get(peer)
        if channel is not None and allocation.channels[channel][1] > now:
            padded = allocation.client.connection != 0
            return (Reply(allocation.client, stun.write_channel_data(channel, data, padded=padded)),)
        transaction = struct.pack("!IQ", number, self._passed)
        attributes = ((stun.A_PEER, stun.write_address(peer, transaction)), (stun.A_DATA, data))
        indication = StunMessage(stun.DATA, stun.INDICATION, transaction, attributes)
        return (Reply(allocation.client, stun.write_message(indication)),)

    def gone(self, client: Client) -> Sequence[Effect]:
        """End the allocation of a client whose connection has ended."""
        allocation = self._by_client.get(client)
        return () if allocation is None else self._end(allocation)

    def expire(self, now: float) -> Sequence[Effect]:
        """End the allocations whose time is over, and forget permissions and channels."""
        effects: list[Effect] = []
        for allocation in [*self._by_number.values()]:
            if allocation.relayed is not None and allocation.expires <= now:
                effects += self._end(allocation)
                continue
            for host in [host for host, until in allocation.permissions.items() if until <= now]:
                del allocation.permissions[host]
                allocation.own_hosts.discard(host)
            for channel in [number for number, bound in allocation.channels.items() if bound[1] <= now]:
                del allocation.peers[allocation.channels.pop(channel)[0]]
        return effects

    # data

    def _from_channel(self, client: Client, packet: bytes, now: float) -> Sequence[Effect]:
        channel, data = stun.read_channel_data(packet)
        allocation = self._by_client.get(client)
        bound = None if allocation is None else allocation.channels.get(channel)
        if allocation is None or bound is None or bound[1] <= now:
            self._dropped += 1
            return ()
        return self._forward(allocation, bound[0], data, now)

    def _send_indication(self, client: Client, message: StunMessage, now: float) -> Sequence[Effect]:
        """Nothing is ever answered to an indication."""
        allocation = self._by_client.get(client)
        peer, data = message.get(stun.A_PEER), message.get(stun.A_DATA)
        if allocation is None or peer is None or data is None or _unknown(message):
            self._dropped += 1
            return ()
        return self._forward(allocation, stun.read_address(peer, message.transaction), data, now)

    def _forward(self, allocation: _Allocation, peer: Address, data: bytes, now: float) -> Sequence[Effect]:
        permitted = allocation.permissions.get(peer.host, 0.0) > now
        if not (permitted and access.may_carry(data) and self._may_reach(allocation, peer)):
            self._dropped += 1
            return ()
        return (Forward(allocation.number, peer, data),) if self._pay(allocation, len(data), now) else ()

    def _may_reach(self, allocation: _Allocation, peer: Address) -> bool:
        """Return whether a peer of a permitted host is none of our own doors."""
        return peer.host not in allocation.own_hosts or peer in self._relayed

    def _pay(self, allocation: _Allocation, size: int, now: float) -> bool:
        if self._bytes.take(allocation.name, now, max(size, 1)):
            self._dropped += 1
            return False
        self._passed += size
        return True

    # requests

    def _answer(self, client: Client, message: StunMessage, now: float) -> Sequence[Effect]:
        if message.method == stun.BINDING:
            return self._binding(client, message, now)
        key: bytes | None = None
        try:
            name, user, key = self._identify(client, message, now)
            return self._carry_out(_Call(client, message, now, name, user, key, self._by_client.get(client)))
        except MalformedError as fault:
            refusal = _RefusedError(400, fault.message)
        except _RefusedError as refused:
            refusal = refused
        if self._refusals.take(access.same_place(client.address), now):
            self._dropped += 1
            return ()
        return (self._refusal(client, message.method, message.transaction, refusal, key),)

    def _carry_out(self, call: "_Call") -> Sequence[Effect]:
        unknown = _unknown(call.message)
        if unknown:
            listed = b"".join(attribute.to_bytes(2, "big") for attribute in unknown)
            raise _RefusedError(420, "unknown attribute", (stun.A_UNKNOWN, listed))
        method = self._methods.get(call.message.method)
        if method is None:
            raise _RefusedError(400, "unknown method")
        if call.allocation is not None and call.allocation.name != call.name:
            raise _RefusedError(441, "the allocation belongs to another user")
        return method(call)

    def _binding(self, client: Client, message: StunMessage, now: float) -> Sequence[Effect]:
        """Say where the client is seen. The answer is hardly longer than the request, and limited like a refusal."""
        if _unknown(message) or self._refusals.take(access.same_place(client.address), now):
            self._dropped += 1
            return ()
        mapped = (stun.A_MAPPED, stun.write_address(client.address, message.transaction))
        answer = StunMessage(stun.BINDING, stun.SUCCESS, message.transaction, (mapped,))
        return (Reply(client, stun.write_message(answer, fingerprint=True)),)

    def _identify(self, client: Client, message: StunMessage, now: float) -> tuple[str, bytes, bytes]:
        """Return the NAME, the user and its key. Raise _RefusedError."""
        if message.integrity is None:
            raise self._challenge(client, 401, "log in", now)
        user, realm, nonce = map(message.get, (stun.A_USERNAME, stun.A_REALM, stun.A_NONCE))
        if user is None or realm is None or nonce is None:
            raise _RefusedError(400, "USERNAME, REALM or NONCE is missing")
        if not access.knows_nonce(self._nonce_secret, client.address, nonce, now):
            raise self._challenge(client, 438, "stale nonce", now)
        name = access.name_of_user(user, now)
        if name is None or realm != self._realm.encode():
            raise self._challenge(client, 401, "unknown or expired user", now)
        text = user.decode()
        password = access.password_of_user(access.secret_of_name(self._relay_secret, name), text)
        key = stun.long_term_key(text, self._realm, password)
        if not message.verifies(key):
            raise self._challenge(client, 401, "wrong password", now)
        return name, user, key

    def _challenge(self, client: Client, code: int, reason: str, now: float) -> _RefusedError:
        nonce = access.new_nonce(self._nonce_secret, client.address, now)
        return _RefusedError(
            code, reason, (stun.A_REALM, self._realm.encode()), (stun.A_NONCE, nonce.encode())
        )

    def _refusal(
        self, client: Client, method: int, transaction: bytes, refusal: _RefusedError, key: bytes | None
    ) -> Reply:
        error = (stun.A_ERROR_CODE, stun.write_error(refusal.code, refusal.reason))
        answer = StunMessage(method, stun.ERROR, transaction, (error, *refusal.attributes))
        return Reply(client, stun.write_message(answer, key))

    def _allocate(self, call: "_Call") -> Sequence[Effect]:
        message, allocation = call.message, call.allocation
        if allocation is not None:
            if allocation.transaction != message.transaction:
                raise _RefusedError(437, "there is an allocation already")
            return (
                (self._allocated(allocation),) if allocation.relayed is not None else ()
            )  # a repeated request
        transport = message.get(stun.A_TRANSPORT)
        if transport is None or len(transport) != 4:
            raise _RefusedError(400, "REQUESTED-TRANSPORT is missing")
        if transport[0] != UDP:
            raise _RefusedError(442, "UDP only")
        if message.get(stun.A_RESERVATION) is not None or message.get(stun.A_EVEN_PORT) is not None:
            raise _RefusedError(508, "ports are not reserved here")
        family = self._family(message.get(stun.A_FAMILY))
        limits = self._limits
        if self._names[call.name] >= limits.allocations_per_name:
            raise _RefusedError(486, "too many allocations of this user")
        if len(self._by_number) >= limits.allocations:
            raise _RefusedError(508, "the relay is full")
        self._number += 1
        allocation = _Allocation(self._number, call.client, call.name, call.user, call.key)
        allocation.transaction = message.transaction
        allocation.lifetime = max(DEFAULT_LIFETIME, _lifetime(message, DEFAULT_LIFETIME))
        self._by_client[call.client] = self._by_number[self._number] = allocation
        self._names[call.name] += 1
        return (OpenPort(allocation.number, family),)

    def _family(self, wanted: bytes | None) -> int:
        if wanted is not None and len(wanted) != 4:
            raise _RefusedError(400, "REQUESTED-ADDRESS-FAMILY is 4 bytes")
        family = 4 if wanted is None else _FAMILIES.get(wanted[0], 0)
        if family not in self._families:
            raise _RefusedError(440, "this address family is not relayed here")
        return family

    def _allocated(self, allocation: _Allocation) -> Reply:
        transaction = allocation.transaction
        assert allocation.relayed is not None, "it is answered when its port is open"
        attributes = (
            (stun.A_RELAYED, stun.write_address(allocation.relayed, transaction)),
            (stun.A_MAPPED, stun.write_address(allocation.client.address, transaction)),
            (stun.A_LIFETIME, struct.pack("!I", allocation.lifetime)),
        )
        answer = StunMessage(stun.ALLOCATE, stun.SUCCESS, transaction, attributes)
        return Reply(allocation.client, stun.write_message(answer, allocation.key))

    def _refresh(self, call: "_Call") -> Sequence[Effect]:
        allocation = call.open_allocation()
        lifetime = _lifetime(call.message, DEFAULT_LIFETIME)
        if lifetime:
            lifetime = max(DEFAULT_LIFETIME, lifetime)
        done = call.success((stun.A_LIFETIME, struct.pack("!I", lifetime)))
        if not lifetime:
            return (done, *self._end(allocation))
        allocation.expires = call.now + lifetime
        return (done,)

    def _create_permission(self, call: "_Call") -> Sequence[Effect]:
        allocation = call.open_allocation()
        peers = [
            stun.read_address(value, call.message.transaction) for value in call.message.all(stun.A_PEER)
        ]
        if not peers:
            raise _RefusedError(400, "XOR-PEER-ADDRESS is missing")
        self._permit(allocation, peers, call.now)
        return (call.success(),)

    def _bind_channel(self, call: "_Call") -> Sequence[Effect]:
        allocation, message = call.open_allocation(), call.message
        number, value = message.get(stun.A_CHANNEL), message.get(stun.A_PEER)
        if number is None or value is None or len(number) != 4:
            raise _RefusedError(400, "CHANNEL-NUMBER or XOR-PEER-ADDRESS is missing")
        channel = int.from_bytes(number[:2], "big")
        peer = stun.read_address(value, message.transaction)
        bound = allocation.channels.get(channel)
        if channel not in stun.CHANNELS or (bound is not None and bound[0] != peer):
            raise _RefusedError(400, "this channel cannot be bound")
        if allocation.peers.get(peer, channel) != channel:
            raise _RefusedError(400, "this peer has another channel")
        if bound is None and len(allocation.channels) >= self._limits.peers:
            raise _RefusedError(508, "too many channels")
        self._permit(allocation, [peer], call.now)
        allocation.channels[channel] = peer, call.now + CHANNEL_SECONDS
        allocation.peers[peer] = channel
        return (call.success(),)

    def _permit(self, allocation: _Allocation, peers: Iterable[Address], now: float) -> None:
        """Permit all of these peers, or none."""
        hosts = {peer.host for peer in peers}
        assert allocation.relayed is not None, "only an open allocation gets here"
        version = 6 if ":" in allocation.relayed.host else 4
        if any((":" in host) != (version == 6) for host in hosts):
            raise _RefusedError(443, "the peer has an address of another family")
        own = {host for host in hosts if self._is_own(host)}
        if not all(access.may_be_peer(host, lan=self._lan) for host in hosts - own):
            raise _RefusedError(403, "this address is not relayed to")
        if len(hosts | allocation.permissions.keys()) > self._limits.peers:
            raise _RefusedError(508, "too many permissions")
        allocation.own_hosts = allocation.own_hosts - hosts | own
        for host in hosts:
            allocation.permissions[host] = now + PERMISSION_SECONDS

    def _end(self, allocation: _Allocation) -> Sequence[Effect]:
        self._forget(allocation)
        if allocation.relayed is None:  # its port is closed when it is opened
            return ()
        self._relayed.discard(allocation.relayed)
        return (ClosePort(allocation.number),)

    def _forget(self, allocation: _Allocation) -> None:
        del self._by_client[allocation.client], self._by_number[allocation.number]
        self._names[allocation.name] -= 1
        if not self._names[allocation.name]:
            del self._names[allocation.name]


class _Call(NamedTuple):
    client: Client
    message: StunMessage
    now: float
    name: str
    user: bytes
    key: bytes
    allocation: _Allocation | None

    def open_allocation(self) -> _Allocation:
        if self.allocation is None or self.allocation.relayed is None:
            raise _RefusedError(437, "there is no allocation")
        return self.allocation

    def success(self, *attributes: tuple[int, bytes]) -> Reply:
        answer = StunMessage(self.message.method, stun.SUCCESS, self.message.transaction, attributes)
        return Reply(self.client, stun.write_message(answer, self.key))


def _unknown(message: StunMessage) -> list[int]:
    return [
        attribute
        for attribute, _ in message.attributes
        if stun.comprehension_required(attribute) and attribute not in _KNOWN
    ]


def _lifetime(message: StunMessage, default: int) -> int:
    value = message.get(stun.A_LIFETIME)
    if value is None:
        return default
    if len(value) != 4:
        raise MalformedError("LIFETIME is 4 bytes")
    return min(MAX_LIFETIME, int.from_bytes(value, "big"))
