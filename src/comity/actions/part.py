"""The humane-communication actions: over HTTP, and as tools of MCP."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from comity.identity.protocol.rights import Right
from comity.release import __version__
from comity.runtime.part import OpenNode, Part, Table, View, ViewPage, ViewQuery, paged
from comity.runtime.settings import ActionSettings

if TYPE_CHECKING:
    from comity.actions.handler import ActionsDesk
    from comity.actions.runner import ActionLimits
    from comity.mcp.protocol.catalog import Tool
    from comity.runtime.node_runtime import NodeRuntime

log = logging.getLogger("comity.actions")


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
        from comity.actions.handler import action_tools
        from comity.actions.library import announced_plugins, registry_of

        async def desk() -> "ActionsDesk":
            from comity.actions.handler import ActionsDesk, ActionsHandler

            opened = await runtime()
            return ActionsDesk(ActionsHandler(opened.find(cls).runner), opened.pipeline)

        announced = [plugin.action for plugin in announced_plugins(log.warning)]
        return action_tools(registry_of("enhanced", announced), desk)

    async def open(self, runtime: "NodeRuntime") -> None:
        from comity.actions.client import Pages
        from comity.actions.library import Library, announced_plugins, own_lines_of
        from comity.actions.runner import Runner

        settings = runtime.settings
        plugins = await asyncio.to_thread(announced_plugins, runtime.notices.append)
        pages = Pages(allow=settings.dispatch.hosts)
        library = Library("enhanced", plugins, lines=await asyncio.to_thread(own_lines_of, settings.data))
        self.runner = Runner(library, pages, limits=action_limits(settings.actions))
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
        from comity.actions.doors import action_routes

        limit = runtime.settings.http.body_limit
        self.routes = action_routes(self.runner, runtime.pipeline, body_limit=limit, version=__version__)


def action_limits(settings: ActionSettings) -> "ActionLimits":
    from comity.actions.runner import ActionLimits, Allowance

    return ActionLimits(
        own=Allowance(characters=settings.own_characters),
        others=Allowance(characters=settings.characters, seconds=settings.seconds),
        queued=settings.queued,
    )
