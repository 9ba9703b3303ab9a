"""The MCP side of a node: one catalogue, filled by the rooms that have tools, and what every carrier stands on.

The catalogue needs no room to be open: lists are answered at once, and a room opens with its first call. So a
client that starts `comity mcp` has its answer before the database is there.
"""

import hashlib
import logging
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol

from comity.core.caller import OWN_PROCESS
from comity.core.clock import Clock
from comity.core.errors import ComityError, StoreError
from comity.core.mcp.catalog import Catalog, Selection, Tool
from comity.core.mcp.context import Asker
from comity.core.mcp.conversation import Conversation
from comity.core.mcp.methods import Server
from comity.core.mcp.request_state import Sealer
from comity.core.mcp.vcp_places import EXTENSION, NOT_NEGOTIATED, Negotiated, not_negotiated
from comity.core.negotiation.versions import DEFAULT_VERSIONS
from comity.core.peering.profiles import VDO_TOOLS
from comity.doors.mcp.stream import McpStream
from comity.doors.mcp.vacant_tools import Resident, vacant_tools
from comity.pipeline.mcp.calls import Calls, Tally
from comity.pipeline.mcp.changes import Changes
from comity.pipeline.mcp.tasks import StoredTasks
from comity.pipeline.vcp.mcp import VcpRooms, vcp_resources, vcp_tools
from comity.release import __version__
from comity.store.protocol import Store

if TYPE_CHECKING:
    from comity.doors.actions.mcp import ActionsDesk
    from comity.pipeline.actions.runner import Runner
    from comity.pipeline.record import Recorder
    from comity.pipeline.vcp.over_mcp import VcpOverMcp
    from comity.pipeline.walk import Walk

log = logging.getLogger("comity.mcp")

INSTRUCTIONS: Final = (
    "Comity connects agents of different owners. vcp_* negotiate and encode context; vacant_* are this node's "
    "agent behind signed envelopes; the humane-communication actions review or rewrite text before it is sent. "
    "When a result carries a boundary notice or an uncertainty, pass it on with the result."
)


class Opened(Protocol):
    """The rooms of a node, as far as tools need them."""

    @property
    def vcp_rooms(self) -> VcpRooms: ...

    @property
    def vcp_over_mcp(self) -> "VcpOverMcp": ...

    @property
    def resident(self) -> Resident: ...

    @property
    def store(self) -> Store: ...

    @property
    def record(self) -> "Recorder": ...

    @property
    def walk(self) -> "Walk": ...

    @property
    def actions(self) -> "Runner": ...


class McpSide:
    def __init__(
        self,
        opened: Callable[[], Awaitable[Opened]],
        clock: Clock,
        *,
        tally: Tally,
        secret: bytes | None = None,
    ) -> None:
        """`secret` is what states that clients hand back are sealed with, the same in every process of a node."""
        self._opened = opened
        self.catalog = Catalog()
        self.changes = Changes(self.catalog)
        self._fill(self.catalog)
        self.server = Server(
            catalog=self.catalog,
            info={"name": "comity", "title": "Comity", "version": __version__},
            instructions=INSTRUCTIONS,
            extensions={EXTENSION: vcp_settings()},
            tasks=True,
        )
        self._tasks = StoredTasks(opened, clock, self.changes)
        key = hashlib.sha256(b"comity mcp request state" + (secret or os.urandom(32))).digest()
        self.calls = Calls(
            self.server,
            clock,
            sealer=Sealer(key, os.urandom),
            changes=self.changes,
            tally=tally,
            tasks=self._tasks,
        )

    def open_stream(self, selection: Selection, limit: int, write: Callable[[bytes], None]) -> McpStream:
        """For one connection of this machine's own user."""
        conversation = Conversation(self.server, selection, caller=OWN_PROCESS)

        async def shutdown() -> None:
            session = conversation.session.asker.vcp
            if session is not None:
                (await self._opened()).vcp_over_mcp.end(session)

        return McpStream(
            self.calls,
            conversation,
            limit=limit,
            write=write,
            negotiate=self.negotiate,
            shutdown=shutdown,
        )

    async def negotiate(self, hello: object, asker: Asker) -> Negotiated:
        try:
            return await (await self._opened()).vcp_over_mcp.negotiate(hello, asker)
        except ComityError as refusal:  # MCP goes on without (mcp 2.3)
            log.warning("a hello could not be negotiated: %s", refusal)
            return NOT_NEGOTIATED if isinstance(refusal, StoreError) else not_negotiated(refusal.message)

    async def close(self) -> None:
        """Subscriptions end in order; what still runs as a task has failed. The store must be open."""
        self.changes.closing.set()
        await self._tasks.close()

    def _fill(self, catalog: Catalog) -> None:
        async def vcp() -> VcpRooms:
            return (await self._opened()).vcp_rooms

        async def resident() -> Resident:
            return (await self._opened()).resident

        catalog.add_tools(vcp_tools(vcp))
        catalog.add_resources(*vcp_resources(vcp))

        async def actions() -> "ActionsDesk":
            from comity.doors.actions.mcp import ActionsDesk
            from comity.pipeline.actions.room import ActionsRoom

            node = await self._opened()
            return ActionsDesk(ActionsRoom(node.actions), node.walk)

        def make_action_tools() -> list[Tool]:
            from comity.doors.actions.mcp import action_tools
            from comity.pipeline.actions.built_in import registry_of

            return action_tools(registry_of("enhanced"), actions)

        catalog.add_tools(vacant_tools(resident))
        catalog.add_tools_later(make_action_tools)
        catalog.add_namespace(VDO_TOOLS)


def vcp_settings() -> dict[str, object]:
    """What is said about VCP before anybody says hello."""
    return {"versions": [str(version) for version in sorted(DEFAULT_VERSIONS)], "extensions": []}
