"""The humane-communication actions: over HTTP, and as tools of MCP."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from comity.identity.protocol.rights import Right
from comity.release import __version__
from comity.runtime.lazy import late
from comity.runtime.part import OpenNode, Part, Table, View, ViewPage, ViewQuery, paged
from comity.runtime.settings import ActionSettings

if TYPE_CHECKING:
    from comity.actions import client, doors, handler, library, runner
    from comity.mcp.protocol.catalog import Tool
    from comity.requests.pipeline import Pipeline
    from comity.runtime import node_runtime
    from comity.runtime.node_runtime import NodeRuntime
    from comity.wire.machine import Clock
else:
    client = late("comity.actions.client")
    doors = late("comity.actions.doors")
    handler = late("comity.actions.handler")
    library = late("comity.actions.library")
    node_runtime = late("comity.runtime.node_runtime")
    runner = late("comity.actions.runner")

log = logging.getLogger("comity.actions")

_READY_AFTER = 1.0  # seconds after the doors were made, so that the node is ready first


class Actions(Part):
    name = "actions"
    tool_group = "actions"
    instructions = (
        "The humane-communication actions review or rewrite text before it is sent. When a result carries a boundary "
        "notice or an uncertainty, pass it on with the result."
    )
    paths = ("/v1/actions",)
    rights: ClassVar[Mapping[str, Right]] = MappingProxyType({"/v1/actions": "act", "/v1/actions/": "act"})

    @classmethod
    def tools(cls, runtime: OpenNode) -> "Iterable[Tool]":
        async def opened() -> "tuple[handler.ActionsHandler, Pipeline]":
            node = await runtime()
            return handler.ActionsHandler(node.find(cls).runner), node.pipeline

        announced = [plugin.action for plugin in library.announced_plugins(log.warning)]
        return handler.action_tools(library.registry_of("enhanced", announced), opened)

    async def open(self, runtime: "NodeRuntime") -> None:
        settings = runtime.settings
        plugins = await asyncio.to_thread(library.announced_plugins, runtime.notices.append)
        lines = await asyncio.to_thread(library.own_lines_of, settings.data)
        self.runner = runner.Runner(
            library.Library("enhanced", plugins, lines=lines),
            client.Pages(allow=settings.dispatch.hosts),
            limits=action_limits(settings.actions),
        )
        runtime.stack.push_async_callback(self.runner.aclose)
        self.views = [View("actions", "Actions", self._view, "try")]

    async def _view(self, query: ViewQuery) -> ViewPage:
        rows = [
            (entry.name, entry.contract.description, entry.contract.boundary)
            for entry in self.runner.library.registry.entries()
        ]
        shown, more = paged(rows, query)
        return ViewPage(tables=[Table(("action", "what it does", "boundary"), shown, more=more)])

    async def serve(self, runtime: "NodeRuntime") -> None:
        limit = runtime.settings.http.body_limit
        self.routes = doors.action_routes(
            self.runner, runtime.pipeline, body_limit=limit, version=__version__
        )
        await runtime.stack.enter_async_context(node_runtime.running(self._make_ready(runtime.clock)))

    async def _make_ready(self, clock: "Clock") -> None:
        """Prepare the actions when the node has started, so that no caller has to wait for it."""
        await clock.sleep(_READY_AFTER)
        steps = self.runner.library.make_ready()
        try:
            while await asyncio.to_thread(next, steps, None):
                pass  # between two of them the node may stop
        except Exception:
            log.exception("the actions could not be made ready; they are prepared when they are first called")


def action_limits(settings: ActionSettings) -> "runner.ActionLimits":
    return runner.ActionLimits(
        own=runner.Allowance(characters=settings.own_characters),
        others=runner.Allowance(characters=settings.characters, seconds=settings.seconds),
        queued=settings.queued,
    )
