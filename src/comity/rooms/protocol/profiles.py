"""The profiles of the `vdo_*` tools, and the answers to a name outside of them (peers 1.1, 1.2, ruling 59)."""

from typing import Final

from comity.mcp.protocol.catalog import Namespace, Selection
from comity.mcp.protocol.results import Json, ToolResult, structured
from comity.wire.errors import ConfigError

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
