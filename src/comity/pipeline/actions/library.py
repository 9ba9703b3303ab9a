"""The skills with their data files: an action is prepared when it is first called, once.

The files of our own are read from the package, those of a plugin from beside its module. Several threads
may ask at once; one of them prepares, and the others wait for it.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from importlib.resources import files

from comity.core.actions.action import Action, Handler, Mode
from comity.core.actions.calls import Calls
from comity.core.actions.registry import Registry
from comity.pipeline.actions.built_in import PACKAGE, registry_of
from comity.pipeline.actions.plugins import Plugin

log = logging.getLogger("comity.actions")


class Library:
    def __init__(self, mode: Mode, plugins: Sequence[Plugin] = ()) -> None:
        self.mode = mode
        self.plugins = tuple(plugins)
        self.calls = Calls(registry_of(mode, [plugin.action for plugin in plugins]), self.handler, _report)
        self._folders = {plugin.action.name: plugin.folder for plugin in plugins}
        self._handlers: dict[str, Handler] = {}
        self._one_prepares = threading.Lock()

    @property
    def registry(self) -> Registry:
        return self.calls.registry

    def handler(self, action: Action) -> Handler:
        handler = self._handlers.get(action.name)
        if handler is None:
            with self._one_prepares:
                handler = self._handlers.get(action.name)
                if handler is None:
                    handler = self._handlers[action.name] = action.prepare(self._data(action))
        return handler

    def _data(self, action: Action) -> Mapping[str, bytes]:
        folder = self._folders.get(action.name)
        place = files(PACKAGE) if folder is None else folder
        return {name: place.joinpath(name).read_bytes() for name in action.data}


def _report(name: str, failure: BaseException) -> None:
    log.error("%s failed", name, exc_info=failure)
