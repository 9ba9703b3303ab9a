"""`comity mcp` where no node runs: it answers at once, and becomes a guest in the data folder with the first call
that needs a room. What was counted before is written down then, or at the end.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from comity.config import Settings
from comity.core.guard.audit import AuditDraft
from comity.core.peering.demands import Demands
from comity.doors.mcp.opening import Opening
from comity.doors.mcp.stdio import serve_stdio
from comity.node_mcp import McpSide
from comity.pipeline.mcp.tally import CallTally
from comity.system_clock import SystemClock

if TYPE_CHECKING:
    from comity.node import Node


def serve_alone(settings: Settings, opening: Opening) -> None:
    selection = opening.selection(Demands())

    async def serve() -> None:
        guest = Guest(settings)
        clock = SystemClock()
        tally = CallTally(clock, note=guest.note)
        side = McpSide(guest.opened, clock, tally=tally.count)
        try:
            await serve_stdio(lambda write: side.open_stream(selection, opening.max_message_bytes, write))
        finally:
            await side.close()
            tally.flush()
            await guest.close()

    asyncio.run(serve())


class Guest:
    """A node that opens when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening: asyncio.Task[Node] | None = None
        self._noted: list[AuditDraft] = []

    async def opened(self) -> "Node":
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None  # the next call may find it mended
            raise

    def note(self, drafts: Sequence[AuditDraft]) -> None:
        """Without waiting, as ever; the first entry is what opens the folder."""
        node = self._node()
        if node is not None:
            node.walk.note(drafts)
            return
        self._noted += drafts
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
            node = self._node()
            if node is not None:
                await node.stop()

    def _node(self) -> "Node | None":
        task = self._opening
        return task.result() if task is not None and task.done() and task.exception() is None else None

    async def _open(self) -> "Node":
        from comity.node import Node  # the whole house: only when it is needed

        node = Node(self._settings, guest=True)
        await node.start()
        noted, self._noted = self._noted, []
        node.walk.note(noted)
        return node
