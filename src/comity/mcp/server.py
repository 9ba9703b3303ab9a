"""What all doors of MCP on one node share: the catalogue, the calls, the tasks, and VCP at the greeting."""

import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from comity.identity.protocol.rights import Right
from comity.mcp.calls import McpCalls, Tally
from comity.mcp.changes import Changes
from comity.mcp.protocol.catalog import Catalog, Selection
from comity.mcp.protocol.context import Asker
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.request_state import Sealer
from comity.mcp.stream import McpStream
from comity.mcp.tasks import StoredTasks, TaskHouse
from comity.release import __version__
from comity.requests.caller import MODEL
from comity.vcp.protocol.mcp_places import EXTENSION, NOT_NEGOTIATED, Negotiated, not_negotiated, not_offered
from comity.vcp.protocol.versions import DEFAULT_VERSIONS, offered
from comity.wire.clock import Clock
from comity.wire.errors import ComityError, NotFoundError, StoreError

if TYPE_CHECKING:
    from comity.vcp.over_mcp import VcpOverMcp

log = logging.getLogger("comity.mcp")


class Instruction(NamedTuple):
    """A sentence about the tools of one group, for models that are offered that group. `right` is the one that its tools
    need, where a caller may lack it.
    """

    room: str
    text: str
    right: Right | None = None


def instructions(known: Sequence[Instruction], selection: Selection, asker: Asker) -> str:
    """Join what is to be said to this client; nobody is told of tools that are not there."""

    def sees(each: Instruction) -> bool:
        allowed = each.right is None or asker.caller.may(each.right)
        return allowed and selection.admits(each.room, None)

    return " ".join(each.text for each in known if sees(each))


class McpSide:
    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        house: Callable[[], Awaitable[TaskHouse]],
        vcp: "Callable[[], Awaitable[VcpOverMcp]]",
        tally: Tally,
        secret: bytes | None = None,
        left: Callable[[str], Awaitable[None]] | None = None,
        versions: Sequence[str] = tuple(map(str, DEFAULT_VERSIONS)),
        instructed: Sequence[Instruction] = (),
    ) -> None:
        """`house` and `vcp` open the node where that has not been done. `secret` is what states that clients hand
        back are sealed with, the same in every process of a node. `left` is told of clients that said exit.
        `versions` are those of VCP that are offered, none where it is switched off; `instructed` is what models are told of the tools, in this order.
        """
        self._left = left
        self._vcp = vcp
        self._over: VcpOverMcp | None = None
        self.catalog = catalog
        self.changes = Changes(catalog)
        self.server = Server(
            catalog=self.catalog,
            info={"name": "comity", "title": "Comity", "version": __version__},
            instructions=partial(instructions, instructed),
            extensions={EXTENSION: vcp_settings(versions)} if versions else {},
            tasks=True,
            current=self._current,
        )
        self._tasks = StoredTasks(house, clock, self.changes)
        key = hashlib.sha256(b"comity mcp request state" + (secret or os.urandom(32))).digest()
        self.calls = McpCalls(
            self.server,
            clock,
            sealer=Sealer(key, os.urandom),
            changes=self.changes,
            tally=tally,
            tasks=self._tasks,
        )

    def open_stream(self, selection: Selection, limit: int, write: Callable[[bytes], None]) -> McpStream:
        """For one connection of this machine's own user."""
        conversation = McpConversation(self.server, selection, caller=MODEL)

        async def shutdown() -> None:
            for session in conversation.vcp_sessions:
                (await self._vcp()).end(session)

        return McpStream(
            self.calls,
            conversation,
            limit=limit,
            write=write,
            negotiate=self.negotiate,
            shutdown=shutdown,
            left=self._left,
        )

    async def negotiate(self, hello: object, asker: Asker) -> Negotiated:
        try:
            try:
                over = await self._vcp()
            except NotFoundError as off:
                return not_offered(f"{off.message}; this connection goes on without VCP")
            self.vcp_opened(over)
            return await over.negotiate(hello, asker)
        except ComityError as refusal:  # MCP goes on without (mcp 2.3)
            log.warning("a hello could not be negotiated: %s", refusal)
            return NOT_NEGOTIATED if isinstance(refusal, StoreError) else not_negotiated(refusal.message)

    def vcp_opened(self, over: "VcpOverMcp") -> None:
        """From now on sessions are looked at before each of their requests."""
        self._over = over
        over.on_end = self._lists_changed
        over.on_change(self.changes.resource_updated)

    def _current(self, asker: Asker) -> Asker:
        return asker if self._over is None else self._over.current(asker)

    def _lists_changed(self) -> None:
        self.changes.list_changed("tools")
        self.changes.list_changed("resources")

    async def close(self) -> None:
        """Subscriptions end in order; what still runs as a task has failed. The store must be open."""
        self.changes.closing.set()
        await self._tasks.close()


def vcp_settings(versions: Iterable[str]) -> dict[str, object]:
    """What is said about VCP before anybody says hello."""
    return {"versions": [str(version) for version in offered(versions)], "extensions": []}
