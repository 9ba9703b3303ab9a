"""Which peers are admitted to a session, and what they may send after that (peers 3.3 to 3.5, rulings 38 and 58).

A peer is who its hello says: `from_stream_id`, bound to its token and its key. The order of the checks: allow
list, join token, session key, proof of our own layer. Without any demand a peer counts from the open channel on;
its hello is judged all the same, because what it proves is shown.

The replay window of a key remembers stamps and nonces (ruling 71). Of 8,192 the one with the lowest stamp is forgotten, and what is
not stamped later than it is refused as too old. So a clock that is set back, or one stamp far ahead, silences nobody.
"""

from heapq import heappush, heappushpop
from typing import Any, Final, Literal

from msgspec import Struct

from comity.rooms.protocol import hello as join_token
from comity.rooms.protocol.channel import BridgeEnvelope
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.hello import (
    HelloPayload,
    JoinTokenError,
    OwnLayer,
    SessionKeys,
    prove_layer,
)
from comity.rooms.protocol.loose_values import is_stream_id
from comity.wire.errors import InvalidError
from comity.wire.machine import SKEW_SECONDS, clock_words

MAX_HELD: Final = 64
MAX_HELD_BYTES: Final = 1024 * 1024
HELLO_SECONDS: Final = 30.0
MAX_REMEMBERED: Final = 8192
MAX_FAULTS: Final = 64
MAX_HELLOS: Final = 64
MAX_SNAPSHOTS: Final = 64


class Admitted(Struct, frozen=True, kw_only=True):
    auth_ok: bool
    key: bytes | None
    layer: OwnLayer | None


class HelloRefused(Struct, frozen=True):
    """`answered`: whether the peer gets the reason; a peer outside the allow list gets no answer (peers 3.4)."""

    reason: str
    answered: bool = True


def judge_hello(
    envelope: BridgeEnvelope,
    hello: HelloPayload,
    options: SessionOptions,
    keys: SessionKeys,
    *,
    fingerprints: tuple[str, str] | None,
    now_ms: float,
) -> Admitted | HelloRefused:
    demands = options.demands
    stream_id = envelope.from_stream_id
    refused = _judge_name(stream_id, options)
    if refused is not None:
        return refused
    auth_ok = True
    try:
        if options.membership is None:  # else the token counts after the id is proven
            _check_token(hello.join_token, options, stream_id, now_ms)
    except JoinTokenError as why:
        if demands.enforce_join_token:
            return HelloRefused(_token_refusal(why, envelope, options, now_ms))
        auth_ok = False
    try:
        key = None if hello.public_key is None else keys.shared_with(hello.public_key)
        layer = None
        if hello.layer is not None:
            layer = prove_layer(hello, envelope, room=options.room, fingerprints=fingerprints)
    except InvalidError as why:
        return HelloRefused(why.message)
    if layer is None and options.membership is not None:
        return HelloRefused("this room is for Comity nodes that prove their id")
    if key is None and (demands.require_session_mac or layer is not None):
        return HelloRefused("session mac required")
    return Admitted(auth_ok=auth_ok, key=key, layer=layer)


def _judge_name(stream_id: str, options: SessionOptions) -> HelloRefused | None:
    if not is_stream_id(stream_id):
        return HelloRefused("invalid from_stream_id: it must be 1 to 64 letters, digits and _")
    if stream_id == options.stream_id:
        return HelloRefused(f"duplicate stream id: {stream_id} is ours; join under another name")
    allowed = options.demands.allow_peer_stream_ids
    if allowed and stream_id not in allowed:
        return HelloRefused("peer_not_allowed", answered=False)
    return None


def _check_token(token: Any, options: SessionOptions, stream_id: str, now_ms: float) -> None:
    """Without a secret there is nothing to check; a token that is missing counts only where it is demanded."""
    demands = options.demands
    if not demands.join_token_secret or (token in (None, "") and not demands.enforce_join_token):
        return
    join_token.admit(
        token,
        demands.join_token_secret,
        room=options.room,
        stream_id=stream_id,
        now_ms=now_ms,
        latest=options.latest_exp,
    )


def _token_refusal(
    why: JoinTokenError, envelope: BridgeEnvelope, options: SessionOptions, now_ms: float
) -> str:
    if why.expired is None:
        return why.message
    return (
        f"{why.message}: it lasted until {clock_words(why.expired // 1000)}. The clock of {envelope.from_stream_id} says "
        f"{clock_words(envelope.ts // 1000)}, the clock of {options.stream_id} {clock_words(now_ms // 1000)}: "
        "set the wrong one, or make a new token"
    )


class ReplayWindow:
    def __init__(self, most: int = MAX_REMEMBERED) -> None:
        self._most = most
        self._floor = float("-inf")
        self._known: set[tuple[float, str]] = set()
        self._oldest: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._known)

    def take(self, moment: float, nonce: str, now_ms: float) -> Literal["taken", "replay", "too old"]:
        """Note a message that is neither known nor too old; `moment` is its stamp in milliseconds."""
        mark = (
            moment,
            nonce[:64],
        )  # eight random digits are too few to be the mark alone; a replay has its stamp too
        if mark in self._known:
            return "replay"
        if moment <= self._floor:
            return "too old"
        self._known.add(mark)
        if len(self._known) <= self._most:
            heappush(self._oldest, mark)
        else:
            forgotten = heappushpop(self._oldest, mark)
            self._known.discard(forgotten)
            self._floor = max(self._floor, min(forgotten[0], now_ms + SKEW_SECONDS * 1000))
        return "taken"


class PeerAllowance:
    """So many times a minute."""

    def __init__(self, most: int, seconds: float = 60.0) -> None:
        self._most = most
        self._seconds = seconds
        self._since = float("-inf")
        self._count = 0

    def take(self, now: float) -> bool:
        """Count one more; whether it is still within the allowance."""
        if now - self._since >= self._seconds:
            self._since, self._count = now, 0
        self._count += 1
        return self._count <= self._most


class RoomPeer:
    """What a session knows of one link to another peer."""

    def __init__(self, uuid: str, role: str, stream_id: str | None, now: float, wall: float) -> None:
        self.uuid = uuid
        self.role = role
        self.stream_id = stream_id
        self.is_open = False
        self.max_message = 0
        self.fingerprints: tuple[str, str] | None = None
        self.handshake_state = "discovered"
        self.auth_ok = True
        self.rejected_reason: str | None = None
        self.public_key: str | None = None
        self.key: bytes | None = None
        self.layer: OwnLayer | None = None
        self.capabilities: dict[str, Any] = {}
        self.is_admitted = False
        self.was_refused = False
        self.was_greeted = False
        self.was_replaced = False
        self.epoch_told = 0
        self.replays = ReplayWindow()
        self.waiting_hello: tuple[BridgeEnvelope, HelloPayload] | None = None
        self.last_message_at = now
        self.last_seen_at = wall
        self.last_heartbeat_at: float | None = None
        self.gone_at: float | None = None
        self.faults = PeerAllowance(MAX_FAULTS)
        self.hellos = PeerAllowance(MAX_HELLOS)
        self.snapshots = PeerAllowance(MAX_SNAPSHOTS)
        self._held: list[tuple[Any, int]] = []
        self._held_bytes = 0

    @property
    def owner(self) -> str:
        """Name the peer alike on each of its links: by its node, else by its session key."""
        if self.layer is not None:
            return f"node:{self.layer.vacant_id.hex()}"
        return f"key:{self.public_key}" if self.public_key else f"link:{self.uuid}"

    def hold(self, message: Any, size: int) -> bool:
        """Keep it until the hello has passed; False when there is no room."""
        if len(self._held) >= MAX_HELD or self._held_bytes + size > MAX_HELD_BYTES:
            return False
        self._held.append((message, size))
        self._held_bytes += size
        return True

    def release_held(self) -> list[tuple[Any, int]]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def reject(self, reason: str) -> None:
        self.handshake_state = "rejected"
        self.rejected_reason = reason
        self.is_admitted = self.was_greeted = False
        self.auth_ok = False
        self.layer = None
        self.key = None
        self.release_held()
