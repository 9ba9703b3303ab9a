"""The events of a session from its links and its signalling, and its effects on them.

The shell carries out effects in the order in which they are given. A link may only be closed after what was sent
before has left. Answers to the effects of files and messages come back as events of those machines.
"""

from typing import Any

from msgspec import Struct

from comity.rooms.protocol.membership import Membership
from comity.rooms.protocol.signalling import IceCandidate, Listed
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.protocol.transfers import FileLimits
from comity.wire.machine import Effect, Event

# The effects of a meeting, and its events for the user of the room.


class Dial(Struct, frozen=True):
    pass


class SendToRelay(Struct, frozen=True):
    text: bytes


class HangUp(Struct, frozen=True):
    reason: str


class MakeOffer(Struct, frozen=True):
    attempt: int


class MakeAnswer(Struct, frozen=True):
    attempt: int
    sdp: str
    ticket: str | None
    door: str | None = None


class TakeAnswer(Struct, frozen=True):
    attempt: int
    sdp: str
    door: str | None = None


class AddCandidates(Struct, frozen=True):
    attempt: int
    candidates: tuple[IceCandidate, ...]


class GiveUp(Struct, frozen=True):
    attempt: int
    reason: str


class SignallingReady(Event, frozen=True):
    """The room is joined, the stream id announced, the target asked for. `peers` are the others in the room."""

    peers: tuple[Listed, ...] = ()


class SignallingLost(Event, frozen=True):
    """The relay is gone, or was not reached; it is tried again in `retry_in` seconds. Links stay as they are. `reason` is
    for the owner.
    """

    reason: str
    retry_in: float


class SignallingProblem(Event, frozen=True):
    """The relay refused something and the connection stays open. Where another peer of the room has our stream id, we try
    again, in case it is only what is left of ourselves.
    """

    error: str
    code: str | None = None


class PeerSeen(Struct, frozen=True):
    """Somebody came, or has a stream now."""

    peer: Listed


class AttemptBegun(Struct, frozen=True):
    """A link to a peer is being made."""

    attempt: int
    uuid: str


class AttemptFailed(Struct, frozen=True):
    attempt: int
    uuid: str
    reason: str


class SignallingFault(Struct, frozen=True):
    """Something that no honest peer sends, and that changed nothing."""

    reason: str


Notice = (
    SignallingReady
    | SignallingLost
    | SignallingProblem
    | PeerSeen
    | AttemptBegun
    | AttemptFailed
    | SignallingFault
)


class Notify(Struct, frozen=True):
    notice: Notice


MeetingEffect = (
    Dial | SendToRelay | HangUp | MakeOffer | MakeAnswer | TakeAnswer | AddCandidates | GiveUp | Notify
)


class SessionOptions(Struct, frozen=True, kw_only=True):
    """Everything that `vdo_connect` decides (peers 1.3). `latest_exp`: a token of a session that came from an invite must
    not outlive it (ruling 62). `membership`: of a room that somebody was invited to by an invite of version 2.
    """

    room: str
    stream_id: str
    host: str
    target_stream_id: str | None = None
    password: str | bool | None = None
    force_turn: bool = False
    label: str = "mcp_bridge"
    heartbeat_ms: int = 15_000
    reconnect_ms: int = 3000
    max_reconnect_ms: int = 30_000
    join_token: str | None = None
    join_token_ttl_ms: int = 600_000
    demands: Demands = Demands()
    latest_exp: int | None = None
    membership: Membership | None = None
    files: FileLimits = FileLimits()
    file_spool_dir: str | None = None
    keep_spool_files: bool = False
    state_max_keys: int = 2048
    state_max_snapshot_entries: int = 4096


class PeerAppeared(Event, frozen=True):
    """A link to this peer is being made. `role` is ours: `publisher` or `viewer`."""

    uuid: str
    role: str
    stream_id: str | None = None


class ChannelOpened(Event, frozen=True):
    """`fingerprints` are ours and theirs, as in SDP, or the two nonces of a websocket link."""

    uuid: str
    role: str
    max_message: int
    fingerprints: tuple[str, str] | None = None
    stream_id: str | None = None


class ChannelClosed(Event, frozen=True):
    uuid: str
    reason: str = ""


class LinkFailed(Event, frozen=True):
    """A link could not be made, or broke."""

    uuid: str
    reason: str


class WitnessReady(Event, frozen=True):
    """What the hellos to this node say of our audit record from now on; with an empty id, to nodes of which none is ready."""

    node: str
    witness: dict[str, Any]


class TakeWitness(Effect, frozen=True):
    """The hello of an admitted peer said this of the audit record of its node."""

    node: str
    witness: dict[str, Any]


class TextArrived(Event, frozen=True):
    """On the control channel."""

    uuid: str
    data: bytes


class BytesArrived(Event, frozen=True):
    uuid: str
    channel: str
    data: bytes


class LinkFull(Event, frozen=True):
    """More than 4 MiB wait in the link; `LinkDrained` follows (ruling 56)."""

    uuid: str


class LinkDrained(Event, frozen=True):
    uuid: str


class SendFailed(Event, frozen=True):
    uuid: str
    message: str


class SendText(Effect, frozen=True):
    uuid: str
    data: bytes


class SendBytes(Effect, frozen=True):
    uuid: str
    channel: str
    data: bytes


class SignalLink(Effect, frozen=True):
    """A description, candidates or a wish for an ICE restart came over the channel: they are the link's."""

    uuid: str
    message: dict[str, Any]


class CloseLink(Effect, frozen=True):
    uuid: str
    reason: str


class KeepClock(Effect, frozen=True):
    """Remember across a restart that clocks of shared state up to this one may have been used."""

    clock: int


class EmitEvent(Effect, frozen=True):
    """An event was added to the log: readers that wait for one can read it."""

    event: dict[str, Any]
