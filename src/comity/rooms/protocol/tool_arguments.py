"""The arguments of the `vdo_*` tools: read leniently where the contract is lenient, refused in its own words.

A refusal is a `VdoToolError`; whether it counts as a `validation_error` or a `tool_error` is decided by its text, as
the contract has it (peers 1.1). What a connection demands can only become stricter here.
"""

import base64
import binascii
import re
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from comity.rooms.protocol import hello
from comity.rooms.protocol.effects import SessionOptions
from comity.rooms.protocol.files import MAX_CHUNK, MAX_FILE_BYTES, MIN_CHUNK
from comity.rooms.protocol.invite import Invite, is_invite, read_invite
from comity.rooms.protocol.loose_values import read_boolean, read_integer, sanitize_id, trim
from comity.rooms.protocol.tool_table import Demands, schema_of
from comity.rooms.protocol.transfers import FileLimits, SendOptions
from comity.wire.errors import ComityError, InvalidError

DIRECTIONS: Final = ("incoming", "outgoing", "all")
MODES: Final = ("request", "send")
ENCODINGS: Final = ("base64", "utf8", "text", "json")
_VALIDATION: Final = (
    "required",
    "unsupported fields",
    "must be an object",
    "invalid",
    "unknown session_id",
    "unknown transfer_id",
    "ambiguous target",
    "unknown tool",
    "disabled by tool profile",
)
_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")


class VdoToolError(InvalidError):
    """A `vdo_*` tool refuses, in the words of the contract where it has some."""

    code = "vdo_tool"


def fault_type(message: str) -> str:
    words = message.lower()
    return "validation_error" if any(word in words for word in _VALIDATION) else "tool_error"


def checked_fields(tool: str, arguments: Any, profile: str) -> dict[str, Any]:
    """The arguments, if they are an object with no other names than those of the tool."""
    if arguments is None:
        arguments = {}
    if type(arguments) is not dict:
        raise VdoToolError(f"{tool} arguments must be an object")
    known = schema_of(tool, profile)["properties"]
    unknown = [name for name in arguments if name not in known]
    if unknown:
        raise VdoToolError(f"{tool} received unsupported fields: {', '.join(unknown)[:500]}")
    return arguments


def flag_of(arguments: dict[str, Any], name: str, *, default: bool = False) -> bool:
    value = read_boolean(arguments.get(name))
    return default if value is None else value


def text_of(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not trim(value):
        raise VdoToolError(f"{name} is required")
    return trim(value)


def optional_text_of(arguments: dict[str, Any], name: str) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise VdoToolError(f"invalid {name}: it must be a string")
    return trim(value) or None


def target_of(arguments: dict[str, Any]) -> Any:
    """A text, an object or None. A uuid is a target as well."""
    target, uuid = arguments.get("target"), arguments.get("uuid")
    if target is not None and uuid is not None:
        raise VdoToolError("provide target or uuid, not both")
    if target is not None and not isinstance(target, str | dict):
        raise VdoToolError("invalid target: it must be a string or an object")
    if uuid is not None and not isinstance(uuid, str):
        raise VdoToolError("invalid uuid: it must be a string")
    return target or uuid or None


def data_of(arguments: dict[str, Any], name: str = "data") -> Any:
    """Any JSON, null included; only the key has to be there."""
    if name not in arguments:
        raise VdoToolError(f"{name} is required")
    return arguments[name]


class ConnectDefaults(Struct, frozen=True, kw_only=True):
    """What the node or the connection decides where the call says nothing. `stream_suffix`: 8 hex digits."""

    host: str
    stream_suffix: str
    demands: Demands = Demands()


def read_connect(
    arguments: dict[str, Any], defaults: ConnectDefaults, now_ms: float
) -> tuple[SessionOptions, Invite | None]:
    """The options of a new session, and the invite that `room` was, if it was one."""
    given = arguments.get("room")
    invite = _read_invite(given, now_ms) if is_invite(given) else None
    room = invite.room if invite is not None else sanitize_id(given)
    if not room:
        raise VdoToolError("room is required")
    stream_id = sanitize_id(arguments.get("stream_id")) or f"mcp_bridge_{defaults.stream_suffix}"
    target = sanitize_id(arguments.get("target_stream_id"))
    demands = _demands(arguments, defaults.demands, invite)
    options = SessionOptions(
        room=room,
        stream_id=stream_id,
        host=invite.host if invite is not None else _host(arguments, defaults.host),
        target_stream_id=None if target == stream_id else target,
        password=invite.password if invite is not None else _password(arguments),
        force_turn=flag_of(arguments, "force_turn"),
        label=optional_text_of(arguments, "label") or "mcp_bridge",
        heartbeat_ms=_integer(arguments, "heartbeat_ms", 15_000, 120_000),
        reconnect_ms=_integer(arguments, "reconnect_ms", 3000, 30_000),
        max_reconnect_ms=_integer(arguments, "max_reconnect_ms", 30_000, 120_000),
        join_token=optional_text_of(arguments, "join_token"),
        join_token_ttl_ms=max(1000, _integer(arguments, "join_token_ttl_ms", 600_000, 86_400_000)),
        demands=demands,
        latest_exp=None if invite is None else invite.exp,
        files=_file_limits(arguments),
        file_spool_dir=optional_text_of(arguments, "file_spool_dir"),
        keep_spool_files=flag_of(arguments, "keep_spool_files"),
        state_max_keys=_integer(arguments, "state_max_keys", 2048, 50_000),
        state_max_snapshot_entries=_integer(arguments, "state_max_snapshot_entries", 4096, 100_000),
    )
    if options.join_token is not None and demands.join_token_secret:
        try:
            hello.check_own(
                options.join_token, demands.join_token_secret, room=room, stream_id=stream_id, now_ms=now_ms
            )
        except ComityError as why:
            raise VdoToolError(why.message) from None
    return options, invite


def max_events_of(arguments: dict[str, Any]) -> int:
    return _integer(arguments, "max_events", 50, 500)


def wait_of(arguments: dict[str, Any]) -> int:
    wait = read_integer(arguments.get("wait_ms"))
    return min(max(wait or 0, 0), 30_000)


def timeout_of(arguments: dict[str, Any]) -> int:
    """Ruling 60: how long a tool waits for its transfer or reply before it answers as things stand."""
    return _integer(arguments, "timeout_ms", 60_000, 600_000)


def read_file_bytes(arguments: dict[str, Any]) -> bytes:
    """As lenient as the reference: what is no base64 is skipped."""
    text = arguments.get("data_base64")
    if not isinstance(text, str):
        raise VdoToolError("data_base64 is required")
    letters = _BASE64.sub("", text.replace("-", "+").replace("_", "/").partition("=")[0])
    letters = letters[: len(letters) - (len(letters) % 4 == 1)]
    try:
        data = base64.b64decode(letters + "=" * (-len(letters) % 4))
    except (ValueError, binascii.Error):
        data = b""
    if not data:
        raise VdoToolError("data_base64 decoded to empty payload")
    return data


def read_sending(arguments: dict[str, Any], fresh_id: str, default_name: str | None = None) -> SendOptions:
    """`fresh_id` is used when the call names no transfer: `file_` and 8 hex digits."""
    return SendOptions(
        transfer_id=optional_text_of(arguments, "transfer_id") or fresh_id,
        name=optional_text_of(arguments, "name") or default_name,
        mime=optional_text_of(arguments, "mime"),
        chunk_bytes=_chunk(arguments, "chunk_bytes"),
        ack_timeout=ack_timeout_of(arguments),
        max_retries=max_retries_of(arguments),
    )


def ack_timeout_of(arguments: dict[str, Any]) -> float | None:
    value = read_integer(arguments.get("ack_timeout_ms"))
    return None if value is None or value < 1 else min(value, 30_000) / 1000


def max_retries_of(arguments: dict[str, Any]) -> int | None:
    value = read_integer(arguments.get("max_retries"))
    return None if value is None or value < 0 else min(value, 1000)


def direction_of(arguments: dict[str, Any]) -> str:
    direction = arguments.get("direction") or "all"
    if direction not in DIRECTIONS:
        raise VdoToolError("direction must be incoming, outgoing, or all")
    return str(direction)


def encoding_of(arguments: dict[str, Any]) -> str:
    encoding = arguments.get("encoding") or "base64"
    if encoding not in ENCODINGS:
        raise VdoToolError(f"unsupported encoding: {str(encoding)[:60]}")
    return str(encoding)


def mode_of(arguments: dict[str, Any]) -> str:
    mode = arguments.get("mode") or "request"
    if mode not in MODES:
        raise VdoToolError("mode must be request or send")
    return str(mode)


def expected_clock_of(arguments: dict[str, Any]) -> int:
    expected = arguments.get("expected_clock")
    if type(expected) is not int or expected < 0:
        raise VdoToolError("expected_clock is required: the clock of the entry that you saw, or 0 for none")
    return expected


def _read_invite(text: Any, now_ms: float) -> Invite:
    try:
        invite = read_invite(text)
        invite.check(now_ms)
    except ComityError as why:
        raise VdoToolError(f"invalid invite: {why.message}") from None
    return invite


def _demands(arguments: dict[str, Any], base: Demands, invite: Invite | None) -> Demands:
    more = Demands(
        join_token_secret=optional_text_of(arguments, "join_token_secret"),
        enforce_join_token=flag_of(arguments, "enforce_join_token"),
        require_session_mac=flag_of(arguments, "require_session_mac"),
        allow_peer_stream_ids=_stream_ids(arguments.get("allow_peer_stream_ids")),
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


def _file_limits(arguments: dict[str, Any]) -> FileLimits:
    retries = read_integer(arguments.get("file_max_retries"))
    return FileLimits(
        chunk_bytes=_chunk(arguments, "file_chunk_bytes"),
        max_bytes=_integer(arguments, "file_max_bytes", 67_108_864, MAX_FILE_BYTES),
        ack_timeout=_integer(arguments, "file_ack_timeout_ms", 1200, 30_000) / 1000,
        max_retries=6 if retries is None or retries < 0 else min(retries, 1000),
        spool_threshold=_integer(arguments, "file_spool_threshold_bytes", 4_194_304, 536_870_912),
    )


def _host(arguments: dict[str, Any], default: str) -> str:
    host = arguments.get("host")
    if host is None:
        return default
    if not isinstance(host, str):
        raise VdoToolError("host must be a string")
    host = trim(host)
    if not host:
        return default
    if not host.startswith(("ws://", "wss://")) or any(ord(letter) <= 32 for letter in host):
        raise VdoToolError("invalid host: it must be a ws:// or wss:// address")
    return host


def _password(arguments: dict[str, Any]) -> str | bool | None:
    """False: no encryption; None: the default of the signalling."""
    password = arguments.get("password")
    if password in (False, "false"):
        return False
    if password is None or password is True or password in ("true", ""):
        return None
    if not isinstance(password, str):
        raise VdoToolError("invalid password: it must be a string or false")
    return password


def _integer(arguments: dict[str, Any], name: str, default: int, most: int) -> int:
    value = read_integer(arguments.get(name))
    return default if value is None or value < 1 else min(value, most)


def _chunk(arguments: dict[str, Any], name: str) -> int | None:
    value = read_integer(arguments.get(name))
    return None if value is None or value < 1 else min(max(value, MIN_CHUNK), MAX_CHUNK)
