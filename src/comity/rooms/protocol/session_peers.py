"""The peers of a session: links that come and go, hellos, who is admitted, what of theirs is processed (peers 3).

- Nothing of a peer that is not admitted is processed. Until its hello was judged it is held, within limits;
  after a refusal it is dropped, and the link is closed once the peer got the reason.
- After its hello a peer speaks under one stream id and one key. A second peer of the same name is refused, is told so,
  and has to wait until the first one is gone or silent. The same peer on a new link takes over.
- Where MACs are required nothing passes without one, plain data included. Our own nodes always use them.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from comity.identity.protocol.keys import SigningKey
from comity.rooms.protocol import hello as join_token
from comity.rooms.protocol.admission import (
    HELLO_SECONDS,
    Admitted,
    HelloRefused,
    ReplayWindow,
    RoomPeer,
    judge_hello,
)
from comity.rooms.protocol.channel import MESSAGE_LIMIT, BridgeEnvelope, write_control, write_envelope
from comity.rooms.protocol.effects import (
    ChannelOpened,
    CloseLink,
    PeerAppeared,
    SendText,
    SessionOptions,
    TakeWitness,
    WitnessReady,
)
from comity.rooms.protocol.events import iso_moment, moment_or_none
from comity.rooms.protocol.files import FilePeer, Report, ToPeer
from comity.rooms.protocol.hello import (
    HelloPayload,
    JoinTokenError,
    SessionKeys,
    hello_payload,
    own_layer,
    read_hello,
)
from comity.rooms.protocol.loose_values import is_stream_id, printable
from comity.rooms.protocol.membership import EPOCH_KIND, AskAdmission, RoomMembers
from comity.wire.errors import InvalidError
from comity.wire.machine import CancelTimer, Effect, SetTimer, clock_words

MAX_PEERS: Final = 256
MAX_GONE: Final = 64
GONE_SECONDS: Final = 600.0
MIN_STALE_SECONDS: Final = 60.0
MIN_SILENT_SECONDS: Final = 30.0
MAX_HELLOS: Final = 4096
HELLO_TIMER: Final = "hello:"


class RoomPeers:
    """`draw` gives random bytes, `wall` wall time. Without `node_key` our own layer is not announced."""

    def __init__(
        self,
        options: SessionOptions,
        *,
        keys: SessionKeys,
        node_key: SigningKey | None,
        wall: Callable[[], float],
        draw: Callable[[int], bytes],
        members: RoomMembers | None = None,
    ) -> None:
        self.members = members
        self._options = options
        self._keys = keys
        self._node_key = node_key
        self._wall = wall
        self._draw = draw
        self._peers: dict[str, RoomPeer] = {}
        self._windows: OrderedDict[str, ReplayWindow] = OrderedDict()
        self._hellos: OrderedDict[tuple[str, float, str], None] = OrderedDict()
        self._last_ts = 0
        self._witnesses: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def get(self, uuid: str) -> RoomPeer | None:
        return self._peers.get(uuid)

    def __iter__(self) -> Iterator[RoomPeer]:
        return iter(list(self._peers.values()))

    def reachable(self) -> list[RoomPeer]:
        """Return the peers that get our messages: open and admitted."""
        return [peer for peer in self._peers.values() if peer.is_open and peer.is_admitted]

    def resolve(self, name: str) -> RoomPeer | None:
        """Return a peer by its uuid, else by its stream id (peers 1.4); nobody can take another's uuid for a name."""
        if name in self._peers:
            return self._peers[name]
        named = [peer for peer in self._peers.values() if peer.stream_id == name]
        return max(named, key=lambda peer: (peer.is_admitted, peer.is_open), default=None)

    def of_node(self, node: str, stream_id: str | None = None) -> RoomPeer | None:
        """Return where one of our own nodes is reached now. It may be in the room under several stream ids."""
        here = [
            peer for peer in self.reachable() if peer.layer is not None and peer.layer.vacant_id.hex() == node
        ]
        return max(here, key=lambda peer: peer.stream_id == stream_id, default=None)

    def appeared(self, event: PeerAppeared, now: float) -> list[Effect]:
        known = self._peers.get(event.uuid)
        if known is not None and known.gone_at is None:
            return []
        effects = self._make_room(now)
        if len(self._here()) >= MAX_PEERS:
            return [CloseLink(event.uuid, f"a session has at most {MAX_PEERS} peers")]
        # A publisher does not know who views it before the hello; the reference took its own name (peers 3.5).
        named = event.stream_id if event.role == "viewer" else None
        self._peers.pop(event.uuid, None)
        self._peers[event.uuid] = RoomPeer(event.uuid, event.role, named, now, self._wall())
        detail = {"uuid": event.uuid, "type": event.role, "streamID": event.stream_id}
        return [*effects, Report("peer_connected", {"uuid": event.uuid, "detail": detail})]

    def channel_opened(self, event: ChannelOpened, now: float) -> list[Effect]:
        """Greet the peer at once. Whether it is admitted at once depends on the demands."""
        known = self._peers.get(event.uuid)
        if known is not None and known.is_open:
            return []
        appeared = self.appeared(PeerAppeared(event.uuid, event.role, event.stream_id), now)
        peer = self._peers.get(event.uuid)
        if peer is None:
            return appeared
        peer.is_open = True
        peer.role = event.role
        peer.max_message = min(event.max_message, MESSAGE_LIMIT)
        peer.fingerprints = event.fingerprints
        peer.last_message_at = now
        detail = {"uuid": event.uuid, "type": event.role, "streamID": event.stream_id}
        effects = [*appeared, Report("data_channel_open", {"detail": {**detail, "data": detail}})]
        label = self._options.label
        greeting: dict[str, Any] = {"info": {"label": label}}
        if event.role == "viewer":
            greeting = {"audio": False, "video": False, "info": {"label": f"{label}_viewer"}}
        effects.append(SendText(event.uuid, write_control(greeting)))
        effects += self.greet(peer)
        if self._options.demands.hello_first:
            return [*effects, SetTimer(HELLO_TIMER + event.uuid, now + HELLO_SECONDS)]
        peer.is_admitted = True
        return effects

    def closed(self, uuid: str, now: float) -> list[Effect]:
        peer = self._peers.get(uuid)
        if peer is None or peer.gone_at is not None:
            return []
        was_open = peer.is_open
        peer.is_open = peer.is_admitted = False
        peer.waiting_hello = None
        peer.gone_at = now
        peer.last_seen_at = self._wall()
        peer.release_held()
        effects: list[Effect] = [
            CancelTimer(HELLO_TIMER + uuid),
            Report("peer_disconnected", {"uuid": uuid, "detail": {"uuid": uuid}}),
        ]
        if was_open:
            detail = {"uuid": uuid, "type": peer.role, "streamID": peer.stream_id}
            effects.append(Report("data_channel_close", {"detail": detail}))
        self._forget_gone(now)
        return effects

    def greet(self, peer: RoomPeer) -> list[Effect]:
        """Send our hello, without a MAC: the peer may not know the key yet. A guest that the host has not admitted yet says
        nothing; it answers the host's hello.
        """
        if self.members is not None and not self.members.may_greet:
            return []
        sent = SendText(peer.uuid, write_envelope(self._hello("sync.hello", peer)))
        return [sent, Report("sync_hello_sent", {"ok": True, "target_uuid": peer.uuid})]

    def seal(self, peer: RoomPeer, kind: str, payload: dict[str, Any]) -> bytes:
        envelope = self._envelope(kind, payload)
        return write_envelope(envelope, peer.key, exact=kind == "msg.data")

    def file_peer(self, peer: RoomPeer) -> FilePeer:
        layer = peer.layer
        most = peer.max_message if layer is None else min(peer.max_message, layer.max_message)
        return FilePeer(
            uuid=peer.uuid,
            owner=peer.owner,
            stream_id=peer.stream_id,
            frames=layer is not None and layer.takes_file_frames,
            max_message=most,
        )

    def handle_hello(self, peer: RoomPeer, envelope: BridgeEnvelope, now: float) -> tuple[bool, list[Effect]]:
        """Return whether the hello passed, and what follows from it."""
        if not peer.hellos.take(now):
            return False, self.fault(peer, now, "protocol_error", reason="too_many_hellos")
        mark = (envelope.from_stream_id[:128], envelope.ts, envelope.nonce[:64])
        if mark in self._hellos:
            return False, self.fault(peer, now, "protocol_auth_failed", kind=envelope.kind, reason="replay")
        try:
            hello = read_hello(envelope.payload)
        except InvalidError as why:
            return False, self._turn_away(peer, envelope, HelloRefused(why.message))
        self._hellos[mark] = None
        if len(self._hellos) > MAX_HELLOS:
            self._hellos.popitem(last=False)
        return self.judge(peer, envelope, hello, now)

    def keep_witness(self, event: WitnessReady) -> list[Effect]:
        self._witnesses[event.node] = event.witness
        self._witnesses.move_to_end(event.node)
        if len(self._witnesses) > MAX_PEERS:
            self._witnesses.popitem(last=False)
        return []

    def handle_reject(self, peer: RoomPeer, envelope: BridgeEnvelope) -> list[Effect]:
        reason = envelope.payload.get("reason")
        words = printable(reason[:200]) if isinstance(reason, str) else "rejected"
        repeated = peer.rejected_reason == words
        peer.reject(words)
        return [] if repeated else [_rejected(peer, by_peer=True)]

    def replaced(self) -> list[RoomPeer]:
        """Open links of peers that have a newer one."""
        return [peer for peer in self if peer.is_open and peer.was_replaced]

    def waiting_for(self, stream_id: str | None) -> list[tuple[RoomPeer, BridgeEnvelope, HelloPayload]]:
        """Return those whose hello had to wait until this stream id is free."""
        return [
            (peer, *peer.waiting_hello)
            for peer in self
            if peer.is_open and peer.waiting_hello is not None and peer.stream_id == stream_id
        ]

    def check(self, peer: RoomPeer, envelope: BridgeEnvelope, now: float) -> list[Effect] | None:
        """Return None for an envelope of an admitted peer that may be processed; else the report of the fault."""
        reason = self._distrust(peer, envelope)
        if reason is None:
            return None
        return self.fault(peer, now, "protocol_auth_failed", kind=envelope.kind[:64], reason=reason)

    def check_data(self, peer: RoomPeer, kind: str, now: float) -> list[Effect] | None:
        """Refuse plain data, which has no MAC, where one is required."""
        if not self._options.demands.require_session_mac:
            return None
        return self.fault(peer, now, "protocol_auth_failed", kind=kind, reason="mac_missing")

    def fault(self, peer: RoomPeer, now: float, event: str, **members: Any) -> list[Effect]:
        """Report what a peer did wrong, so many times a minute that it cannot push out other events."""
        if not peer.faults.take(now):
            return []
        return [Report(event, {"uuid": peer.uuid, "stream_id": peer.stream_id, **members})]

    def no_hello(self, uuid: str) -> list[Effect]:
        """Close the link of a peer that is not admitted when the time for its hello is up."""
        peer = self._peers.get(uuid)
        if peer is None or not peer.is_open or peer.is_admitted:
            return []
        if peer.waiting_hello is not None and self.members is None:
            return []
        effects: list[Effect] = [CloseLink(uuid, "not admitted")]
        if peer.handshake_state == "discovered":
            peer.reject("no hello came in time")
            effects.insert(0, _rejected(peer))
        return effects

    def end_stale(self, now: float) -> list[Effect]:
        """Give up links on which nothing came for long."""
        effects: list[Effect] = []
        for peer in self:
            if peer.is_open and self.is_stale(peer, now):
                moment = iso_moment(peer.last_seen_at)
                members = {"uuid": peer.uuid, "stream_id": peer.stream_id, "last_seen_at": moment}
                effects += [
                    Report("peer_stale", members),
                    CloseLink(peer.uuid, "no message came for too long"),
                ]
                peer.last_message_at = now
        self._forget_gone(now)
        return effects

    def is_stale(self, peer: RoomPeer, now: float) -> bool:
        seconds = max(4 * self._options.heartbeat_ms / 1000, MIN_STALE_SECONDS)
        return now - peer.last_message_at > seconds

    def answers(self, uuid: str, now: float) -> bool:
        """Return whether a link is open and its peer is not silent."""
        peer = self._peers.get(uuid)
        return peer is not None and peer.is_open and peer.is_admitted and not self._is_silent(peer, now)

    def _is_silent(self, peer: RoomPeer, now: float) -> bool:
        """Return whether two of our pings or more were not answered: then another peer may have its name."""
        seconds = max(2 * self._options.heartbeat_ms / 1000, MIN_SILENT_SECONDS)
        return now - peer.last_message_at > seconds

    def summary(self, peer: RoomPeer, now: float) -> dict[str, Any]:
        shown = {
            "uuid": peer.uuid,
            "stream_id": peer.stream_id,
            "connected": peer.is_open,
            "handshake_state": peer.handshake_state,
            "auth_ok": peer.auth_ok,
            "rejected_reason": peer.rejected_reason,
            "shared_key_ready": peer.key is not None,
            "last_seen_at": iso_moment(peer.last_seen_at),
            "last_heartbeat_at": moment_or_none(peer.last_heartbeat_at),
            "stale": self.is_stale(peer, now),
            "capabilities": dict(peer.capabilities),
        }
        if peer.layer is not None:
            shown["vacant_id"] = peer.layer.vacant_id.hex()
        return shown

    def _make_room(self, now: float) -> list[Effect]:
        """Drop the first peer that is not admitted, if the session is full."""
        here = self._here()
        outsiders = [peer for peer in here if not peer.is_admitted]
        if len(here) < MAX_PEERS or not outsiders:
            return []
        uuid = outsiders[0].uuid
        return [CloseLink(uuid, f"a session has at most {MAX_PEERS} peers"), *self.closed(uuid, now)]

    def _here(self) -> list[RoomPeer]:
        return [peer for peer in self._peers.values() if peer.gone_at is None]

    def judge(
        self, peer: RoomPeer, envelope: BridgeEnvelope, hello: HelloPayload, now: float
    ) -> tuple[bool, list[Effect]]:
        if self._node_key is None or peer.fingerprints is None:
            hello = replace(hello, layer=None)  # we announce none ourselves, so there is nothing to share
        verdict = judge_hello(
            envelope,
            hello,
            self._options,
            self._keys,
            fingerprints=peer.fingerprints,
            now_ms=self._wall() * 1000,
        )
        stream_id = envelope.from_stream_id
        greeted = peer.is_admitted and peer.was_greeted
        if greeted and (peer.stream_id, peer.public_key) != (stream_id, hello.public_key):
            verdict = HelloRefused("the peer changed its identity")
        peer.waiting_hello = None
        if self.members is not None and isinstance(verdict, Admitted) and verdict.layer is not None:
            node = verdict.layer.vacant_id.hex()
            try:
                belongs = self.members.judge(
                    node, hello.join_token, stream_id, self._wall() * 1000, admitted=greeted
                )
            except JoinTokenError as why:
                return False, self._turn_away(peer, envelope, HelloRefused(why.message))
            if belongs != "admitted":
                peer.waiting_hello = (envelope, hello)
                asked = AskAdmission(peer.uuid, node, stream_id, hello.join_token)
                return False, [asked] if belongs == "ask" else []
        if isinstance(verdict, HelloRefused):
            return False, self._turn_away(peer, envelope, verdict)
        others = self._others(stream_id, peer)
        holder = next((one for one in others if not self._gives_way(one, hello, verdict, now)), None)
        if holder is not None:
            peer.waiting_hello = (envelope, hello)
            taken = HelloRefused(f"duplicate stream id: {stream_id} is taken here; join under another name")
            duplicate = {"uuid": peer.uuid, "stream_id": stream_id, "other_uuid": holder.uuid}
            return False, [Report("duplicate_stream_id", duplicate), *self._turn_away(peer, envelope, taken)]
        for other in others:
            other.is_admitted = False
            other.was_replaced = True
        peer.stream_id = stream_id
        peer.public_key = hello.public_key
        peer.key = verdict.key
        peer.layer = verdict.layer
        peer.auth_ok = verdict.auth_ok
        peer.capabilities = {**hello.capabilities, **({} if verdict.layer is None else {"comity_v1": True})}
        peer.rejected_reason = None
        stays = self.members is not None and greeted and peer.handshake_state == "ready"
        peer.handshake_state = "ready" if stays or envelope.kind == "sync.hello_ack" else "hello_received"
        peer.is_admitted = peer.is_open
        return True, self._welcome(peer, envelope, verdict)

    def _welcome(self, peer: RoomPeer, envelope: BridgeEnvelope, verdict: Admitted) -> list[Effect]:
        """Report a peer whose hello has passed, and answer it."""
        members: dict[str, Any] = {
            "uuid": peer.uuid,
            "stream_id": peer.stream_id,
            "handshake_state": peer.handshake_state,
            "auth_ok": peer.auth_ok,
            "shared_key_ready": peer.key is not None,
        }
        effects: list[Effect] = [
            CancelTimer(HELLO_TIMER + peer.uuid),
            Report("sync_peer_updated", members),
        ]
        if verdict.layer is not None and verdict.layer.witness is not None:
            effects.append(TakeWitness(verdict.layer.vacant_id.hex(), verdict.layer.witness))
        if envelope.kind == "sync.hello":
            effects.append(SendText(peer.uuid, write_envelope(self._hello("sync.hello_ack", peer), peer.key)))
        return effects

    def waiting_to_belong(self) -> list[tuple[RoomPeer, BridgeEnvelope, HelloPayload]]:
        """Return those whose hello had to wait for an epoch that we did not know."""
        return [
            (peer, *peer.waiting_hello) for peer in self if peer.is_open and peer.waiting_hello is not None
        ]

    def refuse_waiting(self, peer: RoomPeer, reason: str) -> list[Effect]:
        """Refuse a peer whose hello waits."""
        assert peer.waiting_hello is not None
        envelope, _ = peer.waiting_hello
        peer.waiting_hello = None
        return self._turn_away(peer, envelope, HelloRefused(reason))

    def put_out(self, peer: RoomPeer, reason: str) -> list[Effect]:
        """Refuse a peer that was admitted."""
        envelope = self._envelope("sync.hello", {})
        return self._turn_away(
            peer, replace(envelope, from_stream_id=peer.stream_id or ""), HelloRefused(reason)
        )

    def tell_epoch(self, peer: RoomPeer, news: dict[str, Any]) -> list[Effect]:
        """Tell a member of the epoch, once on each link."""
        if not peer.is_admitted or peer.key is None or peer.epoch_told == news["epoch"]:
            return []
        peer.epoch_told = news["epoch"]
        return [ToPeer(peer.uuid, EPOCH_KIND, news)]

    def _gives_way(self, other: RoomPeer, hello: HelloPayload, verdict: Admitted, now: float) -> bool:
        """Return whether a peer of the same stream id is the newcomer itself on an older link, or has gone silent."""
        proven = verdict.layer
        if proven is not None and other.layer is not None and proven.vacant_id == other.layer.vacant_id:
            return True
        is_same = hello.public_key is not None and hello.public_key == other.public_key
        return is_same or self._is_silent(other, now)

    def _others(self, stream_id: str, peer: RoomPeer) -> list[RoomPeer]:
        return [
            other
            for other in self.reachable()
            if other is not peer and other.handshake_state != "discovered" and other.stream_id == stream_id
        ]

    def _turn_away(self, peer: RoomPeer, envelope: BridgeEnvelope, verdict: HelloRefused) -> list[Effect]:
        repeated = peer.rejected_reason == verdict.reason
        if not peer.is_admitted or peer.public_key is None:
            peer.stream_id = envelope.from_stream_id if is_stream_id(envelope.from_stream_id) else None
        peer.reject(verdict.reason)
        peer.was_refused = peer.waiting_hello is None
        effects: list[Effect] = [] if repeated else [_rejected(peer)]
        if verdict.answered:
            refusal = self._envelope("sync.reject", {"reason": verdict.reason})
            effects.append(SendText(peer.uuid, write_envelope(refusal)))
        return effects

    def _distrust(self, peer: RoomPeer, envelope: BridgeEnvelope) -> str | None:
        if peer.public_key is not None and envelope.from_stream_id != peer.stream_id:
            return "stream_id"
        if envelope.mac is None:
            needs = self._options.demands.require_session_mac or peer.layer is not None
            if needs or envelope.kind.startswith("msg."):
                return "mac_missing"
        elif peer.key is None:
            return "no_key"
        elif not envelope.is_sealed_by(peer.key):
            return "mac"
        now = self._wall()
        verdict = self._window_of(peer).take(envelope.ts, envelope.nonce, now * 1000)
        if verdict == "too old":
            return f"too old: the clock of the peer says {clock_words(envelope.ts // 1000)}, ours {clock_words(now)}"
        return None if verdict == "taken" else verdict

    def _window_of(self, peer: RoomPeer) -> ReplayWindow:
        """Of one of our nodes by its key, whichever link it comes on; of others by the link."""
        if peer.layer is None or peer.public_key is None:
            return peer.replays
        window = self._windows.setdefault(peer.public_key, ReplayWindow())
        self._windows.move_to_end(peer.public_key)
        if len(self._windows) > MAX_PEERS:
            self._windows.popitem(last=False)
        return window

    def _hello(self, kind: str, peer: RoomPeer) -> BridgeEnvelope:
        ts, nonce = self._moment(), self._nonce()
        layer = None
        if self._node_key is not None and peer.fingerprints is not None:
            layer = own_layer(
                self._node_key,
                room=self._options.room,
                stream_id=self._options.stream_id,
                public_key=self._keys.public_key,
                ts=ts,
                nonce=nonce,
                fingerprints=peer.fingerprints,
                max_message=MESSAGE_LIMIT,
                witness=self._witness_for(peer),
            )
        payload = hello_payload(self._keys.public_key, self._own_token(ts), layer)
        return self._envelope(kind, payload, ts, nonce)

    def _witness_for(self, peer: RoomPeer) -> dict[str, Any] | None:
        node = "" if peer.layer is None else peer.layer.vacant_id.hex()
        return self._witnesses.get(node) or self._witnesses.get("")

    def _own_token(self, ts: int) -> str | None:
        options = self._options
        if self.members is not None:
            return self.members.token(ts + options.join_token_ttl_ms, f"join_{self._draw(4).hex()}")
        if options.join_token is not None:
            return options.join_token
        secret = options.demands.join_token_secret
        if not secret:
            return None
        # who is invited holds the secret as long, so a short token would only keep out wrong clocks
        exp = ts + options.join_token_ttl_ms if options.latest_exp is None else options.latest_exp
        nonce = f"join_{self._draw(4).hex()}"
        return join_token.mint(secret, room=options.room, stream_id=options.stream_id, exp=exp, nonce=nonce)

    def _envelope(
        self, kind: str, payload: dict[str, Any], ts: int | None = None, nonce: str | None = None
    ) -> BridgeEnvelope:
        return BridgeEnvelope(
            kind=kind,
            ts=self._moment() if ts is None else ts,
            nonce=self._nonce() if nonce is None else nonce,
            room=self._options.room,
            from_stream_id=self._options.stream_id,
            payload=payload,
        )

    def _moment(self) -> int:
        """Return our time, and after our clock was set back one more than before, until it has caught up."""
        now = int(self._wall() * 1000)
        self._last_ts = now if now >= self._last_ts else self._last_ts + 1
        return self._last_ts

    def _nonce(self) -> str:
        return f"p_{self._draw(4).hex()}"

    def _forget_gone(self, now: float) -> None:
        gone = [peer for peer in self._peers.values() if peer.gone_at is not None]
        for at, peer in enumerate(gone):
            assert peer.gone_at is not None
            if now - peer.gone_at > GONE_SECONDS or len(gone) - at > MAX_GONE:
                del self._peers[peer.uuid]


def _rejected(peer: RoomPeer, *, by_peer: bool = False) -> Effect:
    """`by_peer`: it has refused us."""
    members: dict[str, Any] = {
        "uuid": peer.uuid,
        "stream_id": peer.stream_id,
        "reason": peer.rejected_reason,
    }
    return Report("sync_peer_rejected", {**members, "by_peer": True} if by_peer else members)
