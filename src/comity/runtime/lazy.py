"""Load services late, so that `--help`, `comity mcp` and a switched-off part import nothing that they do not use.

A module that needs another one late names it twice: for readers and checkers of types as an import, and for the
interpreter as a string:

    if TYPE_CHECKING:
        from comity.rooms import storage
    else:
        storage = late("comity.rooms.storage")

`storage.RoomStore(…)` then imports the module when it is first used. A test loads every module that is named so, and
compares both names.
"""

import importlib
from typing import Any


def late(module: str) -> Any:
    """Return a stand-in for a module that is imported when one of its names is first read."""
    return _LateModule(module)


class _LateModule:
    __slots__ = ("_module",)

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)

    def __repr__(self) -> str:
        return f"late({self._module!r})"
