"""The table of the `vdo_*` tools: profile, description and arguments of each (peers 1, ruling 59).

A new tool is one row here and one method of `RoomTools` with its name. The schemas of the document's 18 tools are the
contract's; the words are ours. The profile `extended` has seven tools more, and `signed` on `vdo_send`.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.mcp.protocol.catalog import Namespace, Selection
from comity.mcp.protocol.results import ToolResult, structured
from comity.rooms.protocol import tool_arguments as read
from comity.rooms.protocol.tool_arguments import Argument, Json, VdoToolError
from comity.wire.errors import ConfigError, ForbiddenError

MIN_CHUNK: Final = 1024
MAX_CHUNK: Final = 262_144
MAX_FILE_BYTES: Final = 268_435_456
HANDSHAKE_WORDS: Final = {
    "discovered": "connecting",
    "hello_received": "connected",
    "ready": "connected",
    "rejected": "refused",
}
"""The states of a peer, as people read them."""


def is_present(peer: Mapping[str, Any]) -> bool:
    """Return whether a peer, as `vdo_sync_peers` shows it, is linked and was not refused."""
    return bool(peer["connected"]) and peer["handshake_state"] != "rejected"


def room_words(state: str, present: int) -> str:
    """Return the state of a session as people read it: it is connected when a peer is."""
    relay = "" if state == "connected" else _RELAY_WORDS[state]
    if not present:
        return relay or "nobody else is here"
    here = f"connected to {present} {'peer' if present == 1 else 'peers'}"
    return f"{here}; {relay}" if relay else here


_RELAY_WORDS: Final = {
    "idle": "not started",
    "connecting": "connecting to the relay",
    "disconnected": "the relay is gone",
    "reconnecting": "the relay does not answer; trying again",
    "stopped": "ended",
}

_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_POSITIVE: Final = {"type": "integer", "minimum": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_CHUNK: Final = {"type": "integer", "minimum": MIN_CHUNK}
_PEER: Final = {"oneOf": [_TEXT, {"type": "object"}]}

ANY: Final = Argument({}, read.required_value, required=True)
TEXT: Final = Argument(_TEXT, read.optional_text)
NAME: Final = Argument(_TEXT, read.required_text, required=True)
STREAM: Final = Argument(_TEXT, read.identifier)
RAW_TEXT: Final = Argument(_TEXT, read.as_given)
FLAG: Final = Argument(_FLAG, read.flag())
TARGET: Final = Argument(_PEER, read.target)
UUID: Final = Argument(_TEXT, None)
WAIT: Final = Argument({"type": "integer", "minimum": 0, "maximum": 30_000}, read.number(0, 30_000, lowest=0))
CHUNK: Final = Argument(_CHUNK, read.number(None, MAX_CHUNK, floor=MIN_CHUNK))
ACK_TIMEOUT: Final = Argument(_POSITIVE, read.number(None, 30_000))
RETRIES: Final = Argument(_COUNT, read.number(None, 1000, lowest=0))
TIMEOUT: Final = Argument(_POSITIVE, read.number(60_000, 600_000))
"""Ruling 60: how long a tool waits for its transfer or reply before it answers as things stand."""


def _positive(default: int, highest: int) -> Argument:
    return Argument(_POSITIVE, read.number(default, highest))


def _one_of(*shown: str, others: tuple[str, ...] = (), default: str | None = None, refusal: str) -> Argument:
    """`others` are understood as well, and not listed."""
    named = (default or shown[0], *shown, *others)
    return Argument({"type": "string", "enum": list(shown)}, read.choice(*named, refusal=refusal))


class VdoTool(Struct, frozen=True, kw_only=True):
    """`profile`: the smallest one that has the tool. `is_task`: a client may ask for it as a task."""

    name: str
    profile: str
    description: str
    arguments: dict[str, Argument]
    in_session: bool = True
    is_task: bool = False

    def schema(self, profile: str) -> Json:
        """Return the input schema as it is listed in a profile."""
        listed = {name: one for name, one in self.arguments.items() if one.profile in (None, profile)}
        schema: Json = {"type": "object", "properties": {name: one.schema for name, one in listed.items()}}
        required = [name for name, one in listed.items() if one.required]
        if required:
            schema["required"] = required
        return {**schema, "additionalProperties": False}

    def check(self, given: Any, profile: str) -> Json:
        """Return the arguments if they are an object with no other names than those of the tool."""
        given = {} if given is None else given
        if type(given) is not dict:
            raise VdoToolError(f"{self.name} arguments must be an object")
        unknown = [
            name
            for name in given
            if name not in self.arguments or self.arguments[name].profile not in (None, profile)
        ]
        if unknown:
            raise VdoToolError(f"{self.name} received unsupported fields: {', '.join(unknown)[:500]}")
        return given

    def read(self, given: Json) -> Json:
        """Return what its method is given. Raise VdoToolError for what cannot be read."""
        return {name: one.read(given, name) for name, one in self.arguments.items() if one.read is not None}


_SESSION: Final = {"session_id": Argument(_TEXT, None, required=True)}


def _tool(name: str, profile: str, description: str, /, **arguments: Argument) -> VdoTool:
    return VdoTool(name=name, profile=profile, description=description, arguments={**_SESSION, **arguments})


def _task(name: str, profile: str, description: str, /, **arguments: Argument) -> VdoTool:
    return replace(_tool(name, profile, description, **arguments), is_task=True)


def _without_session(name: str, profile: str, description: str, /, **arguments: Argument) -> VdoTool:
    return VdoTool(name=name, profile=profile, description=description, arguments=arguments, in_session=False)


_SENDING: Final = {
    "name": TEXT,
    "mime": TEXT,
    "target": TARGET,
    "uuid": UUID,
    "transfer_id": TEXT,
    "chunk_bytes": CHUNK,
    "timeout_ms": TIMEOUT,
    "ack_timeout_ms": ACK_TIMEOUT,
    "max_retries": RETRIES,
}

_ROWS: Final = (
    _without_session(
        "vdo_connect",
        "core",
        "Join a room and open a session. `room` is a name, or the line that an invite gave you.",
        room=Argument(_TEXT, read.as_given, required=True),
        stream_id=STREAM,
        target_stream_id=STREAM,
        host=RAW_TEXT,
        password=Argument({"oneOf": [_TEXT, _FLAG]}, read.as_given),
        force_turn=FLAG,
        heartbeat_ms=_positive(15_000, 120_000),
        reconnect_ms=_positive(3000, 30_000),
        max_reconnect_ms=_positive(30_000, 120_000),
        label=TEXT,
        debug=Argument(_FLAG, None),
        join_token=TEXT,
        join_token_secret=TEXT,
        join_token_ttl_ms=Argument(
            {"type": "integer", "minimum": 1000}, read.number(600_000, 86_400_000, floor=1000)
        ),
        enforce_join_token=FLAG,
        allow_peer_stream_ids=Argument({"type": "array", "items": _TEXT}, read.as_given),
        file_chunk_bytes=CHUNK,
        file_max_bytes=_positive(67_108_864, MAX_FILE_BYTES),
        file_ack_timeout_ms=_positive(1200, 30_000),
        file_max_retries=Argument(_COUNT, read.number(6, 1000, lowest=0)),
        require_session_mac=FLAG,
        file_spool_dir=TEXT,
        file_spool_threshold_bytes=_positive(4_194_304, 536_870_912),
        keep_spool_files=FLAG,
        state_max_keys=_positive(2048, 50_000),
        state_max_snapshot_entries=_positive(4096, 100_000),
    ),
    _tool(
        "vdo_send",
        "core",
        "Send any JSON to one peer, by stream id or uuid, or to all peers.",
        data=ANY,
        target=TARGET,
        uuid=UUID,
        signed=Argument(_FLAG, read.flag(), profile="extended"),
    ),
    _tool(
        "vdo_receive",
        "core",
        "Read the events of a session that you have not read yet; wait for the first one if asked to.",
        max_events=_positive(50, 500),
        wait_ms=WAIT,
    ),
    _tool("vdo_status", "core", "Show the state of a session and its peers."),
    _tool("vdo_disconnect", "core", "Leave the room and end the session."),
    _without_session("vdo_list_sessions", "core", "List the open sessions."),
    _without_session("vdo_capabilities", "core", "Show what this server can do, and with which tools."),
    _tool(
        "vdo_sync_peers",
        "core",
        "List the peers of a session: who they are, whether they are admitted, what they can do.",
    ),
    _tool("vdo_sync_announce", "core", "Greet one peer, or all peers, again now.", target=TARGET, uuid=UUID),
    _task(
        "vdo_file_send",
        "file",
        "Send a file from base64 to one peer.",
        data_base64=Argument(_TEXT, read.file_bytes, required=True),
        **_SENDING,
    ),
    _task(
        "vdo_file_send_path",
        "file",
        "Send a file from a path on this machine to one peer.",
        file_path=NAME,
        **_SENDING,
    ),
    _task(
        "vdo_file_resume",
        "file",
        "Go on with a transfer that was interrupted; only what is missing is sent.",
        transfer_id=NAME,
        target=TARGET,
        start_seq=Argument(_COUNT, None),
        ack_timeout_ms=ACK_TIMEOUT,
        max_retries=RETRIES,
    ),
    _tool(
        "vdo_file_transfers",
        "file",
        "List the transfers of a session.",
        direction=_one_of(
            "incoming",
            "outgoing",
            "all",
            default="all",
            refusal="direction must be incoming, outgoing, or all",
        ),
    ),
    _tool(
        "vdo_file_receive",
        "file",
        "Read a file that has arrived, as base64, text or JSON.",
        transfer_id=NAME,
        encoding=_one_of("base64", "utf8", "json", others=("text",), refusal="unsupported encoding: {}"),
    ),
    _tool(
        "vdo_file_save",
        "file",
        "Save a file that has arrived to a path on this machine.",
        transfer_id=NAME,
        output_path=NAME,
        overwrite=FLAG,
    ),
    _tool(
        "vdo_state_set",
        "state",
        "Set a key of the state that all peers share.",
        key=NAME,
        value=Argument({}, read.or_unset),  # without a value it is a deleted key
        broadcast=Argument(_FLAG, read.flag(default=True)),
        target=TARGET,
        uuid=UUID,
    ),
    _tool(
        "vdo_state_get",
        "state",
        "Read one key of the shared state, or all of it.",
        key=TEXT,
        include_meta=FLAG,
    ),
    _tool(
        "vdo_state_sync",
        "state",
        "Ask peers for their state, or send them ours.",
        mode=_one_of("request", "send", refusal="mode must be request or send"),
        target=TARGET,
        uuid=UUID,
    ),
    _tool("vdo_file_cancel", "extended", "Cancel a transfer, in either direction.", transfer_id=NAME),
    _tool("vdo_state_delete", "extended", "Delete a key of the shared state.", key=NAME),
    _tool(
        "vdo_state_cas",
        "extended",
        "Set a key only if its entry here still has this clock; 0 means that there is none.",
        key=NAME,
        value=ANY,
        expected_clock=Argument(_COUNT, read.expected_clock, required=True),
    ),
    _tool(
        "vdo_state_watch",
        "extended",
        "Read the changes of the shared state since you last asked; wait for the first one.",
        prefix=TEXT,
        wait_ms=WAIT,
    ),
    _task(
        "vdo_request",
        "extended",
        "Send data to one peer and wait for its reply.",
        data=ANY,
        target=Argument(_PEER, read.one_peer, required=True),
        timeout_ms=TIMEOUT,
    ),
    _tool(
        "vdo_reply",
        "extended",
        "Answer a request that you received, by its message id.",
        request_id=NAME,
        data=ANY,
    ),
    _tool(
        "vdo_message_status",
        "extended",
        "Show whether a message waits, was sent, stored, refused, or has expired.",
        message_id=NAME,
    ),
)

TOOLS: Final = {tool.name: tool for tool in _ROWS}


# The profiles of the `vdo_*` tools, and the answers to a name outside of them (peers 1.1, 1.2, ruling 59).


_CONTAINED: Final = {
    "core": ("core",),
    "file": ("core", "file"),
    "state": ("core", "state"),
    "full": ("core", "file", "state"),
    "extended": ("core", "file", "state", "extended"),
}
TOOLS_OF: Final = {
    profile: tuple(tool.name for tool in _ROWS if tool.profile in contained)
    for profile, contained in _CONTAINED.items()
}
PROFILES: Final = tuple(TOOLS_OF)
CONTRACT_PROFILES: Final = PROFILES[:4]


def read_profile(text: str, name: str = "--tool-profile") -> str:
    """Return the profile meant; `name` is what the person typed it as."""
    profile = text.strip().lower()
    if profile not in TOOLS_OF:
        raise ConfigError(f"{name} must be one of {', '.join(PROFILES)}, not {text[:60]!r}")
    return profile


def allowed_profiles(chosen: str) -> tuple[str, ...]:
    """Return the profiles that a client is shown: the document's four, unless it has chosen ours."""
    return PROFILES if chosen == "extended" else CONTRACT_PROFILES


def find_tool(name: str, profile: str) -> VdoTool:
    """Return the tool as this profile has it. Raise VdoToolError for one that is unknown or disabled."""
    tool = TOOLS.get(name)
    if tool is None or profile not in TOOLS_OF:
        raise VdoToolError(f"unknown tool: {name}")
    if name not in TOOLS_OF[profile]:
        raise VdoToolError(f"tool '{name}' is disabled by tool profile '{profile}'")
    return tool


GROUP: Final = "vdo"
_NO_PROFILE_NAME: Final = "none"
"""What the profile of a connection is called that was opened without these tools."""


def _profile_of(selection: Selection) -> str:
    return selection.profile if selection.admits(GROUP, None) else _NO_PROFILE_NAME


def _refuse(name: str, selection: Selection) -> ToolResult:
    error = {"type": "validation_error", "message": f"unknown tool: {name}", "tool": name}
    listed = selection.admits(GROUP, None) and name in TOOLS_OF.get(selection.profile, ())
    if name in TOOLS and selection.profile in TOOLS_OF and not listed:
        profile = "full" if name in TOOLS_OF["full"] else "extended"
        error["message"] = f"tool '{name}' is disabled by tool profile '{_profile_of(selection)}'"
        error["remedy"] = (
            f"start the server with --tool-profile {profile}, without --tools or with vdo among them"
        )
    return structured({"ok": False, "error": error}, error=True)


def _list_meta(selection: Selection) -> Json:
    if selection.profile not in TOOLS_OF:
        return {}
    if not selection.admits(GROUP, None):
        return {"tool_profile": _NO_PROFILE_NAME}
    return {
        "tool_profile": selection.profile,
        "requested_tool_profile": selection.profile,
        "allowed_tool_profiles": list(allowed_profiles(selection.profile)),
    }


VDO_TOOLS: Final = Namespace("vdo_", _refuse, _list_meta)


class Demands(Struct, frozen=True, kw_only=True):
    """What a node or a connection demands of peers that join its sessions. No stream ids named: every peer may join. The
    secret is what join tokens are made and checked with; an empty one is none.
    """

    join_token_secret: str | None = None
    enforce_join_token: bool = False
    require_session_mac: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()

    @property
    def hello_first(self) -> bool:
        """Whether messages of a peer count only after its hello has passed."""
        return self.enforce_join_token or self.require_session_mac or bool(self.allow_peer_stream_ids)

    def check(self) -> None:
        if self.enforce_join_token and not self.join_token_secret:
            raise ConfigError("--enforce-join-token needs a --join-token-secret to check tokens with")

    def tightened(self, more: "Demands") -> "Demands":
        """Both sets at once: what either demands is demanded (ruling 29)."""
        allowed = self.allow_peer_stream_ids or more.allow_peer_stream_ids
        if self.allow_peer_stream_ids and more.allow_peer_stream_ids:
            allowed = tuple(name for name in allowed if name in more.allow_peer_stream_ids)
            if not allowed:
                raise ForbiddenError("no peer is allowed by both the node and this connection")
        mine, theirs = self.join_token_secret, more.join_token_secret
        if mine and theirs and mine != theirs:
            raise ForbiddenError(
                "the node checks join tokens with another secret; leave --join-token-secret out"
            )
        return Demands(
            join_token_secret=mine or theirs or None,
            enforce_join_token=self.enforce_join_token or more.enforce_join_token,
            require_session_mac=self.require_session_mac or more.require_session_mac,
            allow_peer_stream_ids=allowed,
        )

    def are_met_by(self, session: "Demands") -> bool:
        """Return whether a session demands at least as much."""
        if self.enforce_join_token and not session.enforce_join_token:
            return False
        if self.require_session_mac and not session.require_session_mac:
            return False
        if not self.allow_peer_stream_ids:
            return True
        allowed = session.allow_peer_stream_ids
        return bool(allowed) and set(allowed) <= set(self.allow_peer_stream_ids)
