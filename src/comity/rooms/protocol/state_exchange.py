"""How a session keeps its shared state the same as its peers' (peers 5): patches, snapshots, forwarding.

- A peer writes under its own name. Only our own nodes forward what others wrote, and nobody writes in our name.
- What a session learns from one peer it passes on to the others, so that a star is as good as a mesh; what is
  known already is not passed on, so that it ends.
- Snapshots are cut into parts that fit the link, and are asked for only so often.
"""

from collections.abc import Callable
from typing import Any, Final

from comity.rooms.protocol.admission import RoomPeer
from comity.rooms.protocol.channel import BridgeEnvelope
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.events import iso_moment
from comity.rooms.protocol.files import Report, ToPeer
from comity.rooms.protocol.session_peers import RoomPeers
from comity.rooms.protocol.shared_data import SharedState, StateEntry
from comity.wire.canonical import js_stringify
from comity.wire.machine import Effect

MOST_ACTORS_TOLD: Final = 128
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
        """An envelope of the family `state.`"""
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
        """One of our own nodes that holds the same gives an empty answer."""
        asked = {"room": self._options.room, "requester_stream_id": self._options.stream_id}
        if peer.layer is not None:
            asked["state_digest"] = self._state.digest()
        return ToPeer(peer.uuid, "state.snapshot_req", asked)

    def snapshot(self, peer: RoomPeer, entries: list[StateEntry] | None = None) -> list[Effect]:
        """Everything, or only `entries`, in as many messages as it takes."""
        room = max(1024, peer.max_message - _SNAPSHOT_ROOM)
        clocks = dict(list(self._state.actor_clock.items())[:MOST_ACTORS_TOLD])
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
        """A local write, and those who are told of it now."""
        told = [ToPeer(peer.uuid, "state.patch", entry.to_json()) for peer in peers]
        return [_updated("local", entry), *told]

    def _patch(self, peer: RoomPeer, payload: dict[str, Any], now: float) -> list[Effect]:
        sender = peer.stream_id or peer.uuid
        actor = payload.get("actor") or sender
        foreign = actor != sender and (peer.layer is None or actor == self._options.stream_id)
        if foreign and not self._is_known(payload):
            return self._refused(peer, payload, "forged_actor", now)
        merge = self._state.merge(payload, default_actor=sender, updated_at=iso_moment(self._wall()))
        if merge.applied and merge.entry is not None:
            return [_updated("remote", merge.entry), *self._forward([merge.entry], peer)]
        return [] if merge.reason == "stale_patch" else self._refused(peer, payload, merge.reason, now)

    def _is_known(self, payload: dict[str, Any]) -> bool:
        """Whether we hold this very entry, or a later one: then it comes back to us and does no harm."""
        key, clock = payload.get("key"), payload.get("clock")
        entry = self._state.entry(key) if isinstance(key, str) else None
        return entry is not None and type(clock) is int and clock <= entry.clock

    def _merge(self, peer: RoomPeer, payload: dict[str, Any], now: float) -> list[Effect]:
        offered = payload.get("entries")
        if type(offered) is not list:
            return self._refused(peer, {}, "entries must be a list", now)
        moment = iso_moment(self._wall())
        applied: list[StateEntry] = []
        effects: list[Effect] = []
        for entry in offered[: self._options.state_max_snapshot_entries]:
            merge = self._state.merge(entry, default_actor=peer.stream_id or peer.uuid, updated_at=moment)
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


def _updated(source: str, entry: StateEntry) -> Effect:
    members: dict[str, Any] = {
        "source": source,
        "key": entry.key,
        "actor": entry.actor,
        "clock": entry.clock,
    }
    if entry.is_deleted:
        return Report("state_updated", {**members, "deleted": True})
    return Report("state_updated", {**members, "value": entry.value}, len(js_stringify(entry.value)))
