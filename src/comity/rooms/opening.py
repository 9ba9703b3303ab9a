"""What the opening line of an MCP connection says to the rooms: the profile of the `vdo_*` tools, and demands that go on top
of those of the node.
"""

import msgspec
from msgspec import Struct

from comity.mcp.protocol.catalog import Selection
from comity.mcp.socket import Opening, malformed_opening
from comity.rooms.protocol.tool_table import Demands, read_profile


class _OfRooms(Struct, frozen=True):
    """The same member as in the line, so that an error names its place there."""

    demands: Demands


def select(of_node: Demands, opening: Opening) -> Selection:
    """Read what a connection is opened for, with the demands of the node added."""
    try:
        asked = msgspec.convert({"demands": opening.demands}, _OfRooms).demands
    except msgspec.MsgspecError as fault:
        raise malformed_opening(fault) from None
    demands = of_node.tightened(asked)
    demands.check()
    return opening.selection(read_profile(opening.profile), demands)
