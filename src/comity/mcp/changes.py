"""Subscriptions to changes of lists, resources and tasks. They belong to this process, and nothing is stored for later.

A listener is a callback that must not wait. It gets notifications as method and parameters.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from comity.mcp.protocol.catalog import Catalog, ListName
from comity.mcp.protocol.results import Json
from comity.wire.errors import OverloadedError

MOST_LISTENERS: Final = 16_384
"""More than there are sessions: each of them listens."""

Notify = Callable[[str, Json], None]
Wanted = Callable[[str, str], bool]
"""Kind and name of a change (a list, the address of a resource, the id of a task) -> whether it is wanted."""


class Changes:
    """`closing` is set when the node stops: subscriptions then end in order."""

    def __init__(self, catalog: Catalog) -> None:
        self.closing = asyncio.Event()
        self._listeners: dict[int, tuple[Wanted, Notify]] = {}
        self._next = 0
        catalog.on_change(self.list_changed)

    @contextmanager
    def subscribe(self, wanted: Wanted, notify: Notify) -> Iterator[None]:
        if len(self._listeners) >= MOST_LISTENERS:
            raise OverloadedError("too many subscriptions on this node; try again later")
        number = self._next
        self._next += 1
        self._listeners[number] = wanted, notify
        try:
            yield
        finally:
            del self._listeners[number]

    def list_changed(self, name: ListName) -> None:
        self._tell("list", name, f"notifications/{name}/list_changed", {})

    def resource_updated(self, uri: str) -> None:
        self._tell("resource", uri, "notifications/resources/updated", {"uri": uri})

    def task_changed(self, task_id: str, task: Json) -> None:
        self._tell("task", task_id, "notifications/tasks", task)

    def _tell(self, kind: str, name: str, method: str, params: Json) -> None:
        for wanted, notify in tuple(self._listeners.values()):
            if wanted(kind, name):
                notify(method, dict(params))
