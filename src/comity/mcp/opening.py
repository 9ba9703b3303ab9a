"""How a connection to a running node is opened: one line from the client, one line back, then MCP.

The line says what the connection is for: rooms, profile, the longest message, demands on the peers of rooms, and the
VCP extensions of a client that cannot say a hello. The part of the rooms reads the profile and the demands.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from comity.mcp.protocol.catalog import Selection
from comity.wire.errors import ComityError, MalformedError, PeerError

MESSAGE_LIMIT: Final = 1_048_576
LARGEST_LIMIT: Final = 64 * MESSAGE_LIMIT
LONGEST_LINE: Final = 16_384
PROTOCOL: Final = 1


class Opening(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    comity: int = PROTOCOL
    rooms: tuple[str, ...] | None = None
    profile: str = "full"
    max_message_bytes: int = MESSAGE_LIMIT
    demands: Mapping[str, Any] = {}
    folder: str | None = None
    vcp: tuple[str, ...] = ()

    def selection(self, profile: str, demands: object) -> Selection:
        """Give what the connection is for, with the profile and the demands as they were read."""
        rooms = None if self.rooms is None else frozenset(self.rooms)
        return Selection(rooms, profile, demands, self.folder, self.vcp)


class Opened(Struct, frozen=True, kw_only=True):
    """`error` is a sentence for the person who started the client; then nothing follows."""

    ok: bool
    error: str = ""


def line_of(message: Opening | Opened) -> bytes:
    return _encoder.encode(message) + b"\n"


def read_opening(line: bytes) -> Opening:
    try:
        opening = _opening.decode(line)
    except msgspec.MsgspecError as fault:
        raise malformed_opening(fault) from None
    if opening.comity != PROTOCOL or not 1 <= opening.max_message_bytes <= LARGEST_LIMIT:
        raise MalformedError("this node opens connections of version 1 with messages of up to 64 MiB")
    return opening


def malformed_opening(fault: msgspec.MsgspecError) -> MalformedError:
    return MalformedError(f"the first line does not open a connection: {fault}")


def read_opened(line: bytes) -> None:
    """Raises what the node says against it."""
    try:
        opened = _opened.decode(line)
    except msgspec.MsgspecError:
        raise PeerError(
            "the program at this socket is not a node of this version; restart the node"
        ) from None
    if not opened.ok:
        raise ComityError(opened.error)


_encoder = msgspec.json.Encoder()
_opening = msgspec.json.Decoder(Opening)
_opened = msgspec.json.Decoder(Opened)
