"""What each kind of act is called in plain words, for whoever watches: the page, `comity watch`, the terminal of a node."""

from typing import Final

ACT_WORDS: Final = {
    "NODE_STARTED": "the node started",
    "NODE_STOPPED": "the node stopped",
    "STORE_WRITTEN_AGAIN": "the store can be written again",
    "PING_OK": "ping answered",
    "ENVELOPE_OK": "signed call answered",
    "ENVELOPE_FAILED": "signed call failed",
    "ACTIONS_OK": "action run",
    "ACTIONS_FAILED": "action failed",
    "STATE_OK": "state of the agent set",
    "STATE_FAILED": "state of the agent not set",
    "DIRECTORY_PUBLISH_OK": "card published here",
    "DIRECTORY_PUBLISH_FAILED": "card not published",
    "CARD_PUBLISHED": "own card published",
    "CARD_NOT_PUBLISHED": "own card not published",
    "MCP_SESSION_BEGUN": "MCP session began",
    "MCP_SESSION_ENDED": "MCP session ended",
    "MCP_TASK_BEGUN": "task began",
    "MCP_TASK_COMPLETED": "task done",
    "MCP_TASK_FAILED": "task failed",
    "MCP_TASK_CANCELLED": "task cancelled",
    "MCP_TASK_INPUT_REQUIRED": "task waits for input",
    "MCP_TASK_WORKING": "task goes on",
    "HANDSHAKE_ACK": "VCP handshake accepted",
    "HANDSHAKE_ERROR": "VCP handshake refused",
    "SESSION_IMPLICIT": "VCP 1.0 session began",
    "SESSION_ENDED": "VCP session ended",
    "CONTEXT_EXCHANGED": "context received",
    "CONTEXT_REFUSED": "context refused",
    "DELIBERATION_OK": "party answered",
    "DELIBERATION_FAILED": "party not answered",
    "DELIBERATION_OPENED": "deliberation opened",
    "DELIBERATION_JOINED": "deliberation joined",
    "DELIBERATION_READ": "entries read",
    "DELIBERATION_WAITING": "act stored until sent",
    "DELIBERATION_ACTED": "act is an entry",
    "DELIBERATION_REFUSED": "act refused",
    "DELIBERATION_MOVED": "keeper has moved",
    "DELIBERATION_REMOVED": "deliberation removed",
    "DELIBERATION_FRAUD": "a keeper signed twice",
    "LINK_OK": "link to the page made",
    "AGENTS_OK": "agent found or called",
    "CALL_SENT": "call sent",
    "CALL_ANSWERED": "call answered",
    "EXTENSION_OK": "extension used",
    "EXTENSION_FAILED": "extension refused",
    "ROOM_INVITED": "invite made",
    "ROOM_JOINED": "room joined",
    "ROOM_LEFT": "room left",
    "ROOM_PEER_ADMITTED": "peer let in",
    "ROOM_MESSAGE_SENT": "message sent to a peer",
    "ROOM_MESSAGE_SIGNED": "signed message sent",
    "ROOM_MESSAGE_STORED": "message of a peer stored",
    "ROOM_FILE_SENT": "file sent to a peer",
    "ROOM_FILE_RECEIVED": "file of a peer received",
    "ROOM_STATE_SET": "shared state written",
    "REFUSED": "refused",
}
_ENDINGS: Final = {"_OK": "answered", "_FAILED": "failed", "_ADMITTED": "accepted"}


def act_in_words(kind: str, room: str) -> str:
    said = ACT_WORDS.get(kind)
    ending = next((ending for ending in _ENDINGS if kind.endswith(ending)), "")
    if said is None and ending:
        what = "MCP call" if room == "mcp" else room.replace("_", " ")
        said = f"{what} {_ENDINGS[ending]}"
    return said or kind.lower().replace("_", " ")
