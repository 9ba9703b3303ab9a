"""The skills with their data files: an action is prepared when it is first called, once.

The files of our own are read from the package, those of a plugin from beside its module. Several threads
may ask at once; one of them prepares, and the others wait for it.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import json

from comity.core.actions.action import Action, Handler, Mode
from comity.core.actions.calls import ActionCalls
from comity.core.actions.registry import Registry
from comity.core.errors import ConfigError
from comity.pipeline.actions.built_in import PACKAGE, registry_of
from comity.pipeline.actions.plugins import Plugin
from comity.skills.crisis.lines import LINES, overridden

OWN_LINES = "crisis-lines.json"
log = logging.getLogger("comity.actions")


class Library:
    def __init__(self, mode: Mode, plugins: Sequence[Plugin] = (), *, lines: Path | None = None) -> None:
        """`lines` is a file with crisis lines of the operator's own. ConfigError when it cannot be used."""
        self.mode = mode
        self._own = {} if lines is None else {LINES: _own_lines(lines)}
        self.plugins = tuple(plugins)
        self.calls = ActionCalls(
            registry_of(mode, [plugin.action for plugin in plugins]), self.handler, _report
        )
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
        own = self._own if folder is None else {}
        return {name: own.get(name) or place.joinpath(name).read_bytes() for name in action.data}


def own_lines_of(data: Path) -> Path | None:
    """The file in a data folder with which an operator replaces lines, if there is one."""
    path = data / OWN_LINES
    return path if path.exists() else None


def crisis_lines(own: Path | None = None) -> dict[str, Any]:
    """The lines that replies name, those of the operator in their place."""
    data = files(PACKAGE).joinpath(LINES).read_bytes() if own is None else _own_lines(own)
    lines: dict[str, Any] = json.decode(data)
    return lines


def _own_lines(path: Path) -> bytes:
    try:
        own = path.read_bytes()
    except OSError as fault:
        raise ConfigError(f"the file of crisis lines {path} cannot be read: {fault.strerror}") from None
    return overridden(files(PACKAGE).joinpath(LINES).read_bytes(), own)


def _report(name: str, failure: BaseException) -> None:
    log.error("%s failed", name, exc_info=failure)
