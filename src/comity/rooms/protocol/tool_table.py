"""The schemas and descriptions of the `vdo_*` tools (peers 1, ruling 59).

The schemas of the document's 18 tools are the contract's; the words are ours. The profile `extended` has seven
tools more, and `signed` on `vdo_send`.
"""

from typing import Any, Final

from msgspec import Struct

from comity.mcp.protocol.catalog import Namespace, Selection
from comity.mcp.protocol.results import Json, ToolResult, structured
from comity.wire.errors import ConfigError, ForbiddenError

# What a node or a connection demands of peers that join its sessions. Two sets of demands add up.


class Demands(Struct, frozen=True, kw_only=True):
    """No stream ids named: every peer may join. The secret is what join tokens are made and checked with; an
    empty one is none.
    """

    join_token_secret: str | None = None
    enforce_join_token: bool = False
    require_session_mac: bool = False
    allow_peer_stream_ids: tuple[str, ...] = ()

    @property
    def hello_first(self) -> bool:
        """Whether a peer is heard only after its hello has passed."""
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


# The profiles of the `vdo_*` tools, and the answers to a name outside of them (peers 1.1, 1.2, ruling 59).


_CORE: Final = (
    "vdo_connect",
    "vdo_send",
    "vdo_receive",
    "vdo_status",
    "vdo_disconnect",
    "vdo_list_sessions",
    "vdo_capabilities",
    "vdo_sync_peers",
    "vdo_sync_announce",
)
_FILE: Final = (
    "vdo_file_send",
    "vdo_file_send_path",
    "vdo_file_resume",
    "vdo_file_transfers",
    "vdo_file_receive",
    "vdo_file_save",
)
_STATE: Final = ("vdo_state_set", "vdo_state_get", "vdo_state_sync")
_EXTENDED: Final = (
    "vdo_file_cancel",
    "vdo_state_delete",
    "vdo_state_cas",
    "vdo_state_watch",
    "vdo_request",
    "vdo_reply",
    "vdo_message_status",
)

TOOLS_OF: Final = {
    "core": _CORE,
    "file": (*_CORE, *_FILE),
    "state": (*_CORE, *_STATE),
    "full": (*_CORE, *_FILE, *_STATE),
    "extended": (*_CORE, *_FILE, *_STATE, *_EXTENDED),
}
PROFILES: Final = tuple(TOOLS_OF)
CONTRACT_PROFILES: Final = PROFILES[:4]


def read_profile(text: str, name: str = "--tool-profile") -> str:
    """The profile meant; `name` is what the person typed it as."""
    profile = text.strip().lower()
    if profile not in TOOLS_OF:
        raise ConfigError(f"{name} must be one of {', '.join(PROFILES)}, not {text[:60]!r}")
    return profile


def allowed_profiles(chosen: str) -> tuple[str, ...]:
    """The profiles that a client is told of: the document's four, unless it has chosen ours."""
    return PROFILES if chosen == "extended" else CONTRACT_PROFILES


def profiles_with(tool: str) -> frozenset[str]:
    return frozenset(name for name, tools in TOOLS_OF.items() if tool in tools)


def validation_error(tool: str, message: str) -> ToolResult:
    error = {"type": "validation_error", "message": message, "tool": tool}
    return structured({"ok": False, "error": error}, error=True)


def _refuse(tool: str, selection: Selection) -> ToolResult:
    known = selection.profile in TOOLS_OF
    if known and tool in TOOLS_OF["extended"] and tool not in TOOLS_OF[selection.profile]:
        return validation_error(tool, f"tool '{tool}' is disabled by tool profile '{selection.profile}'")
    return validation_error(tool, f"unknown tool: {tool}")


def _list_meta(selection: Selection) -> Json:
    if selection.profile not in TOOLS_OF:
        return {}
    return {
        "tool_profile": selection.profile,
        "requested_tool_profile": selection.profile,
        "allowed_tool_profiles": list(allowed_profiles(selection.profile)),
    }


VDO_TOOLS: Final = Namespace("vdo_", _refuse, _list_meta)


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_POSITIVE: Final = {"type": "integer", "minimum": 1}
_COUNT: Final = {"type": "integer", "minimum": 0}
_CHUNK: Final = {"type": "integer", "minimum": 1024}
_TARGET: Final = {"oneOf": [_TEXT, {"type": "object"}]}
_WAIT: Final = {"type": "integer", "minimum": 0, "maximum": 30_000}


def _object(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return {**schema, "additionalProperties": False}


def _of_session(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    return _object(("session_id", *required), session_id=_TEXT, **properties)


_SENDING: Final = {
    "name": _TEXT,
    "mime": _TEXT,
    "target": _TARGET,
    "uuid": _TEXT,
    "transfer_id": _TEXT,
    "chunk_bytes": _CHUNK,
    "timeout_ms": _POSITIVE,
    "ack_timeout_ms": _POSITIVE,
    "max_retries": _COUNT,
}

TOOL_SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "vdo_connect": _object(
        ("room",),
        room=_TEXT,
        stream_id=_TEXT,
        target_stream_id=_TEXT,
        host=_TEXT,
        password={"oneOf": [_TEXT, _FLAG]},
        force_turn=_FLAG,
        heartbeat_ms=_POSITIVE,
        reconnect_ms=_POSITIVE,
        max_reconnect_ms=_POSITIVE,
        label=_TEXT,
        debug=_FLAG,
        join_token=_TEXT,
        join_token_secret=_TEXT,
        join_token_ttl_ms={"type": "integer", "minimum": 1000},
        enforce_join_token=_FLAG,
        allow_peer_stream_ids={"type": "array", "items": _TEXT},
        file_chunk_bytes=_CHUNK,
        file_max_bytes=_POSITIVE,
        file_ack_timeout_ms=_POSITIVE,
        file_max_retries=_COUNT,
        require_session_mac=_FLAG,
        file_spool_dir=_TEXT,
        file_spool_threshold_bytes=_POSITIVE,
        keep_spool_files=_FLAG,
        state_max_keys=_POSITIVE,
        state_max_snapshot_entries=_POSITIVE,
    ),
    "vdo_send": _of_session(("data",), data={}, target=_TARGET, uuid=_TEXT),
    "vdo_receive": _of_session(max_events=_POSITIVE, wait_ms=_WAIT),
    "vdo_status": _of_session(),
    "vdo_disconnect": _of_session(),
    "vdo_list_sessions": _object(),
    "vdo_capabilities": _object(),
    "vdo_sync_peers": _of_session(),
    "vdo_sync_announce": _of_session(target=_TARGET, uuid=_TEXT),
    "vdo_file_send": _of_session(("data_base64",), data_base64=_TEXT, **_SENDING),
    "vdo_file_send_path": _of_session(("file_path",), file_path=_TEXT, **_SENDING),
    "vdo_file_resume": _of_session(
        ("transfer_id",),
        transfer_id=_TEXT,
        target=_TARGET,
        start_seq=_COUNT,
        ack_timeout_ms=_POSITIVE,
        max_retries=_COUNT,
    ),
    "vdo_file_transfers": _of_session(direction={"type": "string", "enum": ["incoming", "outgoing", "all"]}),
    "vdo_file_receive": _of_session(
        ("transfer_id",), transfer_id=_TEXT, encoding={"type": "string", "enum": ["base64", "utf8", "json"]}
    ),
    "vdo_file_save": _of_session(
        ("transfer_id", "output_path"), transfer_id=_TEXT, output_path=_TEXT, overwrite=_FLAG
    ),
    "vdo_state_set": _of_session(("key",), key=_TEXT, value={}, broadcast=_FLAG, target=_TARGET, uuid=_TEXT),
    "vdo_state_get": _of_session(key=_TEXT, include_meta=_FLAG),
    "vdo_state_sync": _of_session(
        mode={"type": "string", "enum": ["request", "send"]}, target=_TARGET, uuid=_TEXT
    ),
    "vdo_file_cancel": _of_session(("transfer_id",), transfer_id=_TEXT),
    "vdo_state_delete": _of_session(("key",), key=_TEXT),
    "vdo_state_cas": _of_session(
        ("key", "value", "expected_clock"), key=_TEXT, value={}, expected_clock=_COUNT
    ),
    "vdo_state_watch": _of_session(prefix=_TEXT, wait_ms=_WAIT),
    "vdo_request": _of_session(("data", "target"), data={}, target=_TARGET, timeout_ms=_POSITIVE),
    "vdo_reply": _of_session(("request_id", "data"), request_id=_TEXT, data={}),
    "vdo_message_status": _of_session(("message_id",), message_id=_TEXT),
}

TOOL_DESCRIPTIONS: Final[dict[str, str]] = {
    "vdo_connect": "Join a room and open a session. `room` is a name, or the line that an invite gave you.",
    "vdo_send": "Send any JSON to one peer, by stream id or uuid, or to all peers.",
    "vdo_receive": "Read the events of a session that you have not read yet; wait for the first one if asked to.",
    "vdo_status": "Show the state of a session and its peers.",
    "vdo_disconnect": "Leave the room and end the session.",
    "vdo_list_sessions": "List the open sessions.",
    "vdo_capabilities": "Show what this server can do, and with which tools.",
    "vdo_sync_peers": "List the peers of a session: who they are, whether they are admitted, what they can do.",
    "vdo_sync_announce": "Greet one peer, or all peers, again now.",
    "vdo_file_send": "Send a file from base64 to one peer.",
    "vdo_file_send_path": "Send a file from a path on this machine to one peer.",
    "vdo_file_resume": "Go on with a transfer that was interrupted; only what is missing is sent.",
    "vdo_file_transfers": "List the transfers of a session.",
    "vdo_file_receive": "Read a file that has arrived, as base64, text or JSON.",
    "vdo_file_save": "Save a file that has arrived to a path on this machine.",
    "vdo_state_set": "Set a key of the state that all peers share.",
    "vdo_state_get": "Read one key of the shared state, or all of it.",
    "vdo_state_sync": "Ask peers for their state, or send them ours.",
    "vdo_file_cancel": "Cancel a transfer, in either direction.",
    "vdo_state_delete": "Delete a key of the shared state.",
    "vdo_state_cas": "Set a key only if its entry here still has this clock; 0 means that there is none.",
    "vdo_state_watch": "Read the changes of the shared state since you last asked; wait for the first one.",
    "vdo_request": "Send data to one peer and wait for its reply.",
    "vdo_reply": "Answer a request that you received, by its message id.",
    "vdo_message_status": "Show whether a message waits, was sent, stored, refused, or has expired.",
}


def schema_of(tool: str, profile: str) -> dict[str, Any]:
    """The input schema of a tool as it is listed in a profile."""
    schema = TOOL_SCHEMAS[tool]
    if tool != "vdo_send" or profile != "extended":
        return schema
    return {**schema, "properties": {**schema["properties"], "signed": _FLAG}}
