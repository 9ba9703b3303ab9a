"""The answers of the `vdo_*` tools (peers 1): payloads with the members of the contract, in its order."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final

from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.files import DEFAULT_CHUNK
from comity.rooms.protocol.session import RoomSession
from comity.rooms.protocol.shared_data import SharedState, StateEntry
from comity.rooms.protocol.tool_arguments import VdoToolError, fault_type
from comity.rooms.protocol.tool_table import TOOLS_OF, allowed_profiles
from comity.wire import strict_json
from comity.wire.errors import MalformedError

_TRANSPORT: Final = {
    "type": "webrtc_data_channel",
    "generic_tcp_tunnel": False,
    "turn_relays_help_reachability": True,
    "guaranteed_firewall_bypass": False,
    "reliability": "SCTP data channels + MCP file ACK/retry/resume",
}


def failed_payload(tool: str | None, message: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": fault_type(message), "message": message}
    if tool is not None:
        error["tool"] = tool
    return {"ok": False, "error": error}


def capabilities_payload(
    *, name: str, version: str, protocol_version: str, supported: Sequence[str], profile: str
) -> dict[str, Any]:
    tools = TOOLS_OF[profile]
    return {
        "ok": True,
        "server": {
            "name": name,
            "version": version,
            "protocol_version": protocol_version,
            "supported_protocol_versions": list(supported),
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
        "transport_truth": dict(_TRANSPORT),
    }


def effective_config(options: SessionOptions) -> dict[str, Any]:
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


def connected_payload(session: RoomSession) -> dict[str, Any]:
    return {"ok": True, **session.status(), "effective_config": effective_config(session.options)}


def status_payload(session: RoomSession, now: float) -> dict[str, Any]:
    return {"ok": True, **session.status(), "sync_peers": session.sync_peers(now)}


def sessions_payload(sessions: Iterable[RoomSession]) -> dict[str, Any]:
    return {"ok": True, "sessions": [session.status() for session in sessions]}


def session_payload(session_id: str, **members: Any) -> dict[str, Any]:
    return {"ok": True, "session_id": session_id, **members}


def sent_payload(session_id: str, result: dict[str, Any]) -> dict[str, Any]:
    """Of `send`, `announce`, `sync_state` and `reply`: what they gave, with the session after `ok`."""
    return {"ok": result["ok"], "session_id": session_id, **{k: v for k, v in result.items() if k != "ok"}}


def events_payload(session_id: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ok": True, "session_id": session_id, "event_count": len(events), "events": events}


def peers_payload(session: RoomSession, now: float) -> dict[str, Any]:
    peers = session.sync_peers(now)
    return session_payload(session.session_id, peer_count=len(peers), peers=peers)


def transfers_payload(session: RoomSession, direction: str) -> dict[str, Any]:
    incoming = [one.summary() for one in session.files.incoming.values()] if direction != "outgoing" else []
    outgoing = [one.summary() for one in session.files.outgoing.values()] if direction != "incoming" else []
    return session_payload(
        session.session_id,
        direction=direction,
        incoming_count=len(incoming),
        outgoing_count=len(outgoing),
        incoming=incoming,
        outgoing=outgoing,
    )


def completed_transfer(session: RoomSession, transfer_id: str) -> dict[str, Any]:
    """The summary of an incoming file that is complete, or the contract's refusal."""
    incoming = session.files.incoming.get(transfer_id)
    if incoming is None:
        raise VdoToolError(f"unknown transfer_id: {transfer_id}")
    if incoming.status != "completed":
        raise VdoToolError(f"transfer not complete: {transfer_id}")
    return incoming.summary()


def received_payload(session_id: str, summary: dict[str, Any], encoding: str, data: bytes) -> dict[str, Any]:
    transfer_id = summary["transfer_id"]
    shown: dict[str, Any] = {"data_base64": None, "data_text": None, "data_json": None}
    if encoding == "base64":
        shown["data_base64"] = base64.b64encode(data).decode()
    elif encoding == "json":
        shown["data_json"] = _json(data)
    else:
        shown["data_text"] = data.decode(errors="replace")
    return session_payload(session_id, transfer_id=transfer_id, transfer=summary, encoding=encoding, **shown)


def saved_payload(
    session_id: str, summary: dict[str, Any], output_path: str, bytes_written: int
) -> dict[str, Any]:
    return session_payload(
        session_id,
        transfer_id=summary["transfer_id"],
        transfer=summary,
        output_path=output_path,
        bytes_written=bytes_written,
    )


def state_payload(
    session_id: str, state: SharedState, key: str | None, *, include_meta: bool
) -> dict[str, Any]:
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


def changes_payload(session_id: str, entries: list[StateEntry]) -> dict[str, Any]:
    shown = [{**entry.to_json(), **({"deleted": True} if entry.is_deleted else {})} for entry in entries]
    return session_payload(session_id, change_count=len(shown), changes=shown)


def message_status_payload(
    session_id: str, message_id: str, status: tuple[str, str | None] | None
) -> dict[str, Any]:
    if status is None:
        raise VdoToolError(f"invalid message_id: {message_id[:128]} is not known here")
    word, reason = status
    return session_payload(session_id, message_id=message_id, status=word, reason=reason)


def _json(data: bytes) -> Any:
    try:
        value = strict_json.loads(data, lone_surrogates=True)
    except MalformedError:
        value = None
    if value is None:
        raise VdoToolError("completed transfer payload is not valid JSON")
    return value
