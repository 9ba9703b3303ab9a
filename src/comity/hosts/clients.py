"""The table of clients, where each has its servers on this machine, and how a client starts Comity.

Everything about the machine is a value, so that tests see the paths of every system.
"""

import difflib
import itertools
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from comity.identity.private_files import ensure_private_folder
from comity.identity.secrets import load_or_create_token, read_token
from comity.runtime.settings_file import CONFIG_FILE, CONFIG_VARIABLE, DEFAULT, Loaded
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
    """A folder that an environment variable may move."""

    otherwise: str
    variable: str = ""


class ConfigScope(Struct, frozen=True):
    files: tuple[str, ...] | dict[System, tuple[str, ...]]
    holder: tuple[str, ...] = ()


class Program(Struct, frozen=True, kw_only=True):
    """The command of the client. If it cannot remove, the file is changed."""

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
    """Return the key of a client from what was typed."""
    typed = name.strip().lower().replace(" ", "-").replace("_", "-")
    for key, client in table().clients.items():
        if typed in {key, client.title.lower().replace(" ", "-")}:
            return key
    near = difflib.get_close_matches(typed, table().clients, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(table().clients)}"
    raise ConfigError(f"there is no client {name[:60]!r}; {hint}")


def places(client: McpClient, scope: str, machine: Computer) -> list[Path]:
    """Return where the file may be, the likeliest place first."""
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


PRESETS = ("full", "core", "file", "state", "extended", "secure-core", "secure-full", "secure-extended")
DEFAULT_NAME = "comity"
SECRET_FILE = "join-secret"  # noqa: S105 - the name of a file
SECRET_VARIABLE = "VDON_MCP_JOIN_TOKEN_SECRET"  # noqa: S105 - the name of a variable
MASK = "(join secret, not shown)"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SECURE = ("--enforce-join-token", "true", "--require-session-mac", "true")
_SECRET_VALUE = re.compile(rf"""({SECRET_VARIABLE}["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,}}]+)""")
# where uvx puts an environment that it may throw away
_PASSING = re.compile(r"[/\\]uv[/\\](?:cache[/\\])?(?:archive|environments|builds)-v\d+[/\\]")


class Launch(Struct, frozen=True, kw_only=True):
    """`secret` must not be shown. It may be empty."""

    command: str
    args: tuple[str, ...]
    env: dict[str, str]
    secret: str = ""

    @property
    def call(self) -> tuple[str, ...]:
        return (self.command, *self.args)


def launch_of(
    preset: str, places: Mapping[str, str], *, secret: str = "", rooms: Sequence[str] = ()
) -> Launch:
    """Return how a client starts Comity. `places` are the variables that name the data folder and the settings file. `rooms` are the tool groups that are
    offered; if it is empty, all are.
    """
    args = ["mcp", "--tool-profile", preset.removeprefix("secure-")]
    if rooms:
        args += ["--tools", ",".join(rooms)]
    env = dict(places)
    if is_secure(preset):
        args += _SECURE
        env[SECRET_VARIABLE] = secret
    command, *before = own_call()
    for word in (command, *before, *env.values()):
        if not word.isprintable():  # a path may have bytes that are no text
            raise ConfigError(f"{word!r} has characters that a client's file cannot hold; use another path")
    return Launch(command=command, args=(*before, *args), env=env, secret=secret)


def places_of(loaded: Loaded) -> dict[str, str]:
    """Return the variables for a data folder or settings file that is not the default one."""
    data, file = loaded.settings.data, loaded.file
    places = {} if loaded.sources["data"] == DEFAULT else {"COMITY_DATA": str(data)}
    if file is not None and file != data / CONFIG_FILE:
        places[CONFIG_VARIABLE] = str(file)
    return places


def own_call() -> list[str]:
    """Return the command that starts this program from anywhere."""
    if _PASSING.search(sys.prefix + os.sep):
        return [shutil.which("uvx") or "uvx", "comity"]
    if not sys.executable:
        raise ConfigError(
            "the path of this Python is not known; start comity by the full path of its command"
        )
    return [os.path.abspath(sys.executable), "-P", "-m", "comity"]  # noqa: PTH100 - Path.resolve() follows the link


def is_secure(preset: str) -> bool:
    return preset.startswith("secure-")


def join_secret(data: Path, *, make: bool) -> str:
    """Return the stored secret. If there is none, make one with `make`, else return a placeholder."""
    path = data / SECRET_FILE
    if make:
        ensure_private_folder(data)
        return load_or_create_token(path)
    return read_token(path) if path.exists() else MASK


def masked(text: str) -> str:
    """Replace every join secret in a text by a placeholder."""
    return _SECRET_VALUE.sub(rf'\g<1>"{MASK}"', text)


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"--name must be 1 to 64 letters, digits, dashes or underscores and begin with a letter or digit, "
            f"not {name[:60]!r}"
        )
    return name


def entry_of(template: Any, name: str, launch: Launch) -> Any:
    """Fill in the template of a client's entry."""
    filled = {
        "{name}": name,
        "{command}": launch.command,
        "{args}": list(launch.args),
        "{call}": list(launch.call),
        "{env}": dict(launch.env),
    }
    if isinstance(template, Mapping):
        return {key: entry_of(each, name, launch) for key, each in template.items()}
    return filled.get(template, template) if isinstance(template, str) else template


def starts_comity(entry: Any) -> bool:
    """Return whether an entry starts our server, whoever wrote it."""
    if not isinstance(entry, Mapping):
        return False
    words: list[Any] = []
    for key in ("command", "cmd", "args"):
        value = entry.get(key, [])
        words += value if isinstance(value, list) else [value]
    names = [PurePath(str(word).replace("\\", "/")).name.removesuffix(".exe") for word in words]
    return any(one == "comity" and other == "mcp" for one, other in itertools.pairwise(names))
