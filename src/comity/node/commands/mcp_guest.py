"""`comity mcp` where no node runs: it answers at once, and becomes a guest in the data folder with the first call
that needs a part. What was counted before is recorded then, or at the end.

If the folder cannot be opened, the call is refused with the reason, and the next call tries again.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from comity.extensions.part import served_extensions
from comity.mcp.socket import Opening
from comity.mcp.stdio import serve_stdio
from comity.node.mcp_server import make_node_mcp
from comity.requests.record import Recorder
from comity.rooms.protocol.tool_table import Demands
from comity.rooms.tools import select
from comity.runtime.lazy import late, load_parts
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.store.audit_chain import AuditDraft
from comity.store.interface import Operation
from comity.wire.errors import ComityError, RetryLaterError

if TYPE_CHECKING:
    from comity.node import node as node_module
    from comity.node.node import Node
    from comity.runtime.node_runtime import NodeRuntime
else:
    node_module = late("comity.node.node")

log = logging.getLogger("comity.mcp")


def serve_alone(settings: Settings, opening: Opening) -> None:
    selection = select(Demands(), opening)

    async def serve() -> None:
        guest = Guest(settings)
        clock = SystemClock()
        record = Recorder(guest, clock)
        parts = [part for part in load_parts() if part.is_wanted(settings)]
        node_mcp = make_node_mcp(
            parts,
            guest.runtime,
            clock,
            tally=record.tally_mcp,
            versions=settings.vcp.versions,
            extensions=lambda: served_extensions(parts, settings, guest.runtime),
        )
        try:
            await serve_stdio(lambda write: node_mcp.open_stream(selection, opening.max_message_bytes, write))
        finally:
            await node_mcp.close()
            record.flush()
            await guest.close()

    asyncio.run(serve())


class Guest:
    """A node that opens when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._opening: asyncio.Task[Node] | None = None
        self._noted: list[AuditDraft] = []

    async def runtime(self) -> "NodeRuntime":
        try:
            return (await asyncio.shield(self._begin())).runtime
        except (ComityError, OSError) as fault:
            why = fault.message if isinstance(fault, ComityError) else str(fault)
            raise RetryLaterError(why) from fault

    def submit(
        self, operations: Sequence[Operation], audit: Sequence[AuditDraft]
    ) -> "asyncio.Future[tuple[Any, ...]]":
        """Submit without waiting. The first entry opens the folder."""
        node = self._node()
        if node is not None:
            return node.store.submit(operations, audit)
        self._noted += audit
        self._begin()
        kept: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
        kept.set_result(())
        return kept

    def _begin(self) -> "asyncio.Task[Node]":
        """Return the opening task. A failed one is started again."""
        if self._opening is None or (self._opening.done() and self._opening.exception() is not None):
            self._opening = asyncio.create_task(self._open())
        return self._opening

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.wait([self._opening])
            node = self._node()
            if node is not None:
                await node.stop()
        if self._noted:
            log.error("%d entries of the audit could not be written", len(self._noted))

    def _node(self) -> "Node | None":
        task = self._opening
        return task.result() if task is not None and task.done() and task.exception() is None else None

    async def _open(self) -> "Node":
        node = node_module.Node(self._settings, guest=True)
        await node.start()
        noted, self._noted = self._noted, []
        if noted:
            await node.store.commit(audit=noted)
        return node
