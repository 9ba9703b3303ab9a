"""The node: the list of its parts, and the order in which it opens and closes. It decides nothing.

Starting goes from the inside out (folder, keys, store, record, pipeline, parts, doors), stopping from the outside in;
what was started is stopped even when a later step fails. What a command needs before a node is open, and often
without one, is light to import: the rest is loaded by `start`.
"""

import asyncio
import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING

from comity.node.mcp_server import Mcp
from comity.runtime.lazy import late, load_parts
from comity.runtime.settings import Settings
from comity.runtime.system_clock import SystemClock
from comity.wire.machine import Clock

if TYPE_CHECKING:
    from comity.identity.protocol.keys import VacantId
    from comity.node import http_server
    from comity.requests.pipeline import Pipeline
    from comity.runtime import node_runtime
    from comity.runtime.node_runtime import NodeRuntime
    from comity.store import claim as claims
    from comity.store.interface import Store
else:
    http_server = late("comity.node.http_server")
    node_runtime = late("comity.runtime.node_runtime")
    claims = late("comity.store.claim")

log = logging.getLogger("comity.node")


class Node:
    def __init__(
        self,
        settings: Settings,
        *,
        passphrase: str | None = None,
        may_move_port: bool = False,
        guest: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """`may_move_port`: a taken port is replaced by a free one, and `notices` says so. A `guest` opens no
        doors and shares the data folder with other processes.
        """
        self.settings = settings
        self.url = ""
        self.entry_link = ""
        self.runtime: NodeRuntime
        self.store: Store
        self.pipeline: Pipeline
        self.vacant_id: VacantId
        self.notices: list[str] = []
        self._passphrase = passphrase
        self._may_move_port = may_move_port
        self._guest = guest
        self._clock: Clock = clock or SystemClock()
        self._stopping = asyncio.Event()
        self._closing = asyncio.Lock()
        self._signals: list[signal.Signals] = []
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        try:
            await self._open()
            if not self._guest:
                await self._serve()
        except BaseException:
            try:
                await self._stack.aclose()
            except Exception:  # the caller gets the first failure, not this one
                log.exception("what had been started could not be stopped in order")
            raise

    async def stop(self) -> None:
        """Close everything that is open. A second call waits until the first one has finished."""
        self._stopping.set()
        async with self._closing:
            try:
                await self._stack.aclose()
            finally:  # until now a second signal must not cut the stopping short
                while self._signals:
                    asyncio.get_running_loop().remove_signal_handler(self._signals.pop())

    async def wait_stopped(self) -> None:
        """Wait for a request to stop: SIGTERM, SIGINT, or `ask_to_stop`."""
        loop = asyncio.get_running_loop()
        for asked in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has Ctrl-C only
                loop.add_signal_handler(asked, self.ask_to_stop)
                self._signals.append(asked)
        await self._stopping.wait()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    async def _open(self) -> None:
        self.runtime = runtime = node_runtime.NodeRuntime(
            self.settings, self._clock, self._stack, self._stopping
        )
        await runtime.open(self._passphrase, guest=self._guest)
        self.store, self.pipeline = runtime.store, runtime.pipeline
        self.vacant_id, self.notices = runtime.vacant_id, runtime.notices
        await runtime.open_parts(load_parts())

    async def _serve(self) -> None:
        runtime = self.runtime
        http = http_server.NodeHttp(runtime, may_move_port=self._may_move_port)
        for part in runtime.parts:
            await part.serve(runtime)
        await http.start()
        self.url = runtime.url
        self.entry_link = "" if runtime.new_entry_link is None else runtime.new_entry_link()
        claim, mcp = runtime.claim, runtime.find_open(Mcp)
        assert claim is not None, "who serves has claimed the folder"
        claim.announce(
            claims.RunningNode(
                pid=os.getpid(),
                url=runtime.url,
                vacant_id=runtime.vacant_id.hex(),
                mcp_socket="" if mcp is None else mcp.socket,
                owner_socket=http.owner_socket,
                pin=http.pin,
            )
        )
        self._stack.callback(claim.withdraw)
