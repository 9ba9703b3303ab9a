"""Peers: the signalling relay at /signal, the sessions of this node in rooms, and the `vdo_*` tools.

Everything heavy is imported when it is first used: a node that never opens a room is as small as before.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Struct

from comity.runtime.lazy import late
from comity.runtime.part import (
    CheckResult,
    Chore,
    OpenNode,
    Panel,
    Part,
    Table,
    View,
    ViewPage,
    ViewQuery,
    paged,
)
from comity.runtime.settings import Settings, list_of, text
from comity.system import is_loopback
from comity.wire.errors import ForbiddenError

if TYPE_CHECKING:
    from comity.http import asgi
    from comity.identity import secrets
    from comity.mcp.protocol.catalog import Tool
    from comity.requests import metrics as numbers
    from comity.rooms import doors, relays
    from comity.rooms import tools as tool_list
    from comity.rooms.links import webrtc
    from comity.rooms.live import LiveRoom
    from comity.rooms.protocol import relay as signalling
    from comity.rooms.protocol import tool_table
    from comity.rooms.tool_handlers import RoomTools
    from comity.runtime.node_runtime import NodeRuntime
else:
    asgi = late("comity.http.asgi")
    doors = late("comity.rooms.doors")
    numbers = late("comity.requests.metrics")
    signalling = late("comity.rooms.protocol.relay")
    relays = late("comity.rooms.relays")
    secrets = late("comity.identity.secrets")
    tool_table = late("comity.rooms.protocol.tool_table")
    tool_list = late("comity.rooms.tools")
    webrtc = late("comity.rooms.links.webrtc")

SIGNAL_PATH: Final = "/signal"
LINK_PATH: Final = "/link"
JOIN_SECRET_FILE: Final = "join-secret"  # noqa: S105 - the name of a file
INVITE_SECONDS: Final = 86_400.0
MAX_INVITE_SECONDS: Final = 30 * 86_400.0
_LEASES_EVERY: Final = 20.0
_MESSAGES_SHOWN: Final = 20


class PeersSettings(Struct, frozen=True, kw_only=True):
    """`relay` empty: the node's own, at /signal. `relay_file` holds a line that `comity relay` has printed, in the place of `relay`. `ice_servers` help peers behind routers to find each other; the user
    name and the file with the credential are for the TURN servers among them. `same_host`: peers of this user on this machine are
    joined without WebRTC. `webrtc` is the library; any: the fastest that is there. The demands hold for every session of this node. `shared` are folders whose files may be sent
    and saved, beside the folder `shared` of the data folder.
    """

    relay: Annotated[str, text("an address such as wss://relay.example/signal", r"|wss?://[^\s@]+")] = ""
    relay_file: Path | None = None
    ice_servers: Annotated[
        tuple[str, ...],
        list_of(text("an address such as stun:stun.example:3478", r"(stun|turn|turns):[^\s@]{1,512}")),
    ] = ()
    turn_username: Annotated[str, text("a name of at most 512 characters", r"[^\x00-\x1f]{0,512}")] = ""
    turn_credential: Path | None = None
    same_host: bool = True
    webrtc: Literal["any", "wrtc", "aiortc"] = "any"
    enforce_join_token: bool = False
    require_session_mac: bool = False
    allow_peer_stream_ids: Annotated[
        tuple[str, ...],
        list_of(text("a stream id of at most 64 letters, digits and _", r"[A-Za-z0-9_]{1,64}")),
    ] = ()
    shared: Annotated[
        tuple[str, ...], list_of(text("the absolute path of a folder", r"/[^\x00]{0,4095}"))
    ] = ()


class Peers(Part):
    name = "peers"
    settings = PeersSettings
    tool_group = "vdo"
    instructions = (
        "vdo_* join rooms with agents on other machines, by an invite line or a room's name, and pass messages, files "
        "and shared state to them."
    )
    paths = ("/v1/rooms",)
    open_paths = (SIGNAL_PATH, LINK_PATH)
    relay: "signalling.SignallingRelay | None" = None

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        async def open_tools() -> "RoomTools":
            return await (await runtime()).find(cls).open_tools()

        return tool_list.vdo_tools(open_tools, cls.tool_group)

    @classmethod
    def checks(cls, settings: Settings) -> Iterable[CheckResult]:
        return check_webrtc(), check_relay(settings)

    async def open(self, runtime: "NodeRuntime") -> None:
        self._runtime = runtime
        self._relays: relays.NodeRelays | None = None
        self.chores = [Chore(_LEASES_EVERY, self._keep_leases)]
        self.views = [View("rooms", "Rooms", self._view)]
        runtime.stack.push_async_callback(self._close)
        if runtime.guest and await self._has_something():
            await self.open_tools()

    async def serve(self, runtime: "NodeRuntime") -> None:
        self.relay = signalling.SignallingRelay(
            serves=None if is_loopback(runtime.settings.host) else self._serves
        )
        door = doors.SignallingDoor(
            self.relay,
            runtime.clock,
            runtime.budget,
            knows_token=lambda given: secrets.same_token(given, runtime.token),
            serves_outside=self._is_invited,
        )
        self.sockets = {SIGNAL_PATH: door, LINK_PATH: self._link}
        self.public = (SIGNAL_PATH, LINK_PATH)
        self.hot = {doors.ROOMS_PATH: doors.rooms_endpoint(self.open_tools, runtime.record)}
        runtime.stack.callback(self._stop_waiting)
        if await self._has_something():
            await self.open_tools()

    async def _link(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a peer in that brings a secret; before rooms are open there is none."""
        if self._relays is not None:
            await self._relays.peer_door(scope, receive, send)
        elif (await receive())["type"] == "websocket.connect":
            await asgi.refuse_websocket(scope, send, ForbiddenError("nobody is waited for here"))

    def _stop_waiting(self) -> None:
        if self._tools is not None:
            self._tools.stop_waiting()

    async def open_tools(self) -> "RoomTools":
        """Return the tools, and with them the sessions that were open when the node ended."""
        if self._tools is not None:
            return self._tools
        if self._relays is None:
            self._relays = relays.NodeRelays(self._runtime)
        return await self._relays.open_tools(self.demands(self._runtime))

    @property
    def _tools(self) -> "RoomTools | None":
        return None if self._relays is None else self._relays.tools

    async def client_left(self, client: str) -> None:
        """A client sent exit: end the sessions that it opened."""
        if self._tools is not None:
            await self._tools.rooms.end_those_of(client)

    async def invite(self, given: dict[str, Any]) -> dict[str, Any]:
        """For the owner alone: the line, and what to know about it."""
        return await (await self.open_tools()).invite(given)

    @property
    def _rooms(self) -> "list[LiveRoom]":
        return [] if self._tools is None else list(self._tools.rooms)

    def metrics(self) -> "Iterable[numbers.Metric]":
        metric = numbers.Metric
        if self.relay is not None:
            counts = self.relay.counts
            yield metric("comity_relay_peers", "Peers connected to the signalling relay.", counts.peers)
            yield metric("comity_relay_rooms", "Rooms of the signalling relay.", counts.rooms)
        rooms = self._rooms
        messages = {
            kind: sum(room.counts[kind] for room in rooms) for kind in ("sent", "received", "refused")
        }
        yield metric("comity_room_sessions", "Sessions in rooms.", len(rooms))
        yield metric("comity_room_peers", "Peers connected to sessions of this node.", _peers_of(rooms))
        yield metric("comity_room_messages", "Messages of the open sessions.", messages, "kind")

    async def _view(self, query: ViewQuery) -> ViewPage:
        peers, transfers, sessions, messages = [], [], [], []
        for room in self._rooms:
            status = room.session.status()
            name = status["room"]
            state = tool_table.room_words(status["state"], room.session.present)
            sessions.append((name, status["stream_id"], state, str(status["state_keys"])))
            links = await room.link_stats()
            for peer in room.session.sync_peers(room.now):
                path = links.get(peer["uuid"], {}).get("path", "")
                state = tool_table.HANDSHAKE_WORDS[peer["handshake_state"]]
                peers.append((name, peer["stream_id"] or peer["uuid"], state, str(path)))
            for peer_name, message_state, reason in room.session.messages.recent(_MESSAGES_SHOWN, room.now):
                messages.append((name, peer_name, message_state, reason or ""))
            files = room.session.files
            for way, moving in (("in", files.incoming), ("out", files.outgoing)):
                for each in moving.values():
                    file = each.summary()
                    done = f"{file['acked_chunks']:,} of {file['total_chunks']:,}"
                    size = f"{file['total_bytes']:,}"
                    transfers.append((name, way, file["name"], file["status"], size, done))
        shown, more = paged(transfers, query)
        empty = "this node is in no room; invite others to one: `comity room invite lab`"
        return ViewPage(
            tables=[
                Table(("room", "you are", "state", "shared data"), sessions, empty=empty),
                Table(("room", "peer", "state", "path"), peers, "Peers", empty="nobody else is here"),
                Table(("room", "to", "state", "why"), messages, "Messages sent", empty="no message was sent"),
                Table(
                    ("room", "way", "file", "state", "bytes", "pieces"),
                    shown,
                    "Transfers",
                    more,
                    "no file was sent",
                ),
            ]
        )

    async def panel(self) -> Panel:
        rooms = self._rooms
        at_relay = 0 if self.relay is None else self.relay.counts.peers
        return Panel(
            "Rooms",
            [
                ("sessions", str(len(rooms))),
                ("peers", str(_peers_of(rooms))),
                ("relay connections", str(at_relay)),
            ],
        )

    async def _has_something(self) -> bool:
        """Return whether there are sessions or invites; nothing is imported for that."""
        store = self._runtime.store
        for space in ("rooms:session", "rooms:hosted"):
            if await store.scan(space, limit=1):
                return True
        return False

    async def _keep_leases(self) -> None:
        """Also take over what another process ran that is gone."""
        if self._tools is not None:
            await self._tools.rooms.keep_leases()
            await self._tools.rooms.restore()
            assert self._relays is not None, "the tools were opened through them"
            await self._relays.settle_door(self._tools.rooms)

    async def _close(self) -> None:
        if self._relays is not None:
            await self._relays.close()

    def _serves(self, room_id: str) -> bool:
        return self._tools is not None and self._tools.rooms.serves(room_id)

    def _is_invited(self, room_id: str) -> bool:
        return self._tools is not None and self._tools.rooms.is_invited(room_id)

    @staticmethod
    def demands(runtime: "NodeRuntime") -> "tool_table.Demands":
        """Return what the settings demand of every session."""
        peers = runtime.settings.of(PeersSettings)
        secret = None
        if peers.enforce_join_token:
            secret = secrets.load_or_create_token(runtime.settings.data / JOIN_SECRET_FILE)
        return tool_table.Demands(
            join_token_secret=secret,
            enforce_join_token=peers.enforce_join_token,
            require_session_mac=peers.require_session_mac,
            allow_peer_stream_ids=peers.allow_peer_stream_ids,
        )


def check_webrtc() -> CheckResult:
    """Return whether peers on other machines can be joined."""
    found = webrtc.available_libraries()
    if not found:
        return CheckResult(
            "webrtc",
            "warn",
            "no library is installed: only peers on this machine can be joined",
            f"run: {webrtc.install_command()}",
        )
    return CheckResult("webrtc", "ok", " and ".join(found))


def check_relay(settings: Settings) -> CheckResult:
    peers = settings.of(PeersSettings)
    if peers.relay:
        return CheckResult("relay", "ok", peers.relay.partition("?")[0])
    where = "this machine only" if is_loopback(settings.host) else "other machines too"
    return CheckResult("relay", "ok", f"the node's own at {SIGNAL_PATH}, for {where}")


def _peers_of(rooms: "list[LiveRoom]") -> int:
    return sum(room.session.status()["peer_count"] for room in rooms)
