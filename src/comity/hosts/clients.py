"""The table of clients, and where each keeps its servers on this machine.

Everything about the machine comes in as a value, so that the paths of every system can be looked at on any.
"""

import difflib
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from comity.wire.errors import ConfigError

System = Literal["linux", "mac", "windows"]
Format = Literal["json", "toml", "yaml"]
SCOPES = ("user", "project", "local")

_PART = re.compile(r"\{(\w+)\}")


class Computer(Struct, frozen=True, kw_only=True):
    system: System
    home: Path
    environ: Mapping[str, str]
    project: Path


class Root(Struct, frozen=True, rename={"otherwise": "else"}):
    """A folder that a variable may move."""

    otherwise: str
    variable: str = ""


class ConfigScope(Struct, frozen=True):
    files: tuple[str, ...] | dict[System, tuple[str, ...]]
    holder: tuple[str, ...] = ()


class Program(Struct, frozen=True, kw_only=True):
    """The client's own command. One that cannot remove leaves that to the file."""

    name: str
    add: tuple[str, ...]
    env: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    scopes: tuple[str, ...]


class McpClient(Struct, frozen=True, kw_only=True):
    title: str
    format: Format
    holder: tuple[str, ...]
    newer_holder: tuple[str, ...] = ()
    entry: dict[str, Any]
    scopes: dict[str, ConfigScope]
    found: tuple[str, ...] = ()
    program: Program | None = None


class ClientTable(Struct, frozen=True, kw_only=True):
    roots: dict[str, Root]
    clients: dict[str, McpClient]


@cache
def table() -> ClientTable:
    text = files("comity.hosts").joinpath("clients.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), ClientTable)


def this_machine() -> Computer:
    systems: dict[str, System] = {"darwin": "mac", "win32": "windows"}
    try:
        home, project = Path.home(), Path.cwd()
    except (RuntimeError, OSError):
        raise ConfigError("there is no home folder or working folder here; set HOME and try again") from None
    return Computer(system=systems.get(sys.platform, "linux"), home=home, environ=os.environ, project=project)


def client_named(name: str) -> str:
    """The client's own short name, however it was typed."""
    typed = name.strip().lower().replace(" ", "-").replace("_", "-")
    for key, client in table().clients.items():
        if typed in {key, client.title.lower().replace(" ", "-")}:
            return key
    near = difflib.get_close_matches(typed, table().clients, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(table().clients)}"
    raise ConfigError(f"there is no client {name[:60]!r}; {hint}")


def places(client: McpClient, scope: str, machine: Computer) -> list[Path]:
    """Where the file may be, the likeliest first."""
    listed = client.scopes[scope].files
    return [
        expand(each, machine) for each in (listed[machine.system] if isinstance(listed, dict) else listed)
    ]


def holder_of(client: McpClient, scope: str, machine: Computer) -> tuple[str, ...]:
    keys = client.scopes[scope].holder or client.holder
    return tuple(str(machine.project) if key == "{project}" else key for key in keys)


def is_found(client: McpClient, machine: Computer) -> bool:
    traces = [expand(each, machine) for each in client.found]
    return any(
        trace.exists() for trace in traces or [file.parent for file in places(client, "user", machine)]
    )


def expand(pattern: str, machine: Computer) -> Path:
    return Path(_PART.sub(lambda part: str(_root(part[1], machine)), pattern))


def _root(name: str, machine: Computer) -> Path:
    if name == "project":
        return machine.project
    root = table().roots[name]
    moved = machine.environ.get(root.variable, "") if root.variable else ""
    if moved and Path(moved).is_absolute():
        return Path(moved)
    return machine.home / root.otherwise.removeprefix("~").removeprefix("/")
