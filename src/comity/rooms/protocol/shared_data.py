"""Shared state (peers 5): the last writer wins, by a Lamport clock, then by the actor's name.

- The merge is the reference's: a higher clock wins; at equal clocks the actor that is greater in UTF-16 code
  units; an equal pair is stale. Any order of the same patches gives the same state.
- A local write takes a clock above all that was seen (ruling 38), so it wins at every peer.
- An entry without a value is a tombstone: the reference keeps and forwards such entries too. Tombstones have a
  limit of their own; the oldest go first.
- Limits count keys, the bytes of one value and of all values. A peer may bring only a share of them, whoever wrote the
  entries: so one peer cannot fill the state, and what a model is given of it stays within bounds. A clock beyond 2^53 - 2 is refused, so that the
  next one is still a safe integer.
- Values are kept in JavaScript's form (1.0 is 1), so that every peer holds the same.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import UNSET, Struct

from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import BridgeEnvelope
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.events import iso_moment
from comity.rooms.protocol.files import Report, ToPeer
from comity.rooms.protocol.loose_values import is_stream_id, read_integer, read_text, trim
from comity.rooms.protocol.session_peers import RoomPeers
from comity.wire import strict_json
from comity.wire.canonical import js_stringify
from comity.wire.errors import ConflictError, InvalidError
from comity.wire.machine import Effect

LAST_CLOCK: Final = 2**53 - 2
MAX_KEY_LENGTH: Final = 512
MAX_ACTOR_LENGTH: Final = 128
MAX_VALUE_BYTES: Final = 196_608
MAX_STATE_BYTES: Final = 16 * 1024 * 1024
MAX_SHARE_BYTES: Final = MAX_STATE_BYTES // 4
KEYS_SHARE: Final = 2
"""A peer may bring half of the keys."""
MAX_ACTORS: Final = 4096
_MAX_MOMENT_LENGTH: Final = 64


class StateEntry(Struct, frozen=True, kw_only=True):
    key: str
    actor: str
    clock: int
    updated_at: str
    value: Any = UNSET

    @property
    def is_deleted(self) -> bool:
        return self.value is UNSET

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"key": self.key}
        if self.value is not UNSET:
            shown["value"] = self.value
        return {**shown, "actor": self.actor, "clock": self.clock, "updated_at": self.updated_at}


class Merge(Struct, frozen=True):
    """What became of a patch. `entry` is the new entry when applied, else the one that stands, if any."""

    applied: bool
    entry: StateEntry | None = None
    reason: str | None = None


class _Held(Struct):
    """`source` is the stream id of who brought the entry; of one from before a restart, of who wrote it."""

    entry: StateEntry
    size: int
    revision: int
    source: str


class _Share(Struct):
    keys: int = 0
    size: int = 0


class SharedState:
    def __init__(
        self, actor: str, *, max_keys: int = 2048, clock_floor: int = 0, max_bytes: int = MAX_STATE_BYTES
    ) -> None:
        """`clock_floor`: a clock that we may have used before a restart; ours start above it."""
        self._actor = actor
        self._max_keys = max_keys
        self._max_bytes = max_bytes
        self._held: dict[str, _Held] = {}
        self._tombstones = 0
        self._bytes = 0
        self._highest = clock_floor
        self._last_own = clock_floor
        self._actors: dict[str, int] = {}
        self._shares: dict[str, _Share] = {}
        self._revision = 0
        self._digest = (-1, "")

    @property
    def highest_clock(self) -> int:
        return self._highest

    @property
    def revision(self) -> int:
        """Rises with every change; see `changes_since`."""
        return self._revision

    @property
    def actor_clock(self) -> dict[str, int]:
        return dict(self._actors)

    @property
    def bytes_held(self) -> int:
        return self._bytes

    @property
    def entry_count(self) -> int:
        """With what is remembered as deleted."""
        return len(self._held)

    def __len__(self) -> int:
        return len(self._held) - self._tombstones

    def entry(self, key: str) -> StateEntry | None:
        held = self._held.get(key)
        return None if held is None else held.entry

    def entries(self) -> list[StateEntry]:
        """Return all of them, tombstones included, by key."""
        return [self._held[key].entry for key in sorted(self._held)]

    def values(self) -> dict[str, Any]:
        return {entry.key: entry.value for entry in self.entries() if not entry.is_deleted}

    def digest(self) -> str:
        """Return a hash that is the same at two peers that hold the same entries."""
        if self._digest[0] != self._revision:
            marks = [[entry.key, entry.clock, entry.actor] for entry in self.entries()]
            self._digest = (self._revision, hashlib.sha256(js_stringify(marks)).hexdigest())
        return self._digest[1]

    def changes_since(self, revision: int, prefix: str = "") -> list[StateEntry]:
        """Return what changed after `revision`, in the order of the changes; of a key only its last change."""
        changed = [
            held for key, held in self._held.items() if held.revision > revision and key.startswith(prefix)
        ]
        changed.sort(key=lambda held: held.revision)
        return [held.entry for held in changed]

    def put(self, key: str, value: Any, updated_at: str) -> StateEntry:
        """Write a key here; UNSET deletes it. Raise InvalidError when a limit is reached."""
        name = trim(key)
        if not name:
            raise InvalidError("key is required")
        patch = {"key": name, "actor": self._actor, "clock": self._next_clock(name), "updated_at": updated_at}
        if value is not UNSET:
            patch["value"] = value
        merge = self.merge(patch, default_actor=self._actor, updated_at=updated_at)
        if not merge.applied:
            raise InvalidError(_LOCAL_REFUSALS.get(merge.reason or "", f"invalid entry: {merge.reason}"))
        assert merge.entry is not None
        self._last_own = merge.entry.clock
        return merge.entry

    def swap(self, key: str, value: Any, expected_clock: int, updated_at: str) -> StateEntry:
        """Write a key here only if its entry still has this clock; 0 means that there is none."""
        current = self.entry(trim(key))
        clock = 0 if current is None or current.is_deleted else current.clock
        if clock != expected_clock:
            raise ConflictError(f"state changed: {trim(key)} has clock {clock}, not {expected_clock}")
        return self.put(key, value, updated_at)

    def merge(self, patch: Any, *, default_actor: str, updated_at: str, source: str | None = None) -> Merge:
        """Merge a patch or an entry of a snapshot, as it came from a peer. `source`: the peer, whose share it counts to."""
        if type(patch) is not dict:
            return Merge(applied=False, reason="missing_key")
        key = trim(read_text(patch.get("key")) or "")
        if not key:
            return Merge(applied=False, reason="missing_key")
        clock = read_integer(patch.get("clock"))
        if clock is None or not 0 < clock <= LAST_CLOCK:
            return Merge(applied=False, reason="invalid_clock")
        if len(key) > MAX_KEY_LENGTH:
            return Merge(applied=False, reason="key_too_long")
        actor = read_text(patch.get("actor")) or default_actor
        if len(actor) > MAX_ACTOR_LENGTH:
            return Merge(applied=False, reason="actor_too_long")
        held = self._held.get(key)
        if held is not None and not _wins(clock, actor, held.entry):
            self._highest = max(self._highest, clock)
            return Merge(applied=False, entry=held.entry, reason="stale_patch")
        value, text = UNSET, b""
        if "value" in patch:
            text = js_stringify(patch["value"])
            value = strict_json.loads(text, lone_surrogates=True)
        moment = patch.get("updated_at")
        entry = StateEntry(
            key=key,
            value=value,
            actor=actor,
            clock=clock,
            updated_at=moment
            if isinstance(moment, str) and len(moment) <= _MAX_MOMENT_LENGTH
            else updated_at,
        )
        size = len(key) + len(actor) + len(text)
        reason = self._limit_reached(held, entry, size, len(text), source)
        if reason is not None:
            return Merge(applied=False, reason=reason)
        self._hold(held, entry, size, source or actor)
        return Merge(applied=True, entry=entry)

    def snapshot_parts(
        self, most_entries: int, most_bytes: int, entries: Iterable[StateEntry] | None = None
    ) -> Iterator[list[dict[str, Any]]]:
        """Return the entries in parts that each fit one message; an empty state is one empty part."""
        part: list[dict[str, Any]] = []
        size = 0
        sent = False
        for entry in self.entries() if entries is None else entries:
            shown = entry.to_json()
            weight = len(js_stringify(shown)) + 1
            if part and (len(part) >= most_entries or size + weight > most_bytes):
                yield part
                sent, part, size = True, [], 0
            part.append(shown)
            size += weight
        if part or not sent:
            yield part

    def saw_clocks(self, actor_clock: Any) -> None:
        """The clocks of a snapshot. They raise no local clock: only entries do."""
        if type(actor_clock) is not dict:
            return
        for actor, clock in actor_clock.items():
            if type(clock) is int and 0 < clock <= LAST_CLOCK and len(actor) <= MAX_ACTOR_LENGTH:
                self._count(actor, clock)

    def _next_clock(self, key: str) -> int:
        if self._highest < LAST_CLOCK:
            return self._highest + 1
        # Somebody used up the clocks: what matters is only to be above this key, and above our own last one.
        held = self._held.get(key)
        clock = 1 + max(self._last_own, 0 if held is None else held.entry.clock)
        if clock > LAST_CLOCK:
            raise InvalidError(f"the clock of {key} is at its end; use another key")
        return clock

    def _limit_reached(
        self, held: _Held | None, entry: StateEntry, size: int, value: int, source: str | None
    ) -> str | None:
        if value > MAX_VALUE_BYTES:
            return "value_too_large"
        if entry.is_deleted:
            return None
        if (held is None or held.entry.is_deleted) and len(self) >= self._max_keys:
            return "state_key_limit_reached"
        if self._bytes - (0 if held is None else held.size) + size > self._max_bytes:
            return "state_size_limit_reached"
        return None if source is None else self._share_reached(held, size, source)

    def _share_reached(self, held: _Held | None, size: int, source: str) -> str | None:
        share = self._shares.get(source, _Share())
        is_replaced = held is not None and held.source == source and not held.entry.is_deleted
        if not is_replaced and share.keys >= max(1, self._max_keys // KEYS_SHARE):
            return "peer_share_of_keys_reached"
        if share.size - (held.size if held is not None and is_replaced else 0) + size > MAX_SHARE_BYTES:
            return "peer_share_of_bytes_reached"
        return None

    def _hold(self, held: _Held | None, entry: StateEntry, size: int, source: str) -> None:
        if held is not None:
            self._bytes -= held.size
            self._tombstones -= held.entry.is_deleted
            self._count_share(held, -1)
        self._revision += 1
        new = self._held[entry.key] = _Held(entry, size, self._revision, source)
        self._count_share(new, 1)
        self._bytes += size
        self._tombstones += entry.is_deleted
        self._highest = max(self._highest, entry.clock)
        self._count(entry.actor, entry.clock)
        if self._tombstones > self._max_keys:
            self._drop_old_tombstones()

    def _count_share(self, held: _Held, sign: int) -> None:
        if held.entry.is_deleted:
            return
        share = self._shares.setdefault(held.source, _Share())
        share.keys += sign
        share.size += sign * held.size
        if not share.keys:
            del self._shares[held.source]

    def _drop_old_tombstones(self) -> None:
        """An eighth at once, so that a flood of deletions costs little each."""
        buried = [held.entry for held in self._held.values() if held.entry.is_deleted]
        buried.sort(key=lambda entry: (entry.clock, entry.key))
        for entry in buried[: 1 + self._max_keys // 8]:
            self._bytes -= self._held.pop(entry.key).size
            self._tombstones -= 1

    def _count(self, actor: str, clock: int) -> None:
        if actor in self._actors or len(self._actors) < MAX_ACTORS:
            self._actors[actor] = max(self._actors.get(actor, 0), clock)


def _wins(clock: int, actor: str, current: StateEntry) -> bool:
    if clock != current.clock:
        return clock > current.clock
    return _utf16(actor) > _utf16(current.actor)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


_LOCAL_REFUSALS: Final = {
    "state_key_limit_reached": "state_max_keys reached: delete a key first",
    "state_size_limit_reached": f"the state exceeds {MAX_STATE_BYTES:,} bytes: delete a key first",
    "value_too_large": f"value exceeds {MAX_VALUE_BYTES:,} bytes: send it as a file",
    "key_too_long": f"key exceeds {MAX_KEY_LENGTH} characters: use a shorter one",
}


# How a session keeps its shared state the same as its peers' (peers 5): patches, snapshots, forwarding.


MAX_ACTORS_TOLD: Final = 128
_SNAPSHOT_ROOM: Final = 24_576


class StateExchange:
    def __init__(
        self, state: SharedState, peers: RoomPeers, options: SessionOptions, wall: Callable[[], float]
    ) -> None:
        self._state = state
        self._peers = peers
        self._options = options
        self._wall = wall

    def receive(self, peer: RoomPeer, envelope: BridgeEnvelope, now: float) -> list[Effect]:
        """Handle an envelope of the family `state.`"""
        if envelope.kind == "state.patch":
            return self._patch(peer, envelope.payload, now)
        if envelope.kind == "state.snapshot":
            return self._merge(peer, envelope.payload, now)
        if envelope.kind == "state.snapshot_req":
            if not peer.snapshots.take(now):
                return self._peers.fault(peer, now, "protocol_error", reason="too_many_snapshot_requests")
            same = envelope.payload.get("state_digest") == self._state.digest()
            return self.snapshot(peer, []) if same else self.snapshot(peer)
        return self._peers.fault(peer, now, "state_protocol_unhandled", kind=envelope.kind[:64])

    def request(self, peer: RoomPeer) -> Effect:
        """Ask for a snapshot. One of our own nodes that holds the same gives an empty answer."""
        asked = {"room": self._options.room, "requester_stream_id": self._options.stream_id}
        if peer.layer is not None:
            asked["state_digest"] = self._state.digest()
        return ToPeer(peer.uuid, "state.snapshot_req", asked)

    def snapshot(self, peer: RoomPeer, entries: list[StateEntry] | None = None) -> list[Effect]:
        """Send everything, or only `entries`, in as many messages as it takes."""
        room = max(1024, peer.max_message - _SNAPSHOT_ROOM)
        clocks = dict(list(self._state.actor_clock.items())[:MAX_ACTORS_TOLD])
        members: dict[str, Any] = {"room": self._options.room, "stream_id": self._options.stream_id}
        moment = iso_moment(self._wall())
        return [
            ToPeer(
                peer.uuid,
                "state.snapshot",
                {**members, "entries": part, "actor_clock": clocks, "generated_at": moment},
            )
            for part in self._state.snapshot_parts(self._options.state_max_snapshot_entries, room, entries)
        ]

    def written(self, entry: StateEntry, peers: list[RoomPeer]) -> list[Effect]:
        """Report a local write, and send it to these peers."""
        patches = [ToPeer(peer.uuid, "state.patch", entry.to_json()) for peer in peers]
        return [_updated("local", entry), *patches]

    def _patch(self, peer: RoomPeer, payload: dict[str, Any], now: float) -> list[Effect]:
        sender = peer.stream_id or peer.uuid
        actor = payload.get("actor") or sender
        foreign = actor != sender and (peer.layer is None or actor == self._options.stream_id)
        if foreign and not self._is_known(payload):
            return self._refused(peer, payload, "forged_actor", now)
        if not _is_actor(payload):
            return self._refused(peer, payload, "invalid_actor", now)
        moment = iso_moment(self._wall())
        merge = self._state.merge(payload, default_actor=sender, updated_at=moment, source=sender)
        if merge.applied and merge.entry is not None:
            return [_updated("remote", merge.entry), *self._forward([merge.entry], peer)]
        return [] if merge.reason == "stale_patch" else self._refused(peer, payload, merge.reason, now)

    def _is_known(self, payload: dict[str, Any]) -> bool:
        """Return whether we hold this very entry, or a later one: then it comes back to us and does no harm."""
        key, clock = payload.get("key"), payload.get("clock")
        entry = self._state.entry(key) if isinstance(key, str) else None
        return entry is not None and type(clock) is int and clock <= entry.clock

    def _merge(self, peer: RoomPeer, payload: dict[str, Any], now: float) -> list[Effect]:
        offered = payload.get("entries")
        if type(offered) is not list:
            return self._refused(peer, {}, "entries must be a list", now)
        moment = iso_moment(self._wall())
        sender = peer.stream_id or peer.uuid
        applied: list[StateEntry] = []
        effects: list[Effect] = []
        for entry in offered[: self._options.state_max_snapshot_entries]:
            if not _is_actor(entry):
                effects += self._refused(peer, entry, "invalid_actor", now)
                continue
            merge = self._state.merge(entry, default_actor=sender, updated_at=moment, source=sender)
            if merge.applied and merge.entry is not None:
                applied.append(merge.entry)
                effects.append(_updated("remote_snapshot", merge.entry))
            elif merge.reason != "stale_patch":
                effects += self._refused(peer, entry if type(entry) is dict else {}, merge.reason, now)
        self._state.saw_clocks(payload.get("actor_clock"))
        members = {
            "from_uuid": peer.uuid,
            "from_stream_id": peer.stream_id,
            "applied": len(applied),
            "offered": len(offered),
        }
        return [*effects, Report("state_snapshot_merged", members), *self._forward(applied, peer)]

    def _forward(self, entries: list[StateEntry], source: RoomPeer) -> list[Effect]:
        others = [peer for peer in self._peers.reachable() if peer is not source] if entries else []
        if len(entries) == 1:
            return [ToPeer(peer.uuid, "state.patch", entries[0].to_json()) for peer in others]
        return [effect for peer in others for effect in self.snapshot(peer, entries)]

    def _refused(
        self, peer: RoomPeer, payload: dict[str, Any], reason: str | None, now: float
    ) -> list[Effect]:
        key = payload.get("key")
        shown = key[:128] if isinstance(key, str) else None
        return self._peers.fault(peer, now, "state_patch_rejected", key=shown, reason=reason)


def _is_actor(entry: Any) -> bool:
    """Return whether the actor of an entry, if it names one, has the form of a stream id."""
    actor = entry.get("actor") if type(entry) is dict else None
    return not isinstance(actor, str) or not actor or is_stream_id(actor)


def _updated(source: str, entry: StateEntry) -> Effect:
    members: dict[str, Any] = {"source": source, "key": entry.key, "actor": entry.actor, "clock": entry.clock}
    if entry.is_deleted:
        return Report("state_updated", {**members, "deleted": True})
    return Report("state_updated", {**members, "value": entry.value}, len(js_stringify(entry.value)))
