"""What `vdo_connect` opens, and the answers of the `vdo_*` tools (peers 1): payloads with the members of the contract,
in its order. What a connection demands can only become stricter by a call.
"""

import base64
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.rooms.protocol import hello
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.files import DEFAULT_CHUNK
from comity.rooms.protocol.invite import Invite, is_invite, read_invite
from comity.rooms.protocol.loose_values import is_stream_id, sanitize_id, trim
from comity.rooms.protocol.membership import Membership
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.shared_data import SharedState
from comity.rooms.protocol.tool_arguments import Json, VdoToolError, fault_type
from comity.rooms.protocol.tool_table import TOOLS_OF, Demands, allowed_profiles
from comity.rooms.protocol.transfers import FileLimits, SendOptions
from comity.wire import strict_json
from comity.wire.errors import ComityError, MalformedError
from comity.wire.machine import clock_words


class ConnectDefaults(Struct, frozen=True, kw_only=True):
    """What the node or the connection decides where the call says nothing. `stream_suffix`: 8 hex digits."""

    host: str
    stream_suffix: str
    demands: Demands = Demands()


def connect_options(
    arguments: Json, defaults: ConnectDefaults, now_ms: float, own: Invite | None = None
) -> tuple[SessionOptions, Invite | None]:
    """Return the options of a new session, and the invite that `room` was, if it was one. `own`: of a room that this node
    has invited to.
    """
    given = arguments["room"]
    invite = own or (_read_invite(given, now_ms) if is_invite(given) else None)
    room = invite.room if invite is not None else sanitize_id(given)
    if not room:
        raise VdoToolError("room is required")
    stream_id = arguments["stream_id"] or f"mcp_bridge_{defaults.stream_suffix}"
    viewed = arguments["target_stream_id"]
    for name in ("stream_id", "target_stream_id"):
        if arguments[name] is not None and not is_stream_id(arguments[name]):
            raise VdoToolError(f"invalid {name}: it has at most 64 letters, digits and _")
    demands = _demands(arguments, defaults.demands, invite)
    options = SessionOptions(
        room=room,
        stream_id=stream_id,
        host=_host(arguments["host"], defaults.host) if invite is None else invite.meeting_places()[0].url,
        target_stream_id=None if viewed == stream_id else viewed,
        password=invite.password if invite is not None else _password(arguments["password"]),
        label=arguments["label"] or "mcp_bridge",
        demands=demands,
        latest_exp=None if invite is None or invite.id is not None else invite.exp,
        membership=_membership(invite),
        files=FileLimits(
            chunk_bytes=arguments["file_chunk_bytes"],
            max_bytes=arguments["file_max_bytes"],
            ack_timeout=arguments["file_ack_timeout_ms"] / 1000,
            max_retries=arguments["file_max_retries"],
            spool_threshold=arguments["file_spool_threshold_bytes"],
        ),
        **{name: arguments[name] for name in _AS_READ},
    )
    if options.join_token is not None and demands.join_token_secret:
        try:
            hello.check_own(
                options.join_token, demands.join_token_secret, room=room, stream_id=stream_id, now_ms=now_ms
            )
        except hello.JoinTokenError as why:
            clocks = ""
            if why.expired is not None:
                until, now = clock_words(why.expired // 1000), clock_words(now_ms // 1000)
                clocks = f": it lasted until {until}, the clock of this machine says {now}"
            raise VdoToolError(why.message + clocks) from None
    return options, invite


_AS_READ: Final = (
    "force_turn",
    "heartbeat_ms",
    "reconnect_ms",
    "max_reconnect_ms",
    "join_token",
    "join_token_ttl_ms",
    "file_spool_dir",
    "keep_spool_files",
    "state_max_keys",
    "state_max_snapshot_entries",
)


def _read_invite(text: Any, now_ms: float) -> Invite:
    try:
        invite = read_invite(text)
        invite.check(now_ms)
    except ComityError as why:
        raise VdoToolError(f"invalid invite: {why.message}") from None
    return invite


def _membership(invite: Invite | None) -> Membership | None:
    if invite is None or invite.id is None:
        return None
    return Membership(
        host=invite.id,
        n=invite.n,
        secret=invite.secret,
        exp=invite.exp,
        addrs=invite.addrs,
        pin=invite.pin,
    )


def _demands(arguments: Json, base: Demands, invite: Invite | None) -> Demands:
    more = Demands(
        join_token_secret=arguments["join_token_secret"],
        enforce_join_token=arguments["enforce_join_token"],
        require_session_mac=arguments["require_session_mac"],
        allow_peer_stream_ids=_stream_ids(arguments["allow_peer_stream_ids"]),
    )
    if invite is not None:
        # ruling 62: the secret of the invite goes before any configured one
        base = replace(
            base, join_token_secret=invite.secret, enforce_join_token=True, require_session_mac=True
        )
        more = replace(more, join_token_secret=None)
    try:
        demands = base.tightened(more)
    except ComityError as why:
        raise VdoToolError(why.message) from None
    if demands.enforce_join_token and not demands.join_token_secret:
        raise VdoToolError("join_token_secret is required to enforce join tokens")
    return demands


def _stream_ids(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list):
        raise VdoToolError("invalid allow_peer_stream_ids: it must be a list of stream ids")
    found = tuple(name for name in map(sanitize_id, names[:1000]) if name is not None)
    if names and not found and any(name not in ("", None) for name in names):
        raise VdoToolError("invalid allow_peer_stream_ids: none of them is a stream id")
    return found


def _host(host: Any, default: str) -> str:
    if host is None:
        return default
    if not isinstance(host, str):
        raise VdoToolError("host must be a string")
    address = trim(host)
    if not address:
        return default
    if not address.startswith(("ws://", "wss://")) or any(ord(letter) <= 32 for letter in address):
        raise VdoToolError("invalid host: it must be a ws:// or wss:// address")
    return address


def _password(password: Any) -> str | bool | None:
    """False: no encryption; None: the default of the signalling."""
    if password in (False, "false"):
        return False
    if password is None or password is True or password in ("true", ""):
        return None
    if not isinstance(password, str):
        raise VdoToolError("invalid password: it must be a string or false")
    return password


def send_options(arguments: Json, fresh_id: str, default_name: str | None = None) -> SendOptions:
    """`fresh_id` is used when the call names no transfer: `file_` and 8 hex digits."""
    return SendOptions(
        transfer_id=arguments["transfer_id"] or fresh_id,
        name=arguments["name"] or default_name,
        mime=arguments["mime"],
        chunk_bytes=arguments["chunk_bytes"],
        ack_timeout=in_seconds(arguments["ack_timeout_ms"]),
        max_retries=arguments["max_retries"],
    )


def in_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_TRANSPORT: Final = {
    "type": "webrtc_data_channel",
    "generic_tcp_tunnel": False,
    "turn_relays_help_reachability": True,
    "guaranteed_firewall_bypass": False,
    "reliability": "SCTP data channels + MCP file ACK/retry/resume",
}

_WITHOUT_WEBRTC: Final = {
    "type": "websocket",
    "turn_relays_help_reachability": False,
    "reliability": "WebSocket + MCP file ACK/retry/resume",
}


def failed_payload(tool: str | None, message: str) -> Json:
    error: Json = {"type": fault_type(message), "message": message}
    if tool is not None:
        error["tool"] = tool
    return {"ok": False, "error": error}


def capabilities_payload(version: str, protocols: Sequence[str], profile: str, *, webrtc: bool) -> Json:
    """`protocols`: the versions of MCP, the latest last. `webrtc`: whether a library for it is installed."""
    tools = TOOLS_OF[profile]
    return {
        "ok": True,
        "server": {
            "name": "comity",
            "version": version,
            "protocol_version": protocols[-1],
            "supported_protocol_versions": list(protocols),
        },
        "tool_profile": {
            "name": profile,
            "requested": profile,
            "allowed_profiles": list(allowed_profiles(profile)),
            "tools": list(tools),
        },
        "features": {
            "session_messaging": True,
            "file_transfer": "vdo_file_send" in tools,
            "shared_state_sync": "vdo_state_set" in tools,
        },
        "transport_truth": {**_TRANSPORT, **({} if webrtc else _WITHOUT_WEBRTC)},
    }


def effective_config(options: SessionOptions) -> Json:
    files, demands = options.files, options.demands
    spool = {} if options.file_spool_dir is None else {"file_spool_dir": options.file_spool_dir}
    return {
        "host": options.host,
        "room": options.room,
        "stream_id": options.stream_id,
        "target_stream_id": options.target_stream_id,
        "force_turn": options.force_turn,
        "heartbeat_ms": options.heartbeat_ms,
        "reconnect_ms": options.reconnect_ms,
        "max_reconnect_ms": options.max_reconnect_ms,
        "enforce_join_token": demands.enforce_join_token,
        "allow_peer_stream_ids": list(demands.allow_peer_stream_ids),
        "file_chunk_bytes": files.chunk_bytes or DEFAULT_CHUNK,
        "file_max_bytes": files.max_bytes,
        "file_ack_timeout_ms": round(files.ack_timeout * 1000),
        "file_max_retries": files.max_retries,
        "require_session_mac": demands.require_session_mac,
        **spool,
        "file_spool_threshold_bytes": files.spool_threshold,
        "keep_spool_files": options.keep_spool_files,
        "state_max_keys": options.state_max_keys,
        "state_max_snapshot_entries": options.state_max_snapshot_entries,
    }


def room_notice(session: RoomSession, peers: list[Json], streams: set[str], *, own_relay: bool) -> str | None:
    """Return what who connects should know: whether nobody is there, and what to do then. `peers` are as `sync_peers`
    shows them, `streams` the stream ids of the others at the relay.
    """
    options, others = session.options, streams - {session.options.stream_id}
    if session.connection_state != "connected":
        return f"the relay {options.host} was not reached yet; the session tries again by itself"
    if options.stream_id in streams:
        return (
            f"the stream id {options.stream_id} is taken: another peer of the room {options.room} has it, so others may "
            "refuse this session. End it, and connect with another stream_id"
        )
    if session.present:
        return None
    refusals = [f"{one['stream_id']}: {one['rejected_reason']}" for one in peers if one["rejected_reason"]]
    if refusals:
        return f"no peer is connected, because of a refusal ({'; '.join(refusals[:4])})"
    if others:
        return (
            f"no peer is connected yet; in the room {options.room}: {', '.join(sorted(others)[:8])}. A connection can take "
            "some seconds; vdo_sync_peers shows it"
        )
    alone = f"you are alone in the room {options.room}: nobody else is here"
    if not own_relay or options.latest_exp is not None:
        return f"{alone} yet. Who joins with the same invite appears in vdo_receive"
    return (
        f"{alone}, and on another machine nobody gets here by the name of the room. Let the user run "
        f"`comity room invite {options.room}` and send the line to the other side, or connect with the line that the other "
        "side has made, as room"
    )


def session_payload(session_id: str, **members: Any) -> Json:
    return {"ok": True, "session_id": session_id, **members}


def sent_payload(session_id: str, result: Json) -> Json:
    """Of `send`, `announce`, `sync_state` and `reply`: what they gave, with the session after `ok`."""
    return {"ok": result["ok"], "session_id": session_id, **{k: v for k, v in result.items() if k != "ok"}}


def events_payload(session_id: str, events: list[Json]) -> Json:
    return {"ok": True, "session_id": session_id, "event_count": len(events), "events": events}


def completed_transfer(session: RoomSession, transfer_id: str) -> Json:
    """Return the summary of an incoming file that is complete, or the contract's refusal."""
    incoming = session.files.incoming.get(transfer_id)
    if incoming is None:
        raise VdoToolError(f"unknown transfer_id: {transfer_id}")
    if incoming.status != "completed":
        raise VdoToolError(f"transfer not complete: {transfer_id}")
    return incoming.summary()


def received_payload(session_id: str, summary: Json, encoding: str, data: bytes) -> Json:
    transfer_id = summary["transfer_id"]
    shown: Json = {"data_base64": None, "data_text": None, "data_json": None}
    if encoding == "base64":
        shown["data_base64"] = base64.b64encode(data).decode()
    elif encoding == "json":
        shown["data_json"] = _json(data)
    else:
        shown["data_text"] = data.decode(errors="replace")
    return session_payload(session_id, transfer_id=transfer_id, transfer=summary, encoding=encoding, **shown)


def state_payload(session_id: str, state: SharedState, key: str | None, *, include_meta: bool) -> Json:
    value: Any
    if key is not None:
        entry = state.entry(key)
        if include_meta:
            value = None if entry is None else entry.to_json()
        else:
            value = None if entry is None or entry.is_deleted else entry.value
    elif include_meta:
        entries = [entry.to_json() for entry in state.entries()]
        value = {"entries": entries, "actor_clock": state.actor_clock}
    else:
        value = state.values()
    return session_payload(session_id, key=key, include_meta=include_meta, value=value)


def _json(data: bytes) -> Any:
    try:
        value = strict_json.loads(data, lone_surrogates=True)
    except MalformedError:
        value = None
    if value is None:
        raise VdoToolError("completed transfer payload is not valid JSON")
    return value
