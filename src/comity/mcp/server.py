"""What all doors of MCP on one node share: the catalogue, the calls, the tasks, and the handshake at the greeting."""

import base64
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from comity.identity.protocol.rights import Right
from comity.mcp.calls import McpCalls, Tally
from comity.mcp.protocol.catalog import Catalog, Selection
from comity.mcp.protocol.context import SEE_LOG, Handshake, HandshakeResult, McpClient
from comity.mcp.protocol.conversation import McpConversation
from comity.mcp.protocol.methods import Server
from comity.mcp.protocol.session import Sealer
from comity.mcp.stream import McpStream
from comity.mcp.streams import Changes
from comity.mcp.tasks import StoredTasks, TaskRuntime
from comity.release import __version__
from comity.requests.caller import MODEL
from comity.wire.errors import ComityError, NotFoundError, StoreError
from comity.wire.machine import Clock

log = logging.getLogger("comity.mcp")

_PICTURE: Final = (
    b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#2a6f6b" stroke-width="3">'
    b'<circle cx="9" cy="12" r="6"/><circle cx="15" cy="12" r="6"/></svg>'
)


ICON: Final = {
    "src": "data:image/svg+xml;base64," + base64.b64encode(_PICTURE).decode(),
    "mimeType": "image/svg+xml",
    "sizes": ["any"],
}


class Instruction(NamedTuple):
    """A sentence about the tools of one group, for models that are offered that group. `right` is the one that its tools
    need, where a caller may lack it.
    """

    group: str
    text: str
    right: Right | None = None


def instructions(known: Sequence[Instruction], selection: Selection, client: McpClient) -> str:
    """Join the instructions for the tools that this client sees."""

    def sees(each: Instruction) -> bool:
        allowed = each.right is None or client.caller.may(each.right)
        return allowed and selection.admits(each.group, None)

    return " ".join(each.text for each in known if sees(each))


class Negotiator(Protocol):
    """What negotiates hellos. `on_end` is called after what a hello agreed on has ended by itself."""

    on_end: Callable[[], None]

    async def negotiate(self, hello: Any, client: McpClient, /) -> HandshakeResult: ...

    def current(self, client: McpClient, /) -> McpClient:
        """Return the client as it is now, without what has ended since."""

    def end(self, attached: Any, /) -> None:
        """End what a hello agreed on, when its MCP session is over."""

    def on_change(self, callback: Callable[[str], None], /) -> None:
        """Call it with the address of each resource that has changed."""


class NodeMcp:
    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        runtime: Callable[[], Awaitable[TaskRuntime]],
        handshake: Handshake,
        negotiator: Callable[[], Awaitable[Negotiator]],
        tally: Tally,
        secret: bytes | None = None,
        left: Callable[[str], Awaitable[None]] | None = None,
        instructed: Sequence[Instruction] = (),
    ) -> None:
        """`runtime` and `negotiator` open the node if necessary. `secret` seals the states that clients hand back, the same in
        every process of a node. `left` is called with clients that said exit. `instructed` are sentences for models, in
        this order.
        """
        self._left = left
        self._handshake = handshake
        self._open_negotiator = negotiator
        self._negotiator: Negotiator | None = None
        self.catalog = catalog
        self.changes = Changes(catalog)
        self.server = Server(
            catalog=self.catalog,
            info={"name": "comity", "title": "Comity", "version": __version__},
            icons=[ICON],
            instructions=partial(instructions, instructed),
            handshake=handshake,
            tasks=True,
            current=self._current,
        )
        self._tasks = StoredTasks(runtime, clock, self.changes)
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
        """Open a stream for one connection of this machine's own user."""
        conversation = McpConversation(self.server, selection, caller=MODEL)

        async def shutdown() -> None:
            for attached in conversation.attached:
                (await self._open_negotiator()).end(attached)

        return McpStream(
            self.calls,
            conversation,
            limit=limit,
            write=write,
            negotiate=self.negotiate,
            shutdown=shutdown,
            left=self._left,
        )

    async def negotiate(self, hello: object, client: McpClient) -> HandshakeResult:
        try:
            try:
                negotiator = await self._open_negotiator()
            except NotFoundError as off:
                return self._handshake.not_offered(f"{off.message}; this connection goes on without VCP")
            self.use_negotiator(negotiator)
            return await negotiator.negotiate(hello, client)
        except ComityError as refusal:  # MCP goes on without (mcp 2.3)
            log.warning("a hello could not be negotiated: %s", refusal)
            return self._handshake.refused(SEE_LOG if isinstance(refusal, StoreError) else refusal.message)

    def use_negotiator(self, negotiator: Negotiator) -> None:
        """Check sessions with it before each of their requests."""
        self._negotiator = negotiator
        negotiator.on_end = self._lists_changed
        negotiator.on_change(self.changes.resource_updated)

    def _current(self, client: McpClient) -> McpClient:
        return client if self._negotiator is None else self._negotiator.current(client)

    def _lists_changed(self) -> None:
        self.changes.list_changed("tools")
        self.changes.list_changed("resources")

    async def close(self) -> None:
        """End subscriptions, and mark running tasks as failed. The store must be open."""
        self.changes.closing.set()
        await self._tasks.close()
