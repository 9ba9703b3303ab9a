"""What a client is told of the `vdo_*` tools and their arguments beside their names and schemas: titles, hints, descriptions.

Names and schemas are the contract's; the words are ours, and short, because a profile has to fit a list.
"""

from collections.abc import Mapping
from typing import Any, Final

TITLES: Final = {
    "vdo_connect": "Join a room",
    "vdo_send": "Send a message",
    "vdo_receive": "Read new events",
    "vdo_status": "Show a session",
    "vdo_disconnect": "Leave a room",
    "vdo_list_sessions": "List sessions",
    "vdo_capabilities": "Show what this server can do",
    "vdo_sync_peers": "List peers",
    "vdo_sync_announce": "Greet peers again",
    "vdo_file_send": "Send a file from base64",
    "vdo_file_send_path": "Send a file from a path",
    "vdo_file_resume": "Continue a transfer",
    "vdo_file_transfers": "List transfers",
    "vdo_file_receive": "Read a received file",
    "vdo_file_save": "Save a received file",
    "vdo_state_set": "Set shared data",
    "vdo_state_get": "Read shared data",
    "vdo_state_sync": "Exchange shared data",
    "vdo_file_cancel": "Cancel a transfer",
    "vdo_state_delete": "Delete shared data",
    "vdo_state_cas": "Set shared data if unchanged",
    "vdo_state_watch": "Read changes of shared data",
    "vdo_request": "Ask a peer and wait",
    "vdo_reply": "Answer a request",
    "vdo_message_status": "Show the state of a message",
}

_READS: Final = frozenset(
    {
        "vdo_status",
        "vdo_list_sessions",
        "vdo_capabilities",
        "vdo_sync_peers",
        "vdo_file_transfers",
        "vdo_file_receive",
        "vdo_state_get",
        "vdo_message_status",
    }
)
_DESTROYS: Final = frozenset(
    {
        "vdo_disconnect",
        "vdo_file_save",
        "vdo_file_cancel",
        "vdo_state_set",
        "vdo_state_delete",
        "vdo_state_cas",
    }
)
"""They end, delete or overwrite something. `vdo_receive` and `vdo_state_watch` move a cursor, so they do not only read."""
_REPEATABLE: Final = frozenset(
    {"vdo_state_set", "vdo_state_delete", "vdo_state_sync", "vdo_sync_announce", "vdo_file_resume"}
)
_CLOSED: Final = _READS | {"vdo_receive", "vdo_state_watch", "vdo_file_save"}
"""They speak to nobody."""

_WORDS: Final = {
    "session_id": "the session, from vdo_connect",
    "room": "a room's name, or an invite line",
    "stream_id": "your own name in the room; default: a new one",
    "target_stream_id": "join only this peer; default: all",
    "host": "ws:// or wss:// address of the signalling; default: this node's",
    "password": "encrypts the signalling; false: not encrypted",
    "force_turn": "connect through TURN only",
    "heartbeat_ms": "time between heartbeats; default 15000",
    "reconnect_ms": "first wait before a reconnect; default 3000",
    "max_reconnect_ms": "longest wait before a reconnect; default 30000",
    "label": "what peers are shown as your name",
    "debug": "without effect",
    "join_token": "proves that you may join; default: made from the secret",
    "join_token_secret": "makes and checks join tokens",
    "join_token_ttl_ms": "how long your join token lasts; default 600000",
    "enforce_join_token": "refuse peers without a valid join token",
    "allow_peer_stream_ids": "admit only these peers; default: all",
    "file_chunk_bytes": "size of a chunk of a file",
    "file_max_bytes": "largest file taken; default 67108864",
    "file_ack_timeout_ms": "wait for the receipt of a chunk; default 1200",
    "file_max_retries": "how often a chunk is sent again; default 6",
    "require_session_mac": "drop messages without a valid MAC",
    "file_spool_dir": "a folder for large files, inside an allowed one",
    "file_spool_threshold_bytes": "files from this size go to the folder; default 4194304",
    "keep_spool_files": "keep these files after the session",
    "state_max_keys": "most keys of shared data; default 2048",
    "state_max_snapshot_entries": "most entries of a snapshot; default 4096",
    "data": "any JSON",
    "target": "a peer, by stream id or uuid; default: all peers",
    "uuid": "a peer, by its uuid",
    "signed": "sign it as this node, with a place in the chain of the pair",
    "max_events": "most events to return; default 50",
    "wait_ms": "wait so long for the first one; default 0",
    "data_base64": "the file in base64",
    "file_path": "a file in `shared` or in the client's folder",
    "name": "the name that the peer is shown",
    "mime": "its media type",
    "transfer_id": "the id of the transfer",
    "chunk_bytes": "size of a chunk",
    "timeout_ms": "how long to wait for the end; default 60000",
    "ack_timeout_ms": "wait for the receipt of a chunk",
    "max_retries": "how often a chunk is sent again",
    "start_seq": "without effect: only missing chunks are sent",
    "direction": "which transfers; default all",
    "encoding": "how the content is returned; default base64",
    "output_path": "where to: in `shared` or in the client's folder",
    "overwrite": "replace a file that is there",
    "key": "the key",
    "value": "any JSON",
    "broadcast": "tell peers; default true",
    "include_meta": "also who set it, and its clock",
    "mode": "request: ask for theirs; send: send ours",
    "expected_clock": "the clock of the entry; 0: none is there",
    "prefix": "only keys that begin so",
    "request_id": "the message_id of the request",
    "message_id": "from the result of vdo_send",
}
_OF_TOOL: Final = {
    ("vdo_file_send", "transfer_id"): "an id of your choice; default: a new one",
    ("vdo_file_send_path", "transfer_id"): "an id of your choice; default: a new one",
    ("vdo_file_send", "target"): "the peer, by stream id or uuid",
    ("vdo_file_send_path", "target"): "the peer, by stream id or uuid",
    ("vdo_file_resume", "target"): "the peer, by stream id or uuid",
    ("vdo_request", "target"): "the peer, by stream id or uuid",
    ("vdo_request", "timeout_ms"): "how long to wait for the reply; default 60000",
    ("vdo_state_get", "key"): "the key; default: all",
    ("vdo_state_set", "value"): "any JSON; without it the key is deleted",
}


def annotations(name: str) -> dict[str, bool]:
    reads = name in _READS
    return {
        "readOnlyHint": reads,
        "destructiveHint": name in _DESTROYS,
        "idempotentHint": reads or name in _REPEATABLE,
        "openWorldHint": name not in _CLOSED,
    }


def with_descriptions(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input schema of a tool with a description of each argument."""
    properties = {
        argument: {**one, "description": _OF_TOOL.get((name, argument)) or _WORDS[argument]}
        for argument, one in schema["properties"].items()
    }
    return {**schema, "properties": properties}
