"""What is loaded late: the parts of a node, and services that `--help`, `comity mcp` and a switched-off part do not use.

The list of parts is a table of strings, so that commands below `node` may read it. A module that needs another one late names it twice: for readers and checkers of types as an import, and for the
interpreter as a string:

    if TYPE_CHECKING:
        from comity.rooms import storage
    else:
        storage = late("comity.rooms.storage")

`storage.RoomStore(…)` then imports the module when it is first used. A test loads every module that is named so, and
compares both names.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from comity.runtime.part import Part

PARTS: dict[str, str] = {
    "audit": "comity.runtime.upkeep:Audit",
    "limits": "comity.runtime.upkeep:Limits",
    "contacts": "comity.contacts.part:ContactsPart",
    "outside": "comity.outside.part:Outside",
    "witness": "comity.envelopes.part:Witnessing",
    "calling": "comity.agents.part:Calling",
    "deliberations": "comity.votes.part:Votes",
    "extensions": "comity.extensions.part:Extensions",
    "vcp": "comity.vcp.part:Vcp",
    "agent": "comity.agents.part:Agent",
    "actions": "comity.actions.part:Actions",
    "directory": "comity.directory.part:Directory",
    "peers": "comity.rooms.part:Peers",
    "publishing": "comity.agents.part:Publishing",
    "mcp": "comity.node.mcp_server:Mcp",
    "watching": "comity.node.parts:Watching",
    "operating": "comity.node.parts:Operating",
}
"""Every part by its name, as module:Class, in the order in which they open and in which MCP lists their tools."""
NODE = "comity.node.node:Node"


def load_parts() -> "list[type[Part]]":
    """Return the classes of all parts. Their modules are light to import."""
    return [load(place) for place in PARTS.values()]


def load(place: str) -> Any:
    """Import what a string names as module:Name."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


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
